"""vfs: inotify_add_watch — which host file stands behind a node, so that the host's own events are the guest's.

See docs/design/005-inotify.md. A host tree's files are watched as they are. In a layered tree the directory of what is
watched is mirrored first (`watch_mirror`). What husk makes up (proc, dev, sys) gets a file or directory to which
nothing ever happens, as in Linux's own.
"""

from __future__ import annotations

import errno
import os
import stat as st

from husk.native._core import watch as watch_file
from husk.vfs.node import Dir, error
from husk.vfs.permissions import READ, require

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.node import Context, Node
    from husk.vfs.vfs import Vfs

IN_ONLYDIR, IN_DONT_FOLLOW = 0x01000000, 0x02000000


def watch(vfs: Vfs, ctx: Context, start: Dir, path: bytes, mask: int, instance: int) -> int:
    node = vfs.walk(ctx, start, path, follow=not mask & IN_DONT_FOLLOW)
    if mask & IN_ONLYDIR and node.kind != st.S_IFDIR:
        raise error(errno.ENOTDIR)
    node.tree.may_use(node)
    info = node.tree.stat(ctx, node)
    require(ctx.creds, info, READ)
    file = _host_file(vfs, ctx, node, mask)
    try:
        watch = watch_file(instance, file, mask)
        host = os.fstat(file)
        vfs.state.remember_watched((host.st_dev, host.st_ino), (info.dev, info.ino))
        return watch
    except OSError:
        node.tree.watch_failed()
        raise
    finally:
        os.close(file)


def _host_file(vfs: Vfs, ctx: Context, node: Node, mask: int) -> int:
    """An O_PATH descriptor."""
    fd = node.tree.watch_fd(ctx, node, mask)
    if fd is not None:
        return fd
    if isinstance(node, Dir):
        return _placeholder(vfs, ctx, node)
    info = node.tree.stat(ctx, node)
    return vfs.root.tree.quiet_fd(-(info.dev << 64 | info.ino))  # a number no inode of the image has


def _placeholder(vfs: Vfs, ctx: Context, directory: Dir) -> int:
    """Nothing happens there. It must not be removed, because its watcher would hear of it."""
    fd = vfs.placeholder_fd(ctx, directory, os.O_PATH | os.O_DIRECTORY)
    vfs.state.keep_placeholder(directory)
    return fd
