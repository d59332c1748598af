"""kernel: which files a box shares with the host or with other boxes, so that a lock on them would disturb those.

Here: the judgement over one open file. Not here: what a lock does (syscalls/locking.py, docs/design/016-locks.md).
"""

from __future__ import annotations

import os
import stat as st

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.vfs import Vfs

PSEUDO_TERMINALS = range(136, 144)  # device majors, as in Documentation/admin-guide/devices.txt

_memfd_device = 0


def shared_name(vfs: Vfs, via: bytes, link: bytes, found: os.stat_result, flags: int) -> bytes | None:
    """A name for the file, one for all its descriptors, if locks on it must be private to the box; else None. What is
    not known to be the box's own counts as shared. `via` leads to the open file, which has these `flags`."""
    if link[:1] != b"/":
        return None  # a pipe, a socket and the like
    state = vfs.state.path
    in_image = link.startswith(state + b"/images/")
    if link.startswith(state + b"/") and not in_image:
        return None
    name = link if in_image else b"%d:%d" % (found.st_dev, found.st_ino)
    if st.S_ISCHR(found.st_mode):
        return None if os.major(found.st_rdev) in PSEUDO_TERMINALS else name
    if flags & os.O_ACCMODE != os.O_RDONLY:
        return None  # below an `rw` mount, or the caller's: husk opens no other file of the host for writing
    if link.startswith(b"/memfd:") and found.st_dev == _device_of_memfds():
        return None
    return None if vfs.is_writable_host_file(link, found.st_dev, found.st_ino, via) else name


def _device_of_memfds() -> int:
    global _memfd_device
    if not _memfd_device:
        fd = os.memfd_create("device")
        _memfd_device = os.fstat(fd).st_dev
        os.close(fd)
    return _memfd_device
