"""kernel/syscalls: one file per family; a public function is a system call, spelled as Linux spells it."""

from __future__ import annotations

from husk.abi.registry import dispatch_names
from husk.kernel.syscalls import (
    attributes,
    directories,
    executing,
    inotify,
    messages,
    names,
    opening,
    privileged,
    processes,
    sockets,
    status,
    terminals,
    xattrs,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.kernel.call import Call, Reply

    Handler = Callable[[Call], Reply]

FAMILIES = (
    attributes,
    directories,
    executing,
    inotify,
    messages,
    names,
    opening,
    privileged,
    processes,
    sockets,
    status,
    terminals,
    xattrs,
)
HUSK_CALL = 0x4855


def handlers() -> dict[int, Handler]:
    """Number → handler for every call the registry names virtual. A row without a handler is a bug caught by a test."""
    table: dict[int, Handler] = {}
    for nr, name in dispatch_names().items():
        for family in FAMILIES:
            handler = vars(family).get(name)
            if handler is not None:
                table[nr] = handler
    table[HUSK_CALL] = executing.husk_call
    return table
