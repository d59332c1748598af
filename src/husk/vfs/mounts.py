"""vfs: the box's mounts as programs see them — mounts, mountinfo, mountstats, and the flags of statfs(2).

Text and numbers only. The number of a mount is made from its tree's device, so that mountinfo, fdinfo and statx agree
without a table.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.node import Tree

# Types that programs ask for; all others are shown as overlayfs, which promises little (see LayeredTree).
MAGIC = {b"proc": 0x9FA0, b"sysfs": 0x62656572, b"devtmpfs": 0x01021994, b"tmpfs": 0x01021994, b"devpts": 0x1CD1}
_OPTIONS = {b"proc": b",nosuid,nodev,noexec", b"sysfs": b",nosuid,nodev,noexec", b"devtmpfs": b",nosuid"}
_FLAGS = {b"nosuid": 0x02, b"nodev": 0x04, b"noexec": 0x08, b"relatime": 0x1000}
_ST_RDONLY, _ST_VALID = 0x01, 0x20


def _escaped(path: bytes) -> bytes:
    for char in (b"\\", b" ", b"\t", b"\n"):  # the backslash first: the others add some
        path = path.replace(char, b"\\%03o" % ord(char))
    return path


def _options(tree: Tree) -> bytes:
    return (b"ro" if tree.read_only else b"rw") + _OPTIONS.get(tree.fstype, b",nosuid,nodev") + b",relatime"


def mount_flags(tree: Tree) -> int:
    """f_flags: what /proc/mounts says in words."""
    flags = _ST_VALID | (_ST_RDONLY if tree.read_only else 0)
    for word in _options(tree).split(b","):
        flags |= _FLAGS.get(word, 0)
    return flags


def mount_id(tree: Tree) -> int:
    return tree.dev & 0xFFFF


def mounts_text(mounts: list[tuple[bytes, Tree]]) -> bytes:
    return b"".join(
        b"%s %s %s %s 0 0\n" % (tree.fstype, _escaped(path), tree.fstype, _options(tree)) for path, tree in mounts
    )


def mountstats_text(mounts: list[tuple[bytes, Tree]]) -> bytes:
    return b"".join(
        b"device %s mounted on %s with fstype %s\n" % (tree.fstype, _escaped(path), tree.fstype)
        for path, tree in mounts
    )


def mountinfo_text(mounts: list[tuple[bytes, Tree]]) -> bytes:
    numbers = {path: mount_id(tree) for path, tree in mounts}
    made = []
    for path, tree in mounts:
        above, parent = path, 1  # 1: the parent of the root mount, which no program sees
        while above not in (b"/", b""):
            above = above.rpartition(b"/")[0] or b"/"
            if above in numbers:
                parent = numbers[above]
                break
        made.append(
            b"%d %d %d:%d / %s %s - %s %s %s\n"
            % (
                mount_id(tree),
                parent,
                os.major(tree.dev),
                os.minor(tree.dev),
                _escaped(path),
                _options(tree),
                tree.fstype,
                tree.fstype,
                b"ro" if tree.read_only else b"rw",
            )
        )
    return b"".join(made)
