"""kernel: names that lead to a directory without a symbolic link that a host process could change unnoticed.

Only these are taught to the name cache, which asks the host for them again and again. And the links at the end of the
names of programs, which are compared each time.
"""

from __future__ import annotations

import os
import stat as st

from husk.vfs.node import Dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.node import Context, Node
    from husk.vfs.vfs import Vfs

MOST_LINKS, LONGEST_TEXT = 4, 255  # as in native/fastpath/programs.c


def straight(vfs: Vfs, ctx: Context, start: Dir, key: bytes, there: Node | None = None) -> tuple[Dir, bytes] | None:
    """The directory `key` leads to, and what the host is asked for it beneath the root of its tree where that differs
    from its own name there, because of `..`; else nothing. None: not straight, or the guest may not search its way.
    `there`: the guest's own walk has just led to it."""
    try:
        directory = there or (vfs.walk(ctx, start, key) if key else start)
        if not isinstance(directory, Dir):
            return None
        vfs.access_node(ctx, directory, os.X_OK)
        words = _words(vfs, start, key)
        if b".." in words:
            asked = _with_dots(vfs, ctx, words, directory) if key[:1] == b"/" else None
            return None if asked is None else (directory, asked)
        return (directory, b"") if b"/" + b"/".join(words) == vfs.path_of(directory) else None
    except OSError:
        return None


def _words(vfs: Vfs, start: Dir, key: bytes) -> list[bytes]:
    """Of the absolute name. Links at the top of the image (/lib, /bin) are the box's own."""
    if key[:1] == b"/":
        top = key.split(b"/", 2)[1]
        target = vfs.root.tree.fixed_link(vfs.root, top)
        text = b"/" + target + key[1 + len(top) :] if target else key
    else:
        text = vfs.path_of(start) + b"/" + key
    return [word for word in text.split(b"/") if word not in (b"", b".")]


def _with_dots(vfs: Vfs, ctx: Context, words: list[bytes], directory: Dir) -> bytes | None:
    """The host is asked for the name as it is, so that it looks at each directory that is left again. So all of them
    must be the host's, unchanged. Only in the tree of the image, which has no rules for names. None: not so."""
    tree, view = vfs.root.tree, directory.tree.names_view(directory)
    if view is None or directory.tree is not tree:
        return None
    path = vfs.path_of(directory)[1:].split(b"/")
    above = len(path) - len(view.rel.split(b"/") if view.rel else ())  # words of the name of the host's tree
    there = words[:above]
    if there != path[:above]:
        return None
    for word in words[above:]:
        if word != b"..":
            there.append(word)
            continue
        if len(there) <= above:
            return None
        left = vfs.walk(ctx, vfs.root, b"/" + b"/".join(there))
        beside = left.tree.names_view(left) if isinstance(left, Dir) and left.tree is tree else None
        if beside is None or (beside.root_fd, beside.rel) != (view.root_fd, b"/".join(there[above:])):
            return None
        vfs.access_node(ctx, left, os.X_OK)
        there.pop()
    if there != path:
        return None
    # What an image has, it keeps: there the plain name will do.
    return b"/".join(words[above:]) if view.manifest is None else b""


class Link:
    """A symbolic link of the host: `where` beneath `root_fd`, and its text."""

    __slots__ = ("node", "root_fd", "text", "where")

    def __init__(self, node: Node, root_fd: int, where: bytes, text: bytes) -> None:
        self.node, self.root_fd, self.where, self.text = node, root_fd, where, text


def links_on_the_way(vfs: Vfs, ctx: Context, name: bytes) -> list[Link] | None:
    """The links from an absolute name to the file behind it, each in a directory that is reached straight; those that
    an image has, and keeps, are left out. None: it is not so simple."""
    found: list[Link] = []
    for _ in range(MOST_LINKS + 1):
        node = vfs.walk(ctx, vfs.root, name, follow=False)
        if node.kind != st.S_IFLNK:
            return found if node.kind == st.S_IFREG else None
        text, beneath = node.tree.readlink(ctx, node), node.tree.unchanged_link(node)
        if beneath is None or len(text) > LONGEST_TEXT or (text[:1] != b"/" and b"/" in text):
            return None
        if beneath[1]:
            found.append(Link(node, *beneath, text))
        name = text if text[:1] == b"/" else name[: name.rfind(b"/") + 1] + text
        if straight(vfs, ctx, vfs.root, name[: name.rfind(b"/") + 1]) is None:
            return None
    return None
