"""store: check a manifest that may be forged, and say in words what is wrong with it.

First each entry is checked by itself and against its directory, so that the message can name it. At the end a manifest
written anew from these entries must have the same bytes. That leaves no room for a second name table, a hidden byte or
a wrong count. Reads the given bytes and touches nothing else.
"""

from __future__ import annotations

import stat as st

from blake3 import blake3

from husk.store.manifests.manifest import NO_BLOB, OPAQUE, WHITEOUT, unpack_xattrs
from husk.store.manifests.manifest_writer import ManifestWriter
from husk.store.manifests.plain_manifest import ENTRY, HEADER, PlainManifest
from husk.store.store_errors import BadManifest, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.native._core import RawEntry

_TYPES = {st.S_IFREG, st.S_IFDIR, st.S_IFLNK, st.S_IFIFO, st.S_IFSOCK, st.S_IFCHR, st.S_IFBLK}


def check_manifest(data: bytes) -> PlainManifest:
    """Raises BadManifest with one sentence."""
    manifest = PlainManifest(data)
    if blake3(memoryview(data)[HEADER.size :]).digest() != manifest.body:
        raise BadManifest("its checksum does not fit its content")
    writer = ManifestWriter()
    expected_child = 1
    raws: list[RawEntry] = []
    for number in range(manifest.count):
        raw = manifest.entry(number)
        raws.append(raw)
        _check_path(number, raw, raws)
        _check_kind(raw)
        path, mode, first, count = raw[0], raw[2], raw[15], raw[16]
        if st.S_ISDIR(mode):
            # The children of all directories, one after another, are all entries but the root: so no entry has two
            # directories, none has no directory, and none is above itself.
            if first != expected_child:
                raise BadManifest(f"{shown(path)}: its children are not where they belong")
            expected_child += count
    if expected_child != manifest.count:
        raise BadManifest("there are entries that are in no directory")
    for number, raw in enumerate(raws):
        _check_order(number, raw, raws)
        _add(writer, number, raw)
    again = writer.finish()
    if again != data:
        shorter = min(len(again), len(data))
        # The header last: its checksum differs in any case.
        at = next((at for at in [*range(HEADER.size, shorter), *range(HEADER.size)] if again[at] != data[at]), shorter)
        raise BadManifest(f"written anew it differs at byte {at} ({_part(manifest, at)})")
    return manifest


def _check_path(number: int, raw: RawEntry, before: list[RawEntry]) -> None:
    path, parent = raw[0], raw[1]
    if number == 0:
        if path or parent or not st.S_ISDIR(raw[2]):
            raise BadManifest("its first entry is not a root directory")
        return
    if path.startswith(b"/"):
        raise BadManifest(f"{shown(path)}: the name is absolute")
    parts = path.split(b"/")
    if b".." in parts or b"." in parts:
        raise BadManifest(f"{shown(path)}: the name has . or .. in it")
    if not all(parts) or b"\0" in path or any(len(part) > 255 for part in parts):
        raise BadManifest(f"{shown(path)}: a component is empty, too long, or has a NUL in it")
    if parent >= number:
        raise BadManifest(f"{shown(path)}: its directory comes after it; there may be a cycle")
    above, _, _ = path.rpartition(b"/")
    if not st.S_ISDIR(before[parent][2]):
        raise BadManifest(f"{shown(path)}: it lies in something that is no directory")
    if before[parent][0] != above:
        raise BadManifest(f"{shown(path)}: its directory has another name")


def _check_order(number: int, raw: RawEntry, raws: list[RawEntry]) -> None:
    """It is one of its directory's children, and in order: two equal names would be neighbours."""
    if not number:
        return
    directory = raws[raw[1]]
    first, count = directory[15], directory[16]
    if not first <= number < first + count:
        raise BadManifest(f"{shown(raw[0])}: it is not among the children of its directory")
    if number > first and raws[number - 1][0] >= raw[0]:
        same = raws[number - 1][0] == raw[0]
        raise BadManifest(
            f"{shown(raw[0])}: the name is there twice" if same else f"{shown(raw[0])}: it is out of order"
        )


def _check_kind(raw: RawEntry) -> None:
    path, mode, flags, size, blob, target = raw[0], raw[2], raw[6], raw[7], raw[12], raw[13]
    if flags & ~(WHITEOUT | OPAQUE):
        raise BadManifest(f"{shown(path)}: it has unknown flags")
    if flags & WHITEOUT:
        if mode or flags != WHITEOUT:
            raise BadManifest(f"{shown(path)}: a whiteout has neither mode nor other flags")
    elif st.S_IFMT(mode) not in _TYPES or mode & ~(0o170000 | 0o7777):
        raise BadManifest(f"{shown(path)}: its mode {mode:o} is none of Linux's")
    if not st.S_ISREG(mode) and blob != NO_BLOB:
        raise BadManifest(f"{shown(path)}: only a regular file has content")
    if st.S_ISLNK(mode) and (not target or b"\0" in target or size != len(target)):
        raise BadManifest(f"{shown(path)}: its target is empty, has a NUL, or is not as long as its size says")
    names = list(unpack_xattrs(raw[14]))
    if names != sorted(set(names)) or any(not name or b"\0" in name or len(name) > 255 for name in names):
        raise BadManifest(f"{shown(path)}: its attributes are out of order or badly named")


def _add(writer: ManifestWriter, number: int, raw: RawEntry) -> None:
    (path, _, mode, uid, gid, _, flags, size, mtime_ns, inode, major, minor, blob, target, xattrs, _, _) = raw
    regular = st.S_ISREG(mode)
    if inode > number:
        raise BadManifest(f"{shown(path)}: the file it is a link of comes after it")
    writer.add(
        path,
        mode,
        uid=uid,
        gid=gid,
        size=size if regular else 0,
        mtime_ns=mtime_ns,
        rdev=(major, minor),
        target=target,
        xattrs=unpack_xattrs(xattrs),
        blob=blob if regular else b"",
        link=None if st.S_ISDIR(mode) else inode,
        flags=flags,
    )


def _part(manifest: PlainManifest, at: int) -> str:
    """Where in the file a byte is, for the message."""
    if at < HEADER.size:
        return "the header"
    if at < manifest.strings_at:
        return f"entry {(at - HEADER.size) // ENTRY.size}"
    for name, end in (("strings", manifest.xattrs_at), ("xattrs", manifest.table_at), ("table", manifest.bloom_at)):
        if at < end:
            return f"the {name}"
    return "the filter"
