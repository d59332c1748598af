"""kernel/syscalls: one file per family; a public function is a system call, spelled as Linux spells it.

The table of handlers follows from the registry: each row names its family. It is made when husk is built
(tools/call_table.py), so that a run does not import the rows. A family is imported when the first of its calls is made,
except those that every program needs: `husk run -- true` should not pay for sockets.
"""

from __future__ import annotations

from husk.kernel.call import Refused
from husk.kernel.syscalls import execve, open, stat
from husk.native._core import ready_calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.kernel.call import Call, Reply

    Handler = Callable[[Call], Reply]

AT_START = {"execve": execve, "open": open, "stat": stat}


def handlers() -> dict[int, Handler]:
    """Number → handler for every call whose row names a family. A row without a handler is a bug caught by a test."""
    table: dict[int, Handler] = {}
    for line in ready_calls()[0].splitlines():
        number, family, name, way = line.split(" ")
        nr = int(number)
        table[nr] = vars(AT_START[family])[name] if family in AT_START else _later(table, nr, family, name, way)
    return table


def mixed_calls() -> frozenset[int]:
    """As the registry's: those that are notified both to be answered and to be refused."""
    return frozenset(ready_calls()[1])


def eintr_bitmap(*, asked: bool = False) -> bytes:
    """As the registry's."""
    bitmap = ready_calls()[2]
    return bitmap if not asked else bitmap[:-1] + bytes([bitmap[-1] | 0x80])


def _later(table: dict[int, Handler], nr: int, family: str, name: str, way: str) -> Handler:
    """Stands in for a handler until the first call, and is then replaced by it."""

    def handler(call: Call) -> Reply:
        table[nr] = load(nr, family, name, way)
        return table[nr](call)

    return handler


def load(nr: int, family: str, name: str, way: str) -> Handler:
    module = __import__(f"{__name__}.{family}", fromlist=(name,))
    handler: Handler = getattr(module, name)
    return _judging(nr, handler) if way == "judged" else handler


def _judging(nr: int, check: Callable[[Call], object]) -> Handler:
    """A judged call's handler only makes the checks that Linux makes first. It cannot let the call succeed."""
    from husk.abi.registry import ROWS

    verdict = ROWS[nr].otherwise
    kind = OSError if verdict.quiet else Refused

    def handler(call: Call) -> Reply:
        check(call)
        raise kind(verdict.errno, verdict.reason)

    return handler
