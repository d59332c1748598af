"""husk run as root: changes below an `rw` mount are made with the mount owner's credentials.

The tree is called directly, as after a race that husk has lost: the vfs has allowed the change, and by now the name
leads to a file of root. The host must refuse.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from husk.vfs.host.host_tree_write import WritableHostTree
from husk.vfs.node import Context, Credentials, Dir, Node

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has credentials to drop")

OWNER, GUEST = 4321, 1000
CTX = Context(Credentials(GUEST, GUEST))


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[WritableHostTree]:
    """A sticky directory of root, with a file, a directory and a link of root and of the mount's owner."""
    sticky = tmp_path / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)
    for name, uid in (("root", 0), ("own", OWNER)):
        (sticky / name).write_bytes(b"content")
        (sticky / f"{name}-dir").mkdir()
        os.symlink("target", sticky / f"{name}-link")
        for each in (name, f"{name}-dir", f"{name}-link"):
            os.lchown(sticky / each, uid, uid)
    ids = {OWNER: GUEST}
    made = WritableHostTree(1, os.fsencode(sticky), uids=ids, gids=ids, owner=(OWNER, OWNER))
    yield made
    made.close()


def found(tree: WritableHostTree, name: bytes) -> Node:
    return tree.lookup(CTX, tree.root, name)


def rename(tree: WritableHostTree, old: bytes, new: bytes, flags: int = 0) -> None:
    tree.rename(CTX, tree.root, old, tree.root, new, flags)


CHANGES: dict[str, Callable[[WritableHostTree, bytes], None]] = {
    "unlink": lambda tree, name: tree.unlink(CTX, tree.root, name),
    "rmdir": lambda tree, name: tree.rmdir(CTX, tree.root, name + b"-dir"),
    "rename": lambda tree, name: rename(tree, name, b"new"),
    "rename over it": lambda tree, name: rename(tree, b"own-link", name),
    "exchange": lambda tree, name: rename(tree, name, b"own-dir", 2),
    "chmod": lambda tree, name: tree.set_mode(CTX, found(tree, name), 0o666),
    "chmod of a directory": lambda tree, name: tree.set_mode(CTX, found(tree, name + b"-dir"), 0o777),
    "chown": lambda tree, name: tree.set_owner(CTX, found(tree, name), -1, GUEST),
    "chown of a link": lambda tree, name: tree.set_owner(CTX, found(tree, name + b"-link"), -1, GUEST),
}


def described(tree: WritableHostTree) -> dict[str, tuple[int, ...]]:
    infos = {entry.name: entry.stat(follow_symlinks=False) for entry in os.scandir(os.fsdecode(tree.path))}
    return {name: (info.st_ino, info.st_mode, info.st_uid, info.st_gid) for name, info in infos.items()}


@pytest.mark.parametrize("change", CHANGES)
def test_the_host_protects_files_of_root(tree: WritableHostTree, change: str) -> None:
    before = described(tree)
    with pytest.raises(PermissionError):
        CHANGES[change](tree, b"root")
    assert described(tree) == before


@pytest.mark.parametrize("change", CHANGES)
def test_the_owner_s_files_are_the_guest_s(tree: WritableHostTree, change: str) -> None:
    CHANGES[change](tree, b"own")


def test_hard_links_are_the_owner_s_too(tree: WritableHostTree) -> None:
    """As Linux with fs.protected_hardlinks, which is the default of every distribution."""
    if Path("/proc/sys/fs/protected_hardlinks").read_text() != "1\n":
        pytest.skip("fs.protected_hardlinks is off")
    directory: Dir = tree.root
    tree.link(CTX, found(tree, b"own"), directory, b"link")
    os.chmod(os.path.join(tree.path, b"root"), 0o4755)
    with pytest.raises(PermissionError):
        tree.link(CTX, found(tree, b"root"), directory, b"link-to-root")


@pytest.mark.parametrize(
    "change",
    [
        lambda tree, node: tree.set_owner(CTX, node, -1, GUEST),
        lambda tree, node: tree.set_times(CTX, node, 1, 1),
    ],
    ids=["chown", "utime"],
)
def test_a_link_exchanged_for_a_file_of_root(
    tree: WritableHostTree, change: Callable[[WritableHostTree, Node], None]
) -> None:
    """Another box with the same mount renames root's file to the name of the link that the guest may change."""
    node = found(tree, b"own-link")
    os.rename(os.path.join(tree.path, b"root"), os.path.join(tree.path, b"own-link"))
    before = os.lstat(os.path.join(tree.path, b"own-link"))
    with pytest.raises(OSError):
        change(tree, node)
    after = os.lstat(os.path.join(tree.path, b"own-link"))
    assert (after.st_uid, after.st_gid, after.st_mtime_ns) == (before.st_uid, before.st_gid, before.st_mtime_ns)


def test_write_permission_suffices_to_set_the_times_to_now(tree: WritableHostTree) -> None:
    path = os.path.join(tree.path, b"root")
    os.chmod(path, 0o666)
    os.utime(path, ns=(5, 5))
    tree.set_times(CTX, found(tree, b"root"), 7, 7)
    assert min(os.stat(path).st_atime_ns, os.stat(path).st_mtime_ns) > 10**18
