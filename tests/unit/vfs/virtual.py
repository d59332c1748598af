"""The vfs's side of the differential tests."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable
from typing import Any

from husk.vfs.layer.inodes import Inode
from husk.vfs.node import Context, Credentials, Dir, Tree
from husk.vfs.state import State
from husk.vfs.vfs import NOW, Opened, Vfs
from tests.unit.vfs.worlds import FRIENDS, GUEST, World, describe


class Umasked(Context):
    """A context whose umask a script can set."""

    __slots__ = ("mask",)

    def __init__(self, creds: Credentials) -> None:
        super().__init__(creds)
        self.mask = 0o022

    def umask(self) -> int:
        return self.mask


class FakeHolders:
    """The processes of a box: a test says what they run and hold."""

    def __init__(self) -> None:
        self.busy = False
        self.held: Callable[[], Iterable[bytes]] | None = None
        self.files: Callable[[], Iterable[tuple[bytes, int, int]]] | None = None

    def runs(self, identity: tuple[int, int]) -> bool:
        return self.busy

    def held_links(self) -> Iterable[bytes]:
        assert self.held is not None, "the test does not expect placeholders to be collected"
        return self.held()

    def held_files(self) -> Iterable[tuple[bytes, int, int]]:
        assert self.files is not None, "the test does not expect copies without a name to be collected"
        return self.files()


class Virtual(World):
    """The vfs, over whatever tree it is given."""

    def __init__(self, state: State, root: Tree) -> None:
        super().__init__()
        creds = Credentials(GUEST, GUEST, frozenset((FRIENDS,)))
        self.holders = FakeHolders()
        self.vfs = Vfs(state, root, creds, self.holders)
        self.ctx = Umasked(creds)
        self.here: Dir = self.vfs.root
        self.only_names: set[int] = set()  # slots opened with O_PATH

    def close(self) -> None:
        for opened in self.slots.values():
            os.close(opened.host_fd)
        self.slots.clear()

    def node(self, path: bytes, follow: bool = True) -> Any:
        return self.vfs.walk(self.ctx, self.here, path, follow=follow)

    def held(self, slot: int) -> Any:
        """As the kernel does it: from the link the host shows for the descriptor."""
        link = os.readlink(b"/proc/self/fd/%d" % self.slots[slot].host_fd)
        found = os.fstat(self.slots[slot].host_fd)
        via = b"/proc/self/fd/%d" % self.slots[slot].host_fd
        node = self.vfs.node_of_link(link, found.st_dev, found.st_ino, via)
        assert node is not None, link
        return node

    def must_be_open(self, slot: int) -> None:
        """The kernel checks what O_PATH descriptors cannot do, not the vfs."""
        if slot in self.only_names:
            raise OSError(errno.EBADF, "only a name")

    def do_mkdir(self, path: bytes, mode: int = 0o777) -> None:
        self.vfs.mkdir(self.ctx, self.here, path, mode)

    def do_rmdir(self, path: bytes) -> None:
        self.vfs.rmdir(self.ctx, self.here, path)

    def do_unlink(self, path: bytes) -> None:
        self.vfs.unlink(self.ctx, self.here, path)

    def do_symlink(self, target: bytes, path: bytes) -> None:
        self.vfs.symlink(self.ctx, target, self.here, path)

    def do_link(self, old: bytes, new: bytes, follow: bool = False) -> None:
        self.vfs.link(self.ctx, self.here, old, self.here, new, follow)

    def do_rename(self, old: bytes, new: bytes, flags: int = 0) -> None:
        self.vfs.rename(self.ctx, self.here, old, self.here, new, flags)

    def do_mknod(self, path: bytes, mode: int) -> None:
        self.vfs.mknod(self.ctx, self.here, path, mode)

    def do_readlink(self, path: bytes) -> str:
        return repr(self.vfs.readlink(self.ctx, self.here, path))

    def do_stat(self, path: bytes, follow: bool = True) -> str:
        found = self.vfs.stat(self.ctx, self.here, path, follow)
        return describe(found.mode, found.nlink, found.uid, found.gid, found.size)

    def do_same(self, one: bytes, other: bytes) -> str:
        first, second = self.vfs.stat(self.ctx, self.here, one, False), self.vfs.stat(self.ctx, self.here, other, False)
        return str((first.dev, first.ino) == (second.dev, second.ino))

    def _entries(self, path: bytes) -> list[Any]:
        opened = self.vfs.open(self.ctx, self.here, path, os.O_RDONLY | os.O_DIRECTORY, 0)
        os.close(opened.host_fd)
        assert isinstance(opened.node, Dir)
        if opened.node.removed:
            return []  # getdents says ENOENT, which the C library takes for the end
        return list(self.vfs.entries(self.ctx, opened.node, 0))[2:]

    def do_list(self, path: bytes) -> str:
        return repr(sorted(entry.name for entry in self._entries(path)))

    def do_kinds(self, path: bytes) -> str:
        found = [(e.name, e.kind == stat.S_IFDIR, e.kind == stat.S_IFLNK) for e in self._entries(path)]
        return repr(sorted(found))

    def do_access(self, path: bytes, mode: int) -> None:
        self.vfs.access(self.ctx, self.here, path, mode)

    def do_chmod(self, path: bytes, mode: int) -> None:
        self.vfs.chmod(self.ctx, self.node(path), mode)

    def do_chown(self, path: bytes, uid: int, gid: int, follow: bool = True) -> None:
        self.vfs.chown(self.ctx, self.node(path, follow), uid, gid)

    def do_utime(self, path: bytes, atime: int, mtime: int) -> None:
        self.vfs.utimens(self.ctx, self.node(path), atime, mtime)

    def do_touch(self, path: bytes) -> None:
        self.vfs.utimens(self.ctx, self.node(path), NOW, NOW)

    def stamps(self, path: bytes) -> tuple[int, int]:
        found = self.vfs.stat(self.ctx, self.here, path, False)
        return found.mtime, found.ctime

    def do_times(self, path: bytes) -> str:
        found = self.vfs.stat(self.ctx, self.here, path, False)
        return f"{found.atime} {found.mtime}"

    def do_truncate(self, path: bytes, size: int) -> None:
        self.vfs.truncate(self.ctx, self.here, path, size)

    def do_chdir(self, path: bytes) -> None:
        node = self.node(path)
        if not isinstance(node, Dir):
            raise OSError(errno.ENOTDIR, "not a directory")
        self.vfs.access_node(self.ctx, node, os.X_OK)
        self.here = node

    def do_getcwd(self) -> str:
        return repr(self.vfs.path_of(self.here))

    def do_umask(self, mask: int) -> None:
        self.ctx.mask = mask

    def do_open(self, slot: int, path: bytes, flags: int, mode: int = 0o666) -> None:
        opened = self.vfs.open(self.ctx, self.here, path, flags, mode)
        assert isinstance(opened, Opened)
        self._fill(slot, opened)
        self.only_names.discard(slot)
        if flags & os.O_PATH:
            self.only_names.add(slot)

    def _fill(self, slot: int, opened: Opened) -> None:
        if slot in self.slots:
            os.close(self.slots[slot].host_fd)
        self.slots[slot] = opened

    def do_open2(self, slot: int, start: bytes, path: bytes, flags: int, resolve: int) -> None:
        at = self.node(start)
        if not isinstance(at, Dir):
            raise OSError(errno.ENOTDIR, "not a directory")
        self._fill(slot, self.vfs.open(self.ctx, at, path, flags, 0o666, resolve))
        self.only_names.discard(slot)

    def do_close(self, slot: int) -> None:
        os.close(self.slots.pop(slot).host_fd)

    def do_read(self, slot: int) -> str:
        self.must_be_open(slot)
        data = os.pread(self.slots[slot].host_fd, 1000, 0)
        node = self.held(slot)
        if self.is_stale(slot, node):
            if self.is_lost(node):
                return "stale"
            fresh = node.tree.open(self.ctx, node, os.O_RDONLY)
            data = os.pread(fresh, 1000, 0)
            os.close(fresh)
        return repr(data)

    def is_stale(self, slot: int, node: Any) -> bool:
        """As with overlayfs, a descriptor from before the first write still shows the lower file."""
        link = os.readlink(b"/proc/self/fd/%d" % self.slots[slot].host_fd)
        return isinstance(node, Inode) and node.source is None and not link.startswith(self.vfs.state.path)

    def is_lost(self, node: Any) -> bool:
        """A watched copy goes with its last name."""
        return bool(node.nlink == 0 and node.tree.files.mirrored)

    def do_write(self, slot: int, data: bytes) -> str:
        self.must_be_open(slot)
        return str(os.write(self.slots[slot].host_fd, data))

    def do_fstat(self, slot: int) -> str:
        node = self.held(slot)
        if self.is_stale(slot, node) and self.is_lost(node):
            return "stale"
        found = self.vfs.stat_node(self.ctx, node)
        return describe(found.mode, found.nlink, found.uid, found.gid, found.size)

    def do_fchmod(self, slot: int, mode: int) -> None:
        self.must_be_open(slot)
        self.vfs.chmod(self.ctx, self.held(slot), mode)

    def do_futime(self, slot: int, atime: int, mtime: int) -> None:
        self.vfs.utimens(self.ctx, self.held(slot), atime, mtime)

    def do_ftimes(self, slot: int) -> str:
        found = self.vfs.stat_node(self.ctx, self.held(slot))
        return f"{found.atime} {found.mtime}"

    def do_linkfd(self, slot: int, new: bytes) -> None:
        self.vfs.link_node(self.ctx, self.held(slot), self.here, new)

    def do_setxattr(self, path: bytes, name: bytes, value: bytes, flags: int = 0) -> None:
        # What the kernel sees before it looks at the name.
        if flags & ~3:
            raise OSError(errno.EINVAL, "unknown flags")
        if len(value) > 65536:
            raise OSError(errno.E2BIG, "too long a value")
        self.vfs.set_xattr(self.ctx, self.node(path), name, value, flags)

    def do_getxattr(self, path: bytes, name: bytes) -> str:
        return repr(self.vfs.get_xattr(self.ctx, self.node(path), name))

    def do_listxattr(self, path: bytes) -> str:
        return repr(sorted(name.decode() for name in self.vfs.list_xattr(self.ctx, self.node(path))))

    def do_removexattr(self, path: bytes, name: bytes) -> None:
        self.vfs.remove_xattr(self.ctx, self.node(path), name)
