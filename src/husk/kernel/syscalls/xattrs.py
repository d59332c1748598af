"""getxattr(2), listxattr(2), setxattr(2), removexattr(2), their l* and f* forms, and the *xattrat forms of Linux 6.13.

Linux copies the attribute's name and value before it looks for the file, so the file is found last here, too.
"""

from __future__ import annotations

import errno
import struct

from husk.kernel.call import (
    AT_FDCWD,
    Call,
    Reply,
    held_node,
    i32,
    open_link,
    path,
    start_dir,
    text,
    u32,
    working_directory,
)
from husk.vfs.node import Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Find = Callable[[], Node | None]

NAME_MAX, SIZE_MAX = 255, 65536
AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH = 0x100, 0x1000
XATTR_ARGS = struct.Struct("<QII")  # value, size, flags
PAGE = 4096


def getxattr(call: Call) -> Reply:
    return _get(call, lambda: _named(call, follow=True), 1, call.args[2], call.args[3])


def lgetxattr(call: Call) -> Reply:
    return _get(call, lambda: _named(call, follow=False), 1, call.args[2], call.args[3])


def fgetxattr(call: Call) -> Reply:
    return _get(call, lambda: _held(call), 1, call.args[2], call.args[3])


def getxattrat(call: Call) -> Reply:
    value, size, flags = _arguments(call)
    if flags:
        raise OSError(errno.EINVAL, "reading takes no flags")
    return _get(call, _at(call), 3, value, size)


def listxattr(call: Call) -> Reply:
    return _list(call, _named(call, follow=True), call.args[1], call.args[2])


def llistxattr(call: Call) -> Reply:
    return _list(call, _named(call, follow=False), call.args[1], call.args[2])


def flistxattr(call: Call) -> Reply:
    return _list(call, _held(call), call.args[1], call.args[2])


def listxattrat(call: Call) -> Reply:
    return _list(call, _at(call)(), call.args[3], call.args[4])


def setxattr(call: Call) -> Reply:
    return _set(call, lambda: _named(call, follow=True), 1, call.args[2], call.args[3], u32(call, 4))


def lsetxattr(call: Call) -> Reply:
    return _set(call, lambda: _named(call, follow=False), 1, call.args[2], call.args[3], u32(call, 4))


def fsetxattr(call: Call) -> Reply:
    return _set(call, lambda: _held(call), 1, call.args[2], call.args[3], u32(call, 4))


def setxattrat(call: Call) -> Reply:
    arguments = _arguments(call)
    return _set(call, _at(call), 3, *arguments)


def removexattr(call: Call) -> Reply:
    return _remove(call, lambda: _named(call, follow=True), 1)


def lremovexattr(call: Call) -> Reply:
    return _remove(call, lambda: _named(call, follow=False), 1)


def fremovexattr(call: Call) -> Reply:
    return _remove(call, lambda: _held(call), 1)


def removexattrat(call: Call) -> Reply:
    return _remove(call, _at(call), 3)


# -- which file --------------------------------------------------------------------------------------------------------


def _named(call: Call, *, follow: bool) -> Node:
    name = path(call, 0)
    return call.vfs.walk(call, start_dir(call, AT_FDCWD, name), name, follow=follow)


def _held(call: Call) -> Node | None:
    open_link(call, i32(call, 0))
    return held_node(call, i32(call, 0))


def _at(call: Call) -> Find:
    dirfd, flags = i32(call, 0), u32(call, 2)
    if flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH):
        raise OSError(errno.EINVAL, "unknown flag")

    def find() -> Node | None:
        name = b"" if flags & AT_EMPTY_PATH and not call.args[1] else path(call, 1)
        if name or not flags & AT_EMPTY_PATH:
            return call.vfs.walk(call, start_dir(call, dirfd, name), name, follow=not flags & AT_SYMLINK_NOFOLLOW)
        if dirfd == AT_FDCWD:
            return working_directory(call)
        open_link(call, dirfd)
        return held_node(call, dirfd)

    return find


def _arguments(call: Call) -> tuple[int, int, int]:
    """struct xattr_args: where the value is, its size, flags."""
    size = call.args[5]
    if size < XATTR_ARGS.size:
        raise OSError(errno.EINVAL, "struct xattr_args is too small")
    if size > PAGE:
        raise OSError(errno.E2BIG, "struct xattr_args is too large")
    given = call.raw.read(call.args[4], size)
    if any(given[XATTR_ARGS.size :]):
        raise OSError(errno.E2BIG, "struct xattr_args has fields husk does not know")
    value, length, flags = XATTR_ARGS.unpack_from(given)
    return value, length, flags


# -- what they mean ----------------------------------------------------------------------------------------------------


def _attribute(call: Call, n: int) -> bytes:
    try:
        name = text(call, n, NAME_MAX + 1)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise OSError(errno.ERANGE, "an attribute's name is at most 255 bytes") from None
        raise
    if not name:
        raise OSError(errno.ERANGE, "an attribute has a name")
    return name


def _give(call: Call, data: bytes, to: int, room: int) -> Reply:
    if not room:
        return len(data)
    if room < len(data):
        raise OSError(errno.ERANGE, "the buffer is too small")
    call.raw.write(to, data)
    return len(data)


def _get(call: Call, find: Find, n: int, to: int, room: int) -> Reply:
    name = _attribute(call, n)
    node = find()
    if node is None:  # a pipe, a socket: none there, and none can be set
        raise OSError(errno.ENODATA, "no such attribute")
    return _give(call, call.vfs.get_xattr(call, node, name), to, room)


def _list(call: Call, node: Node | None, to: int, room: int) -> Reply:
    names = call.vfs.list_xattr(call, node) if node is not None else []
    return _give(call, b"".join(name + b"\0" for name in names), to, room)


def _set(call: Call, find: Find, n: int, value_at: int, size: int, flags: int) -> Reply:
    if flags & ~3:
        raise OSError(errno.EINVAL, "unknown flag")
    name = _attribute(call, n)
    if size > SIZE_MAX:
        raise OSError(errno.E2BIG, "an attribute holds at most 64 KiB")
    value = call.raw.read(value_at, size)
    node = find()
    if node is None:
        raise OSError(errno.EPERM, "not a file")
    call.vfs.set_xattr(call, node, name, value, flags)
    return 0


def _remove(call: Call, find: Find, n: int) -> Reply:
    name = _attribute(call, n)
    node = find()
    if node is None:
        raise OSError(errno.EPERM, "not a file")
    call.vfs.remove_xattr(call, node, name)
    return 0
