"""vfs: what a box keeps on the host's disk — real files behind upper inodes, and placeholder directories.

`<state>/files/<n>` is the content of upper inode number n; `<state>/places/<n>` is an empty directory that stands for a
virtual one. Both numbers are never used twice, so what `/proc/PID/fd/N` shows always names one node. No guest name ever
reaches the host here.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.node import Dir, Node

# How many nodes without a name are remembered for the sake of descriptors that may still be open on them.
ORPHANS_KEPT = 8192
STAND_INS_KEPT = 4096


class State:
    """One per box, shared by all its trees."""

    __slots__ = (
        "_devices", "_inodes", "_orphans", "_places", "dirs", "files_fd", "nodes", "path", "places_fd", "stand_ins",
        "unnamed",
    )

    def __init__(self, path: bytes) -> None:
        # The host kernel shows resolved names in /proc/PID/fd, so keep a resolved one to compare with.
        self.path = os.path.realpath(path)
        self.files_fd = self._directory(b"files")
        self.places_fd = self._directory(b"places")
        self.nodes: dict[int, Node] = {}  # file number -> node
        self.unnamed: dict[int, Node] = {}  # host inode number of an O_TMPFILE file -> node
        self.stand_ins: dict[int, Node] = {}  # place number -> what an O_PATH descriptor names
        self.dirs: dict[int, Dir] = {}  # place number -> directory
        self._orphans: dict[int, None] = {}
        self._inodes = 1 << 32
        self._places = 0
        self._devices = 40

    def _directory(self, name: bytes) -> int:
        path = self.path + b"/" + name
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            pass
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self.files_fd)
        os.close(self.places_fd)

    def new_device(self) -> int:
        """An st_dev for a tree: major 0, as Linux numbers file systems without a device."""
        self._devices += 1
        return self._devices

    def new_number(self) -> int:
        """Inode and file numbers come from one counter, above what host file systems commonly use."""
        self._inodes += 1
        return self._inodes

    # -- files -------------------------------------------------------------------------------------------------
    def keep(self, number: int, node: Node) -> None:
        self.nodes[number] = node

    def orphan(self, number: int, node: Node) -> None:
        """The last name of `node` is gone. Guests may hold descriptors, and nobody tells us when they close them, so
        the oldest are forgotten: fstat on such a one then shows its content right and its owner and mode by
        default."""
        try:
            os.unlink(b"%d" % number, dir_fd=self.files_fd)
        except FileNotFoundError:
            pass  # an O_TMPFILE file never had one
        self.nodes[number] = node
        self._orphans[number] = None
        if len(self._orphans) > ORPHANS_KEPT:
            oldest = next(iter(self._orphans))
            del self._orphans[oldest]
            self.nodes.pop(oldest, None)

    def adopt(self, number: int) -> None:
        """An orphan got a name after all."""
        self._orphans.pop(number, None)

    def remember_unnamed(self, host_ino: int, node: Node) -> None:
        self.unnamed[host_ino] = node
        if len(self.unnamed) > ORPHANS_KEPT:
            del self.unnamed[next(iter(self.unnamed))]

    # -- places ------------------------------------------------------------------------------------------------
    def place_fd(self, directory: Dir, flags: int, *, searchable: bool) -> int:
        """Open the placeholder of `directory`, made on first use."""
        number = directory.place
        if number is None:
            self._places += 1
            directory.place = number = self._places
            name = b"%d" % number
            os.mkdir(name, 0o700, dir_fd=self.places_fd)
            self.dirs[number] = directory
            self._set_search(name, searchable)
        # No flag of our own: the guest can see them (F_GETFL).
        wanted = flags & (os.O_PATH | os.O_NONBLOCK | os.O_DIRECTORY)
        return os.open(b"%d" % number, wanted | os.O_CLOEXEC, dir_fd=self.places_fd)

    def stand_in(self, node: Node) -> int:
        """A descriptor that only names `node`: nothing can be read or written through it.

        The host cannot put a true O_PATH descriptor into a guest's table, so an empty file stands in, opened with the
        access mode that Linux keeps for "neither".
        """
        self._places += 1
        name = b"%d" % self._places
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self.places_fd))
        self.stand_ins[self._places] = node
        if len(self.stand_ins) > STAND_INS_KEPT:
            oldest = next(iter(self.stand_ins))
            del self.stand_ins[oldest]
            os.unlink(b"%d" % oldest, dir_fd=self.places_fd)
        return os.open(name, os.O_ACCMODE | os.O_CLOEXEC, dir_fd=self.places_fd)

    def set_search(self, directory: Dir, searchable: bool) -> None:
        """A native fchdir into the placeholder succeeds exactly where the virtual directory may be searched."""
        if directory.place is not None:
            self._set_search(b"%d" % directory.place, searchable)

    def _set_search(self, name: bytes, searchable: bool) -> None:
        os.chmod(name, 0o555 if searchable else 0o444, dir_fd=self.places_fd)

    # -- from links --------------------------------------------------------------------------------------------
    def named_by(self, link: bytes) -> Node | None:
        """The directory, or what an O_PATH descriptor names, whose stand-in `/proc/PID/fd/N` or `/proc/PID/cwd` shows."""
        number = self._number(link, b"/places/")
        if number is None:
            return None
        return self.dirs.get(number) or self.stand_ins.get(number)

    def node_of(self, link: bytes, ino: int) -> Node | None:
        number = self._number(link, b"/files/")
        if number is not None:
            return self.nodes.get(number)
        if link.startswith(self.path + b"/") and link.endswith(b" (deleted)") and b"/#" in link:
            return self.unnamed.get(ino)
        return None

    def _number(self, link: bytes, folder: bytes) -> int | None:
        prefix = self.path + folder
        if not link.startswith(prefix):
            return None
        text = link[len(prefix):].removesuffix(b" (deleted)")
        return int(text) if text.isdigit() else None
