"""sandbox, doctor: probes of the file system that holds the state directory. Each works in a directory of its own."""

from __future__ import annotations

import os
import struct
from fcntl import ioctl

from husk.sandbox.doctor.probe_child import Missing
from husk.sandbox.errors import HuskError
from husk.sandbox.state_dir import StateDir

FICLONE, FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, IMMUTABLE = 0x40049409, 0x80086601, 0x40086602, 0x10


class _BoxDirectory:
    """A state directory as a box would have it."""

    def __enter__(self) -> str:
        try:
            self._state = StateDir()
        except HuskError as error:
            raise Missing(str(error)) from None
        return self._state.path

    def __exit__(self, *_: object) -> None:
        self._state.remove()


def state() -> str:
    with _BoxDirectory() as path:
        return os.path.dirname(path)


def tmpfile() -> str:
    with _BoxDirectory() as path:
        os.close(os.open(path, os.O_RDWR | os.O_TMPFILE, 0o600))
    return "works"


def links() -> str:
    with _BoxDirectory() as path:
        _file(f"{path}/a")
        os.link(f"{path}/a", f"{path}/b")
    return "work"


def clone() -> str:
    with _BoxDirectory() as path:
        source, target = _file(f"{path}/a"), os.open(f"{path}/b", os.O_RDWR | os.O_CREAT | os.O_EXCL)
        ioctl(target, FICLONE, source)
    return "works"


def attributes() -> str:
    with _BoxDirectory() as path:
        _file(f"{path}/a")
        os.setxattr(f"{path}/a", "user.husk", b"x")
    return "work"


def immutable() -> str:
    with _BoxDirectory() as path:
        fd = _file(f"{path}/a")
        flags = bytearray(8)
        ioctl(fd, FS_IOC_GETFLAGS, flags)
        (before,) = struct.unpack_from("<I", flags)
        ioctl(fd, FS_IOC_SETFLAGS, struct.pack("<Q", before | IMMUTABLE))
        ioctl(fd, FS_IOC_SETFLAGS, struct.pack("<Q", before))
    return "can be set"


def _file(path: str) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.write(fd, b"x" * 8192)
    return fd
