"""vfs: inotify_add_watch — which host file stands behind a node, so that the host's own events are the guest's.

See docs/design/005-inotify.md. A host tree's files are watched as they are. Of a layered tree, the directory of what is
watched becomes real first (`real`). What husk makes up (proc, dev, sys) gets a file or directory to which nothing ever
happens, as in Linux's own.
"""

from __future__ import annotations

import errno
import os
import stat as st

from husk.native._core import open_beneath
from husk.native._core import watch as watch_file
from husk.vfs.host.host_tree import HostDir, HostNode, HostRead
from husk.vfs.layer.inodes import Inode, LayerDir, LowerNode, Orphan, in_image, pinned
from husk.vfs.layer.layered_tree import LayeredTree
from husk.vfs.layer.watch_mirror import drop_second_name, hold, real_of, stand_in
from husk.vfs.node import Dir, error
from husk.vfs.permissions import READ, require

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.node import Context, Node
    from husk.vfs.pinned import Pinned
    from husk.vfs.vfs import Vfs

IN_ONLYDIR, IN_DONT_FOLLOW = 0x01000000, 0x02000000
READS = 0x01 | 0x10 | 0x20  # IN_ACCESS, IN_CLOSE_NOWRITE, IN_OPEN


def watch(vfs: Vfs, ctx: Context, start: Dir, path: bytes, mask: int, instance: int) -> int:
    node = vfs.walk(ctx, start, path, follow=not mask & IN_DONT_FOLLOW)
    if mask & IN_ONLYDIR and node.kind != st.S_IFDIR:
        raise error(errno.ENOTDIR)
    require(ctx.creds, node.tree.stat(ctx, node), READ)
    file = _file_behind(vfs, ctx, node, mask)
    try:
        return watch_file(instance, file, mask)
    finally:
        os.close(file)


def _file_behind(vfs: Vfs, ctx: Context, node: Node, mask: int) -> int:
    """An O_PATH descriptor."""
    tree = node.tree
    if isinstance(node, Orphan):
        source = in_image(node)
        return (
            _held(pinned(node))
            if source is None
            else source[0].open(source[1], os.O_PATH, node.kind, node.key, ctx.creds)
        )
    if isinstance(tree, HostRead):
        return _host_file(tree, node)
    if isinstance(tree, LayeredTree):
        if isinstance(node, LayerDir):
            return _directory(vfs, tree, ctx, node, mask)
        return _file(tree, node)
    if isinstance(node, Dir):
        return _placeholder(vfs, ctx, node)
    info = tree.stat(ctx, node)
    image = vfs.root.tree
    assert isinstance(image, LayeredTree)
    quiet = stand_in(image, -(info.dev << 64 | info.ino))  # a number no inode of the image has
    return open_beneath(image.state.fd, quiet, os.O_PATH | os.O_NOFOLLOW)


def _host_file(tree: HostRead, node: Node) -> int:
    assert isinstance(node, HostDir | HostNode)
    if isinstance(node, HostDir) and node.removed:
        raise error(errno.ENOENT)
    file = open_beneath(tree.fd, node.rel(), os.O_PATH | os.O_NOFOLLOW)
    found = os.fstat(file)
    if (found.st_dev, found.st_ino) != node.key:
        os.close(file)
        raise error(errno.ENOENT)
    return file


def _directory(vfs: Vfs, tree: LayeredTree, ctx: Context, directory: LayerDir, mask: int) -> int:
    if not directory.removed:
        if isinstance(directory.parent, LayerDir):
            hold(tree, directory.parent, directory.name, directory)
        real = real_of(tree, directory)
        if not real.full:
            real.fill(tree)
        real.reads |= bool(mask & READS)
        return open_beneath(tree.state.fd, tree.state.real_path(directory), os.O_PATH | os.O_DIRECTORY)
    return _placeholder(vfs, ctx, directory)


def _placeholder(vfs: Vfs, ctx: Context, directory: Dir) -> int:
    """Nothing happens there. Were it removed, the watcher would hear of it: so it stays."""
    fd = vfs.place_fd(ctx, directory, os.O_PATH | os.O_DIRECTORY)
    if directory.place is not None:
        vfs.state.watched.add(directory.place)
    return fd


def _file(tree: LayeredTree, node: Node) -> int:
    """Its content becomes the box's own: two files cannot take turns behind one watch."""
    assert isinstance(node, Inode | LowerNode)
    inode = tree.owned(node)
    if inode.nlink == 0 and inode.via:
        return _held(tree.held(inode))
    if inode.source is not None:
        source = inode.source
        tree.own_content(inode, empty=False)
        inode.origin = source
    names = inode.all_names()
    if not names:
        raise error(errno.ENOENT)
    entered = [name for name in names if name[0].real is not None and name[1] in name[0].real.names]
    directory, name = (entered or names)[0]
    hold(tree, directory, name, inode)
    if inode.kind == st.S_IFLNK:
        drop_second_name(tree, inode)
    assert directory.real is not None
    return open_beneath(tree.state.fd, directory.real.entry(name), os.O_PATH | os.O_NOFOLLOW)


def _held(held: Pinned) -> int:
    with held as path:
        return os.open(path, os.O_PATH | os.O_CLOEXEC)
