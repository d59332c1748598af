"""vfs: an image of the store below a layer — names and attributes from a manifest, contents from blobs.

A blob is opened through a link of its own for each virtual file (`<state>/images/<n>/<inode>`), so that /proc/PID/fd/N
names the file behind a descriptor, however many files share its content. Locks on two files collide only if their
contents are the same. Nothing here ever opens a blob for writing.
"""

from __future__ import annotations

import errno
import os
import stat as st

from husk.native._core import HostStat
from husk.vfs.host.host_file import beneath
from husk.vfs.layer.lower import Lower, guest_attributes
from husk.vfs.node import Damaged, error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from husk.store import Entry, Manifest, Store
    from husk.vfs.host.host_file import Key
    from husk.vfs.node import Credentials

IMAGE_DEVICE = 1 << 40  # no host device has such a number
BLOCK = 4096


class ImageLower(Lower):
    """`device` tells the images of one box apart. `fd` and `path` are the directory of the links."""

    __slots__ = ("_manifest", "_store", "device")

    is_host = False

    def __init__(
        self,
        store: Store,
        manifest: Manifest,
        links: bytes,
        device: int,
        uids: dict[int, int] | None = None,
        gids: dict[int, int] | None = None,
    ) -> None:
        os.makedirs(links, 0o700)
        fd = os.open(links, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        super().__init__(fd, links, uids, gids)
        self.mapped = manifest.mapped
        self.blobs = os.fsencode(store.blobs) + b"/"
        self.label = b"image %d" % device
        self._store, self._manifest, self.device = store, manifest, IMAGE_DEVICE + device

    def _entry(self, rel: bytes) -> Entry:
        entry = self._manifest.lookup(rel)
        if entry is None:
            raise error(errno.ENOENT)
        return entry

    def stat(self, rel: bytes) -> HostStat:
        return self._stat(self._entry(rel))

    def _stat(self, entry: Entry) -> HostStat:
        size, nlink = entry.size, entry.nlink
        if entry.is_directory:
            size = BLOCK
        elif entry.is_link:
            size = len(entry.target)
        blocks = (size + BLOCK - 1) // BLOCK * (BLOCK // 512) if entry.is_file or entry.is_directory else 0
        when = entry.mtime_ns
        return HostStat(
            (
                self.device,
                entry.inode + 1,  # 0 is no inode number
                entry.mode,
                nlink,
                entry.uid,
                entry.gid,
                os.makedev(entry.rdev_major, entry.rdev_minor),
                size,
                BLOCK,
                blocks,
                when,
                when,
                when,
            )
        )

    def names(self, rel: bytes) -> Iterator[tuple[bytes, tuple[int, int], int]]:
        directory = self._manifest.lookup(rel)
        if directory is not None:
            for entry in self._manifest.children(directory):
                yield entry.name, (self.device, entry.inode + 1), st.S_IFMT(entry.mode)

    def read_link(self, rel: bytes) -> bytes:
        entry = self._entry(rel)
        if not entry.is_link:
            raise error(errno.EINVAL)
        return entry.target

    def open(self, rel: bytes, flags: int, kind: int, key: Key, creds: Credentials) -> int:
        """Nothing in an image changes: the file is the one that was checked."""
        entry = self._entry(rel)
        if not entry.is_file:
            raise error(errno.ENXIO if st.S_ISSOCK(entry.mode) else errno.EACCES)
        name = b"%d" % entry.inode
        # Reading alone: a file that is opened for writing was copied up before.
        flags = flags & ~(os.O_ACCMODE | os.O_TRUNC) | os.O_NOFOLLOW | os.O_CLOEXEC
        for _ in range(2):
            try:
                fd = os.open(name, flags, dir_fd=self.fd)
                break
            except FileNotFoundError:
                self._link(entry, name)
            except PermissionError:
                if not flags & os.O_NOATIME:
                    raise
                flags &= ~os.O_NOATIME  # only the file's owner may use it
        else:
            fd = os.open(name, flags, dir_fd=self.fd)
        return fd

    def _link(self, entry: Entry, name: bytes) -> None:
        try:
            os.link(self._store.blob_path(entry.hash), name, dst_dir_fd=self.fd, follow_symlinks=False)
        except FileExistsError:
            pass
        except FileNotFoundError:
            raise self._lacking(entry) from None
        except OSError as failure:
            # Another file system, another owner, or the most links an inode can have (65,000 on ext4).
            if failure.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EACCES, errno.EOPNOTSUPP):
                raise
            self._copy(entry, name)

    def _copy(self, entry: Entry, name: bytes) -> None:
        from husk.vfs.layer.content_copy import copy_content

        source = self._blob(entry)
        unfinished = name + b".new"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            target = os.open(unfinished, flags, 0o600, dir_fd=self.fd)
            try:
                copy_content(source, target)
                os.fchmod(target, 0o444)
            finally:
                os.close(target)
            os.rename(unfinished, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        finally:
            os.close(source)

    def content(self, rel: bytes, key: Key = None) -> int:
        entry = self._entry(rel)
        if not entry.is_file:
            raise error(errno.EIO)
        return self._blob(entry)

    def _blob(self, entry: Entry) -> int:
        try:
            return os.open(self._store.blob_path(entry.hash), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            raise self._lacking(entry) from None

    def _lacking(self, entry: Entry) -> Damaged:
        return Damaged(f"the image lacks its content {entry.hash}; `husk store verify` says what to do")

    def link_name(self, rel: bytes) -> bytes:
        return b"%d" % self._entry(rel).inode

    def xattrs(self, rel: bytes) -> dict[bytes, bytes]:
        found = self._entry(rel).xattrs
        return guest_attributes(found, self.uids, self.gids) if found else found

    def trace(self, path: bytes, dev: int, ino: int) -> tuple[bytes, tuple[int, int]] | None:
        name = beneath(self.path, path)
        if name is None or not name.isdigit() or int(name) >= len(self._manifest):
            return None
        entry = self._manifest.entry(int(name))
        return entry.path, (self.device, entry.inode + 1)
