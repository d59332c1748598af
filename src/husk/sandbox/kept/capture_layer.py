"""sandbox: write the changes of a layered tree as a manifest: a layer for the store, or the names of a kept box.

`layer_of` makes a layer from what ran in a box. `names_of` writes the same tree for the box itself, with what a layer
does not hold (docs/formats/box.md).
"""

from __future__ import annotations

import os
import stat as st
from contextlib import suppress

from husk.store.manifests.manifest import OPAQUE
from husk.store.manifests.manifest_writer import ManifestWriter
from husk.vfs.layer.delta import ANYONE, delta, stat_of, target_of, xattrs_of
from husk.vfs.layer.inodes import Inode, LayerDir
from husk.vfs.layer.overlay import (
    FIRST,
    FROM,
    HAS_LINKS,
    JUDGED,
    NODE,
    NODE_FORM,
    ONLY,
    TWIN,
    FrozenFiles,
    judged,
    untouched,
)
from husk.vfs.node import ACLS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.store import Writing
    from husk.vfs.host.host_file import Key
    from husk.vfs.layer.delta import Change
    from husk.vfs.layer.layered_tree import LayeredTree
    from husk.vfs.layer.lower import Lower
    from husk.vfs.node import Node

ELSEWHERE = b"\xff" * 32  # in place of a blob: the content is that of a lower file


def layer_of(tree: LayeredTree, writing: Writing) -> str:
    """The hash of a manifest of all changes in `tree`. `writing` stages the contents as blobs.

    Deleted names are whiteouts; a directory that replaced another is opaque. Names of one file stay names of one file,
    so all of them are in the layer, even those that did not change. Owners are written as the tree's image means them.
    """
    writer = ManifestWriter()
    uids, gids = _owners(tree)
    stored: dict[int, tuple[str, int]] = {}  # of files with several names, by inode number
    for change in delta(tree, through=True, linked=True):
        if change.node is None:
            writer.add_whiteout(change.path)
            continue
        info = stat_of(change)
        is_file = st.S_ISREG(info.mode)
        blob = ""
        if is_file:
            blob, info.size = stored.get(info.ino) or _store(change.node, writing)
            if info.nlink > 1:
                stored[info.ino] = blob, info.size
        writer.add(
            change.path,
            info.mode,
            uid=uids.get(info.uid, info.uid),
            gid=gids.get(info.gid, info.gid),
            size=info.size if is_file else 0,
            mtime_ns=info.mtime,
            target=target_of(change.node) if st.S_ISLNK(info.mode) else b"",
            xattrs=_renumbered(xattrs_of(change.node), uids, gids),
            blob=blob,
            link=_link(change.node, info.nlink, info.ino),
            flags=_opaque(change),
        )
    return writing.put_manifest(writer.finish())


def _store(node: Node, writing: Writing) -> tuple[str, int]:
    fd = node.tree.open(ANYONE, node, os.O_RDONLY)
    try:
        return writing.stage.copy(fd)
    finally:
        os.close(fd)


def _owners(tree: LayeredTree) -> tuple[dict[int, int], dict[int, int]]:
    """Map ids back where the guest ran with other ids than the image's own user."""
    lower = tree.root.lower
    if lower is None or lower.is_host:
        return {}, {}
    return {shown: meant for meant, shown in lower.uids.items()}, {shown: meant for meant, shown in lower.gids.items()}


def _renumbered(attributes: dict[bytes, bytes], uids: dict[int, int], gids: dict[int, int]) -> dict[bytes, bytes]:
    """ACLs name users and groups, whose ids change like those of owners."""
    if not any(name in attributes for name in ACLS):
        return attributes
    from husk.vfs.access.posix_acl import of_box

    return attributes | of_box(attributes, uids, gids)


def _link(node: Node, nlink: int, ino: int) -> object:
    return ino if nlink > 1 and not isinstance(node, LayerDir) else None


def _opaque(change: Change) -> int:
    return OPAQUE if isinstance(change.node, LayerDir) and not change.in_place and change.was is not None else 0


class Names:
    """What `names_of` wrote: the manifest's bytes, the files of each layer that it uses, and sums."""

    __slots__ = ("bytes", "count", "data", "files")

    def __init__(self) -> None:
        self.data = b""
        self.files: dict[str, set[int]] = {}
        self.count = self.bytes = 0


def names_of(tree: LayeredTree, layer: str) -> Names:
    """The names and metadata of `tree` at the end of a run. The run's own files are going to be the layer `layer`."""
    made = Names()
    writer = ManifestWriter()
    twins = {id(tree.copy_up.inodes[key]): where for key, where in tree.copy_up.twins.items()}
    first: set[bytes] = set()
    changes = delta(tree, through=False, exact=True)
    # Directories that the guest did not enter are copied, and have none; if there are any links, the mark is written.
    links = any(isinstance(change.node, Inode) and change.node.nlink > 1 for change in changes)
    for change in changes:
        node = change.node
        if change.path:
            made.count += not change.in_place
            if isinstance(node, LayerDir) and not change.in_place and node.lower is not None and change.above:
                first.add(change.above.path)
            if isinstance(node, Inode) and id(node) in twins and change.above:
                first.add(change.above.path)
    for change in changes:
        if change.node is None:
            writer.add_whiteout(change.path)
        elif isinstance(change.node, LayerDir):
            _directory(writer, change, change.node, first, links=links)
            _copied(writer, change, change.node, made)
        elif isinstance(change.node, Inode):
            if change.node.source is not None and change.node.source[0].in_memory:
                tree.copy_up.content(change.node, empty=False)
            _file(writer, change, change.node, twins, layer, made)
    if not changes:
        writer.add(b"", st.S_IFDIR | 0o755)
    made.data = writer.finish()
    return made


def _directory(writer: ManifestWriter, change: Change, node: LayerDir, first: set[bytes], *, links: bool) -> None:
    attributes = dict(node.xattrs or {}) if node.copied_up else {}
    if node.copied_up:
        attributes[NODE] = NODE_FORM.pack(node.atime, node.ctime, node.btime, node.ino, 0, node.subdirs)
    if not change.in_place and node.lower is not None:
        attributes[FROM] = _whence(node.lower, node.rel)
    if attributes and node.lower is not None:
        seen = (node.lower.baseline or {}).get(node.rel)
        _judge(attributes, node.lower, node.rel, None if seen is None else (seen.dev, seen.ino))
    if node.only is not None:
        attributes[ONLY] = b"".join(name + b"\0" for name in sorted(node.only))
    if not change.path and first:
        attributes[FIRST] = b"".join(path + b"\0" for path in sorted(first))
    if not change.path and links:
        attributes[HAS_LINKS] = b"1"
    writer.add(
        change.path,
        node.mode if node.copied_up else st.S_IFDIR | 0o755,
        uid=node.uid,
        gid=node.gid,
        mtime_ns=node.mtime,
        xattrs=attributes,
        flags=_opaque(change),
    )


def _copied(writer: ManifestWriter, change: Change, node: LayerDir, made: Names) -> None:
    """Copy what an earlier run wrote about a directory that this run did not enter: it is unchanged."""
    found = untouched(node)
    if found is None:
        return
    overlay, top = found
    for entry in overlay.below(top):
        path = change.path + entry.path[len(top.path) :] if top.path else entry.path
        made.count += 1
        if entry.is_file and entry.blob != ELSEWHERE:
            layer, _, number = file_referred_to(entry.blob).decode().split("/")
            made.files.setdefault(layer, set()).add(int(number))
            made.bytes += entry.size
        writer.add(
            path,
            entry.mode,
            uid=overlay.uids.get(entry.uid, entry.uid),
            gid=overlay.gids.get(entry.gid, entry.gid),
            size=entry.size if entry.is_file else 0,
            mtime_ns=entry.mtime_ns,
            target=entry.target,
            xattrs=_renumbered(entry.xattrs, overlay.uids, overlay.gids),
            blob=entry.blob if entry.is_file else b"",
            flags=entry.flags,
        )


def _file(
    writer: ManifestWriter,
    change: Change,
    node: Inode,
    twins: dict[int, tuple[Lower, bytes]],
    layer: str,
    made: Names,
) -> None:
    info = stat_of(change)
    attributes = dict(node.xattrs or {})
    attributes[NODE] = NODE_FORM.pack(info.atime, info.ctime, node.btime, node.ino, node.nlink, 0)
    if id(node) in twins:
        attributes[TWIN] = _whence(*twins[id(node)])
    blob = b""
    if node.kind == st.S_IFREG:
        blob = _content(node, attributes, layer, made)
        made.bytes += info.size if blob != ELSEWHERE else 0
    writer.add(
        change.path,
        info.mode,
        uid=info.uid,
        gid=info.gid,
        size=info.size if node.kind == st.S_IFREG else 0,
        mtime_ns=info.mtime,
        target=node.target,
        xattrs=attributes,
        blob=blob,
        link=id(node) if node.nlink > 1 else None,
    )


def _content(node: Inode, attributes: dict[bytes, bytes], layer: str, made: Names) -> bytes:
    if node.source is None:
        made.files.setdefault(layer, set()).add(node.number)
        return _reference(layer, node.number)
    lower, rel = node.source
    if isinstance(lower, FrozenFiles):
        older, _, number = rel.decode().split("/")
        made.files.setdefault(older, set()).add(int(number))
        return _reference(older, int(number))
    attributes[FROM] = _whence(lower, rel)
    _judge(attributes, lower, rel, node.key)
    return ELSEWHERE


def _judge(attributes: dict[bytes, bytes], lower: Lower, rel: bytes, key: Key = None) -> None:
    if lower.is_host:
        with suppress(OSError):  # gone meanwhile: no file will match it
            attributes[JUDGED] = judged(lower, rel, key)


def _whence(lower: Lower, rel: bytes) -> bytes:
    return lower.label + b"\0" + rel


def _reference(layer: str, number: int) -> bytes:
    return bytes.fromhex(layer) + number.to_bytes(8, "little") + bytes(8)


def file_referred_to(blob: bytes) -> bytes:
    """Its path beneath the directory of all layers."""
    return b"%s/files/%d" % (blob[:16].hex().encode(), int.from_bytes(blob[16:24], "little"))
