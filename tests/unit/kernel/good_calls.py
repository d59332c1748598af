"""One call of every kind that succeeds, on the tree of conftest.py. A new handler gets its line here.

The tests that break something on purpose start from these: a call that fails anyway would prove nothing.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Callable

from husk.abi import ioctls
from husk.vfs.synth.pts import PtsTree
from tests.unit.kernel.fakes import Guest

CWD = -100
Arguments = tuple[int, ...]


def _name(name: bytes, *rest: int) -> Callable[[Guest], Arguments]:
    return lambda guest: (guest.text(name), *rest)


def _at(name: bytes, *rest: int) -> Callable[[Guest], Arguments]:
    return lambda guest: (_dir(guest), guest.text(name), *rest)


def _dir(guest: Guest) -> int:
    return guest.open(b".", os.O_RDONLY | os.O_DIRECTORY)


def _room(guest: Guest, size: int = 4096) -> int:
    return guest.memory.put(bytes(size))


def _named_attribute(guest: Guest, name: bytes) -> int:
    text = guest.text(name)
    guest.call("setxattr", text, guest.text(b"user.x"), guest.text(b"v"), 1, 0)
    return text


def _held_attribute(guest: Guest) -> int:
    _named_attribute(guest, b"file")
    return guest.open(b"file")


def _socket(guest: Guest) -> int:
    """Not blocking: a call that may wait is answered later, by another thread (test_waiting.py)."""
    return guest.hold(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK).detach())


def _queue() -> int:
    queue = ctypes.CDLL(None).inotify_init1(os.O_CLOEXEC)
    assert isinstance(queue, int) and queue >= 0
    return queue


def _message(guest: Guest) -> tuple[int, int]:
    """A datagram to a bound socket, as struct mmsghdr, which begins as struct msghdr does."""
    fd, address, size = _bound(guest)
    part = guest.memory.put(struct.pack("<QQ", guest.memory.put(b"data"), 4))
    return fd, guest.memory.put(struct.pack("<QiIQQQQQQ", address, size, 0, part, 1, 0, 0, 0, 0))


def _bound(guest: Guest) -> Arguments:
    """A datagram socket connects to another without waiting for it."""
    address = guest.memory.put(b"\1\0sock\0")
    guest.call("bind", _socket(guest), address, 7)
    return _socket(guest), address, 7


def _program(guest: Guest) -> int:
    guest.write_file(b"program", STATIC_ELF, 0o755)
    return guest.text(b"program")


def _xattr_args(guest: Guest, value: int) -> int:
    return guest.memory.put(struct.pack("<QII", value, 1, 0))


def _master(guest: Guest) -> Arguments:
    """TIOCGPTPEER, of an unlocked terminal."""
    tree = PtsTree(guest.creds, dev=guest.state.new_device())
    guest.vfs.mount(tree, b"/dev/pts")
    master = guest.hold(tree.make(os.O_RDWR))
    fcntl.ioctl(master, ioctls.PSEUDO_TERMINAL["TIOCSPTLCK"], bytes(4))
    return master, ioctls.PEER["TIOCGPTPEER"], os.O_RDWR | os.O_NOCTTY


# The smallest program Linux would run: a header, one segment, exit(0).
STATIC_ELF = (
    struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 2, 62, 1, 0x400078, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    + struct.pack("<IIQQQQQQ", 1, 5, 0, 0x400000, 0x400000, 0x90, 0x90, 4096)
    + b"\x31\xff\xb8\x3c\0\0\0\x0f\x05"
)

GOOD: dict[str, Callable[[Guest], Arguments]] = {
    "open": _name(b"file", os.O_RDONLY),
    "openat": _at(b"file", os.O_RDWR),
    "openat2": lambda guest: (CWD, guest.text(b"file"), guest.memory.put(bytes(24)), 24),
    "creat": _name(b"new", 0o600),
    "mknod": _name(b"new", 0o600),
    "mknodat": _at(b"new", 0o010600),
    "mkdir": _name(b"new", 0o700),
    "mkdirat": _at(b"new", 0o700),
    "rmdir": _name(b"empty"),
    "unlink": _name(b"file"),
    "unlinkat": _at(b"empty", 0x200),
    "rename": lambda guest: (guest.text(b"file"), guest.text(b"new")),
    "renameat": lambda guest: (_dir(guest), guest.text(b"file"), CWD, guest.text(b"new")),
    "renameat2": lambda guest: (CWD, guest.text(b"file"), _dir(guest), guest.text(b"dir"), 2),
    "link": lambda guest: (guest.text(b"file"), guest.text(b"new")),
    "linkat": lambda guest: (guest.open(b"file"), guest.text(b""), CWD, guest.text(b"new"), 0x1000),
    "symlink": lambda guest: (guest.text(b"to"), guest.text(b"new")),
    "symlinkat": lambda guest: (guest.text(b"to"), _dir(guest), guest.text(b"new")),
    "stat": lambda guest: (guest.text(b"link"), _room(guest)),
    "lstat": lambda guest: (guest.text(b"link"), _room(guest)),
    "fstat": lambda guest: (guest.open(b"file"), _room(guest)),
    "newfstatat": lambda guest: (_dir(guest), guest.text(b"file"), _room(guest), 0x100),
    "statx": lambda guest: (_dir(guest), guest.text(b"file"), 0, 0x7FF, _room(guest)),
    "access": _name(b"file", 4),
    "faccessat": _at(b"file", 4),
    "faccessat2": _at(b"file", 4, 0x200),
    "readlink": lambda guest: (guest.text(b"link"), _room(guest), 4096),
    "readlinkat": lambda guest: (_dir(guest), guest.text(b"link"), _room(guest), 4096),
    "inotify_add_watch": lambda guest: (guest.hold(_queue()), guest.text(b"file"), 2),
    "getdents": lambda guest: (_dir(guest), _room(guest), 4096),
    "getdents64": lambda guest: (_dir(guest), _room(guest), 4096),
    "statfs": lambda guest: (guest.text(b"file"), _room(guest)),
    "fstatfs": lambda guest: (guest.open(b"file"), _room(guest)),
    "getcwd": lambda guest: (_room(guest), 4096),
    "chdir": _name(b"dir"),
    "chmod": _name(b"file", 0o600),
    "fchmod": lambda guest: (guest.open(b"file"), 0o600),
    "fchmodat": _at(b"file", 0o600),
    "fchmodat2": _at(b"file", 0o600, 0),
    "chown": _name(b"file", -1, -1),
    "fchown": lambda guest: (guest.open(b"file"), -1, -1),
    "lchown": _name(b"link", -1, -1),
    "fchownat": _at(b"link", -1, -1, 0x100),
    "truncate": _name(b"file", 3),
    "utime": _name(b"file", 0),
    "utimes": _name(b"file", 0),
    "futimesat": _at(b"file", 0),
    "utimensat": _at(b"file", 0, 0),
    "setxattr": lambda guest: (guest.text(b"file"), guest.text(b"user.x"), guest.text(b"v"), 1, 1),
    "lsetxattr": lambda guest: (guest.text(b"file"), guest.text(b"user.x"), guest.text(b"v"), 1, 1),
    "fsetxattr": lambda guest: (guest.open(b"file"), guest.text(b"user.x"), guest.text(b"v"), 1, 1),
    "getxattr": lambda guest: (_named_attribute(guest, b"file"), guest.text(b"user.x"), _room(guest), 8),
    "lgetxattr": lambda guest: (_named_attribute(guest, b"file"), guest.text(b"user.x"), _room(guest), 8),
    "fgetxattr": lambda guest: (_held_attribute(guest), guest.text(b"user.x"), _room(guest), 8),
    "listxattr": lambda guest: (_named_attribute(guest, b"file"), _room(guest), 64),
    "llistxattr": lambda guest: (_named_attribute(guest, b"file"), _room(guest), 64),
    "flistxattr": lambda guest: (_held_attribute(guest), _room(guest), 64),
    "removexattr": lambda guest: (_named_attribute(guest, b"file"), guest.text(b"user.x")),
    "lremovexattr": lambda guest: (_named_attribute(guest, b"file"), guest.text(b"user.x")),
    "fremovexattr": lambda guest: (_held_attribute(guest), guest.text(b"user.x")),
    "setxattrat": lambda guest: (
        CWD, guest.text(b"file"), 0, guest.text(b"user.x"), _xattr_args(guest, guest.text(b"v")), 16),
    "getxattrat": lambda guest: (
        CWD, _named_attribute(guest, b"file"), 0, guest.text(b"user.x"), _xattr_args(guest, _room(guest)), 16),
    "listxattrat": lambda guest: (CWD, _named_attribute(guest, b"file"), 0, _room(guest), 64),
    "removexattrat": lambda guest: (CWD, _named_attribute(guest, b"file"), 0, guest.text(b"user.x")),
    "open_tree": lambda guest: (_dir(guest), guest.text(b"file"), 0),
    "ioctl": _master,
    "flock": lambda guest: (guest.open(b"file"), 2),
    "fcntl": lambda guest: (guest.open(b"file"), 37, guest.memory.put(bytes(32))),
    "bind": lambda guest: (_socket(guest), guest.memory.put(b"\1\0sock\0"), 7),
    "connect": _bound,
    "sendto": lambda guest: (_bound(guest)[0], guest.memory.put(b"data"), 4, 0, guest.memory.put(b"\1\0sock\0"), 7),
    "sendmsg": lambda guest: (*_message(guest), 0),
    "sendmmsg": lambda guest: (*_message(guest), 1, 0),
    "execve": lambda guest: (_program(guest), 0, 0),
    "execveat": lambda guest: (CWD, _program(guest), 0, 0, 0),
}
