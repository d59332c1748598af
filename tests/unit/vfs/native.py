"""The host's side of the differential tests."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from pathlib import Path

from tests.unit.vfs.worlds import FRIENDS, GUEST, Step, World, describe

LIBC = ctypes.CDLL(None, use_errno=True)
FACCESSAT2, OPENAT2 = 439, 437
CLONE_NEWNS = 0x20000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


class Native(World):
    """The host, through plain system calls. It runs in a child that changed its root and dropped its capabilities."""

    def do_mkdir(self, path: bytes, mode: int = 0o777) -> None:
        os.mkdir(path, mode)

    def do_rmdir(self, path: bytes) -> None:
        os.rmdir(path)

    def do_unlink(self, path: bytes) -> None:
        os.unlink(path)

    def do_symlink(self, target: bytes, path: bytes) -> None:
        os.symlink(target, path)

    def do_link(self, old: bytes, new: bytes, follow: bool = False) -> None:
        _checked(LIBC.linkat(-100, old, -100, new, 0x400 if follow else 0))

    def do_rename(self, old: bytes, new: bytes, flags: int = 0) -> None:
        _checked(LIBC.renameat2(-100, old, -100, new, flags))

    def do_mknod(self, path: bytes, mode: int) -> None:
        os.mknod(path, mode, os.makedev(1, 3))

    def do_readlink(self, path: bytes) -> str:
        return repr(os.readlink(path))

    def do_stat(self, path: bytes, follow: bool = True) -> str:
        found = os.stat(path, follow_symlinks=follow)
        return describe(found.st_mode, found.st_nlink, found.st_uid, found.st_gid, found.st_size)

    def do_same(self, one: bytes, other: bytes) -> str:
        first, second = os.lstat(one), os.lstat(other)
        return str((first.st_dev, first.st_ino) == (second.st_dev, second.st_ino))

    def do_list(self, path: bytes) -> str:
        return repr(sorted(os.listdir(path)))

    def do_kinds(self, path: bytes) -> str:
        with os.scandir(path) as found:
            return repr(sorted((each.name, each.is_dir(follow_symlinks=False), each.is_symlink()) for each in found))

    def do_access(self, path: bytes, mode: int) -> None:
        _checked(LIBC.syscall(FACCESSAT2, -100, path, mode, 0))

    def do_chmod(self, path: bytes, mode: int) -> None:
        os.chmod(path, mode)

    def do_chown(self, path: bytes, uid: int, gid: int, follow: bool = True) -> None:
        os.chown(path, uid, gid, follow_symlinks=follow)

    def do_utime(self, path: bytes, atime: int, mtime: int) -> None:
        os.utime(path, ns=(atime, mtime))

    def do_touch(self, path: bytes) -> None:
        os.utime(path)

    def stamps(self, path: bytes) -> tuple[int, int]:
        found = os.lstat(path)
        return found.st_mtime_ns, found.st_ctime_ns

    def do_times(self, path: bytes) -> str:
        found = os.lstat(path)
        return f"{found.st_atime_ns} {found.st_mtime_ns}"

    def do_truncate(self, path: bytes, size: int) -> None:
        os.truncate(path, size)

    def do_chdir(self, path: bytes) -> None:
        os.chdir(path)

    def do_getcwd(self) -> str:
        return repr(os.getcwdb())

    def do_umask(self, mask: int) -> None:
        os.umask(mask)

    def do_open(self, slot: int, path: bytes, flags: int, mode: int = 0o666) -> None:
        self._fill(slot, os.open(path, flags, mode))

    def _fill(self, slot: int, fd: int) -> None:
        if slot in self.slots:
            os.close(self.slots[slot])
        self.slots[slot] = fd

    def do_open2(self, slot: int, start: bytes, path: bytes, flags: int, resolve: int) -> None:
        at = os.open(start, os.O_PATH | os.O_DIRECTORY)
        how = struct.pack("<QQQ", flags, 0o666 if flags & os.O_CREAT else 0, resolve)
        try:
            for _ in range(1000):
                result = LIBC.syscall(OPENAT2, at, path, how, len(how))
                # A rename anywhere on the machine during the walk makes Linux ask to try again.
                if result >= 0 or ctypes.get_errno() != errno.EAGAIN:
                    break
            self._fill(slot, _checked(result))
        finally:
            os.close(at)

    def do_close(self, slot: int) -> None:
        os.close(self.slots.pop(slot))

    def do_read(self, slot: int) -> str:
        return repr(os.pread(self.slots[slot], 1000, 0))

    def do_write(self, slot: int, data: bytes) -> str:
        return str(os.write(self.slots[slot], data))

    def do_fstat(self, slot: int) -> str:
        found = os.fstat(self.slots[slot])
        return describe(found.st_mode, found.st_nlink, found.st_uid, found.st_gid, found.st_size)

    def do_fchmod(self, slot: int, mode: int) -> None:
        os.fchmod(self.slots[slot], mode)

    def do_futime(self, slot: int, atime: int, mtime: int) -> None:
        os.utime(self.slots[slot], ns=(atime, mtime))

    def do_ftimes(self, slot: int) -> str:
        found = os.fstat(self.slots[slot])
        return f"{found.st_atime_ns} {found.st_mtime_ns}"

    def do_linkfd(self, slot: int, new: bytes) -> None:
        _checked(LIBC.linkat(self.slots[slot], b"", -100, new, 0x1000))

    def do_setxattr(self, path: bytes, name: bytes, value: bytes, flags: int = 0) -> None:
        os.setxattr(path, name, value, flags)

    def do_getxattr(self, path: bytes, name: bytes) -> str:
        return repr(os.getxattr(path, name))

    def do_listxattr(self, path: bytes) -> str:
        return repr(sorted(name for name in os.listxattr(path) if name.startswith("user.")))

    def do_removexattr(self, path: bytes, name: bytes) -> None:
        os.removexattr(path, name)


def _make_read_only(root: Path) -> None:
    """Mount `root` over itself, read-only, for this process alone."""
    path = os.fsencode(root)
    _checked(LIBC.unshare(CLONE_NEWNS))
    _checked(LIBC.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
    _checked(LIBC.mount(path, path, None, MS_BIND, None))
    _checked(LIBC.mount(b"none", path, None, MS_BIND | MS_REMOUNT | MS_RDONLY, None))


def run_native(root: Path, steps: list[Step], *, read_only: bool = False) -> list[str]:
    """Run steps in a child with root directory `root`, as an ordinary user."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(read_end)
            if read_only:
                _make_read_only(root)
            os.chroot(root)
            os.chdir("/")
            os.setgroups([FRIENDS])
            os.setresgid(GUEST, GUEST, GUEST)
            os.setresuid(GUEST, GUEST, GUEST)
            os.umask(0o022)
            lines = "\0".join(Native().run(steps))
            with os.fdopen(write_end, "wb") as out:
                out.write(lines.encode())
            code = 0
        finally:
            os._exit(code)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        text = pipe.read().decode()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the native side broke"
    return text.split("\0") if text else []
