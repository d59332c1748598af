"""kernel: names for the loader in a box's empty root, so that the host itself can execute what a guest names.

What a guest executes by an absolute name has that name in the root of the guests, too, as a link to the loader. Then
husk lets the guest's own execve go on, and need not stop its thread (docs/design/001-execution.md).
"""

from __future__ import annotations

import os

from husk.kernel.exec.resident import UNASKED
from husk.native._core import make_as

LOADER = b"husk-loader"  # as native/init/builder.c calls it
LONGEST = 255


class ProgramNames:
    """`root` is the box's root in a mount that no guest sees; it stays the caller's. The file system belongs to the
    box's user. Beneath `covered` guests see another mount."""

    __slots__ = ("_covered", "_gid", "_given", "_root", "_uid")

    def __init__(self, root: int, uid: int, gid: int, covered: bytes) -> None:
        self._root, self._uid, self._gid, self._covered = root, uid, gid, covered
        self._given: set[bytes] = set()  # names that were given: none is ever taken back

    def give_unasked(self, name: bytes) -> bool:
        """The same for the name by which a guest executes it without asking husk (docs/design/026-direct-names.md)."""
        return self.give(UNASKED + name)

    def give(self, name: bytes) -> bool:
        """Is `name` the loader, in the root of the guests? Makes it so if it can be."""
        if name in self._given:
            return True
        parts = name.split(b"/")
        # Spelled so that the host finds it without a look at anything but these directories.
        if parts[0] or len(parts) < 2 or len(name) > LONGEST or any(part in (b"", b".", b"..") for part in parts[1:]):
            return False
        # AT_EXECFN is /dev/fd/N where a loader was started by its descriptor.
        if parts[1] == b"dev" or (name + b"/").startswith(self._covered + b"/"):
            return False
        try:
            if self._uid == os.geteuid():
                given = self._link(parts[1:])
            else:
                given = make_as(self._uid, self._gid, lambda: self._link(parts[1:]))
        except OSError:
            return False  # there is no room, or a program is where this one has a directory
        if given:
            self._given.add(name)
        return given

    def _link(self, parts: list[bytes]) -> bool:
        *directories, last = parts
        above = os.dup(self._root)
        try:
            for part in directories:
                try:
                    os.mkdir(part, 0o755, dir_fd=above)
                except FileExistsError:
                    pass
                below = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
                os.close(above)
                above = below
            try:
                os.link(LOADER, last, src_dir_fd=self._root, dst_dir_fd=above, follow_symlinks=False)
            except FileExistsError:
                loader = os.stat(LOADER, dir_fd=self._root, follow_symlinks=False)
                return os.path.samestat(os.stat(last, dir_fd=above, follow_symlinks=False), loader)
            return True
        finally:
            os.close(above)
