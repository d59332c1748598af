"""The registry: one row for every x86-64 system call, put together from the `rows_` modules.

Here: look-ups over the rows. Filter, dispatcher, call printing, hooks, the C core's table, documentation and `husk
syscalls` all read this one table. Not here: the rows themselves, and BPF.
"""

from __future__ import annotations

from errno import ENOSYS

from husk.abi.registry import rows_descriptors, rows_host, rows_memory, rows_names, rows_processes, rows_sockets
from husk.abi.registry.rows_processes import HUSK_CALL_ROW
from husk.abi.registry.rules import NO_WALLS, RESTARTS, Row, Walls

__all__ = ["CHAPTERS", "HUSK_CALL_ROW", "NEWEST_LINUX", "ROWS", "by_name", "eintr_bitmap", "handled_rows",
           "looks_at_descriptor_first", "mixed_calls", "number", "refusal", "row"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

CHAPTERS = {
    "names": rows_names.ROWS,
    "descriptors": rows_descriptors.ROWS,
    "memory and time": rows_memory.ROWS,
    "processes": rows_processes.ROWS,
    "sockets and ipc": rows_sockets.ROWS,
    "host": rows_host.ROWS,
}

NEWEST_LINUX = "6.19"  # every call of this Linux and of those before it has a row
ROWS: dict[int, Row] = {row.nr: row for rows in CHAPTERS.values() for row in rows}

_EINTR_BYTES = 64  # the width of the bitmap in the loader's protocol
_ASKS_BIT = 511  # its last bit; no call has this number


def row(nr: int) -> Row | None:
    """The row of a call of Linux, or of the loader's private one."""
    return ROWS.get(nr) or (HUSK_CALL_ROW if nr == HUSK_CALL_ROW.nr else None)


def by_name(name: str) -> Row | None:
    for candidate in ROWS.values():
        if candidate.name == name:
            return candidate
    return None


def number(name: str) -> int:
    """For code that treats one call apart from others: the number is written in the row alone."""
    entry = by_name(name)
    assert entry is not None, name
    return entry.nr


def handled_rows() -> list[Row]:
    """Every row that names a handler: the calls that are virtual or judged under some walls and arguments."""
    return [candidate for candidate in (*ROWS.values(), HUSK_CALL_ROW) if candidate.family]


def mixed_calls() -> frozenset[int]:
    """Calls that are notified both to be answered and to be refused: for these the dispatcher asks the row first."""
    return frozenset(
        candidate.nr
        for candidate in handled_rows()
        if any(verdict.way == "refused" and not verdict.quiet for verdict in candidate.verdicts())
    )


def looks_at_descriptor_first(nr: int) -> bool:
    """True where some commands to a held descriptor are refused: Linux looks at the descriptor before the command."""
    from husk.abi.registry.signatures import arguments

    entry = row(nr)
    if entry is None or not any(rule.tests and rule.verdict.way == "native" for rule in entry.rules):
        return False
    refused = any(verdict.way == "refused" and not verdict.quiet for verdict in entry.verdicts())
    return refused and arguments(entry)[0][1] == "fd"


def refusal(nr: int, args: Sequence[int], walls: Walls = NO_WALLS) -> tuple[int, str]:
    """Errno and reason for a call that was notified because the registry refuses it.

    Without `walls` the answer is the one for a box without any: a wall only ever turns refusals into something else, so
    a call that some walls refuse is refused without them too.
    """
    entry = ROWS.get(nr)
    if entry is None:
        return ENOSYS, "no system call of Linux has this number"
    verdict = entry.verdict(args, walls)
    if verdict.way == "refused":
        return verdict.errno, verdict.reason
    return ENOSYS, f"{entry.name} is {verdict.way} for these arguments, yet no handler answered it"


def eintr_bitmap(*, asked: bool = False) -> bytes:
    """Bit nr is set for calls that wait in the host and that Linux ends with EINTR after a handler without SA_RESTART.

    Calls that end with EINTR after any handler (poll, pause, nanosleep, msgrcv...) and calls that never do (fork,
    clone) need no help. futex is the one call in two classes: FUTEX_WAIT belongs here, FUTEX_LOCK_PI and FUTEX_LOCK_PI2
    restart always; code that reads the bit for futex must look at the operation as well. `asked`: signal thunks ask
    husk whether the call had begun (HUSK_ASKS_BIT, native/loader/protocol.h).
    """
    bitmap = bytearray(_EINTR_BYTES)
    for nr, candidate in ROWS.items():
        if candidate.eintr == RESTARTS:
            bitmap[nr >> 3] |= 1 << (nr & 7)
    if asked:
        bitmap[_ASKS_BIT >> 3] |= 1 << (_ASKS_BIT & 7)
    return bytes(bitmap)
