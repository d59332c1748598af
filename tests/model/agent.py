"""A small program that lives as long as a test run. Each line it reads is a list of file operations, which it does one
by one; each line it writes is the list of their results.

It runs natively and inside husk. An operation is a step (`tests.unit.vfs.worlds`). Those that the unit-level tests know
already come from `Native`; here is what takes a process of its own.
"""

from __future__ import annotations

import ast
import ctypes
import mmap
import os
import stat
import struct
import sys
import zlib
from typing import Any, ClassVar

from tests.unit.vfs.native import LIBC, Native, _checked
from tests.unit.vfs.worlds import Step, describe

AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW, AT_SYMLINK_FOLLOW, AT_REMOVEDIR = 0x1000, 0x100, 0x400, 0x200
STATX, GETDENTS64, OPENAT2, MKNODAT = 332, 217, 437, 259
NOT_ASKED = "not asked"
ONE_NAME = 19 + 256 + 5  # room for the longest entry, or getdents says EINVAL
OLD = 10**18  # time stamps before this were set by a step or by `build`, so they are the same on every side
FILES = {
    b"file": b"content of a file\n", b"long": b"0123456789" * 1500, b"none": b"", b"deep/inner": b"inner\n",
    b"deep/er/most": b"most\n", b"twin1": b"twins\n", b"wide/\xff\xfe": b"no UTF-8\n",
}
LINKS = {
    b"to_file": b"file", b"to_dir": b"deep", b"dangling": b"nowhere", b"loop": b"loop", b"deep/up": b"..",
    b"deep/back": b"../file", b"wide/far": b"../deep/er/most",
}


def build(root: bytes) -> None:
    """The tree every example starts from. It lies some levels deep, so that `..` stays within the example."""
    top = root + b"/o/p/top"
    for name in (b"", b"/deep", b"/deep/er", b"/empty", b"/wide"):
        os.makedirs(top + name, 0o755)
    for name, content in FILES.items():
        with open(top + b"/" + name, "wb") as file:
            file.write(content)
        os.chmod(top + b"/" + name, 0o644)
    with open(top + b"/holes", "wb") as file:  # so large that husk copies it without holding its lock
        file.seek(1 << 20)
        file.write(b"data")
        file.truncate(1_300_000)
    os.link(top + b"/twin1", top + b"/deep/twin2")
    os.mkfifo(top + b"/fifo", 0o644)
    for name, target in LINKS.items():
        os.symlink(target, top + b"/" + name)
    for where, folders, files in os.walk(root, topdown=False):
        for name in folders + files:
            os.utime(os.path.join(where, name), ns=(OLD - 9, OLD - 5), follow_symlinks=False)


class Stale:
    """Which descriptors must not be used for what.

    As with overlayfs, a descriptor that was opened for reading only before the first write to a file of the host goes
    on showing the host's content. `lower` holds files that were not written to so far, `shows` which descriptors show
    which of them. Only what this says on the native side counts: steps it leaves out are left out everywhere.
    """

    # Operations that read, by the argument that says what is read.
    READS: ClassVar[dict[str, int]] = {"read": 0, "pread": 0, "map": 0, "copy": 0, "seek": 0}

    def __init__(self, lower: set[int] | None = None) -> None:
        self.lower = lower or set()
        self.shows: dict[int, int] = {}
        self.slots: set[int] = set()

    def concerns(self, operation: str, arguments: list[Any]) -> bool:
        place = self.READS.get(operation)
        return place is not None and arguments[place] in self.slots

    def opened(self, slot: int, flags: int, inode: int) -> None:
        self.closed(slot)
        if flags & os.O_PATH:
            return
        if flags & os.O_TRUNC or flags & os.O_ACCMODE in (os.O_WRONLY, os.O_RDWR):
            self.written(inode)
        elif inode in self.lower:
            self.shows[slot] = inode

    def written(self, inode: int) -> None:
        if inode in self.lower:
            self.lower.discard(inode)
            self.slots |= {slot for slot, shown in self.shows.items() if shown == inode}

    def copied(self, slot: int, other: int) -> None:
        stale, shown = other in self.slots, self.shows.get(other)
        self.closed(slot)
        if stale:
            self.slots.add(slot)
        if shown is not None:
            self.shows[slot] = shown

    def closed(self, slot: int) -> None:
        self.slots.discard(slot)
        self.shows.pop(slot, None)


class Agent(Native):
    """A name that begins with a slash starts at the top of the example."""

    def __init__(self, place: bytes) -> None:
        super().__init__()
        self.place = place
        self.top = b""
        self.stale = Stale()
        self.maps: dict[int, mmap.mmap] = {}
        self.notes: dict[int, int] = {}
        self.me = f" {os.getuid()}:{os.getgid()} "

    def reply(self, step: Step) -> str:
        operation, *arguments = step
        names = [self.top + each if isinstance(each, bytes) and each[:1] == b"/" else each for each in arguments]
        if self.stale.concerns(operation, arguments):
            return NOT_ASKED
        # The uid differs between the two sides where husk made up a user.
        return self.outcome(operation, names).replace(self.me, " me ")

    # -- examples ----------------------------------------------------------------------------------------------
    def do_begin(self, name: bytes, fresh: bool) -> None:
        for fd in self.slots.values():
            os.close(fd)
        self.slots.clear()
        self.maps.clear()
        self.notes.clear()
        os.umask(0o022)
        root = self.place + b"/" + name
        if fresh:
            build(root)
        self.top = root + b"/o/p/top"
        os.chdir(self.top)
        found = [os.path.join(where, name) for where, _, files in os.walk(self.top) for name in files]
        self.stale = Stale({os.lstat(path).st_ino for path in found})

    def do_forget_stale(self) -> None:
        """From now on do every step, also steps that show other content in husk."""
        self.stale = Stale()

    def do_tree(self) -> str:
        """A description of the whole tree. Modes that would hide something are changed for it and restored."""
        lines: list[str] = []
        seen: dict[tuple[int, int], bytes] = {}
        self._describe(self.top, b"", seen, lines)
        return "\n".join(lines)

    def _describe(self, path: bytes, short: bytes, seen: dict[tuple[int, int], bytes], lines: list[str]) -> None:
        found = os.lstat(path)
        text = describe(found.st_mode, found.st_nlink, found.st_uid, found.st_gid, found.st_size)
        text += f" {found.st_mtime_ns if found.st_mtime_ns < OLD else 'now'}"
        first = seen.setdefault((found.st_dev, found.st_ino), short)
        if first != short:
            lines.append(f"{short!r} {text} is {first!r}")
            return
        if stat.S_ISLNK(found.st_mode):
            lines.append(f"{short!r} {text} -> {os.readlink(path)!r}")
            return
        hidden = found.st_mode & (0o700 if stat.S_ISDIR(found.st_mode) else 0o400) == 0 or (
            stat.S_ISDIR(found.st_mode) and found.st_mode & 0o500 != 0o500
        )
        if hidden:
            os.chmod(path, 0o700)
        if not stat.S_ISFIFO(found.st_mode):
            text += " " + repr([(name, os.getxattr(path, name)) for name in sorted(self._user(path))])
        if stat.S_ISREG(found.st_mode):
            with open(path, "rb") as file:
                content = file.read()
            text += f" {content!r}" if len(content) < 40 else f" crc {zlib.crc32(content)}"
        lines.append(f"{short!r} {text}")
        if stat.S_ISDIR(found.st_mode):
            for name in sorted(os.listdir(path)):
                self._describe(path + b"/" + name, short + b"/" + name, seen, lines)
        if hidden:
            os.chmod(path, stat.S_IMODE(found.st_mode))

    def _user(self, path: bytes | int) -> list[str]:
        return [name for name in os.listxattr(path) if name.startswith("user.")]

    # -- what of `Native` may be the first write to a file of the lower tree --------------------------------------
    def do_open(self, slot: int, path: bytes, flags: int, mode: int = 0o666) -> None:
        super().do_open(slot, path, flags, mode)
        self.stale.opened(slot, flags, os.fstat(self.slots[slot]).st_ino)

    def do_openat(self, slot: int, at: int, path: bytes, flags: int, mode: int = 0o666) -> None:
        self._fill(slot, os.open(path, flags, mode, dir_fd=self.slots[at]))
        self.stale.opened(slot, flags, os.fstat(self.slots[slot]).st_ino)

    def do_open2(self, slot: int, start: bytes, path: bytes, flags: int, resolve: int) -> None:
        super().do_open2(slot, start, path, flags, resolve)
        self.stale.opened(slot, flags, os.fstat(self.slots[slot]).st_ino)

    def do_reopen(self, slot: int, other: int, flags: int) -> None:
        """A second description of what a descriptor shows, by the name /proc has for it."""
        self._fill(slot, os.open(b"/proc/self/fd/%d" % self.slots[other], flags))
        self.stale.opened(slot, flags, os.fstat(self.slots[slot]).st_ino)

    def do_truncate(self, path: bytes, size: int) -> None:
        super().do_truncate(path, size)
        self.stale.written(os.stat(path).st_ino)

    def do_close(self, slot: int) -> None:
        super().do_close(slot)
        self.stale.closed(slot)

    # -- descriptors -------------------------------------------------------------------------------------------
    def do_dup(self, slot: int, other: int) -> None:
        self._fill(slot, os.dup(self.slots[other]))
        self.stale.copied(slot, other)

    def do_pread(self, slot: int, count: int, offset: int) -> str:
        return repr(os.pread(self.slots[slot], count, offset))

    def do_ftruncate(self, slot: int, size: int) -> None:
        os.ftruncate(self.slots[slot], size)

    def do_seek(self, slot: int, offset: int, whence: int) -> str:
        return str(os.lseek(self.slots[slot], offset, whence))

    def do_copy(self, source: int, target: int, count: int) -> str:
        return str(os.copy_file_range(self.slots[source], self.slots[target], count, 0))

    def do_punch(self, slot: int, offset: int, length: int) -> None:
        _checked(LIBC.fallocate(self.slots[slot], 3, ctypes.c_long(offset), ctypes.c_long(length)))

    def do_map(self, slot: int, data: bytes, shared: bool) -> str:
        """Writes through a mapping; a private one must leave the file alone."""
        fd = self.slots[slot]
        length = os.fstat(fd).st_size
        if not length:
            return "empty"
        kind = mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE
        with mmap.mmap(fd, length, kind, mmap.PROT_READ | mmap.PROT_WRITE) as area:
            area[: len(data[:length])] = data[:length]
            return repr(area[:30])

    def do_hold(self, slot: int, length: int) -> None:
        """A mapping that outlives its descriptor; `peek` reads it."""
        fd = self.slots[slot]
        self.maps[slot] = mmap.mmap(fd, length, mmap.MAP_SHARED, mmap.PROT_READ)

    def do_peek(self, slot: int) -> str:
        return repr(self.maps[slot][:20])

    def do_data(self, path: bytes) -> str:
        """Where a file holds data, and how much room it takes. ext4 gives room to long extended attributes, too."""
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # or a FIFO would make this wait for ever
        try:
            size, found, here = os.fstat(fd).st_size, [], 0
            while here < size:
                try:
                    begin = os.lseek(fd, here, os.SEEK_DATA)
                except OSError:
                    break
                here = os.lseek(fd, begin, os.SEEK_HOLE)
                found.append((begin, here))
            blocks = NOT_ASKED if os.listxattr(fd) else os.fstat(fd).st_blocks
            return f"{size} {blocks} {found}"
        finally:
            os.close(fd)

    def do_note(self, key: int, path: bytes) -> None:
        self.notes[key] = os.lstat(path).st_ino

    def do_noted(self, key: int, path: bytes) -> str:
        """Is this the file that was noted?"""
        return str(self.notes[key] == os.lstat(path).st_ino)

    def do_fnoted(self, key: int, slot: int) -> str:
        return str(self.notes[key] == os.fstat(self.slots[slot]).st_ino)

    def do_fsetxattr(self, slot: int, name: bytes, value: bytes) -> None:
        os.setxattr(self.slots[slot], name, value)

    def do_fgetxattr(self, slot: int, name: bytes) -> str:
        return repr(os.getxattr(self.slots[slot], name))

    def do_flistxattr(self, slot: int) -> str:
        return repr(sorted(self._user(self.slots[slot])))

    def do_fchdir(self, slot: int) -> None:
        os.fchdir(self.slots[slot])

    def do_freadlink(self, slot: int) -> str:
        return repr(os.readlink(b"", dir_fd=self.slots[slot]))

    def do_fdname(self, slot: int) -> str:
        """A layer knows a file by all its names, not by the one it was opened by. So only for files with one name."""
        name = os.readlink(b"/proc/self/fd/%d" % self.slots[slot])
        found = os.fstat(self.slots[slot])
        plain = stat.S_ISDIR(found.st_mode) or (found.st_nlink == 1 and not name.endswith(b" (deleted)"))
        return repr(name) if plain else NOT_ASKED

    # -- names -------------------------------------------------------------------------------------------------
    def do_statx(self, path: bytes, flags: int) -> str:
        buffer = ctypes.create_string_buffer(256)
        _checked(LIBC.syscall(STATX, -100, path, flags, 0x7FF, buffer))
        nlink, uid, gid, mode = struct.unpack_from("<IIIH", buffer, 16)
        return describe(mode, nlink, uid, gid, struct.unpack_from("<Q", buffer, 40)[0])

    def do_renameat(self, at: int, old: bytes, to: int, new: bytes, flags: int) -> None:
        _checked(LIBC.renameat2(self.slots[at], old, self.slots[to], new, flags))

    def do_unlinkat(self, at: int, path: bytes, flags: int) -> None:
        _checked(LIBC.unlinkat(self.slots[at], path, flags))

    def do_mkdirat(self, at: int, path: bytes, mode: int) -> None:
        os.mkdir(path, mode, dir_fd=self.slots[at])

    def do_linkproc(self, slot: int, new: bytes) -> None:
        """How O_TMPFILE files commonly get their name."""
        _checked(LIBC.linkat(-100, b"/proc/self/fd/%d" % self.slots[slot], -100, new, AT_SYMLINK_FOLLOW))

    def do_lutime(self, path: bytes, atime: int, mtime: int) -> None:
        os.utime(path, ns=(atime, mtime), follow_symlinks=False)

    def do_lsetxattr(self, path: bytes, name: bytes, value: bytes) -> None:
        os.setxattr(path, name, value, follow_symlinks=False)

    def do_mtime(self, path: bytes) -> str:
        found = os.lstat(path).st_mtime_ns
        return str(found) if found < OLD else "now"

    # -- listings ----------------------------------------------------------------------------------------------
    def do_fill(self, path: bytes, count: int) -> None:
        for number in range(count):
            os.close(os.open(path + b"/%03d" % number, os.O_CREAT | os.O_WRONLY, 0o644))

    def do_list(self, path: bytes) -> str:
        """Read in small pieces; then again from the middle, which must show the same rest."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            found = self._entries(fd)
            names = sorted(name for name, _, _ in found)
            if len(found) > 2:
                middle = len(found) // 2
                os.lseek(fd, found[middle - 1][1], os.SEEK_SET)
                again = self._entries(fd)
                if [each[0] for each in again] != [each[0] for each in found[middle:]]:
                    return f"seeking shows {again} in place of {found[middle:]}"
            os.lseek(fd, 0, os.SEEK_SET)
            if sorted(each[0] for each in self._entries(fd)) != names:
                return "rewinding shows something else"
            return repr(sorted((name, kind) for name, _, kind in found))
        finally:
            os.close(fd)

    def do_thin(self, path: bytes) -> str:
        """Remove every plain file while the listing is being read: none may be missed, none be shown twice."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        seen: list[bytes] = []
        try:
            while part := self._some(fd, ONE_NAME):
                for name, _, kind in part:
                    seen.append(name)
                    if kind == 8:
                        os.unlink(name, dir_fd=fd)
        finally:
            os.close(fd)
        return repr(sorted(seen))

    def _entries(self, fd: int) -> list[tuple[bytes, int, int]]:
        found: list[tuple[bytes, int, int]] = []
        while part := self._some(fd, ONE_NAME):
            found += part
        return found

    def _some(self, fd: int, size: int) -> list[tuple[bytes, int, int]]:
        buffer = ctypes.create_string_buffer(size)
        length = _checked(LIBC.syscall(GETDENTS64, fd, buffer, size))
        found, place = [], 0
        while place < length:
            _, offset, step, kind = struct.unpack_from("<QqHB", buffer.raw, place)
            found.append((buffer.raw[place + 19 : place + step].split(b"\0")[0], offset, kind))
            place += step
        return found


def main() -> None:
    agent = Agent(os.fsencode(sys.argv[1]))
    for line in sys.stdin.buffer:
        steps: list[Step] = ast.literal_eval(line.decode("ascii"))
        print(ascii([agent.reply(step) for step in steps]), flush=True)


if __name__ == "__main__":
    main()
