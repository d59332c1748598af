"""sandbox, doctor: probes of seccomp user notification. Each installs a real filter and answers a real call."""

from __future__ import annotations

import errno
import os
import struct
from fcntl import ioctl

from husk.abi.numbers import HUSK_CALL
from husk.sandbox.doctor.calls import SECCOMP, call, no_new_privileges
from husk.sandbox.doctor.probe_child import Missing

NEW_LISTENER, WAIT_KILLABLE_RECV = 1 << 3, 1 << 5
NOTIF_RECV, NOTIF_SEND, NOTIF_ADDFD, SET_FLAGS = 0xC0502100, 0xC0182101, 0x40182103, 0x40082104
SYNC_WAKE_UP = 1
RET_ALLOW, RET_USER_NOTIF = 0x7FFF0000, 0x7FC00000


def listener() -> str:
    _install(NEW_LISTENER, or_else_alone=True)
    return "a filter with a listener can be installed"


def alone() -> str:
    try:
        _install(NEW_LISTENER)
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise Missing("there is one already") from None
        raise
    return "there is no other listener"


def killable() -> str:
    _install(NEW_LISTENER | WAIT_KILLABLE_RECV, or_else_alone=True)
    return "accepted"


def sync() -> str:
    ioctl(_install(NEW_LISTENER), SET_FLAGS, SYNC_WAKE_UP)
    return "accepted"


def addfd() -> str:
    """A grandchild makes the call; it must get a descriptor of our pipe as the answer, in two steps as in husk."""
    fd = _install(NEW_LISTENER | WAIT_KILLABLE_RECV)
    reading, writing = os.pipe()
    caller = os.fork()
    if caller == 0:
        os.write(call(HUSK_CALL), b"x")
        os._exit(0)
    notification = bytearray(80)
    ioctl(fd, NOTIF_RECV, notification)
    (identity,) = struct.unpack_from("<Q", notification)
    added = ioctl(fd, NOTIF_ADDFD, bytearray(struct.pack("<QIIII", identity, 0, writing, 0, 0)))
    ioctl(fd, NOTIF_SEND, struct.pack("<QqiI", identity, added, 0, 0))
    os.close(writing)
    if os.read(reading, 1) != b"x":
        raise Missing("the descriptor did not arrive")
    return "a descriptor was handed over as the answer to a call"


def _install(flags: int, *, or_else_alone: bool = False) -> int:
    """A filter that asks about one unused number and allows the rest. Where another listener exists, nothing can be
    installed: the row `seccomp-alone` reports that, and the other rows do not blame the kernel."""
    no_new_privileges()
    code = b"".join(
        struct.pack("<HBBI", *instruction)
        for instruction in (
            (0x20, 0, 0, 0),  # load the call's number
            (0x15, 0, 1, HUSK_CALL),
            (0x06, 0, 0, RET_USER_NOTIF),
            (0x06, 0, 0, RET_ALLOW),
        )
    )
    import ctypes

    held = ctypes.create_string_buffer(code)
    program = struct.pack("<HxxxxxxQ", len(code) // 8, ctypes.addressof(held))
    try:
        return call(SECCOMP, 1, flags, program)
    except OSError as error:
        if or_else_alone and error.errno == errno.EBUSY:
            return -1
        raise
