"""vfs: what a box keeps on the host's disk — real files behind upper inodes, placeholders, and what is watched.

`<state>/files/<n>` is the content of upper inode number n; `<state>/places/<n>` is an empty directory that stands for a
virtual one. Both numbers are never used twice, so what `/proc/PID/fd/N` shows always names one node. No guest name
reaches the host, with one exception: `<state>/real/<n>` is the counterpart of a watched directory and holds its names.
"""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.node import Dir, Node

# How many nodes without a name are remembered for the sake of descriptors that may still be open on them.
ORPHANS_KEPT = 8192
STAND_INS_KEPT = 1 << 16
MANY = 16384
REAL_ONES_KEPT = 256
GUEST_SEES = os.O_PATH | os.O_NONBLOCK | os.O_DIRECTORY  # of a directory's flags


class State:
    """One per box, shared by all its trees."""

    __slots__ = (
        "_devices",
        "_inodes",
        "_orphans",
        "_places",
        "dirs",
        "ending",
        "fd",
        "files_fd",
        "gone",
        "many",
        "nodes",
        "nodes_left",
        "nodes_refused",
        "path",
        "path_only",
        "places_fd",
        "real_ones",
        "stand_ins",
        "unnamed",
        "watched",
    )

    def __init__(self, path: bytes) -> None:
        # The host kernel shows resolved names in /proc/PID/fd, so keep a resolved one to compare with.
        self.path = os.path.realpath(path)
        self.fd = os.open(self.path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self.files_fd = self._directory(b"files")
        self.places_fd = self._directory(b"places")
        for fd in (self.places_fd, os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)):
            os.chmod(fd, 0o711)  # husk-init walks through them as the guest's user
        os.close(fd)
        self.nodes: dict[int, Node] = {}  # file number -> node
        self.unnamed: dict[int, Node] = {}  # host inode number of an open file without its name -> node
        self.path_only: set[int] = set()  # place numbers of directories opened with O_PATH
        self.stand_ins: dict[int, Node] = {}  # place number -> what an O_PATH descriptor names
        self.real_ones: dict[int, int] = {}  # place number -> our own descriptor of the same
        self.dirs: dict[int, Dir] = {}  # place number, or number of its counterpart -> directory
        self.watched: set[int] = set()  # numbers of placeholders that have a watch; they stay
        self.many = MANY  # placeholders, at which it is time to ask which are held
        self.gone: dict[bytes, Dir] = {}  # where the counterpart of a removed directory lay -> directory
        self.nodes_left = 1 << 62  # names the guest may still make; each is memory of ours
        self.nodes_refused = 0
        self.ending = False  # the box is over: what takes long need not be finished
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
        for real in self.real_ones.values():
            os.close(real)
        self.real_ones.clear()
        os.close(self.fd)
        os.close(self.files_fd)
        os.close(self.places_fd)

    # -- how much there may be ---------------------------------------------------------------------------------
    def room_for(self, nodes: int) -> None:
        """ENOSPC, as on a file system without inodes left. Asked before the host is touched, counted after."""
        if nodes > self.nodes_left:
            self.nodes_refused += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def count(self, nodes: int) -> None:
        """Names the guest made, minus names it removed. Removing one it did not make gives it one more, as often as
        there are such names, which is not without end."""
        self.nodes_left -= nodes

    def new_device(self) -> int:
        """An st_dev for a tree: major 0, as Linux numbers file systems without a device."""
        self._devices += 1
        return self._devices

    def continue_from(self, number: int) -> None:
        """Numbers up to this one are in use: by files of the box's earlier runs."""
        self._inodes = max(self._inodes, number)

    @property
    def last_number(self) -> int:
        return self._inodes

    def new_number(self) -> int:
        """Inode and file numbers come from one counter, above what host file systems commonly use."""
        self._inodes += 1
        return self._inodes

    # -- files -------------------------------------------------------------------------------------------------
    def keep(self, number: int, node: Node) -> None:
        self.nodes[number] = node

    def orphan(self, number: int, node: Node, *, held_elsewhere: bool = False) -> None:
        """The last name of `node` is gone. Guests may hold descriptors, and nobody tells us when they close them, so
        the oldest are forgotten: fstat on such a one then shows its content right and its owner and mode by
        default. With `held_elsewhere`, what guests hold is not this real file, which therefore has to stay."""
        if not held_elsewhere:
            self._remove(number)
        self.nodes[number] = node
        self._orphans[number] = None
        if len(self._orphans) > ORPHANS_KEPT:
            oldest = next(iter(self._orphans))
            del self._orphans[oldest]
            self.nodes.pop(oldest, None)
            self._remove(oldest)

    def _remove(self, number: int) -> None:
        try:
            os.unlink(b"%d" % number, dir_fd=self.files_fd)
        except FileNotFoundError:
            pass  # an O_TMPFILE file never had one

    def adopt(self, number: int) -> None:
        """An orphan got a name after all."""
        self._orphans.pop(number, None)

    def remember_unnamed(self, host_ino: int, node: Node) -> None:
        self.unnamed.pop(host_ino, None)  # the host uses numbers again, and the newest is to be forgotten last
        self.unnamed[host_ino] = node
        if len(self.unnamed) > ORPHANS_KEPT:
            del self.unnamed[next(iter(self.unnamed))]

    def move(self, inside: int) -> None:
        """From now on everything is opened through `inside`, an O_PATH descriptor: the same directory, in the box's own
        mount namespace. So no way leads up and out of a directory that a guest holds."""
        os.dup2(inside, self.fd, inheritable=False)
        os.close(inside)
        for name, fd in ((b"files", self.files_fd), (b"places", self.places_fd)):
            moved = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.fd)
            os.dup2(moved, fd, inheritable=False)
            os.close(moved)

    # -- places ------------------------------------------------------------------------------------------------
    def place_fd(self, directory: Dir, flags: int, *, searchable: bool) -> int:
        """Open the placeholder of `directory`, made on first use."""
        number = directory.place
        if number is None:
            self._places += 1
            number = self._places
            name = b"%d" % number
            os.mkdir(name, 0o700, dir_fd=self.places_fd)
            self._set_search(name, searchable)
            directory.place = number  # only now: a directory whose placeholder could not be made may be asked again
            self.dirs[number] = directory
        # No flag of our own: the guest can see them (F_GETFL).
        wanted = flags & GUEST_SEES
        return os.open(b"%d" % number, wanted | os.O_CLOEXEC, dir_fd=self.places_fd)

    def path_only_place(self, directory: Dir) -> int:
        """Like `place_fd`, for an O_PATH descriptor: one that can be walked from but not listed."""
        number = directory.path_only
        if number is None:
            self._places += 1
            directory.path_only = number = self._places
            os.mkdir(b"%d" % number, 0o755, dir_fd=self.places_fd)
            self.dirs[number] = directory
            self.path_only.add(number)
        return os.open(b"%d" % number, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.places_fd)

    def is_path_only(self, link: bytes) -> bool:
        """Does a descriptor of this name stand for an O_PATH one?"""
        number = self.number_of_place(link)
        return number in self.path_only or number in self.stand_ins

    def stand_in(self, node: Node, real: int) -> int:
        """A descriptor that only names `node`: nothing can be read or written through it.

        The host cannot put a true O_PATH descriptor into a guest's table, so an empty file stands in, opened with the
        access mode that Linux keeps for "neither". `real`, which we keep, is the true one (-1: there is none): it still
        knows the file when it is renamed or removed.
        """
        self._places += 1
        name = b"%d" % self._places
        try:
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self.places_fd))
            fd = os.open(name, os.O_ACCMODE | os.O_CLOEXEC, dir_fd=self.places_fd)
        except OSError:
            if real >= 0:
                os.close(real)
            raise
        self.stand_ins[self._places] = node
        # Nobody tells us when the guest closes one. Those not used for longest lose their descriptor first, then
        # everything.
        if real >= 0:
            self.real_ones[self._places] = real
            if len(self.real_ones) > REAL_ONES_KEPT:
                os.close(self.real_ones.pop(next(iter(self.real_ones))))
        if len(self.stand_ins) > STAND_INS_KEPT:
            oldest = next(iter(self.stand_ins))
            del self.stand_ins[oldest]
            os.unlink(b"%d" % oldest, dir_fd=self.places_fd)
        return fd

    def set_search(self, directory: Dir, searchable: bool) -> None:
        """A native fchdir into the placeholder succeeds exactly where the virtual directory may be searched."""
        if directory.place is not None:
            self._set_search(b"%d" % directory.place, searchable)
        path = self.real_path(directory)
        if path:
            self._set_real_search(path, searchable)

    def _set_search(self, name: bytes, searchable: bool) -> None:
        os.chmod(name, 0o555 if searchable else 0o444, dir_fd=self.places_fd)

    # -- counterparts of watched directories ---------------------------------------------------------------------
    def new_real(self, directory: Dir) -> bytes:
        """Make one, empty so far."""
        try:
            os.mkdir(b"real", 0o700, dir_fd=self.fd)
        except FileExistsError:
            pass
        self._places += 1
        self.dirs[self._places] = directory
        path = b"real/%d" % self._places
        os.mkdir(path, 0o755, dir_fd=self.fd)
        return path

    def real_path(self, directory: Dir) -> bytes:
        """Where the counterpart of `directory` lies beneath `fd`: in that of its parent, if it has an entry there.
        Empty where it has none."""
        names: list[bytes] = []
        while (above := directory.parent) is not None and above.real is not None and not directory.removed:
            if directory.name not in above.real.names:
                break
            names.append(directory.name)
            directory = above
        if directory.real is None or directory.removed:
            return b""
        names.append(directory.real.top)
        names.reverse()
        return b"/".join(names)

    def real_fd(self, path: bytes, flags: int, *, searchable: bool) -> int:
        self._set_real_search(path, searchable)
        return os.open(path, flags & GUEST_SEES | os.O_CLOEXEC, dir_fd=self.fd)

    def _set_real_search(self, path: bytes, searchable: bool) -> None:
        mode = 0o755 if searchable else 0o644
        # Whoever watches must not see a change that changes nothing.
        if os.stat(path, dir_fd=self.fd, follow_symlinks=False).st_mode & 0o7777 != mode:
            os.chmod(path, mode, dir_fd=self.fd)

    def real_node(self, link: bytes) -> Node | None:
        """What a descriptor of a counterpart, or of a file in one, stands for."""
        prefix = self.path + b"/real/"
        number, *names = link[len(prefix) :].split(b"/")
        here: Node | None = self.dirs.get(int(number)) if link.startswith(prefix) and number.isdigit() else None
        for name in names:
            here = None if here is None else here.below_real(name)
        return here or self.gone.get(link[len(self.path) + 1 :].removesuffix(b" (deleted)"))

    def real_gone(self, path: bytes, directory: Dir) -> None:
        """The counterpart of `directory` is about to go; descriptors of it may stay."""
        self.gone.pop(path, None)
        self.gone[path] = directory
        if len(self.gone) > STAND_INS_KEPT:
            del self.gone[next(iter(self.gone))]

    def number_of_place(self, link: bytes) -> int | None:
        """The number of the placeholder that a link of /proc shows."""
        return self._number(link, b"/places/")

    # -- from links --------------------------------------------------------------------------------------------
    def dir_of(self, link: bytes) -> Dir | None:
        """The directory whose placeholder `/proc/PID/fd/N` or `/proc/PID/cwd` shows."""
        number = self._number(link, b"/places/")
        return None if number is None else self.dirs.get(number)

    def named_by(self, link: bytes) -> tuple[Node, int] | None:
        """What an O_PATH descriptor names, and our own descriptor of it (or -1)."""
        number = self._number(link, b"/places/")
        if number is None or number not in self.stand_ins:
            return None
        node = self.stand_ins[number] = self.stand_ins.pop(number)
        return node, self.real_ones.get(number, -1)

    def node_of(self, link: bytes, ino: int) -> Node | None:
        number = self._number(link, b"/files/")
        if number is not None:
            return self.nodes.get(number)
        if link.startswith(self.path + b"/") and link.endswith(b" (deleted)"):
            return self.unnamed.get(ino)
        return None

    def _number(self, link: bytes, folder: bytes) -> int | None:
        prefix = self.path + folder
        if not link.startswith(prefix):
            return None
        text = link[len(prefix) :].removesuffix(b" (deleted)")
        return int(text) if text.isdigit() else None
