"""abi: the structures Linux passes by pointer on x86-64, packed and unpacked. No meaning lives here."""

from __future__ import annotations

from _struct import Struct  # the bare C module: see cli/cmd_run.py

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Protocol

    class StatLike(Protocol):
        dev: int
        ino: int
        mode: int
        nlink: int
        uid: int
        gid: int
        rdev: int
        size: int
        blksize: int
        blocks: int
        atime: int
        mtime: int
        ctime: int
        btime: int


_STAT = Struct("<QQQIIIIQqqqqqqqqq24x")
_STATX = Struct("<IIQIIIHHQQQQ" + "qIi" * 4 + "IIIIQII96x")
_STATFS = Struct("<qqQQQQQiiqqq32x")
_DIRENT64 = Struct("<QqHB")
_DIRENT = Struct("<QQH")

STATX_BASIC_STATS, STATX_BTIME, STATX_MNT_ID = 0x7FF, 0x800, 0x1000
STATX_ATTR_MOUNT_ROOT = 0x2000


def pack_stat(s: StatLike) -> bytes:
    atime, mtime, ctime = divmod(s.atime, 10**9), divmod(s.mtime, 10**9), divmod(s.ctime, 10**9)
    return _STAT.pack(
        s.dev, s.ino, s.nlink, s.mode, s.uid, s.gid, 0, s.rdev, s.size, s.blksize, s.blocks, *atime, *mtime, *ctime
    )


def pack_statx(s: StatLike, *, mount_root: bool = False) -> bytes:
    def stamp(ns: int) -> tuple[int, int, int]:
        return (*divmod(ns, 10**9), 0)

    mask = STATX_BASIC_STATS | STATX_MNT_ID | (STATX_BTIME if s.btime else 0)
    return _STATX.pack(
        mask,
        s.blksize,
        STATX_ATTR_MOUNT_ROOT if mount_root else 0,
        s.nlink,
        s.uid,
        s.gid,
        s.mode,
        0,
        s.ino,
        s.size,
        s.blocks,
        STATX_ATTR_MOUNT_ROOT,
        *stamp(s.atime),
        *stamp(s.btime),
        *stamp(s.ctime),
        *stamp(s.mtime),
        *_numbers(s.rdev),
        *_numbers(s.dev),
        s.dev & 0xFFFF,
        0,
        0,
    )


def _numbers(dev: int) -> tuple[int, int]:
    """Major and minor, as the kernel encodes a device in 32 bits."""
    return dev >> 8 & 0xFFF, dev & 0xFF | dev >> 12 & 0xFFF00


def pack_statfs(host: os.statvfs_result | None, magic: int, *, fsid: int = 0, flags: int = 0) -> bytes:
    """Free space is the host's; none for a synthesised tree, and for a descriptor without a tree."""
    if host is None:
        return _STATFS.pack(magic, 4096, 0, 0, 0, 0, 0, fsid, 0, 255, 4096, flags)
    return _STATFS.pack(
        magic,
        host.f_bsize,
        host.f_blocks,
        host.f_bfree,
        host.f_bavail,
        host.f_files,
        host.f_ffree,
        fsid,
        0,
        255,
        host.f_frsize,
        flags,
    )


def pack_dirent64(ino: int, offset: int, kind: int, name: bytes) -> bytes:
    size = (19 + len(name) + 1 + 7) & ~7
    return (_DIRENT64.pack(ino, offset, size, kind >> 12) + name).ljust(size, b"\0")


def pack_dirent(ino: int, offset: int, kind: int, name: bytes) -> bytes:
    """The old form: the type sits in the last byte of the record."""
    size = (18 + len(name) + 2 + 7) & ~7
    return (_DIRENT.pack(ino, offset, size) + name).ljust(size - 1, b"\0") + bytes([kind >> 12])
