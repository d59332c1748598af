"""Two worlds for one script: the host's own file system as an ordinary user, and the vfs.

A step is a tuple: the name of an operation and its arguments. Each world answers a step with one line of text, so
that whole transcripts can be compared. What cannot be equal by nature (inode numbers, times, sizes of directories) is
never printed.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from husk.vfs.hosttree_write import HostTree
from husk.vfs.layer import LayeredTree
from husk.vfs.layer_nodes import Inode, LayerDir
from husk.vfs.node import Context, Credentials, Dir, Tree
from husk.vfs.state import State
from husk.vfs.vfs import NOW, Opened, Vfs

Step = tuple[Any, ...]

GUEST, FRIENDS = 65534, 12345  # uid and gid of the user, and a second group it is in
LIBC = ctypes.CDLL(None, use_errno=True)
FACCESSAT2 = 439


class Umasked(Context):
    """A context whose umask a script can set."""

    __slots__ = ("mask",)

    def __init__(self, creds: Credentials) -> None:
        super().__init__(creds)
        self.mask = 0o022

    def umask(self) -> int:
        return self.mask


def describe(mode: int, nlink: int, uid: int, gid: int, size: int) -> str:
    """What of a stat result two worlds must agree on."""
    if stat.S_ISDIR(mode):
        size = 0
    return f"{stat.filemode(mode)} links={nlink} {uid}:{gid} size={size}"


class World:
    """Runs steps; subclasses say what an operation does. `slots` are open descriptors by number."""

    def __init__(self) -> None:
        self.slots: dict[int, Any] = {}

    def run(self, steps: Iterable[Step]) -> list[str]:
        return [self.answer(step) for step in steps]

    def answer(self, step: Step) -> str:
        name, *arguments = step
        try:
            result = getattr(self, "do_" + name)(*arguments)
        except OSError as failure:
            result = errno.errorcode.get(failure.errno or 0, str(failure.errno))
        return f"{name}{tuple(arguments)!r} = {'ok' if result is None else result}"


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


class Native(World):
    """The host, through plain system calls. Meant to run in a child that changed its root and gave up its rights."""

    def do_mkdir(self, path: bytes, mode: int = 0o777) -> None:
        os.mkdir(path, mode)

    def do_rmdir(self, path: bytes) -> None:
        os.rmdir(path)

    def do_unlink(self, path: bytes) -> None:
        os.unlink(path)

    def do_symlink(self, target: bytes, path: bytes) -> None:
        os.symlink(target, path)

    def do_link(self, old: bytes, new: bytes, follow: bool = False) -> None:
        _checked(LIBC.linkat(-100, old, -100, new, 0x400 if follow else 0))

    def do_rename(self, old: bytes, new: bytes, flags: int = 0) -> None:
        _checked(LIBC.renameat2(-100, old, -100, new, flags))

    def do_mknod(self, path: bytes, mode: int) -> None:
        os.mknod(path, mode, os.makedev(1, 3))

    def do_readlink(self, path: bytes) -> str:
        return repr(os.readlink(path))

    def do_stat(self, path: bytes, follow: bool = True) -> str:
        found = os.stat(path, follow_symlinks=follow)
        return describe(found.st_mode, found.st_nlink, found.st_uid, found.st_gid, found.st_size)

    def do_same(self, one: bytes, other: bytes) -> str:
        first, second = os.lstat(one), os.lstat(other)
        return str((first.st_dev, first.st_ino) == (second.st_dev, second.st_ino))

    def do_list(self, path: bytes) -> str:
        return repr(sorted(os.listdir(path)))

    def do_kinds(self, path: bytes) -> str:
        with os.scandir(path) as found:
            return repr(sorted((each.name, each.is_dir(follow_symlinks=False), each.is_symlink()) for each in found))

    def do_access(self, path: bytes, mode: int) -> None:
        _checked(LIBC.syscall(FACCESSAT2, -100, path, mode, 0))

    def do_chmod(self, path: bytes, mode: int) -> None:
        os.chmod(path, mode)

    def do_chown(self, path: bytes, uid: int, gid: int, follow: bool = True) -> None:
        os.chown(path, uid, gid, follow_symlinks=follow)

    def do_utime(self, path: bytes, atime: int, mtime: int) -> None:
        os.utime(path, ns=(atime, mtime))

    def do_touch(self, path: bytes) -> None:
        os.utime(path)

    def do_times(self, path: bytes) -> str:
        found = os.lstat(path)
        return f"{found.st_atime_ns} {found.st_mtime_ns}"

    def do_truncate(self, path: bytes, size: int) -> None:
        os.truncate(path, size)

    def do_chdir(self, path: bytes) -> None:
        os.chdir(path)

    def do_getcwd(self) -> str:
        return repr(os.getcwdb())

    def do_umask(self, mask: int) -> None:
        os.umask(mask)

    def do_open(self, slot: int, path: bytes, flags: int, mode: int = 0o666) -> None:
        self.slots[slot] = os.open(path, flags, mode)

    def do_close(self, slot: int) -> None:
        os.close(self.slots.pop(slot))

    def do_read(self, slot: int) -> str:
        return repr(os.pread(self.slots[slot], 1000, 0))

    def do_write(self, slot: int, data: bytes) -> str:
        return str(os.write(self.slots[slot], data))

    def do_fstat(self, slot: int) -> str:
        found = os.fstat(self.slots[slot])
        return describe(found.st_mode, found.st_nlink, found.st_uid, found.st_gid, found.st_size)

    def do_fchmod(self, slot: int, mode: int) -> None:
        os.fchmod(self.slots[slot], mode)

    def do_futime(self, slot: int, atime: int, mtime: int) -> None:
        os.utime(self.slots[slot], ns=(atime, mtime))

    def do_ftimes(self, slot: int) -> str:
        found = os.fstat(self.slots[slot])
        return f"{found.st_atime_ns} {found.st_mtime_ns}"

    def do_linkfd(self, slot: int, new: bytes) -> None:
        _checked(LIBC.linkat(self.slots[slot], b"", -100, new, 0x1000))

    def do_setxattr(self, path: bytes, name: bytes, value: bytes, flags: int = 0) -> None:
        os.setxattr(path, name, value, flags)

    def do_getxattr(self, path: bytes, name: bytes) -> str:
        return repr(os.getxattr(path, name))

    def do_listxattr(self, path: bytes) -> str:
        return repr(sorted(name for name in os.listxattr(path) if name.startswith("user.")))

    def do_removexattr(self, path: bytes, name: bytes) -> None:
        os.removexattr(path, name)


class Virtual(World):
    """The vfs, over whatever tree it is given."""

    def __init__(self, state: State, root: Tree) -> None:
        super().__init__()
        creds = Credentials(GUEST, GUEST, frozenset((FRIENDS,)))
        self.vfs = Vfs(state, root, creds)
        self.ctx = Umasked(creds)
        self.here: Dir = self.vfs.root

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
        self.slots[slot] = opened

    def do_close(self, slot: int) -> None:
        os.close(self.slots.pop(slot).host_fd)

    def do_read(self, slot: int) -> str:
        opened = self.slots[slot]
        data = os.pread(opened.host_fd, 1000, 0)
        node = self.held(slot)
        if isinstance(node, Inode) and node.source is None and self.is_stale(opened.host_fd):
            # As with overlayfs, a descriptor from before the first write still shows the lower file.
            if node.nlink == 0:
                return "stale"
            fresh = node.tree.open(self.ctx, node, os.O_RDONLY)
            data = os.pread(fresh, 1000, 0)
            os.close(fresh)
        return repr(data)

    def is_stale(self, fd: int) -> bool:
        return not os.readlink(b"/proc/self/fd/%d" % fd).startswith(self.vfs.state.path)

    def do_write(self, slot: int, data: bytes) -> str:
        return str(os.write(self.slots[slot].host_fd, data))

    def do_fstat(self, slot: int) -> str:
        found = self.vfs.stat_node(self.ctx, self.held(slot))
        return describe(found.mode, found.nlink, found.uid, found.gid, found.size)

    def do_fchmod(self, slot: int, mode: int) -> None:
        if fcntl.fcntl(self.slots[slot].host_fd, fcntl.F_GETFL) & os.O_PATH:
            raise OSError(errno.EBADF, "the kernel's business, not the vfs's")
        self.vfs.chmod(self.ctx, self.held(slot), mode)

    def do_futime(self, slot: int, atime: int, mtime: int) -> None:
        self.vfs.utimens(self.ctx, self.held(slot), atime, mtime)

    def do_ftimes(self, slot: int) -> str:
        found = self.vfs.stat_node(self.ctx, self.held(slot))
        return f"{found.atime} {found.mtime}"

    def do_linkfd(self, slot: int, new: bytes) -> None:
        self.vfs.link_node(self.ctx, self.held(slot), self.here, new)

    def do_setxattr(self, path: bytes, name: bytes, value: bytes, flags: int = 0) -> None:
        self.vfs.set_xattr(self.ctx, self.node(path), name, value, flags)

    def do_getxattr(self, path: bytes, name: bytes) -> str:
        return repr(self.vfs.get_xattr(self.ctx, self.node(path), name))

    def do_listxattr(self, path: bytes) -> str:
        return repr(sorted(name.decode() for name in self.vfs.list_xattr(self.ctx, self.node(path))))

    def do_removexattr(self, path: bytes, name: bytes) -> None:
        self.vfs.remove_xattr(self.ctx, self.node(path), name)


# -- setting up --------------------------------------------------------------------------------------------------------

def run_native(root: Path, steps: list[Step]) -> list[str]:
    """Run steps in a child whose root is `root` and who is an ordinary user."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(read_end)
            os.chroot(root)
            os.chdir("/")
            os.setgroups([FRIENDS])
            os.setresgid(GUEST, GUEST, GUEST)
            os.setresuid(GUEST, GUEST, GUEST)
            os.umask(0o022)
            lines = "\0".join(Native().run(steps))
            with os.fdopen(write_end, "wb") as out:
                out.write(lines.encode())
            code = 0
        finally:
            os._exit(code)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        text = pipe.read().decode()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the native side broke"
    return text.split("\0") if text else []


def prepare(root: Path, build: Callable[[Path], None]) -> Path:
    root.mkdir()
    os.chmod(root, 0o755)
    os.umask(0o022)
    build(root)
    return root


def memory_tree(state: State, source: Path) -> LayeredTree:
    """A tree without any lower directory that looks like `source`."""
    tree = LayeredTree(state, mode=stat.S_IMODE(source.stat().st_mode))
    hard: dict[int, Inode] = {}

    def fill(directory: LayerDir, host: Path) -> None:
        for entry in sorted(host.iterdir()):
            name, info = os.fsencode(entry.name), entry.lstat()
            ctx = Context(Credentials(info.st_uid, info.st_gid))
            mode = stat.S_IMODE(info.st_mode)
            if entry.is_symlink():
                tree.symlink(ctx, directory, name, os.fsencode(os.readlink(entry)))
            elif entry.is_dir():
                child = tree.mkdir(ctx, directory, name, mode)
                fill(child, entry)
                tree.set_mode(ctx, child, mode)
                child.gid = info.st_gid
            elif info.st_ino in hard:
                tree.link(ctx, hard[info.st_ino], directory, name)
            elif not entry.is_file():
                node = tree.mknod(ctx, directory, name, info.st_mode)
                node.gid = info.st_gid
            else:
                node = hard[info.st_ino] = tree.create(ctx, directory, name, mode)
                fd = tree.open(ctx, node, os.O_WRONLY)
                os.write(fd, entry.read_bytes())
                os.close(fd)
                tree.set_mode(ctx, node, mode)
                tree.set_times(ctx, node, info.st_atime_ns, info.st_mtime_ns)
                node.gid = info.st_gid

    fill(tree.root, source)
    return tree


def layered_tree(state: State, source: Path) -> LayeredTree:
    """A tree with `source` below it."""
    tree = LayeredTree(state)
    tree.show(tree.root, os.fsencode(source))
    return tree


def host_tree(state: State, source: Path) -> HostTree:
    # What husk creates belongs to root on the host and is shown as the guest's; nothing of root's is in the way here
    # because prepared files that are meant to be another's belong to uid 1.
    return HostTree(state.new_device(), os.fsencode(source), read_only=False, owner=(GUEST, GUEST))


def new_state(tmp_path: Path) -> State:
    path = tmp_path / "state"
    path.mkdir()
    return State(os.fsencode(path))


TREES: dict[str, Callable[[State, Path], Tree]] = {"memory": memory_tree, "layered": layered_tree, "host": host_tree}


def copy_tree(source: Path, target: Path) -> Path:
    """A copy of a prepared tree, with owners, hard links and special files."""
    seen: dict[int, Path] = {}

    def copy(one: Path, other: Path) -> None:
        info = one.lstat()
        if one.is_symlink():
            os.symlink(os.readlink(one), other)
        elif one.is_dir():
            other.mkdir()
            for entry in sorted(one.iterdir()):
                copy(entry, other / entry.name)
        elif info.st_ino in seen:
            os.link(seen[info.st_ino], other)
            return
        elif one.is_file():
            shutil.copyfile(one, other)
            seen[info.st_ino] = other
        else:
            os.mknod(other, info.st_mode)
        os.lchown(other, info.st_uid, info.st_gid)
        if not one.is_symlink():
            os.chmod(other, stat.S_IMODE(info.st_mode))
        os.utime(other, ns=(info.st_atime_ns, info.st_mtime_ns), follow_symlinks=False)

    copy(source, target)
    return target
