"""sandbox: a set of renames in one host directory that happens wholly or not at all, whenever it is killed.

Everything new is made ready in a staging directory at the top of the host directory, so that each step is one rename:
`out` moves what is there to old/N, `in` moves new/N there, `meta` sets metadata. Each step can tell by looking whether
it was done, so the journal is written once, before the first. While it is called `journal`, the next who comes undoes;
the last step is to call it `done`.
"""

from __future__ import annotations

import errno
import os

from husk.native._core import open_beneath, syncfs
from husk.sandbox.apply_plan import Conflict, lstat, shown
from husk.sandbox.errors import HuskError
from husk.store.layout import write_all
from husk.vfs.hosttree_write import rename_with_flags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Step = tuple[str, str, Any]

NOREPLACE = 1
PREFIX = ".husk-apply-"


class Journal:
    """`root`: descriptor of the host directory. `name`: of the staging directory in it."""

    def __init__(self, root: int, name: str) -> None:
        self.root, self.name = root, name
        self.fd = -1
        self.steps: list[Step] = []

    def create(self) -> None:
        os.mkdir(self.name, 0o700, dir_fd=self.root)
        self.open()
        for folder in ("new", "old"):
            os.mkdir(folder, 0o700, dir_fd=self.fd)

    def open(self) -> bool:
        try:
            self.fd = os.open(self.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.root)
        except FileNotFoundError:
            return False
        return True

    def state(self) -> str:
        """ "done", "journal", or empty: nothing was changed yet."""
        for name in ("done", "journal"):
            try:
                os.stat(name, dir_fd=self.fd)
                return name
            except FileNotFoundError:
                continue
        return ""

    def write(self) -> None:
        """From here on every step is known to whoever comes after us."""
        import json

        data = json.dumps(self.steps).encode()
        fd = os.open("journal.new", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self.fd)
        try:
            write_all(fd, data)
        finally:
            os.close(fd)
        syncfs(self.fd)
        os.rename("journal.new", "journal", src_dir_fd=self.fd, dst_dir_fd=self.fd)
        os.fsync(self.fd)

    def read(self, state: str) -> None:
        import json

        fd = os.open(state, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.fd)
        with open(fd, "rb") as file:
            self.steps = [(kind, path, what) for kind, path, what in json.loads(file.read())]

    def perform(self, check: Callable[[bytes, bytes], None]) -> None:
        """`check(where it is now, path)` judges what was moved out, when nobody can put another in its place."""
        for number, (kind, text, what) in enumerate(self.steps):
            path = os.fsencode(text)
            if kind == "out":
                self._move(path, self._old(number), mine=b"")
                check(os.fsencode(self.name) + b"/" + self._old(number), path)
            elif kind == "in":
                try:
                    self._move(self._new(what), path, mine=path)
                except FileExistsError:
                    raise Conflict(f"{shown(path)}: exists on the host by now; nothing was applied.") from None
            else:
                if not self._describe(path, what["now"], what["file"]):
                    raise Conflict(f"{shown(path)}: another file on the host by now; nothing was applied.")
        syncfs(self.fd)
        os.rename("journal", "done", src_dir_fd=self.fd, dst_dir_fd=self.fd)
        os.fsync(self.fd)

    def undo(self) -> None:
        for number, (kind, text, what) in reversed(list(enumerate(self.steps))):
            path = os.fsencode(text)
            try:
                if kind == "out" and lstat(self.fd, self._old(number)) is not None:
                    self._move(self._old(number), path, mine=path)
                elif kind == "in" and lstat(self.fd, self._new(what)) is None:
                    self._move(path, self._new(what), mine=b"")
            except FileExistsError:
                raise HuskError(
                    f"{shown(path)} is in the way of undoing an apply that was interrupted; move it and try again."
                ) from None
        # Last: each of the renames above changed the time of the directory it was in.
        for kind, text, what in reversed(self.steps):
            if kind == "meta":
                self._describe(os.fsencode(text), what["before"], what["file"])
        syncfs(self.fd)

    def _old(self, number: int) -> bytes:
        return b"old/%d" % number

    def _new(self, number: int) -> bytes:
        return b"new/%d" % number

    def _move(self, source: bytes, goal: bytes, *, mine: bytes) -> None:
        """One of them is in the staging directory, the other, `mine` if it is the goal, in the host's."""
        outside = mine or source
        above, _, name = outside.rpartition(b"/")
        folder = open_beneath(self.root, above, os.O_PATH | os.O_DIRECTORY) if above else os.dup(self.root)
        try:
            if mine:
                rename_with_flags(self.fd, source, folder, name, NOREPLACE)
            else:
                rename_with_flags(folder, name, self.fd, goal, NOREPLACE)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOSYS) or lstat(folder, name) is not None:
                raise
            # A file system without that flag; nothing is there at this moment.
            os.rename(source, name, src_dir_fd=self.fd, dst_dir_fd=folder)
        finally:
            os.close(folder)

    def _describe(self, path: bytes, what: dict[str, Any], file: list[int]) -> bool:
        """False: it is not the one with this device and inode, and nothing was done to it."""
        try:
            fd = open_beneath(self.root, path, os.O_PATH) if path else os.dup(self.root)
        except FileNotFoundError:
            return False
        try:
            found = os.fstat(fd)
            if [found.st_dev, found.st_ino] != file:
                return False
            describe(b"/proc/self/fd/%d" % fd, what)
            return True
        finally:
            os.close(fd)

    def remove(self) -> None:
        from husk.sandbox.statedir import remove_tree

        if self.fd >= 0:
            _make_removable(f"/proc/self/fd/{self.fd}")
            for name in os.listdir(self.fd):
                path = f"/proc/self/fd/{self.fd}/{name}"
                if name in ("new", "old"):
                    remove_tree(path)
                else:
                    os.unlink(path)
            os.rmdir(self.name, dir_fd=self.root)
            os.close(self.fd)
            self.fd = -1


def _make_removable(path: str) -> None:
    """A directory's mode may keep even us, its owner, from emptying it."""
    for where, folders, _ in os.walk(path):
        for name in folders:
            inner = os.path.join(where, name)
            if not os.path.islink(inner):
                os.chmod(inner, 0o700)


def describe(path: bytes, what: dict[str, Any]) -> None:
    """Attributes before the mode, which may forbid to set them; times last. Attributes of the host's that the box never
    saw stay as they are."""
    for name in what["without"]:
        try:
            os.removexattr(path, os.fsencode(name))
        except OSError:
            pass  # it was not set yet
    for name, value in what["xattrs"].items():
        os.setxattr(path, os.fsencode(name), bytes.fromhex(value))
    os.chmod(path, what["mode"])
    os.utime(path, ns=(what["atime"], what["mtime"]))


def description(mode: int, atime: int, mtime: int, xattrs: dict[bytes, bytes]) -> dict[str, Any]:
    told = {os.fsdecode(name): value.hex() for name, value in xattrs.items()}
    return {"mode": mode, "atime": atime, "mtime": mtime, "xattrs": told, "without": []}


def before(path: bytes, now: dict[str, Any]) -> dict[str, Any]:
    """What describes the file at `path` as it is, where `now` is going to change it."""
    found, there = os.stat(path), user_attributes(path)
    made = description(found.st_mode & 0o7777, found.st_atime_ns, found.st_mtime_ns, {})
    for name in now["xattrs"]:
        value = there.get(os.fsencode(name))
        if value is None:
            made["without"].append(name)
        else:
            made["xattrs"][name] = value.hex()
    return made


def user_attributes(path: bytes) -> dict[bytes, bytes]:
    try:
        names = [name for name in os.listxattr(path) if name.startswith("user.")]
        return {os.fsencode(name): os.getxattr(path, name) for name in names}
    except OSError:
        return {}  # a file system without
