"""vfs: what a box keeps on the host's disk — real files behind upper inodes, placeholders, and mirrors of watched
directories.

`<state>/files/<n>` is the content of upper inode number n; `<state>/places/<n>` is the placeholder of a virtual
directory, an empty one. Neither number is used twice, so what `/proc/PID/fd/N` shows always names one node. No guest
name reaches the host, with one exception: `<state>/mirror/<n>`, the mirror of a watched directory, holds its names.
"""

from __future__ import annotations

import errno
import os

from husk.native._core import VfsLock
from husk.native.real_paths import real_path
from husk.vfs.fd_reserve import is_in_reserve
from husk.vfs.invalidation import Invalidation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.vfs.node import Dir, Node

# Folders of a state directory that hold content of the box's files.
WAITED_IN = 1  # the first placeholder's number
FILES, PLACES, MIRROR = b"files", b"places", b"mirror"
# How many nodes without a name are remembered, because descriptors may still be open on them.
ORPHANS_MAX = 8192
STAND_INS_MAX = 1 << 16
RULESETS_MAX = 4096
PINS_MAX = 512
O_PATH_FDS_MAX = 256
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
SHOWN_OF_O_PATH = os.O_DIRECTORY | os.O_NOFOLLOW  # by F_GETFL, of a descriptor with O_PATH
GUEST_SEES = os.O_PATH | os.O_NONBLOCK | os.O_DIRECTORY | os.O_NOFOLLOW  # of a directory's flags


def waiting_place(path: bytes) -> int:
    """Open a directory for a guest to wait in before the box has a file system: a placeholder that stands for nothing
    yet. The first directory that needs one gets it. `path` is the state directory, which a State will take as it is."""
    places = real_path(path) + b"/" + PLACES
    os.mkdir(places, 0o700)
    for directory in (places, path):
        os.chmod(directory, 0o711)
    place = places + b"/%d" % WAITED_IN
    os.mkdir(place, 0o700)
    os.chmod(place, 0o555)
    return os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _directory(name: bytes, above: int) -> int:
    """Open a folder of a state directory, made if it is not there."""
    try:
        os.mkdir(name, 0o700, dir_fd=above)
    except FileExistsError:
        pass
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=above)


class State:
    """One per box, shared by all its trees."""

    __slots__ = (
        "_devices",
        "_ended",
        "_files_fd",
        "_inodes",
        "_orphans",
        "_placeholders",
        "_removed_mirrors",
        "_watched",
        "_watched_files",
        "dirs",
        "fd",
        "invalidation",
        "lingering",
        "lock",
        "nodes",
        "nodes_refused",
        "o_path_fds",
        "path",
        "path_only",
        "pins",
        "placeholders_fd",
        "rulesets",
        "stand_ins",
        "unnamed",
    )

    def __init__(self, path: bytes) -> None:
        # The host kernel shows resolved names in /proc/PID/fd, so keep a resolved one to compare with.
        self.path = real_path(path)
        self._files_fd = -1
        self.fd, self.placeholders_fd = self._open()
        self.lock = VfsLock()  # whoever looks at a tree of the box, or changes one, holds it
        self.invalidation = Invalidation()
        self.nodes: dict[int, Node] = {}  # file number -> node
        self.lingering: dict[int, int] = {}  # file number of a node without a name whose real file stays -> its bytes
        self.unnamed: dict[int, Node] = {}  # host inode number of an open file without its name -> node
        self.path_only: set[int] = set()  # placeholder numbers of directories opened with O_PATH
        self.stand_ins: dict[int, Node] = {}  # placeholder number -> the node an O_PATH descriptor names
        self.o_path_fds: dict[int, int] = {}  # placeholder number -> husk's own O_PATH descriptor of that node
        self.rulesets: dict[int, object] = {}  # placeholder number -> the Landlock ruleset that a descriptor stands for
        self.pins: dict[tuple[int, int], int] = {}  # identity -> a descriptor that keeps the host from using it again
        self.dirs: dict[int, Dir] = {}  # number of a placeholder or mirror -> directory
        self._watched: set[int] = set()  # numbers of placeholders that have a watch; they stay
        self._watched_files: dict[tuple[int, int], tuple[int, int]] = {}  # host identity -> the guest's, for fdinfo
        self.nodes_refused = 0
        self._removed_mirrors: dict[bytes, Dir] = {}  # where the mirror of a removed directory lay -> directory
        self._ended = False
        self._orphans: dict[int, None] = {}
        self._inodes = 1 << 32
        self._placeholders = 0
        self._devices = 40

    def _open(self) -> tuple[int, int]:
        opened: list[int] = []
        try:
            opened.append(os.open(self.path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
            opened.append(_directory(PLACES, opened[0]))
            for fd in (opened[1], os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)):
                os.chmod(fd, 0o711)  # husk-init walks through them as the guest's user
            os.close(fd)
        except BaseException:
            for fd in opened:
                os.close(fd)
            raise
        return opened[0], opened[1]

    def need_files(self) -> None:
        """Files are about to be made: their folder is made on first use. Where a host file system has just freed many
        inodes, giving out one takes it longer than husk takes for all else, and many boxes write nothing."""
        if self._files_fd < 0:
            self._files_fd = _directory(FILES, self.fd)

    @property
    def files_fd(self) -> int:
        """The folder of the files. It may be asked for without the lock once it is there."""
        self.need_files()
        return self._files_fd

    @property
    def known_files_fd(self) -> int:
        """Likewise; -1: there is none yet."""
        return self._files_fd

    def end(self) -> None:
        """The box is over: copies that are under way need not be finished."""
        self._ended = True

    @property
    def ended(self) -> bool:
        return self._ended

    def close(self) -> None:
        self.lock.close()
        for fd in (*self.o_path_fds.values(), *self.pins.values()):
            os.close(fd)
        self.o_path_fds.clear()
        self.pins.clear()
        os.close(self.fd)
        if self._files_fd >= 0:
            os.close(self._files_fd)
        os.close(self.placeholders_fd)

    # -- how much there may be ---------------------------------------------------------------------------------
    def limit_nodes(self, most: int) -> None:
        """From now on the guest may make so many names; each takes memory of husk's. C counts those that it makes."""
        self.lock.room = most

    def room_for(self, nodes: int) -> None:
        """ENOSPC, as on a file system without inodes left. Asked before the host is touched, counted after."""
        if nodes > self.lock.room:
            self.nodes_refused += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def count(self, nodes: int) -> None:
        """Names the guest made, minus names it removed. Removing a name it did not make gives it one more; there are
        only so many such names."""
        self.lock.room -= nodes

    def new_device(self) -> int:
        """An st_dev for a tree: major 0, as Linux numbers file systems without a device."""
        self._devices += 1
        return self._devices

    def continue_from(self, number: int) -> None:
        """Files of the box's earlier runs use numbers up to this one."""
        self._inodes = max(self._inodes, number)

    @property
    def last_number(self) -> int:
        return self._inodes

    def new_number(self) -> int:
        """Inode and file numbers come from one counter, above what host file systems commonly use."""
        self._inodes += 1
        return self._inodes

    def new_numbers(self, count: int) -> tuple[int, int]:
        """So many at once: the first, and the one behind the last."""
        first = self._inodes + 1
        self._inodes += count
        return first, first + count

    # -- files -------------------------------------------------------------------------------------------------
    def keep(self, number: int, node: Node) -> None:
        self.nodes[number] = node

    def orphan(self, number: int, node: Node, *, lingers: bool = False, removed: bool = False) -> None:
        """The last name of `node` is gone. Guests may hold descriptors, and the host does not tell when they close
        them, so the oldest orphans are forgotten: fstat then shows the content right, and a default owner and mode.
        `lingers`: what guests hold open may be the file that this real one is a copy of. By that they open the copy, so
        it has to stay (`Leftovers`). `removed`: the real file is gone already."""
        if lingers:
            self._linger(number)
        elif not removed:
            self._remove(number)
        self.nodes[number] = node
        self._orphans[number] = None
        if len(self._orphans) > ORPHANS_MAX:
            oldest = next(iter(self._orphans))
            del self._orphans[oldest]
            self.nodes.pop(oldest, None)
            self._remove(oldest)

    def _linger(self, number: int) -> None:
        try:
            real = os.stat(b"%d" % number, dir_fd=self.files_fd, follow_symlinks=False)
        except FileNotFoundError:
            return  # it lay in a mirror, whose watcher had to see it go
        self.lingering[number] = real.st_blocks * 512

    def end_lingering(self, number: int) -> None:
        """Nobody can open this real file any more."""
        self._remove(number)

    def _remove(self, number: int) -> None:
        self.lingering.pop(number, None)
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
        if len(self.unnamed) > ORPHANS_MAX:
            del self.unnamed[next(iter(self.unnamed))]

    def move(self, inside: int) -> None:
        """From now on everything is opened through `inside`, an O_PATH descriptor of the same directory in the box's
        own mount namespace. So no way leads up and out of a directory that a guest holds."""
        os.dup2(inside, self.fd, inheritable=False)
        os.close(inside)
        for name, fd in ((FILES, self._files_fd), (PLACES, self.placeholders_fd)):
            if fd < 0:
                continue  # not made yet
            moved = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.fd)
            os.dup2(moved, fd, inheritable=False)
            os.close(moved)

    # -- placeholders ------------------------------------------------------------------------------------------
    @property
    def placeholder_prefix(self) -> bytes:
        """Host path of the placeholders, with a slash at its end."""
        return self.path + b"/places/"

    def placeholder_fd(self, directory: Dir, flags: int, *, searchable: bool) -> int:
        """Open the placeholder of `directory`, made on first use."""
        number = directory.placeholder
        if number is None:
            self._placeholders += 1
            number = self._placeholders
            name = b"%d" % number
            try:
                os.mkdir(name, 0o700, dir_fd=self.placeholders_fd)
            except FileExistsError:
                if number != WAITED_IN:
                    raise
            self._set_search(name, searchable)
            directory.placeholder = number  # only now: where making it failed, the next call may try again
            self.dirs[number] = directory
        # No flag of husk's own: the guest can see flags (F_GETFL).
        wanted = flags & GUEST_SEES
        return os.open(b"%d" % number, wanted | os.O_CLOEXEC, dir_fd=self.placeholders_fd)

    def path_only_placeholder(self, directory: Dir, flags: int) -> int:
        """Like `placeholder_fd`, with O_PATH: one that can be walked from but not listed."""
        number = directory.path_only
        if number is None:
            self._placeholders += 1
            directory.path_only = number = self._placeholders
            os.mkdir(b"%d" % number, 0o755, dir_fd=self.placeholders_fd)
            self.dirs[number] = directory
            self.path_only.add(number)
        return self._o_path(b"%d" % number, flags)

    def _o_path(self, name: bytes, flags: int) -> int:
        return os.open(name, os.O_PATH | flags & SHOWN_OF_O_PATH | os.O_CLOEXEC, dir_fd=self.placeholders_fd)

    def drop_placeholder(self, number: int) -> Dir | None:
        """Remove a placeholder that is not held. The directory it stood for; None if it stays, for a watch or as a
        mirror."""
        directory = self.dirs[number]
        if number in self._watched or number not in (directory.placeholder, directory.path_only):
            return None
        os.rmdir(b"%d" % number, dir_fd=self.placeholders_fd)
        del self.dirs[number]
        self.path_only.discard(number)
        if directory.placeholder == number:
            directory.placeholder = None
        else:
            directory.path_only = None
        return directory

    def keep_placeholder(self, directory: Dir) -> None:
        """It has a watch, which would see it removed."""
        if directory.placeholder is not None:
            self._watched.add(directory.placeholder)

    def remember_watched(self, host: tuple[int, int], guest: tuple[int, int]) -> None:
        """Device and inode by which the guest knows a watched file; without them fdinfo says 0."""
        self._watched_files.pop(host, None)
        self._watched_files[host] = guest
        if len(self._watched_files) > STAND_INS_MAX:
            del self._watched_files[next(iter(self._watched_files))]

    def watched_file(self, host: tuple[int, int]) -> tuple[int, int]:
        return self._watched_files.get(host, (0, 0))

    def is_path_only(self, link: bytes) -> bool:
        """Does a descriptor of this name stand for an O_PATH one?"""
        number = self.placeholder_number(link)
        return number in self.path_only or number in self.stand_ins

    def stand_in(self, node: Node, o_path_fd: int, flags: int) -> int:
        """An O_PATH descriptor that stands for `node`: of an empty file, whose number is the node's. husk keeps
        `o_path_fd`, that of the file itself (-1: there is none): it still knows the file when it is renamed or removed.
        """
        self._placeholders += 1
        name = b"%d" % self._placeholders
        try:
            os.close(os.open(name, NEW_FILE, 0o600, dir_fd=self.placeholders_fd))
            fd = self._o_path(name, flags)
        except OSError:
            if o_path_fd >= 0:
                os.close(o_path_fd)
            raise
        self.stand_ins[self._placeholders] = node
        # The host does not tell when the guest closes one. The least recently used lose husk's descriptor first, then
        # everything.
        if o_path_fd >= 0:
            self.o_path_fds[self._placeholders] = o_path_fd
            if len(self.o_path_fds) > O_PATH_FDS_MAX:
                os.close(self.o_path_fds.pop(next(iter(self.o_path_fds))))
        if len(self.stand_ins) > STAND_INS_MAX:
            oldest = next(iter(self.stand_ins))
            del self.stand_ins[oldest]
            os.unlink(b"%d" % oldest, dir_fd=self.placeholders_fd)
        return fd

    def ruleset_fd(self, ruleset: object) -> int:
        """A descriptor that stands for a Landlock ruleset; nothing can be read or written through it."""
        self._placeholders += 1
        name = b"%d" % self._placeholders
        os.close(os.open(name, NEW_FILE, 0o600, dir_fd=self.placeholders_fd))
        fd = os.open(name, os.O_ACCMODE | os.O_CLOEXEC, dir_fd=self.placeholders_fd)
        self.rulesets[self._placeholders] = ruleset
        if len(self.rulesets) > RULESETS_MAX:
            oldest = next(iter(self.rulesets))
            del self.rulesets[oldest]
            os.unlink(b"%d" % oldest, dir_fd=self.placeholders_fd)
        return fd

    def ruleset_of(self, link: bytes) -> object | None:
        number = self.placeholder_number(link)
        return None if number is None else self.rulesets.get(number)

    def pin(self, key: tuple[int, int], make: Callable[[], int | None]) -> None:
        """Keep the file of this identity, which `make` opens, for as long as the box lives. ENOMEM for too many."""
        if key in self.pins:
            return
        fd = make()
        if fd is None:
            return
        if len(self.pins) >= PINS_MAX or is_in_reserve(fd):
            os.close(fd)
            raise OSError(errno.ENOMEM, "too many files have rules")
        self.pins[key] = fd

    def set_search(self, directory: Dir, searchable: bool) -> None:
        """A native fchdir into the placeholder succeeds exactly where the virtual directory may be searched."""
        if directory.placeholder is not None:
            self._set_search(b"%d" % directory.placeholder, searchable)
        path = self.mirror_path(directory)
        if path:
            self._set_mirror_search(path, searchable)

    def _set_search(self, name: bytes, searchable: bool) -> None:
        os.chmod(name, 0o555 if searchable else 0o444, dir_fd=self.placeholders_fd)

    # -- mirrors of watched directories ------------------------------------------------------------------------
    def new_mirror(self, directory: Dir) -> bytes:
        """Make an empty one, of the placeholder where there is one: descriptors of that are the watched directory's."""
        try:
            os.mkdir(MIRROR, 0o700, dir_fd=self.fd)
        except FileExistsError:
            pass
        number = directory.placeholder
        if number is not None:
            path = MIRROR + b"/%d" % number
            self.move_placeholder(directory, path)
            self.dirs[number] = directory
            return path
        self._placeholders += 1
        self.dirs[self._placeholders] = directory
        path = MIRROR + b"/%d" % self._placeholders
        os.mkdir(path, 0o755, dir_fd=self.fd)
        return path

    def move_placeholder(self, directory: Dir, path: bytes) -> None:
        """The placeholder becomes a mirror, with the descriptors that guests hold of it. If need be, the directory gets
        a new one. Nothing is taught about it: the caller has told the name cache."""
        number = directory.placeholder
        assert number is not None
        name = b"%d" % number
        os.chmod(name, os.stat(name, dir_fd=self.placeholders_fd).st_mode & 0o777 | 0o200, dir_fd=self.placeholders_fd)
        os.rename(b"places/" + name, path, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        del self.dirs[number]
        directory.placeholder = None

    def mirror_path(self, directory: Dir) -> bytes:
        """Where the mirror of `directory` lies beneath `fd`: in that of its parent, if it has an entry there. Empty
        where it has none."""
        names: list[bytes] = []
        while (above := directory.parent) is not None and above.mirror is not None and not directory.removed:
            if directory.name not in above.mirror.names:
                break
            names.append(directory.name)
            directory = above
        if directory.mirror is None or directory.removed:
            return b""
        names.append(directory.mirror.top)
        names.reverse()
        return b"/".join(names)

    def mirror_fd(self, path: bytes, flags: int, *, searchable: bool) -> int:
        self._set_mirror_search(path, searchable)
        return os.open(path, flags & GUEST_SEES | os.O_CLOEXEC, dir_fd=self.fd)

    def _set_mirror_search(self, path: bytes, searchable: bool) -> None:
        mode = 0o755 if searchable else 0o644
        # A watcher must not see a change that changes nothing.
        if os.stat(path, dir_fd=self.fd, follow_symlinks=False).st_mode & 0o7777 != mode:
            os.chmod(path, mode, dir_fd=self.fd)

    def mirror_node(self, link: bytes) -> Node | None:
        """The node behind a descriptor of a mirror, or of a file in one."""
        prefix = self.path + b"/mirror/"
        number, *names = link[len(prefix) :].split(b"/")
        here: Node | None = self.dirs.get(int(number)) if link.startswith(prefix) and number.isdigit() else None
        for name in names:
            here = None if here is None else here.mirrored_child(name)
        return here or self._removed_mirrors.get(link[len(self.path) + 1 :].removesuffix(b" (deleted)"))

    def mirror_removed(self, path: bytes, directory: Dir) -> None:
        """The mirror of `directory` is about to go; descriptors of it may stay."""
        self._removed_mirrors.pop(path, None)
        self._removed_mirrors[path] = directory
        if len(self._removed_mirrors) > STAND_INS_MAX:
            del self._removed_mirrors[next(iter(self._removed_mirrors))]

    # -- from links --------------------------------------------------------------------------------------------
    def placeholder_number(self, link: bytes) -> int | None:
        """The number of the placeholder that a link of /proc shows."""
        return self._number(link, b"/places/")

    def dir_of(self, link: bytes) -> Dir | None:
        """The directory whose placeholder `/proc/PID/fd/N` or `/proc/PID/cwd` shows."""
        number = self._number(link, b"/places/")
        return None if number is None else self.dirs.get(number)

    def named_by(self, link: bytes) -> tuple[Node, int] | None:
        """The node an O_PATH descriptor names, and husk's own descriptor of it (or -1)."""
        number = self._number(link, b"/places/")
        if number is None or number not in self.stand_ins:
            return None
        node = self.stand_ins[number] = self.stand_ins.pop(number)
        return node, self.o_path_fds.get(number, -1)

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
