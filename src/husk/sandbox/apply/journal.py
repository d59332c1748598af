"""sandbox: a set of renames in one host directory that happens wholly or not at all, even if husk is killed.

Everything new is made ready in a staging directory at the top of the host directory, so that each step is one rename:
`out` moves what is there to old/N, `in` moves new/N there, `meta` sets metadata. Whether a step was done can be seen
from the files, so the journal is written once, before the first step. While its name is `apply.journal`, recovery
undoes the steps; the last step renames it to `apply.done`. It lies in the box's own directory, not in the host
directory: a program that could write it could make husk set any mode and attribute below the host directory.
"""

from __future__ import annotations

import errno
import os

from husk.native._core import open_beneath, syncfs
from husk.sandbox.apply.apply_plan import Conflict, lstat, shown
from husk.sandbox.apply.staging_dir import StagingDir
from husk.sandbox.errors import HuskError
from husk.sandbox.locked_dir import is_there
from husk.store.layout import sync_directory, write_and_close
from husk.vfs.host.host_tree_write import rename_with_flags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Step = tuple[str, str, Any]

NOREPLACE = 1
DONE, JOURNAL, UNFINISHED = "apply.done", "apply.journal", "apply.journal.new"


class Journal:
    """`root`: descriptor of the host directory. `name`: of the staging directory in it. `folder`: the box's own."""

    def __init__(self, root: int, name: str, folder: str) -> None:
        self.root, self.folder = root, folder
        self.staging = StagingDir(root, name)
        self.steps: list[Step] = []

    def state(self) -> str:
        """DONE, JOURNAL, or empty: nothing was changed yet."""
        return next((name for name in (DONE, JOURNAL) if is_there(self._path(name))), "")

    def write(self, steps: list[Step]) -> None:
        """From here on recovery knows every step."""
        import json

        self.steps = steps
        data = json.dumps(steps).encode()
        syncfs(self.staging.fd)
        fd = os.open(self._path(UNFINISHED), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        write_and_close(fd, data, durable=True)
        self._rename(UNFINISHED, JOURNAL)

    def read(self, state: str) -> None:
        import json

        with open(self._path(state), "rb") as file:
            self.steps = [(kind, path, what) for kind, path, what in json.loads(file.read())]

    def forget(self) -> None:
        """Nothing is left to recover, whatever the staging directory still holds."""
        for name in (UNFINISHED, JOURNAL, DONE):
            try:
                os.unlink(self._path(name))
            except FileNotFoundError:
                pass
        sync_directory(self.folder)

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _rename(self, name: str, goal: str) -> None:
        os.rename(self._path(name), self._path(goal))
        sync_directory(self.folder)

    def perform(self, check: Callable[[bytes, bytes], None]) -> None:
        """`check(where it is now, path)` judges what was moved out: after the move no other program can replace it."""
        for number, (kind, text, what) in enumerate(self.steps):
            path = os.fsencode(text)
            if kind == "out":
                self._out(path, self.staging.old, number)
                check(os.fsencode(self.staging.name) + b"/old/%d" % number, path)
            elif kind == "in":
                try:
                    self._in(self.staging.new, what, path)
                except FileExistsError:
                    raise Conflict(f"{shown(path)}: exists on the host by now; nothing was applied.") from None
            else:
                if not self._set_metadata(path, what["now"], what["file"]):
                    raise Conflict(f"{shown(path)}: another file on the host by now; nothing was applied.")
        syncfs(self.staging.fd)
        self._rename(JOURNAL, DONE)

    def undo(self) -> None:
        for number, (kind, text, what) in reversed(list(enumerate(self.steps))):
            path = os.fsencode(text)
            try:
                if kind == "out" and lstat(self.staging.old, b"%d" % number) is not None:
                    self._in(self.staging.old, number, path)
                elif kind == "in" and lstat(self.staging.new, b"%d" % what) is None:
                    self._out(path, self.staging.new, what)
            except FileExistsError:
                raise HuskError(
                    f"{shown(path)} is in the way of undoing an apply that was interrupted; move it and try again."
                ) from None
        # Last: each of the renames above changed the time of the directory it was in.
        for kind, text, what in reversed(self.steps):
            if kind == "meta":
                self._set_metadata(os.fsencode(text), what["before"], what["file"])
        syncfs(self.staging.fd)

    def _out(self, path: bytes, folder: int, number: int) -> None:
        above, name = self._open_parent(path)
        try:
            rename_with_flags(above, name, folder, b"%d" % number, NOREPLACE)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOSYS):
                raise
            os.rename(name, b"%d" % number, src_dir_fd=above, dst_dir_fd=folder)  # a file system without that flag
        finally:
            os.close(above)

    def _in(self, folder: int, number: int, path: bytes) -> None:
        above, name = self._open_parent(path)
        try:
            rename_with_flags(folder, b"%d" % number, above, name, NOREPLACE)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOSYS) or lstat(above, name) is not None:
                raise
            # A file system without that flag; nothing is there at this moment.
            os.rename(b"%d" % number, name, src_dir_fd=folder, dst_dir_fd=above)
        finally:
            os.close(above)

    def _open_parent(self, path: bytes) -> tuple[int, bytes]:
        above, _, name = path.rpartition(b"/")
        return open_beneath(self.root, above, os.O_PATH | os.O_DIRECTORY) if above else os.dup(self.root), name

    def _set_metadata(self, path: bytes, what: dict[str, Any], file: list[int]) -> bool:
        """False: the file does not have this device and inode, and was not changed."""
        try:
            fd = open_beneath(self.root, path, os.O_PATH) if path else os.dup(self.root)
        except FileNotFoundError:
            return False
        try:
            found = os.fstat(fd)
            if [found.st_dev, found.st_ino] != file:
                return False
            set_metadata(b"/proc/self/fd/%d" % fd, what)
            return True
        finally:
            os.close(fd)


def set_metadata(path: bytes, what: dict[str, Any]) -> None:
    """Attributes before the mode, which may forbid to set them; times last. Attributes of the host's file that the box
    never saw stay as they are."""
    for name in what["without"]:
        try:
            os.removexattr(path, os.fsencode(name))
        except OSError:
            pass  # it was not set yet
    for name, value in what["xattrs"].items():
        os.setxattr(path, os.fsencode(name), bytes.fromhex(value))
    os.chmod(path, what["mode"])
    os.utime(path, ns=(what["atime"], what["mtime"]))


def metadata(mode: int, atime: int, mtime: int, xattrs: dict[bytes, bytes]) -> dict[str, Any]:
    as_text = {os.fsdecode(name): value.hex() for name, value in xattrs.items()}
    return {"mode": mode, "atime": atime, "mtime": mtime, "xattrs": as_text, "without": []}


def metadata_before(path: bytes, now: dict[str, Any]) -> dict[str, Any]:
    """The metadata of the file at `path`, as far as `now` is going to change it."""
    found, there = os.stat(path), user_attributes(path)
    made = metadata(found.st_mode & 0o7777, found.st_atime_ns, found.st_mtime_ns, {})
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
