"""kernel: teaching the C core which directories it may answer for, and taking that back in time.

A pure accelerator: without it every call takes the long way and gets the same answer.
"""

from __future__ import annotations

import errno
import os
import stat as st

from husk.kernel.made_files import MadeFiles
from husk.kernel.straight_names import links_on_the_way, straight
from husk.vfs.host_view import MISSING, given_view
from husk.vfs.layer.inodes import LayerDir
from husk.vfs.node import ROOT_CONTEXT, Dir, Stat
from husk.vfs.synth.synth_tree import SynthDir, leads_back, path_of
from husk.vfs.walk import NAME_MAX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.kernel.call import Call
    from husk.kernel.exec.program import Program
    from husk.native._core import ExactFile, Listener, Showing
    from husk.vfs.host_view import HostView
    from husk.vfs.node import Context, Credentials, Node, Tree
    from husk.vfs.vfs import Vfs

DIRECTORIES_MAX = 16384
A_FEW, ENOUGH = 4, 128  # names of one directory that were asked for, before all of its files are taught
NAMES_FOR_ONE = 32  # that many may be taught at once for each that was asked for: teaching is a tenth of an answer
MEMORY_DEVICES = 1  # the major number of null, zero, full, random and urandom
MOUNT_POINT = given_view(Stat(0, 0, st.S_IFDIR, 0, *(0,) * 9))  # nothing is told but that it is a directory
NO_DIRECTORY = 1  # the address of none
NO_FILE = (-1, b"", 0, 0, 0, 0)
USR, DIRECTORIES = b"/usr", "husk-directories"  # the second as in native/loader/directories.h


class NameCache:
    """Knows what was taught, so that nothing is taught twice and forgetting costs nothing where nothing was taught."""

    def __init__(self, listener: Listener, vfs: Vfs, creds: Credentials, host_uid: int, *, cached: bool) -> None:
        self._listener, self._vfs, self._creds, self.cached = listener, vfs, creds, cached
        self._usr: Tree | None = None  # that of /usr, where guests look up names themselves
        self.watched = False
        # (start, key) of directories that were taught, and the placeholder they had then, or 0
        self._settled: dict[tuple[int, bytes], int] = {}
        # The same for directories with names of the box's own, which are taught one by one; and how many were asked for
        # so far.
        self._mixed: dict[tuple[int, bytes], tuple[Dir, int]] = {}
        self._barren: set[tuple[int, bytes]] = set()  # the same for keys and names of which nothing can be taught
        self._keys: dict[int, list[tuple[int, bytes]]] = {}  # of both, by the directory they lead to
        self._taught: set[int] = set()  # owners of what was taught
        self._hidden = False  # has a process hidden its memory?
        self._losses = 0
        self._made = MadeFiles(listener, vfs.state, self._taught)
        self._program_homes: set[int] = set()  # directories of taught programs and interpreters
        places = vfs.state.placeholder_prefix
        listener.cache_identity(creds.uid, creds.gid, host_uid, sorted(creds.groups), places, creds.over_files)
        vfs.subscribe(self.forget)
        image = vfs.root.tree.mapped_image()
        if image is not None:
            listener.cache_image(*image)

    def show_usr(self, root: int) -> None:
        """Guests see the host's /usr in their own root, `root`. What is taught of it they look up themselves, where
        husk-init could make the table for that."""
        try:
            table = os.open(DIRECTORIES, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
        except OSError:
            return
        try:
            usr = self._vfs.walk(self._vfs.context, self._vfs.root, USR)
            lower = usr.lower if isinstance(usr, LayerDir) else None
            if lower is not None and lower.path == USR:
                self._listener.cache_direct(table, lower.fd, USR)
                self._usr = usr.tree
        finally:
            os.close(table)

    @property
    def direct(self) -> bool:
        """Do guests look up names themselves?"""
        return self._usr is not None

    def turn_off(self) -> None:
        """For good. Each answer of the cache is right for one user only."""
        self.cached = False
        self._listener.cache_off()

    def close(self) -> None:
        self._vfs.unsubscribe(self.forget)

    def learn(self, call: Context, start: Dir, name: bytes, links: int = 2, there: Node | None = None) -> None:
        """A name was looked up the long way, and the guest has its answer. Teach what can be taught. `there`: what the
        name led to, if it is a directory."""
        try:
            for number in _numbers(start, name):
                self._learn(call, number, start, name, links, there)
        except OSError:
            pass  # the host failed just now. Nothing is lost: the name will be looked up again

    def learn_place(self, call: Call, start: Dir, name: bytes) -> None:
        """A name came or went the long way. Teach its directory, so that C does it next time, if it is the host's, or
        the box's own alone."""
        cut = name.rfind(b"/") + 1
        try:
            with self._vfs.lock:
                if not self.cached or name[cut:] in (b"", b".", b".."):
                    return
                self._notice_losses()
                for number in _numbers(start, name):
                    if (number, name[:cut]) not in self._settled:
                        found = straight(self._vfs, call, start, name[:cut])
                        if found is not None and not self._teach_directory(number, name[:cut], *found):
                            self._teach_own(call, number, name[:cut], found[0])
        except OSError:
            pass  # as in `learn`

    def learn_path(self, directory: Dir, path: bytes) -> None:
        """It is the working directory of a program."""
        if self.cached and directory.placeholder is not None and directory.tree.moves_are_announced:
            with self._vfs.lock:
                if not directory.removed and self._vfs.path_of(directory) == path:
                    self._listener.cache_path(
                        directory.placeholder, path, directory.owner, directory.tree.writes_to_host
                    )

    def learn_new(self, call: Call, start: Dir, name: bytes, directory: Dir) -> None:
        """The guest has just made the directory. What it does next is likely to be in it."""
        key = name.rstrip(b"/") + b"/"
        try:
            with self._vfs.lock:
                if not self.cached or self.watched:
                    return
                self._notice_losses()
                for number in _numbers(start, name):
                    found = straight(self._vfs, call, start, key, directory)
                    if found is not None and not self._teach_directory(number, key, *found):
                        self._teach_own(call, number, key, directory)
        except OSError:
            pass  # as in `learn`

    def _notice_losses(self) -> None:
        if self._losses != (losses := self._listener.cache_losses()):
            self._losses = losses
            self._unsettle()

    def _unsettle(self) -> None:
        self._settled.clear()
        self._mixed.clear()
        self._barren.clear()
        self._keys.clear()

    def _learn(self, call: Context, number: int, start: Dir, name: bytes, links: int, there: Node | None) -> None:
        """Teach the directory it lies in, and itself if it is one. Where the box has changed something in that
        directory, teach only this one name."""
        is_directory = name.endswith((b"/", b"/.", b"/.."))
        name = (name[:-1] if name.endswith(b"/.") else name).removesuffix(b"/")
        cut = name.rfind(b"/") + 1
        if not self.cached or name[cut:] in (b"", b".") or name == b"..":
            return
        if not is_directory and ((number, name[:cut]) in self._barren or (number, name) in self._barren):
            return
        with self._vfs.lock:
            self._notice_losses()
            # Then it does not matter where its name lies: in a directory that the box has changed, or in none (`..`).
            if is_directory and self._teach_itself(call, number, start, name, there):
                return
            if name[cut:] == b"..":
                return
            mixed = self._mixed.get((number, name[:cut]))
            if mixed is not None:
                directory, asked = mixed
                due = asked & (asked - 1) == 0 and A_FEW <= asked <= ENOUGH
                all_taught = due and self._teach_own_files(number, name[:cut], directory, asked * NAMES_FOR_ONE)
                self._mixed[number, name[:cut]] = directory, (ENOUGH if all_taught else asked) + 1
                if not all_taught and self._teach_name(call, number, name, directory, name[cut:]) == st.S_IFLNK:
                    self._teach_target(call, start, name, links)
                return
            if (number, name[:cut]) not in self._settled:
                found = straight(self._vfs, call, start, name[:cut])
                if found is None:
                    self._teach_absent(call, number, start, name[:cut])
                    return
                above = found[0]
                if above.tree.is_synthetic:
                    self._teach_synthetic(call, number, name, above, name[cut:])
                    return
                if not self._teach_directory(number, name[:cut], *found):
                    if above.tree.cacheable_by_name:
                        if len(self._mixed) >= DIRECTORIES_MAX:
                            self._unsettle()
                        self._keys.setdefault(above.owner, []).append((number, name[:cut]))
                        self._mixed[number, name[:cut]] = above, 1
                        if self._teach_name(call, number, name, above, name[cut:]) == st.S_IFLNK:
                            self._teach_target(call, start, name, links)
                    return
            # The directory is taught; what was missing can only be that the name is a directory itself, or a link. To
            # read a link of the host would count as an access, and the guest may not have read it.
            node = there or self._vfs.walk(call, start, name, follow=False)
            if isinstance(node, Dir):
                self._teach_itself(call, number, start, name, node)
            elif node.kind == st.S_IFLNK and node.tree.cacheable_by_name:
                self._teach_target(call, start, name, links)

    def _teach_itself(self, call: Context, number: int, start: Dir, name: bytes, there: Node | None) -> bool | None:
        """Teach the directory that is called so. None: it is none, or not reached straight; False: it was taught
        before, or not all of its names are the host's."""
        key = name + b"/"
        found = straight(self._vfs, call, start, key, there)
        if found is None:
            return None
        place = found[0].placeholder or 0
        if self._settled.get((number, key)) == place:
            return False
        return self._teach_directory(number, key, *found, place=place)

    def _teach_target(self, call: Context, start: Dir, name: bytes, links: int) -> None:
        """Teach where an absolute symbolic link leads: C reads the link itself, and goes on from there."""
        try:
            node = self._vfs.walk(call, start, name, follow=False)
            # husk's own look must not count as an access.
            text = node.tree.readlink(ROOT_CONTEXT, node) if node.kind == st.S_IFLNK else b""
        except OSError:
            return
        if text[:1] == b"/" and links:
            self.learn(call, self._vfs.root, text, links - 1)

    def _teach_absent(self, call: Context, number: int, start: Dir, key: bytes) -> None:
        """The directory itself is missing. Below one that shows only the host's names C can ask the host for the word
        that is; below one that is the box's own alone it is missing until that one changes. What lies behind the first
        missing word, `..` too, nobody looks at."""
        words = key.rstrip(b"/").split(b"/")
        for end in range(len(words) - 1, 0 if key[:1] == b"/" else -1, -1):
            above = b"/".join(words[:end]) + b"/" if end else b""
            found = straight(self._vfs, call, start, above)
            if found is None:
                continue
            directory, asked = found
            if directory.tree.is_synthetic:
                self._note_barren(number, key)
                return
            view = directory.tree.names_view(directory)
            rest = [word for word in words[end:] if word]
            if not rest or len(rest[0]) > NAME_MAX or rest[0] in (b".", b".."):
                return
            if view is None and not directory.tree.may_be_own(directory):
                return
            try:
                directory.tree.lookup(call, directory, rest[0])
            except FileNotFoundError:
                if view is None:
                    self._tell(number, key, directory, MISSING, b"")
                    return
                self._tell(number, key, directory, view, os.path.join(asked or view.rel, rest[0]), absent=True)
            except OSError:
                pass
            return

    def _teach_synthetic(self, call: Context, number: int, name: bytes, directory: Dir, last: bytes) -> None:
        """A name in a tree that husk makes up. Files whose attributes never change can be taught, but not opened; and
        missing names, where none ever comes. All of it holds until something is mounted."""
        if not isinstance(directory, SynthDir):
            self._note_barren(number, name[: len(name) - len(last)])
            return
        try:
            node = directory.tree.lookup(call, directory, last)
        except FileNotFoundError:
            if directory.tree.constant_names:
                self._tell(number, name, directory, MISSING, b"")
                return
        else:
            if node.is_constant:
                self._tell(number, name, directory, given_view(node.tree.stat(ROOT_CONTEXT, node)), b"")
        self._note_barren(number, name)

    def _note_barren(self, number: int, key: bytes) -> None:
        if len(self._barren) >= DIRECTORIES_MAX:
            self._barren.clear()
        self._barren.add((number, key))

    def _teach_directory(self, number: int, key: bytes, directory: Dir, asked: bytes = b"", *, place: int = 0) -> bool:
        """False: not all of its names are the host's. The host is `asked` for that name, if it is not the plain one.
        It is also taught as the placeholder `place`, if that is not 0."""
        view = directory.tree.names_view(directory)
        if view is None:
            return False
        # Where a guest watches C changes nothing, and this look at the directory would be seen.
        plain = not self.watched and directory.tree.plain_changes(directory)
        new = None
        if view.layered and view.manifest is None and not self.watched:
            new = directory.tree.new_owner(self._creds, directory)
        path = os.path.join(self._vfs.path_of(directory), b"") if plain or new is not None else b""
        self._settle(number, key, directory, view, asked or view.rel, path, new)
        if place:
            self._settle(place, b"", directory, view, view.rel, path, new)
        return True

    def _settle(
        self,
        number: int,
        key: bytes,
        directory: Dir,
        view: HostView,
        rel: bytes,
        path: bytes,
        new: tuple[int, int, int] | None,
    ) -> None:
        """`path`: where C may change names there, the directory's; and in a layer, to whom what is `new` belongs."""
        if len(self._settled) >= DIRECTORIES_MAX:
            self._unsettle()
        if (number, key) not in self._settled:
            self._keys.setdefault(directory.owner, []).append((number, key))
        self._settled[number, key] = directory.placeholder or 0
        self._tell(number, key, directory, view, rel + b"/" if rel else b"")
        if path and new is not None:
            local = self._is_removal_local(directory)
            self._made.teach_later(number, key, directory, path, new, removable=local)
        elif path:
            self._listener.cache_changes(number, key, path)

    def _teach_own(self, call: Call, number: int, key: bytes, directory: Dir) -> None:
        if not self.watched:
            path = os.path.join(self._vfs.path_of(directory), b"")
            self._taught.add(directory.owner)
            local = self._is_removal_local(directory)
            self._made.teach(call, number, key, directory, path, removable=local)

    def _is_removal_local(self, directory: Dir) -> bool:
        """As in `forget`: what is removed below /usr may concern programs."""
        return directory.tree is not self._vfs.root.tree or directory.tree.may_be_own(directory)

    def _teach_name(self, call: Context, number: int, name: bytes, directory: Dir, last: bytes) -> int:
        """Teach one name in a directory where the box has changed something. What kind of file it is; 0: none."""
        try:
            node = directory.tree.lookup(call, directory, last)
        except OSError as error:
            if error.errno == errno.ENOENT:
                self._tell(number, name, directory, MISSING, b"")
            return 0
        if isinstance(node, Dir) and node.mounted is not None:
            self._tell(number, name, directory, MOUNT_POINT, b"")
            return node.kind
        view = node.tree.node_view(call, node)
        if view is not None:
            # A directory's own metadata changes with its names, so a change in it takes this back.
            self._tell(number, name, node if isinstance(node, Dir) else directory, view, view.rel)
        elif isinstance(node, Dir) and not node.tree.may_be_own(node):
            self._teach_host_directory(call, number, name, node)
        return node.kind

    def _teach_host_directory(self, call: Context, number: int, name: bytes, node: Dir) -> None:
        """A directory of the host in one that the box has changed: what lies in it, and its name. The key that its name
        makes with a slash says nothing of the name itself, which could be a link."""
        place = node.placeholder or 0
        if self._settled.get((number, name + b"/")) == place:
            return
        self._vfs.access_node(call, node, os.X_OK)
        view = node.tree.names_view(node)
        if view is not None and self._teach_directory(number, name + b"/", node, place=place):
            self._tell(number, name, node, view, view.rel)

    def _teach_own_files(self, number: int, key: bytes, directory: Dir, most: int) -> bool:
        """A program that asked for some names is likely to ask for all: find, rsync, git status. False: there are more
        than `most`, and few of them might be asked for before something changes and all is forgotten."""
        views = directory.tree.own_file_views(directory, most)
        for name, view in views or ():
            self._tell(number, key + name, directory, view, view.rel)
        return views is not None

    def _tell(self, number: int, key: bytes, owner: Dir, view: HostView, rel: bytes, *, absent: bool = False) -> None:
        self._taught.add(owner.owner)
        self._listener.cache_learn(
            number,
            key,
            owner.owner,
            view.root_fd,
            rel,
            view.host_dev,
            view.host_ino,
            view.showing,
            view.layered,
            view is MISSING,
            absent,
            owner.placeholder or 0,
            view.manifest,
        )

    def watch(self) -> None:
        """A guest watches files, and sees one closed with the last copy of its descriptor: husk must keep no copy."""
        if not self.watched:
            self.watched = True
            self._listener.cache_watched()

    def listed(self, directory: Dir, stamp: tuple[int, int, int, int], records: bytes) -> None:
        """A directory that shows only the host's names was read from the beginning; the vfs's lock is held."""
        number = directory.placeholder
        if self.cached and number:
            if not self._settled.get((number, b"")):
                self._teach_directory(number, b"", directory)
            self._listener.cache_listing(number, stamp, records)

    def opened(self, node: Node, fd: int, info: Stat | None, *, made: bool = False) -> None:
        """The guest is about to get `fd`, a descriptor of `node`, and will likely call fstat on it next. Of one that it
        `made`, it may set the times. `info`: what stat said of it, if that is known."""
        if not self.cached or isinstance(node, Dir):
            return
        try:
            host = os.fstat(fd)
            self._note_links(node, host)
            if node.tree.is_synthetic:
                if info is not None:
                    self._opened_snapshot(node, info, host)
                return
            with self._vfs.lock:  # else C may change the file's mode before this is told
                view = node.tree.handle_view(node, host.st_dev, host.st_ino)
                if view is not None and made and not node.tree.writes_to_host:
                    self._listener.cache_made(fd, view.showing)
                elif view is not None:
                    self._listener.cache_handle(host.st_dev, host.st_ino, view.showing)
        except OSError:
            pass  # the file is open, perhaps new: a failure to teach must not fail the call

    def _opened_snapshot(self, node: Node, info: Stat, host: os.stat_result) -> None:
        place = node.tree.name_of(node)
        only_tid = node.tree.lasting_stat(node, info)
        if place is None or only_tid is None or not leads_back(path_of(*place), host.st_dev):
            return
        info.size, info.blocks = host.st_size, host.st_blocks
        with self._vfs.lock:
            if not only_tid or not self._hidden:
                self._listener.cache_handle(host.st_dev, host.st_ino, given_view(info).showing, only_tid)

    def opened_path(self, node: Node, fd: int) -> None:
        """The same for one that was opened with O_PATH."""
        if self._usr is not None:
            self._note_links(node, os.fstat(fd))

    def _note_links(self, node: Node, host: os.stat_result) -> None:
        """By another name guests may open the file below /usr themselves, and it is shown there as another one."""
        several = st.S_ISREG(host.st_mode) and host.st_nlink > 1
        if self._usr is not None and several and node.tree is not self._usr:
            self._listener.cache_links()

    def held_constant(self, host: os.stat_result, found: Stat) -> None:
        """/dev/null is the standard input of many programs, and its stat never changes. Nor does that of the host's own
        files in /proc."""
        lasts = os.major(found.rdev) == MEMORY_DEVICES if st.S_ISCHR(found.mode) else st.S_ISREG(found.mode)
        if self.cached and lasts:
            self._listener.cache_handle(host.st_dev, host.st_ino, given_view(found).showing)

    def held_unknown(self, link: bytes, host: os.stat_result, showing: Showing | None) -> None:
        """A file that husk was started with, as its standard output perhaps, and that no tree shows. What is mounted,
        and the file's name on the host, tell which tree shows it: C compares the name."""
        if self.cached and showing is not None and link[:1] == b"/" and not link.startswith(b"/dev/"):
            self._listener.cache_handle(host.st_dev, host.st_ino, showing, 0, link)

    def hide_memory(self) -> None:
        """A process is about to hide its memory. Then its files in /proc are root's, those that are open, too."""
        with self._vfs.lock:
            self._hidden = True
            self._listener.cache_forget(NO_DIRECTORY, False, False, False)

    def learn_program(
        self, call: Call, name: bytes, program: Program, info: bytes, *, named: bool, unasked: bool
    ) -> None:
        """`name` was resolved to an ELF file, the long way. Program and interpreter must be unchanged host files.
        `named`: the host finds the loader by it. `unasked`: also by the name that guests use without asking."""
        if not self.cached:
            return
        with self._vfs.lock:
            file = _exact(program.node, program.program_fd)
            interpreter: ExactFile | None = NO_FILE
            if program.interpreter is not None:
                interpreter = _exact(program.interpreter, program.interpreter_fd)
            try:
                links = links_on_the_way(self._vfs, call, name)
            except OSError:  # what cannot be walked twice cannot be taught
                return
            if file is not None and interpreter is not None and links is not None:
                for node in (program.node, program.interpreter, *(link.node for link in links)):
                    place = node.tree.name_of(node) if node is not None else None
                    if place is not None:
                        self._program_homes.add(place[0].owner)
                known = [(link.root_fd, link.where, link.text) for link in links]
                self._listener.program_learn(name, file, interpreter, known, info, named, unasked)

    def forget(self, directory: Dir, structural: bool, removed: bool) -> None:
        """Called by the vfs before a change becomes visible. C comes first: an application's signal handler may raise
        an exception at any step, and then what is remembered here may be too much, but not too little."""
        tree = directory.tree
        # With `..` in it a name in the image may lead through a directory that it leaves again, if that is the host's.
        if structural or (removed and tree is self._vfs.root.tree and not tree.may_be_own(directory)):
            # Once one hard-linked file was changed through another name, the host's stat of hard links no longer holds.
            self._listener.cache_forget(0, True, tree.hard_links_changed, True)
            self._unsettle()
            self._taught.clear()
            self._program_homes.clear()
            self._made.forget(None)
            return
        if removed and directory.placeholder is not None:
            self._listener.cache_path(directory.placeholder, b"", 0, False)  # who works there has no path any more
        # C asks the host for every name of a host directory, so there new names and missing ones need no word.
        taught = directory.owner in self._taught and (removed or not tree.writes_to_host)
        self._listener.cache_forget(directory.owner, taught, False, directory.owner in self._program_homes)
        if taught:
            for key in self._keys.get(directory.owner, ()):
                self._settled.pop(key, None)
                self._mixed.pop(key, None)
            self._keys.pop(directory.owner, None)
            self._taught.discard(directory.owner)
            self._made.forget(directory)


def _numbers(start: Dir, name: bytes) -> list[int]:
    """By which numbers C may find the directory that `name` begins in. One that was also opened with O_PATH has two."""
    if name[:1] == b"/":
        return [0]
    return [number for number in (start.placeholder, start.path_only) if number is not None]


def _exact(node: Node | None, fd: int) -> ExactFile | None:
    """Where an unchanged host file is and what it is right now; None for a file of the box's own."""
    host = os.fstat(fd)
    where = node.tree.unchanged_file(node) if node is not None else None
    return None if where is None else (*where, host.st_dev, host.st_ino, host.st_size, host.st_ctime_ns)
