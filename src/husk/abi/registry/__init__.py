"""The registry: one row for every x86-64 system call, put together from the `rows_` modules.

Here: look-ups over the rows. Filter, dispatcher, documentation and `husk syscalls` all read this one table. Not here:
the rows themselves, and BPF.
"""

from __future__ import annotations

from errno import ENOSYS

from husk.abi.registry import rows_descriptors, rows_host, rows_memory, rows_names, rows_processes, rows_sockets
from husk.abi.registry.rules import NO_WALLS, Row, Walls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

FAMILIES = {
    "names": rows_names.ROWS,
    "descriptors": rows_descriptors.ROWS,
    "memory and time": rows_memory.ROWS,
    "processes": rows_processes.ROWS,
    "sockets and ipc": rows_sockets.ROWS,
    "host": rows_host.ROWS,
}

ROWS: dict[int, Row] = {row.nr: row for rows in FAMILIES.values() for row in rows}

_EINTR_BYTES = 64  # the width of the bitmap in the loader's protocol


def row(nr: int) -> Row | None:
    return ROWS.get(nr)


def by_name(name: str) -> Row | None:
    for candidate in ROWS.values():
        if candidate.name == name:
            return candidate
    return None


def dispatch_names() -> dict[int, str]:
    """Number to name of every call a handler must exist for: those that are virtual under some walls and arguments."""
    return {
        nr: candidate.name
        for nr, candidate in ROWS.items()
        if any(verdict.way == "virtual" for verdict in candidate.verdicts())
    }


def mixed_calls() -> frozenset[int]:
    """Calls that are notified both to be answered and to be refused: for these the dispatcher asks the row first."""
    return frozenset(
        nr
        for nr, candidate in ROWS.items()
        if len({verdict.way for verdict in candidate.verdicts() if verdict.way != "native" and not verdict.quiet}) > 1
    )


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


def eintr_bitmap() -> bytes:
    """Bit nr is set for native calls which Linux ends with EINTR after a handler without SA_RESTART.

    These are the calls that return ERESTARTSYS inside the kernel. Those with ERESTARTNOHAND or ERESTART_RESTARTBLOCK
    (poll, pause, nanosleep, msgrcv...) end with EINTR after any handler and need no help; those with ERESTARTNOINTR
    (fork, clone) never do. futex is the one call in two classes: FUTEX_WAIT belongs here, FUTEX_LOCK_PI and
    FUTEX_LOCK_PI2 restart always; whoever reads the bit for futex must look at the operation as well.
    """
    bitmap = bytearray(_EINTR_BYTES)
    for nr, candidate in ROWS.items():
        if candidate.interruptible:
            bitmap[nr >> 3] |= 1 << (nr & 7)
    return bytes(bitmap)
