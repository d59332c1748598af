"""sandbox: the originals of a mount: what was in host files that a box changed, where these are small texts. They are
what `husk apply` merges from, if the host has changed such a file, too.

They are taken when a run ends, from files that the host has not changed since the box first did: copying each at its
first change would cost every editor, compiler and package manager a second copy. After the magic an entry is the
length of the name (2 bytes), the name, the length of what follows (4 bytes), and the content, compressed by zlib.
"""

from __future__ import annotations

import os
import stat as st
import zlib

from husk.native._core import stat_fd
from husk.sandbox.apply.text_merge import is_text
from husk.vfs.layer.delta import is_unchanged
from husk.vfs.layer.inodes import Inode, LayerDir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.layer.layered_tree import LayeredTree

    Originals = dict[bytes, bytes]  # name -> compressed content

MAGIC = b"husk base 1\n"
LARGEST = 256 << 10
MOST_BYTES = 16 << 20  # of all together, compressed


def pack(originals: Originals) -> bytes:
    parts = [MAGIC]
    for name, data in sorted(originals.items()):
        parts.append(len(name).to_bytes(2, "little") + name + len(data).to_bytes(4, "little") + data)
    return b"".join(parts)


def unpack(data: bytes) -> Originals:
    if not data.startswith(MAGIC):
        raise ValueError
    found: Originals = {}
    at = len(MAGIC)
    while at < len(data):
        end = at + 2 + int.from_bytes(data[at : at + 2], "little")
        size = int.from_bytes(data[end : end + 4], "little")
        found[data[at + 2 : end]] = data[end + 4 : end + 4 + size]
        at = end + 4 + size
    return found


def content_of(originals: Originals, name: bytes) -> bytes | None:
    found = originals.get(name)
    return None if found is None else zlib.decompress(found, bufsize=LARGEST)


def originals_of(tree: LayeredTree, before: Originals) -> Originals:
    """Of the files that this run changed. What an earlier run saw (`before`) is older, and counts."""
    found = dict(before)
    lower = tree.root.lower
    room = MOST_BYTES - sum(map(len, found.values()))
    for rel, seen in (lower.baseline or {}).items() if lower is not None else ():
        if rel in found or not st.S_ISREG(seen.mode) or seen.size > LARGEST or not _has_own_content(tree, rel):
            continue
        try:
            assert lower is not None
            fd = lower.content(rel)
        except OSError:
            continue  # the host has removed it
        try:
            if not is_unchanged(seen, stat_fd(fd)):
                continue
            data = os.pread(fd, LARGEST, 0)
        finally:
            os.close(fd)
        if is_text(data):
            packed = zlib.compress(data, 1)
            room -= len(packed)
            if room < 0:
                break
            found[rel] = packed
    return found


def _has_own_content(tree: LayeredTree, rel: bytes) -> bool:
    """Has the box a file of its own under the name? One that it deleted needs no merge."""
    here: object = tree.root
    for name in rel.split(b"/"):
        if not isinstance(here, LayerDir):
            return False
        here = here.names.get(name)
    return isinstance(here, Inode) and here.kind == st.S_IFREG and (here.source is None or here.source[0].exclusive)
