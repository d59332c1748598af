"""Every kind of tree that the same prepared host directory can be shown through."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

from husk.vfs.host.host_tree import HostTree
from husk.vfs.host.host_tree_write import WritableHostTree
from husk.vfs.layer.inodes import Inode, LayerDir
from husk.vfs.layer.layered_tree import LayeredTree
from husk.vfs.node import Context, Credentials, Tree
from husk.vfs.state import State
from tests.unit.vfs.worlds import GUEST


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
                child.gid, child.mtime = info.st_gid, info.st_mtime_ns
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


def host_tree(state: State, source: Path) -> WritableHostTree:
    # What husk creates belongs to root on the host and is shown as the guest's. This does not collide with prepared
    # files: those that are meant to belong to another user belong to uid 1.
    return WritableHostTree(state.new_device(), os.fsencode(source), owner=(GUEST, GUEST))


def new_state(tmp_path: Path) -> State:
    path = tmp_path / "state"
    path.mkdir()
    return State(os.fsencode(path))


def read_only_tree(state: State, source: Path) -> HostTree:
    return HostTree(state.new_device(), os.fsencode(source))


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
        for path in (one, other):  # also the first: reading it for the copy changed its access time
            os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns), follow_symlinks=False)

    copy(source, target)
    return target
