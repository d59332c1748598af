"""vfs: laying the names of a manifest over a layered tree, as if the guest had just made them.

A kept box's changes come back this way, and so does a layer that was committed on top of the host's own programs. Only
directories that are looked into are read: others wait as a `PendingDir`, whose table fills itself when it is first
asked for. docs/formats/box.md has the attributes beyond those of the guest.
"""

from __future__ import annotations

import os
import stat as st
import struct

from husk.native._core import stat_beneath
from husk.vfs.host.host_file import open_lower
from husk.vfs.layer.inodes import WHITEOUT, Base, Inode, LayerDir
from husk.vfs.layer.lazy_dirs import wait, waiting_in
from husk.vfs.layer.lower import Lower, guest_attributes
from husk.vfs.node import ACLS, ROOT_CONTEXT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from husk.store import Entry, Manifest
    from husk.vfs.host.host_file import Key
    from husk.vfs.layer.layered_tree import LayeredTree
    from husk.vfs.node import Credentials, Node

    Content = Callable[[Entry], tuple[Lower, bytes]]

# husk's own attributes. A guest sees and sets `user.*` and ACLs only, so none of these can be the guest's.
NODE = b"husk.node"  # what a manifest has no field for
FROM = b"husk.from"  # the lower file or directory this one still shows
JUDGED = b"husk.judged"  # mode and owner of that one when the metadata here were made
TWIN = b"husk.twin"  # the hard-linked lower file that this file replaced
ONLY = b"husk.only"  # the names of the lower directory that show, where not all do
FIRST = b"husk.first"  # of the root: directories that must not wait
HAS_LINKS = b"husk.links"  # of the root: some file has several names
JUDGED_FORM = struct.Struct("<III")  # mode, uid, gid on the host
NODE_FORM = struct.Struct("<qqqQIi")  # atime, ctime, btime, inode number, links, sub-directories


class FrozenFiles(Lower):
    """Contents of earlier runs, by name `<layer>/files/<number>` beneath the directory of all layers. Immutable."""

    __slots__ = ("_inodes", "shown")

    exclusive = True

    def __init__(self, path: bytes, inodes: dict[tuple[int, int], Inode]) -> None:
        path = os.path.realpath(path)
        super().__init__(os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC), path, None, None)
        self._inodes = inodes  # the tree's
        self.shown: dict[bytes, Inode] = {}

    def open(self, rel: bytes, flags: int, kind: int, key: Key, creds: Credentials) -> int:
        """Nothing in a layer changes, so the file is the one that was judged; `trace` learns its identity."""
        found = self.stat(rel)
        return open_lower(self.fd, rel, flags, kind, (found.dev, found.ino))

    def trace(self, path: bytes, dev: int, ino: int) -> tuple[bytes, tuple[int, int]] | None:
        # All trees of a box have files here; a descriptor belongs to the tree that shows the file. Its identity is
        # learnt only now: asking the host for each file would be most of the cost of an overlay.
        found = super().trace(path, dev, ino)
        inode = self.shown.get(found[0]) if found is not None else None
        if inode is None:
            return None
        self._inodes.setdefault((dev, ino), inode)
        return found


def judged(lower: Lower, rel: bytes, key: Key = None) -> bytes:
    """What must be the same when metadata of the box's own are laid over `rel` again: by then the host may have another
    file there, which the guest may not even read. Empty, which never matches, if that is so now: `rel` is not `key`."""
    info = lower.stat(rel)
    if key is not None and (info.dev, info.ino) != key:
        return b""
    return JUDGED_FORM.pack(info.mode, info.uid, info.gid)


def untouched(directory: LayerDir) -> tuple[Overlay, Entry] | None:
    """The overlay and entry that describe a directory which was not looked into. None where it must be looked into:
    several manifests meet there, or it has hard-linked files, which may have changed through their other names."""
    waiting = waiting_in(directory)
    if len(waiting) != 1 or waiting[0][0].plain:
        return None
    overlay, number = waiting[0]
    entry = overlay.manifest.entry(number)
    if overlay.has_links and any(one.nlink > 1 and not one.is_directory for one in overlay.below(entry)):
        return None
    return overlay, entry


class Overlay:
    """One manifest over one tree.

    `content` says where a file's bytes are. `uids` and `gids` map owners in the manifest to owners now. `plain`: the
    manifest is a layer, without attributes of husk's. `as_start`: what is laid over belongs to the starting point, and
    is no change of the guest's.
    """

    def __init__(
        self,
        tree: LayeredTree,
        manifest: Manifest,
        content: Content,
        *,
        uids: dict[int, int] | None = None,
        gids: dict[int, int] | None = None,
        plain: bool = False,
        as_start: bool = False,
    ) -> None:
        self.tree, self.manifest, self.content = tree, manifest, content
        self.uids, self.gids = uids or {}, gids or {}
        self.plain, self.as_start = plain, as_start
        self._lowers = {lower.label: lower for lower in tree.lowers}
        self.has_links = HAS_LINKS in self._attributes(manifest.entry(0))
        self._linked: dict[int, Inode] = {}  # inode of the manifest -> the tree's, for those with several names

    def lay(self) -> None:
        root = self.manifest.entry(0)
        attributes = self._attributes(root)
        self._describe(self.tree.root, root, attributes)
        if self.as_start and self.tree.root.lower is None:
            self.tree.sealed_root = self.tree.stat(ROOT_CONTEXT, self.tree.root)
        if self.plain:
            self.merge(self.tree.root, 0, in_place=True)
        else:
            self._wait(self.tree.root, root)
        self.tree.state.count(len(self.manifest) - 1)
        for path in attributes.get(FIRST, b"").split(b"\0")[:-1]:
            self._load(path)

    def _load(self, path: bytes) -> None:
        here: Node = self.tree.root
        for name in path.split(b"/") if path else ():
            if not isinstance(here, LayerDir) or name not in here.names:
                return
            here = here.names[name]
        if isinstance(here, LayerDir):
            _ = here.names

    def _wait(self, directory: LayerDir, entry: Entry) -> None:
        if entry.child_count:
            wait(directory, self, entry.number)

    def _attributes(self, entry: Entry) -> dict[bytes, bytes]:
        """husk's own attributes count only where husk wrote them: a layer may come from an untrusted source, and such
        an attribute could show what the host keeps from guests."""
        found = entry.xattrs
        if not self.plain:
            return found
        return {name: value for name, value in found.items() if name.startswith(b"user.") or name in ACLS}

    def _of_guest(self, attributes: dict[bytes, bytes]) -> dict[bytes, bytes] | None:
        return guest_attributes(attributes, self.uids, self.gids) or None

    def below(self, entry: Entry) -> Iterator[Entry]:
        """All in it, a directory before what is in it."""
        waiting = [entry]
        while waiting:
            for child in self.manifest.children(waiting.pop()):
                yield child
                if child.is_directory:
                    waiting.append(child)

    def merge(self, directory: LayerDir, number: int, *, in_place: bool = False) -> None:
        """`in_place`: the directory was there before, and its count of directories does not know of these."""
        for child in self.manifest.children(self.manifest.entry(number)):
            name = child.name
            if child.is_whiteout:
                self._hide(directory, name)
            elif child.is_directory:
                self._directory(directory, name, child, in_place=in_place)
            else:
                self._file(directory, name, child)
            if self.as_start:
                self._accept(directory, name)

    def _accept(self, directory: LayerDir, name: bytes) -> None:
        base = directory.base = directory.base or {}
        node = directory.names.get(name)
        if node is None:
            base.pop(name, None)
        elif node is WHITEOUT:
            base[name] = Base(WHITEOUT, None)
        else:
            base[name] = Base(node, self.tree.stat(ROOT_CONTEXT, node))

    def _hide(self, directory: LayerDir, name: bytes) -> None:
        there = directory.names.get(name)
        if isinstance(there, LayerDir) and there.mounted is not None:
            return  # what the caller mounts stays, although the box removed the name in an earlier run
        directory.names.pop(name, None)
        if directory.shows_lower(name):
            if self.plain and there is None and _is_lower_dir(directory, name):
                directory.subdirs -= 1
            directory.names[name] = WHITEOUT
        if self.plain and isinstance(there, LayerDir):
            directory.subdirs -= 1

    def _directory(self, directory: LayerDir, name: bytes, entry: Entry, *, in_place: bool) -> None:
        attributes = self._attributes(entry)
        there = directory.names.get(name)
        if there is None and directory.shows_lower(name) and not entry.is_opaque and FROM not in attributes:
            try:
                there = self.tree.lookup(None, directory, name)
            except OSError:
                there = None
        kept = isinstance(there, LayerDir) and (there.mounted is not None or not entry.is_opaque)
        if isinstance(there, LayerDir) and kept and FROM not in attributes:
            node = there
        else:
            node = LayerDir(self.tree, directory, name, self._number(attributes))
            if FROM in attributes:
                self._redirect(node, attributes)
            self._set_metadata(node, entry, attributes)
            directory.names[name] = node
            if self.plain:
                directory.subdirs += in_place and not isinstance(there, LayerDir)
                node.subdirs = sum(1 for child in self.manifest.children(entry) if child.is_directory)
        if ONLY in attributes and node.only is None:
            node.only = frozenset(attributes[ONLY].split(b"\0")[:-1])
        self._describe(node, entry, attributes)
        if self.plain and node is there:
            self.merge(node, entry.number, in_place=True)  # how many directories are in it must be known
        else:
            self._wait(node, entry)

    def _redirect(self, node: LayerDir, attributes: dict[bytes, bytes]) -> None:
        """Show the lower directory. If the host has removed it, only the box's own names show."""
        lower, rel = self._lower(attributes[FROM])
        try:
            if lower is not None and st.S_ISDIR(lower.stat(rel).mode) and _as_judged(attributes, lower, rel):
                node.lower, node.rel = lower, rel
                lower.moved[rel] = node
                return
        except OSError:
            pass
        self.tree.lost.append(rel)

    def _lower(self, whence: bytes) -> tuple[Lower | None, bytes]:
        path, _, rel = whence.partition(b"\0")
        return self._lowers.get(path), rel

    def _number(self, attributes: dict[bytes, bytes]) -> int:
        return NODE_FORM.unpack(attributes[NODE])[3] if NODE in attributes else self.tree.state.new_number()

    def _describe(self, node: LayerDir, entry: Entry, attributes: dict[bytes, bytes]) -> None:
        """The metadata of a directory that exists. One that is in the manifest only for its content has none."""
        if NODE in attributes or (self.plain and entry.path):
            lower = None if self.plain else node.lower
            if lower is None or _as_judged(attributes, lower, node.rel):
                self.tree.copy_up.directory(node)
                self._set_metadata(node, entry, attributes)
            elif NODE in attributes:
                # What the box has in it is still there, and counts, now and in what is kept next.
                node.subdirs = NODE_FORM.unpack(attributes[NODE])[5]
                if node.subdirs:
                    self.tree.copy_up.directory(node)

    def _set_metadata(self, node: LayerDir, entry: Entry, attributes: dict[bytes, bytes]) -> None:
        uid, gid = self.uids.get(entry.uid, entry.uid), self.gids.get(entry.gid, entry.gid)
        node.describe(entry.mode, uid, gid, entry.mtime_ns)
        node.xattrs = self._of_guest(attributes)
        if NODE in attributes:
            node.atime, node.ctime, node.btime, _, _, node.subdirs = NODE_FORM.unpack(attributes[NODE])

    def _file(self, directory: LayerDir, name: bytes, entry: Entry) -> None:
        inode = self._linked.get(entry.inode) if entry.nlink > 1 else None
        if inode is None:
            try:
                inode = self._inode(entry)
            except OSError:
                self.tree.lost.append(entry.path)
                # It showed a host file that the host has removed or replaced.
                if not self._is_in_place(directory, name, entry):
                    self._hide(directory, name)
                return
            if entry.nlink > 1:
                self._linked[entry.inode] = inode
        directory.names[name] = inode
        inode.add_name(directory, name)

    def _is_in_place(self, directory: LayerDir, name: bytes, entry: Entry) -> bool:
        """Is the lower file the one that shows under this name by itself?"""
        whence = self._lower(self._attributes(entry).get(FROM, b""))
        return directory.shows_lower(name) and whence == (directory.lower, directory.below(name))

    def _inode(self, entry: Entry) -> Inode:
        tree, attributes = self.tree, self._attributes(entry)
        uid, gid = self.uids.get(entry.uid, entry.uid), self.gids.get(entry.gid, entry.gid)
        inode = Inode(tree, self._number(attributes), entry.mode, uid, gid, entry.mtime_ns)
        inode.target, inode.nlink = entry.target, entry.nlink
        inode.xattrs = self._of_guest(attributes)
        if NODE in attributes:
            inode.atime, inode.ctime, inode.btime, _, inode.nlink, _ = NODE_FORM.unpack(attributes[NODE])
        if entry.is_file:
            self._find(inode, entry, attributes)
        elif not entry.is_link:
            # Only guests of one run meet at a FIFO or socket: it is made anew for each.
            inode.number = tree.state.new_number()
            name, files = b"%d" % inode.number, tree.state.files_fd
            os.mknod(name, st.S_IFMT(entry.mode) | 0o600, dir_fd=files)
            os.utime(name, ns=(inode.atime, inode.mtime), dir_fd=files)  # stat of a FIFO shows the host's times
            inode.host_ctime = stat_beneath(files, name).ctime
            tree.state.keep(inode.number, inode)
        if TWIN in attributes:
            self._replace_twins(inode, attributes[TWIN])
        return inode

    def _find(self, inode: Inode, entry: Entry, attributes: dict[bytes, bytes]) -> None:
        if FROM in attributes:
            lower, rel = self._lower(attributes[FROM])
            if lower is None:
                raise FileNotFoundError
        else:
            lower, rel = self.content(entry)
        if isinstance(lower, FrozenFiles):
            inode.source = lower, rel
            lower.shown[rel] = inode
            return
        info = lower.stat(rel)
        if not st.S_ISREG(info.mode) or (FROM in attributes and not _as_judged(attributes, lower, rel)):
            raise FileNotFoundError
        self.tree.copy_up.adopt(inode, lower, rel, info)

    def _replace_twins(self, inode: Inode, whence: bytes) -> None:
        lower, rel = self._lower(whence)
        try:
            info = lower.stat(rel) if lower is not None else None
        except OSError:
            return
        if info is not None and lower is not None and info.nlink > 1:
            self.tree.copy_up.replace_hard_linked(inode, lower, rel, info)


def _as_judged(attributes: dict[bytes, bytes], lower: Lower, rel: bytes) -> bool:
    """Images never change."""
    return not lower.is_host or attributes.get(JUDGED) == judged(lower, rel)


def _is_lower_dir(directory: LayerDir, name: bytes) -> bool:
    assert directory.lower is not None
    try:
        return st.S_ISDIR(directory.lower.stat(directory.below(name)).mode)
    except OSError:
        return False
