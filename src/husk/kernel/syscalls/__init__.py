"""kernel/syscalls: one file per family; a public function is a system call, spelled as Linux spells it.

The table of handlers follows from the registry: each row names its family. A family is imported when the first of its
calls is made, except those that every program needs: `husk run -- true` should not pay for sockets.
"""

from __future__ import annotations

from husk.abi.registry import handled_rows
from husk.abi.registry.rules import IN_C
from husk.kernel.call import Refused
from husk.kernel.syscalls import execve, open, stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.abi.registry.rules import Row
    from husk.kernel.call import Call, Reply

    Handler = Callable[[Call], Reply]

AT_START = {"execve": execve, "open": open, "stat": stat}


def handlers() -> dict[int, Handler]:
    """Number → handler for every call whose row names a family. A row without a handler is a bug caught by a test."""
    table: dict[int, Handler] = {}
    for row in handled_rows():
        if row.family in AT_START:
            table[row.nr] = vars(AT_START[row.family])[row.name]
        elif row.family != IN_C:
            table[row.nr] = _later(table, row)
    return table


def _later(table: dict[int, Handler], row: Row) -> Handler:
    """Stands in for a handler until the first call, and is then replaced by it."""

    def handler(call: Call) -> Reply:
        table[row.nr] = load(row)
        return table[row.nr](call)

    return handler


def load(row: Row) -> Handler:
    family = __import__(f"{__name__}.{row.family}", fromlist=(row.name,))
    handler: Handler = getattr(family, row.name)
    return _judging(row, handler) if row.way == "judged" else handler


def _judging(row: Row, check: Callable[[Call], object]) -> Handler:
    """A judged call's handler only makes the checks that Linux makes first. It cannot let the call succeed."""
    verdict = row.otherwise
    kind = OSError if verdict.quiet else Refused

    def handler(call: Call) -> Reply:
        check(call)
        raise kind(verdict.errno, verdict.reason)

    return handler
