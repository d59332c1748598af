"""vfs: the real files behind upper inodes — where each lies on the host, and how to reach one without a name.

Writing to them, and making them from lower files, is in `copy_up`.
"""

from __future__ import annotations

import os
import stat as st

from husk.native._core import HostStat, stat_beneath
from husk.vfs.host.host_file import host_stat
from husk.vfs.pinned import Pinned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.layer.inodes import Inode
    from husk.vfs.state import State


class UpperFiles:
    """One per tree. An inode's real file is `files/<number>`, or an entry of a mirrored directory (`watch_mirror`).

    `mirrored`: some directory is mirrored, so look there before using a file's number. `stand_ins` maps inode numbers
    to files that stand for nodes without a real file in mirrored directories.
    """

    __slots__ = ("mirrored", "stand_ins", "state")

    def __init__(self, state: State) -> None:
        self.state = state
        self.mirrored = False
        self.stand_ins: dict[int, int] = {}

    def path(self, inode: Inode) -> bytes:
        """Where the real file of an inode lies, beneath the state's descriptor."""
        if self.mirrored and inode.kind != st.S_IFLNK:
            names = inode.all_names()
            # The host reports what happens to a file under the name it was opened by.
            if inode.found is not None and inode.found in names:
                names = [inode.found, *names]
            for directory, name in names:
                if directory.mirror is not None and name in directory.mirror.names:
                    return directory.mirror.entry(name)
        return b"files/%d" % inode.number

    def pinned(self, inode: Inode) -> Pinned:
        """The open file of an inode without a name, by a path of husk's own."""
        return Pinned(inode.via, lambda link, found: self.state.node_of(link, found.st_ino) is inode)

    def stat(self, inode: Inode) -> HostStat:
        """Size and times of the content, wherever it is."""
        if inode.source is not None:
            return inode.source[0].stat(inode.source[1])
        try:
            return stat_beneath(self.state.fd, self.path(inode))
        except FileNotFoundError:
            # It has no name any more: only a descriptor that some guest holds leads to it.
            try:
                return host_stat(os.stat(inode.via))
            except (OSError, ValueError):
                return HostStat((0, 0, 0, 0, 0, 0, 0, 0, 4096, 0, inode.atime, inode.mtime, inode.ctime))

    def is_open_only(self, inode: Inode) -> bool:
        """Is the real file reachable only through a descriptor that a guest holds?"""
        if inode.nlink or not inode.via:
            return False
        try:
            stat_beneath(self.state.files_fd, b"%d" % inode.number)
        except FileNotFoundError:
            return True
        return False

    def give_symlink_a_file(self, inode: Inode) -> None:
        """A symbolic link gets a real file when it is first opened (O_PATH), so that a descriptor names it."""
        if not inode.number and inode.kind == st.S_IFLNK:
            number = self.state.new_number()
            os.symlink(b".", b"%d" % number, dir_fd=self.state.files_fd)
            inode.number = number
            self.state.keep(number, inode)

    def end_mirroring(self, inodes: list[Inode]) -> None:
        """Move real files that lie in mirrored directories back to their numbers."""
        moved = [(path, inode.number) for inode in inodes if not (path := self.path(inode)).startswith(b"files/")]
        for path, number in moved:
            os.rename(path, b"files/%d" % number, src_dir_fd=self.state.fd, dst_dir_fd=self.state.fd)
        self.mirrored = False
