"""sandbox: the changes of a box for a person: one entry for each name, with what differs."""

from __future__ import annotations

import os
import stat as st

from husk.vfs.layer.delta import ANYONE, delta, stat_of, target_of, xattrs_of
from husk.vfs.layer.inodes import LayerDir
from husk.vfs.node import ACLS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from husk.sandbox.filesystem import Files
    from husk.vfs.layer.delta import Change
    from husk.vfs.layer.layered_tree import LayeredTree

KINDS = {
    st.S_IFREG: "file",
    st.S_IFDIR: "directory",
    st.S_IFLNK: "link",
    st.S_IFIFO: "fifo",
    st.S_IFSOCK: "socket",
    st.S_IFCHR: "device",
    st.S_IFBLK: "device",
}
CHUNK = 1 << 20
LARGEST_TEXT = 4 << 20


class Difference:
    """`change` is added, changed (content or type), deleted or metadata. `details`: what differs -> (before, now)."""

    __slots__ = ("_change", "change", "details", "mount", "path", "type")

    def __init__(self, change: str, mount: bytes, found: Change, details: dict[str, tuple[object, object]]) -> None:
        self.change, self.mount, self.details, self._change = change, mount, details, found
        self.path = mount.rstrip(b"/") + b"/" + found.path
        node = found.node
        kind = node.kind if node is not None else found.was.kind if found.was is not None else 0
        self.type = KINDS.get(kind, "?")

    def as_json(self) -> dict[str, object]:
        differs = {name: {"before": before, "now": now} for name, (before, now) in self.details.items()}
        return {
            "change": self.change,
            "path": os.fsdecode(self.path),
            "mount": os.fsdecode(self.mount),
            "type": self.type,
            "differs": differs,
        }

    def patch(self) -> Iterator[str]:
        """A unified diff if both sides are text, else one line that says that they are not."""
        import difflib

        found, name = self._change, os.fsdecode(self.path)
        now_is_file = found.node is not None and found.node.kind == st.S_IFREG
        was_file = found.was is not None and found.was.kind == st.S_IFREG
        if self.change == "metadata" or not (now_is_file or was_file):
            return
        before = _text(found.was.open()) if found.was is not None and was_file else ""
        now = _text(found.node.tree.open(ANYONE, found.node, os.O_RDONLY)) if found.node and now_is_file else ""
        if before is None or now is None:
            yield f"Binary files a{name} and b{name} differ\n"
            return
        old, new = (f"a{name}" if was_file else "/dev/null"), (f"b{name}" if now_is_file else "/dev/null")
        for line in difflib.unified_diff(before.splitlines(keepends=True), now.splitlines(keepends=True), old, new):
            yield line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"


def differences(files: Files, paths: Iterable[bytes] = ()) -> list[Difference]:
    """In the image's tree and every cow mount, sorted; with `paths`, only these and what is below them."""
    wanted = [path.rstrip(b"/") for path in paths]
    found = []
    for mount, tree in files.layers:
        for difference in _of_tree(mount, tree):
            path = difference.path
            if not wanted or any(path == one or path.startswith(one + b"/") for one in wanted):
                found.append(difference)
    return sorted(found, key=lambda difference: difference.path)


def _of_tree(mount: bytes, tree: LayeredTree) -> Iterator[Difference]:
    for change in delta(tree, through=True):
        if change.node is None:
            yield Difference("deleted", mount, change, {})
        elif change.was is None:
            if change.path:
                yield Difference("added", mount, change, {})
        else:
            details = _details(change)
            if details:
                real = "content" in details or "type" in details
                yield Difference("changed" if real else "metadata", mount, change, details)


def _details(change: Change) -> dict[str, tuple[object, object]]:
    node, was = change.node, change.was
    assert node is not None
    assert was is not None
    now, old = stat_of(change), was.stat
    details: dict[str, tuple[object, object]] = {}
    if node.kind != was.kind:
        details["type"] = KINDS.get(was.kind, "?"), KINDS.get(node.kind, "?")
    if now.mode & 0o7777 != old.mode & 0o7777 and node.kind != st.S_IFLNK:
        details["mode"] = f"{old.mode & 0o7777:04o}", f"{now.mode & 0o7777:04o}"
    if (now.uid, now.gid) != (old.uid, old.gid):
        details["owner"] = f"{old.uid}:{old.gid}", f"{now.uid}:{now.gid}"
    if node.kind == was.kind:
        if node.kind == st.S_IFLNK and target_of(node) != was.target():
            details["target"] = os.fsdecode(was.target()), os.fsdecode(target_of(node))
        if node.kind == st.S_IFREG and _content_differs(change, now.size, old.size):
            details["content"] = old.size, now.size
        # A directory's mtime follows from its entries, which are shown themselves.
        if now.mtime != old.mtime and not isinstance(node, LayerDir) and "content" not in details:
            details["times"] = old.mtime, now.mtime
        before, after = was.xattrs(), xattrs_of(node)
        if before != after:
            details["xattrs"] = _shown(before), _shown(after)
        if isinstance(node, LayerDir) and not change.in_place and not details:
            details["content"] = 0, 0  # another directory with the same metadata
    return details


def _shown(attributes: dict[bytes, bytes]) -> dict[str, str]:
    return {os.fsdecode(name): _value(name, value) for name, value in sorted(attributes.items())}


def _value(name: bytes, value: bytes) -> str:
    if name not in ACLS:
        return value.decode("utf-8", "backslashreplace")
    from husk.vfs.access.posix_acl import as_text

    return as_text(value)


def _content_differs(change: Change, now_size: int, old_size: int) -> bool:
    node, was = change.node, change.was
    assert node is not None
    assert was is not None
    if now_size != old_size:
        return True
    if getattr(node, "source", None) == (was.lower, was.rel):
        return False
    before, now = was.open(), node.tree.open(ANYONE, node, os.O_RDONLY)
    try:
        at = 0
        while True:
            piece = os.pread(before, CHUNK, at)
            if piece != os.pread(now, CHUNK, at):
                return True
            if not piece:
                return False
            at += len(piece)
    finally:
        os.close(before)
        os.close(now)


def _text(fd: int) -> str | None:
    try:
        data = os.pread(fd, LARGEST_TEXT + 1, 0)
    finally:
        os.close(fd)
    if len(data) > LARGEST_TEXT or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
