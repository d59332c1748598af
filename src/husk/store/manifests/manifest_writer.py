"""store: writing a manifest. The same names give the same bytes, whatever order they were added in."""

from __future__ import annotations

import stat as st

from blake3 import blake3

from husk.native import _core
from husk.store.manifests.manifest import HEADER_SIZE, NO_BLOB, WHITEOUT, pack_xattrs
from husk.store.store_errors import BadManifest, shown

PATH_LIMIT = 4095
TEXT_FOR_ALL, TEXT_FOR_EACH = 64 << 20, 256  # trees of real programs have 60 to 180 bytes a name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable

    from husk.store.manifests.manifest import Entry


def names_fit(text: int, names: int) -> bool:
    """May so many names have so many bytes together, with link targets and attributes? A manifest has full paths, so
    deep directories with many files take far more room than they have names: a guest or an archive could make husk use
    gigabytes of memory to write them."""
    return text <= TEXT_FOR_ALL + TEXT_FOR_EACH * names


class ManifestWriter:
    """Collects names, then `finish` gives the file's bytes.

    Directories above a name must be added too; the root may be.
    """

    def __init__(self) -> None:
        self._tree = _core.Tree()
        self._names = self._text = 0
        self._links: dict[Hashable, int] = {}
        self._has_root = False

    def add(
        self,
        path: bytes,
        mode: int,
        *,
        uid: int = 0,
        gid: int = 0,
        size: int = 0,
        mtime_ns: int = 0,
        rdev: tuple[int, int] = (0, 0),
        target: bytes = b"",
        xattrs: dict[bytes, bytes] | None = None,
        blob: str | bytes = b"",
        link: Hashable = None,
        flags: int = 0,
    ) -> None:
        """`mode` with its type bits. `blob`: hash of a regular file's content. `link`: the same for all names of one
        file.

        A whiteout has mode 0 and the flag. `size` is asked for only of regular files.
        """
        digest = bytes.fromhex(blob) if isinstance(blob, str) else blob
        if st.S_ISREG(mode) != (len(digest) == 32):
            raise BadManifest(f"{shown(path)}: a regular file, and nothing else, has the hash of a blob.")
        if size < 0 or (size and not st.S_ISREG(mode)):
            raise BadManifest(f"{shown(path)}: only a regular file has a size.")
        if bool(target) != st.S_ISLNK(mode) or b"\0" in target:
            raise BadManifest(f"{shown(path)}: a symbolic link, and nothing else, has a target, without NUL.")
        if any(rdev) and not (st.S_ISCHR(mode) or st.S_ISBLK(mode)):
            raise BadManifest(f"{shown(path)}: only a device has a device number.")
        number = self._links.setdefault(link, len(self._links) + 1) if link is not None else 0
        packed = pack_xattrs(xattrs) if xattrs else b""
        self._names += 1
        self._text += len(path) + len(target) + len(packed)
        if len(path) > PATH_LIMIT:
            raise BadManifest(f"{shown(path)}: the path is longer than Linux can name.")
        if not names_fit(self._text, self._names):
            raise BadManifest(f"{shown(path)}: up to here paths, links and attributes take {self._text >> 20} MiB.")
        try:
            self._tree.add(
                path, mode, uid, gid, size, mtime_ns, *rdev, target, packed, digest or NO_BLOB, number, flags
            )
        except (ValueError, OverflowError) as error:
            raise BadManifest(f"{shown(path)}: {error}.") from None
        self._has_root |= not path

    def copy(self, entry: Entry, layer: int = 0) -> None:
        """Add the entry of another manifest. Names of one file in one layer stay names of one file; the link count is
        that of the names added here."""
        self.add(
            entry.path,
            entry.mode,
            uid=entry.uid,
            gid=entry.gid,
            size=entry.size if entry.is_file else 0,
            mtime_ns=entry.mtime_ns,
            rdev=(entry.rdev_major, entry.rdev_minor),
            target=entry.target,
            xattrs=entry.xattrs,
            blob=entry.blob if entry.is_file else b"",
            link=(layer, entry.inode) if entry.nlink > 1 and not entry.is_directory else None,
        )

    def add_whiteout(self, path: bytes) -> None:
        """The name does not exist, whatever the layers below say."""
        self.add(path, 0, flags=WHITEOUT)

    def finish(self) -> bytes:
        if not self._has_root:
            self.add(b"", st.S_IFDIR | 0o755)
        return bytes(finish_tree(self._tree))


def finish_tree(tree: _core.Tree) -> bytearray:
    try:
        file, tables_at = tree.build()
    except ValueError as error:
        why, path = error.args
        raise BadManifest(f"{shown(path)}: {why}.") from None
    view = memoryview(file)
    attempt = 0
    # The seed comes from the content, so an attacker cannot choose names that collide. If they collide by chance, the
    # next attempt is as deterministic as the first.
    while not _core.manifest_fill(file, name_seed(view[HEADER_SIZE:tables_at], attempt)):
        attempt += 1
    _core.manifest_seal(file, blake3(view[HEADER_SIZE:]).digest())
    return file


def name_seed(content: memoryview, attempt: int) -> bytes:
    return blake3(content).update(bytes([attempt])).digest()[:16]
