"""store: the immutable flag, which protects blobs from mistakes even by root. Needs a file system that has it and
CAP_LINUX_IMMUTABLE; reports if either is missing. Collection and verify clear it before they remove a blob."""

from __future__ import annotations

import errno
import fcntl
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

FS_IOC_GETFLAGS = 0x80086601
FS_IOC_SETFLAGS = 0x40086602
FS_IMMUTABLE_FL = 0x10


class Protected:
    def __init__(self) -> None:
        self.protected = self.already = self.failed = 0
        self.reason = ""

    def as_json(self) -> dict[str, object]:
        return dict(vars(self))


def protect(paths: Iterable[str]) -> Protected:
    result = Protected()
    for path in paths:
        try:
            if set_immutable(path, immutable=True):
                result.protected += 1
            else:
                result.already += 1
        except OSError as error:
            result.failed += 1
            result.reason = {
                errno.EPERM: "setting the flag needs CAP_LINUX_IMMUTABLE; run it as root",
                errno.EACCES: "the blob cannot be opened; run it as the store's owner",
                errno.ENOTTY: "this file system has no immutable flag",
                errno.EOPNOTSUPP: "this file system has no immutable flag",
            }.get(error.errno or 0, os.strerror(error.errno or 0))
    return result


def release(path: str) -> bool:
    """Clear the flag; False: it is set and stays."""
    try:
        set_immutable(path, immutable=False)
        return True
    except OSError as error:
        return error.errno in (errno.ENOTTY, errno.EOPNOTSUPP, errno.ENOENT)


def set_immutable(path: str, *, immutable: bool) -> bool:
    """True if that changed anything. Opening for reading is enough: the flag belongs to the inode."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        flags = int.from_bytes(fcntl.ioctl(fd, FS_IOC_GETFLAGS, bytes(8))[:4], "little")
        wanted = flags | FS_IMMUTABLE_FL if immutable else flags & ~FS_IMMUTABLE_FL
        if wanted == flags:
            return False
        fcntl.ioctl(fd, FS_IOC_SETFLAGS, wanted.to_bytes(8, "little"))
        return True
    finally:
        os.close(fd)
