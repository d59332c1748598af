"""vfs: what lies below a layer. A `Lower` answers for one tree that the layer shows and never changes.

Here the tree is a host directory, asked live, or one file that husk wrote itself; in `image_lower` it is an image of
the store. All questions are by relative name from the tree's root; none follows a link, and no guest name is resolved
here.
"""

from __future__ import annotations

import errno
import os

from husk.native._core import HostStat, list_names, open_beneath, stat_beneath, stat_fd
from husk.vfs.host.host_file import beneath, close_guarded, open_lower, read_link, stat_as
from husk.vfs.node import ACL_ACCESS, ACL_DEFAULT, Stat, error
from husk.vfs.permissions import READ, permitted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from husk.native import _core
    from husk.vfs.host.host_file import Key
    from husk.vfs.host.tree_rules import TreeRules
    from husk.vfs.layer.inodes import LayerDir
    from husk.vfs.node import Credentials

S_IFMT, S_IFREG = 0o170000, 0o100000
BLOCK = 4096


def guest_attributes(found: dict[bytes, bytes], uids: dict[int, int], gids: dict[int, int]) -> dict[bytes, bytes]:
    """The attributes of a manifest's entry that a guest sees: its own, and ACLs with the box's ids."""
    shown = {name: value for name, value in found.items() if name.startswith(b"user.")}
    if ACL_ACCESS in found or ACL_DEFAULT in found:
        from husk.vfs.access.posix_acl import of_box

        shown |= of_box(found, uids, gids)
    return shown


class Lower:
    """One host directory whose content shows through: its descriptor, its host path, and maps of its owners.

    `top` is the directory that shows the tree's root. `moved` knows lower directories the guest renamed, by their lower
    name, so that an open host file can be traced back to where it is now.
    """

    __slots__ = ("baseline", "blobs", "fd", "gids", "label", "mapped", "moved", "path", "rules", "top", "uids")

    exclusive = False  # nothing beneath `path` belongs to another tree below the same layer
    is_host = True  # names can be looked up beneath `fd` without this object
    in_memory = False  # no host file has the content: a real file is made before it is opened

    def __init__(self, fd: int, path: bytes, uids: dict[int, int] | None, gids: dict[int, int] | None) -> None:
        self.fd, self.path = fd, path
        self.label = path  # its name in the manifest of a kept box
        self.uids, self.gids = uids or {}, gids or {}
        self.moved: dict[bytes, LayerDir] = {}
        self.top: LayerDir | None = None
        self.mapped: _core.Manifest | None = None  # of an image: where names can be looked up instead
        self.blobs = b""  # of an image: where the contents lie, with a slash at its end
        self.rules: TreeRules | None = None
        # What files were when the guest first changed or removed them, by name; None: it is not needed.
        self.baseline: dict[bytes, HostStat] | None = None

    def host_name(self, rel: bytes) -> bytes | None:
        """The host's name of a file; None in an image."""
        if not self.is_host:
            return None
        return self.path if self.top is None else self.path.rstrip(b"/") + b"/" + rel  # without a top it is one file

    def stat(self, rel: bytes) -> HostStat:
        """What lstat says, with the owners unchanged. (device, inode) is the file's identity in this tree."""
        return stat_beneath(self.fd, rel)

    def keep_baseline(self) -> None:
        """Remember from now on what files were when the guest first changed them."""
        self.baseline = {}

    def record(self, rel: bytes, info: HostStat) -> None:
        """`rel` is about to differ. The first time counts: a later one may find what the host changed meanwhile."""
        if self.baseline is not None:
            self.baseline.setdefault(rel, info)

    def shown_owner(self, info: HostStat) -> tuple[int, int]:
        """uid and gid as the guest sees them."""
        return self.uids.get(info.uid, info.uid), self.gids.get(info.gid, info.gid)

    def names(self, rel: bytes) -> Iterable[tuple[bytes, tuple[int, int], int]]:
        """Name, identity (device and inode) and kind of each entry of the directory."""
        try:
            fd = open_beneath(self.fd, rel, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            return ()
        try:
            dev = stat_fd(fd).dev
            found = [(name, (dev, ino), kind) for name, ino, kind in list_names(fd)]
        finally:
            os.close(fd)
        if self.rules is None:
            return found
        hidden = self.rules.hidden(rel, [(name, identity) for name, identity, _ in found])
        return [one for one in found if one[0] not in hidden]

    def read_link(self, rel: bytes) -> bytes:
        return read_link(self.fd, rel)

    def open(self, rel: bytes, flags: int, kind: int, key: Key, creds: Credentials) -> int:
        """A descriptor for the guest, of a file that a look-up found to be of `kind`. `key` is the file that was
        checked; if the host has replaced it since, `creds` must be allowed to read the new one."""
        return open_lower(self.fd, rel, flags, kind, key, lambda found: permitted(creds, self._shown(found), READ))

    def _shown(self, info: HostStat) -> Stat:
        return stat_as(info, info.dev, info.ino, *self.shown_owner(info))

    def content(self, rel: bytes, key: Key = None) -> int:
        """A descriptor to copy the file from. A host process may have replaced the file; where `key` is given, only
        that file will do, because its copy will be the guest's."""
        source = open_beneath(self.fd, rel, os.O_RDONLY | os.O_NONBLOCK)
        try:
            found = stat_fd(source)
            if found.mode & S_IFMT != S_IFREG:
                raise error(errno.EIO)
            if key is not None and (found.dev, found.ino) != key:
                raise error(errno.ESTALE)
        except OSError:
            os.close(source)
            raise
        return source

    def link_name(self, rel: bytes) -> bytes:
        """The name beneath `fd` that a file is opened by."""
        return rel

    def xattrs(self, rel: bytes) -> dict[bytes, bytes]:
        """None of the host's: its labels would reveal something about the host."""
        return {}

    def trace(self, path: bytes, dev: int, ino: int) -> tuple[bytes, tuple[int, int]] | None:
        """(name, identity) of the file behind an open descriptor; None: it is not of this tree."""
        rel = beneath(self.path, path)
        return None if rel is None else (rel, (dev, ino))

    def close(self) -> None:
        close_guarded(self.fd)


class Generated(Lower):
    """One file that husk wrote for the box, in memory. Most boxes open few of theirs, and a file on the host's disk
    costs more than all else that is done for it."""

    __slots__ = ("_content", "_when")

    is_host = False
    in_memory = True

    def __init__(self, content: bytes, when: int) -> None:
        super().__init__(-1, b"", None, None)
        self._content, self._when = content, when

    def stat(self, rel: bytes) -> HostStat:
        size, when = len(self._content), self._when
        blocks = (size + BLOCK - 1) // BLOCK * (BLOCK // 512)
        return HostStat((0, 0, S_IFREG | 0o600, 1, 0, 0, 0, size, BLOCK, blocks, when, when, when))

    def open(self, rel: bytes, flags: int, kind: int, key: Key, creds: Credentials) -> int:
        fd = self.content(rel)
        try:
            return os.open(b"/proc/self/fd/%d" % fd, flags & ~os.O_NOFOLLOW)
        finally:
            os.close(fd)

    def content(self, rel: bytes, key: Key = None) -> int:
        fd = os.memfd_create("generated", os.MFD_CLOEXEC)
        try:
            os.write(fd, self._content)
        except BaseException:
            os.close(fd)
            raise
        return fd
