"""getdents(2), getdents64(2), getcwd(2), chdir(2): directories as the guest reads and inhabits them.

The host kernel keeps both the reading position (of the placeholder's descriptor) and the working directory, so dup,
fork and threads share them as Linux says; fchdir(2) is native for the same reason.
"""

from __future__ import annotations

import errno
import os

from husk.abi.structs import pack_dirent, pack_dirent64
from husk.kernel.call import (
    AT_FDCWD,
    Call,
    Reply,
    answered_remotely,
    i32,
    open_link,
    path,
    start_dir,
    working_directory,
)
from husk.vfs.node import Dir
from husk.vfs.synth.synth_tree import path_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = 4096
MOST_PER_CALL = 1 << 20  # a larger buffer is filled partly, which readers must expect anyway


def getdents64(call: Call) -> Reply:
    return _getdents(call, pack_dirent64)


def getdents(call: Call) -> Reply:
    return _getdents(call, pack_dirent)


def getcwd(call: Call) -> Reply:
    directory = working_directory(call)
    here = call.vfs.path_of(directory)
    call.kernel.names.learn_path(directory, here)
    if (root := call.own_root()) is not None:
        here = path_from(root, here) or b"(unreachable)" + here
    text = here + b"\0"
    if len(text) > call.args[1]:
        raise OSError(errno.ERANGE, "the buffer is too small")
    call.raw.write(call.args[0], text)
    return len(text)


def chdir(call: Call) -> Reply:
    name = path(call, 0)
    node = call.vfs.walk(call, start_dir(call, AT_FDCWD, name), name)
    if not isinstance(node, Dir):
        raise OSError(errno.ENOTDIR, "not a directory")
    call.vfs.access_node(call, node, os.X_OK)
    # Not O_PATH: the host refuses to inject such a descriptor (seccomp looks it up with fget).
    place = call.vfs.placeholder_fd(call, node, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return answered_remotely(call.raw.change_directory(place))
    finally:
        os.close(place)


def _getdents(call: Call, pack: Callable[[int, int, int, bytes], bytes]) -> Reply:
    # Linux counts down in an int: a size beyond its range leaves room for no entry, and EINVAL is what that means.
    fd, room = i32(call, 0), min(i32(call, 2), MOST_PER_CALL)
    directory = _listed(call, fd)
    try:
        shared = call.raw.get_fd(fd)
    except PermissionError:
        # Docker's default profile keeps pidfd_getfd from us; the guest can be made to seek, at the price of a stop.
        size, position = _copy_out(call, directory, call.raw.position(fd), room, pack)
        return answered_remotely(call.raw.seek(fd, position, size))
    try:
        size, position = _copy_out(call, directory, os.lseek(shared, 0, os.SEEK_CUR), room, pack)
        if call.kernel.names.watched and call.vfs.state.mirror_path(directory):
            with os.scandir(shared) as host:  # so that a watcher sees it read
                next(host, None)
        os.lseek(shared, position, os.SEEK_SET)
        return size
    finally:
        os.close(shared)


def _copy_out(
    call: Call, directory: Dir, position: int, room: int, pack: Callable[[int, int, int, bytes], bytes]
) -> tuple[int, int]:
    """The entries behind `position` into the guest's buffer: how many bytes, and the position behind the last."""
    records, behind = call.kernel.listings.read(call, directory, position, room, pack)
    try:
        call.raw.write(call.args[1], records)
        return len(records), behind
    except OSError as problem:
        # Linux copies entry by entry and fails only when not even the first fits before memory ends.
        good = _writable(call, records) if problem.errno == errno.EFAULT else 0
        if not good:
            raise
        try:
            records, behind = call.kernel.listings.read(call, directory, position, good, pack)
        except OSError:
            raise problem from None
    call.raw.write(call.args[1], records)
    return len(records), behind


def _writable(call: Call, records: bytes) -> int:
    """How much of the guest's buffer takes `records` before the first page that does not."""
    done = 0
    while done < len(records):
        piece = PAGE - (call.args[1] + done) % PAGE
        try:
            call.raw.write(call.args[1] + done, records[done : done + piece])
        except OSError:
            break
        done += piece
    return done


def _listed(call: Call, fd: int) -> Dir:
    directory = call.vfs.node_of_link(open_link(call, fd), 0, 0)
    if not isinstance(directory, Dir):
        raise OSError(errno.ENOTDIR, "not a directory")
    if directory.removed:
        raise OSError(errno.ENOENT, "the directory is gone")
    return directory
