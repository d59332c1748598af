"""sandbox: the host directory that holds one box's upper files and placeholders. It is removed with the box.

A box locks its directory for as long as it lives. A directory whose lock is free was left by a husk that was killed.
The next husk ends what processes of that box are left, and removes the directory.
"""

from __future__ import annotations

import fcntl
import os
import stat as st

from husk.sandbox.errors import HuskError
from husk.sandbox.locked_dir import is_there, lock_directory, remove_own_tree
from husk.sandbox.orphans import end_box

ST_NOEXEC = 8
HEX_DIGITS = "0123456789abcdef"
TRIES = 100
SPARE = 3


class StateDir:
    """Created and locked; `remove` removes it."""

    __slots__ = ("_lock", "_spare", "path")

    def __init__(self) -> None:
        self._lock = -1
        parent = state_parent()
        sweep(parent)
        for _ in range(TRIES):
            name = f"box-{os.getpid()}-{int.from_bytes(os.urandom(4), 'big'):08x}"
            self.path = os.path.join(parent, name)
            os.mkdir(self.path, 0o700)
            self._spare: list[int] = []
            try:
                # Another husk may take it for a leftover before we hold the lock. Then it is gone; we make a new one.
                self._lock = lock_directory(self.path, wait=True)
                if self._lock < 0:
                    continue
                # Removing needs descriptors, and a husk that ends because it has none left must still remove it.
                for _ in range(SPARE):
                    self._spare.append(os.dup(self._lock))
                return
            except OSError:
                os.rmdir(self.path)  # still empty
                self.forget()
                raise
        raise HuskError(f"{parent}: every new directory vanished at once; does another program clean up there?")

    def is_where_it_would_be(self) -> bool:
        """Is it still there, and would a new one be made beside it?"""
        try:
            here = os.path.samestat(os.fstat(self._lock), os.lstat(self.path))
            return here and os.path.dirname(self.path) == state_parent()
        except (OSError, HuskError):
            return False

    def publish(self, path: str, *, share: bool = False) -> None:
        """Keep what the directory holds, as `path`. It stays locked until `remove`, which then removes nothing; with
        `share` the lock is shared."""
        os.rename(self.path, path)
        if share:
            fcntl.flock(self._lock, fcntl.LOCK_SH)

    def unpublish(self, path: str) -> None:
        """Undo `publish`: `remove` removes the directory again."""
        os.rename(path, self.path)

    def forget(self) -> None:
        """Close what holds the lock. In a forked child the directory belongs to the parent, which holds it too."""
        while self._spare:
            os.close(self._spare.pop())
        if self._lock >= 0:
            os.close(self._lock)

    def remove(self) -> None:
        while self._spare:
            os.close(self._spare.pop())
        remove_own_tree(self.path)
        os.close(self._lock)


def state_parent() -> str:
    """HUSK_STATE, else the user's state directory, else one of our own below the temporary directory."""
    given = os.environ.get("HUSK_STATE")
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    temporary = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"husk-{os.geteuid()}")
    refused = []
    for path in [given] if given else [os.path.join(home, "husk"), temporary]:
        try:
            os.makedirs(path, 0o700, exist_ok=True)
            # Others write to the temporary directory too, and the name is known: a link of theirs is not followed.
            found = os.lstat(path) if path is temporary else os.stat(path)
            if not st.S_ISDIR(found.st_mode):
                refused.append(f"{path} is a link")
            elif found.st_uid != os.geteuid() or st.S_IMODE(found.st_mode) & 0o022:
                refused.append(f"{path} can be written by others")
            elif os.statvfs(path).f_flag & ST_NOEXEC:
                refused.append(f"{path} is mounted noexec")
            elif not os.access(path, os.W_OK | os.X_OK):
                refused.append(f"{path} cannot be written")
            else:
                return path
        except OSError as error:
            refused.append(f"{path}: {error.strerror}")
    raise HuskError(f"no place for the box's files ({'; '.join(refused)}); set HUSK_STATE to a directory of yours.")


def sweep(parent: str) -> None:
    """Remove what killed husks left behind."""
    for entry in os.listdir(parent):
        path = os.path.join(parent, entry)
        if not _is_box_name(entry) or not _is_own_directory(path):
            continue
        fd = lock_directory(path, wait=False)
        if fd >= 0:
            end_box(entry)
            _remove_ipc(path)
            if _recover_apply(path):
                remove_own_tree(path)
            os.close(fd)


def _is_box_name(name: str) -> bool:
    """As `StateDir` makes it: what else lies there was put there by a person."""
    box, _, rest = name.partition("-")
    pid, _, random = rest.partition("-")
    return box == "box" and pid.isascii() and pid.isdigit() and len(random) == 8 and not set(random) - set(HEX_DIGITS)


def _is_own_directory(path: str) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return st.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not st.S_IMODE(found.st_mode) & 0o066


def _remove_ipc(path: str) -> None:
    if is_there(os.path.join(path, "ipc")):
        from husk.kernel.ipc.ipc_objects import remove_left

        remove_left(path)


def _recover_apply(path: str) -> bool:
    """Recover the host directory if the husk was killed while it applied a box's changes there. False: that is not
    possible now, so the journal in `path` has to stay."""
    try:
        if not is_there(os.path.join(path, "apply")):
            return True
        from husk.sandbox.apply.recovery import GoneBox, recover

        recover(path, GoneBox())
    except (OSError, HuskError, ValueError, KeyError):
        return False
    return True
