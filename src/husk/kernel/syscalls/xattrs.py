"""getxattr(2), listxattr(2), setxattr(2), removexattr(2) and their l* and f* forms."""

from __future__ import annotations

import errno

from husk.kernel.call import AT_FDCWD, Call, Reply, held_node, i32, open_link, path, start_dir, u32
from husk.vfs.node import Node

NAME_MAX, SIZE_MAX = 255, 65536


def getxattr(call: Call) -> Reply:
    return _get(call, _named(call, follow=True))


def lgetxattr(call: Call) -> Reply:
    return _get(call, _named(call, follow=False))


def fgetxattr(call: Call) -> Reply:
    return _get(call, _held(call))


def listxattr(call: Call) -> Reply:
    return _list(call, _named(call, follow=True))


def llistxattr(call: Call) -> Reply:
    return _list(call, _named(call, follow=False))


def flistxattr(call: Call) -> Reply:
    return _list(call, _held(call))


def setxattr(call: Call) -> Reply:
    return _set(call, _named(call, follow=True))


def lsetxattr(call: Call) -> Reply:
    return _set(call, _named(call, follow=False))


def fsetxattr(call: Call) -> Reply:
    return _set(call, _held(call))


def removexattr(call: Call) -> Reply:
    return _remove(call, _named(call, follow=True))


def lremovexattr(call: Call) -> Reply:
    return _remove(call, _named(call, follow=False))


def fremovexattr(call: Call) -> Reply:
    return _remove(call, _held(call))


# -- what they mean ----------------------------------------------------------------------------------------------------


def _named(call: Call, *, follow: bool) -> Node:
    name = path(call, 0)
    return call.vfs.walk(call, start_dir(call, AT_FDCWD, name), name, follow=follow)


def _held(call: Call) -> Node | None:
    open_link(call, i32(call, 0))
    return held_node(call, i32(call, 0))


def _attribute(call: Call) -> bytes:
    try:
        name = call.raw.cstring(call.args[1], NAME_MAX + 1)
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


def _get(call: Call, node: Node | None) -> Reply:
    name = _attribute(call)
    if node is None:  # a pipe, a socket: none there, and none can be set
        raise OSError(errno.ENODATA, "no such attribute")
    return _give(call, call.vfs.get_xattr(call, node, name), call.args[2], call.args[3])


def _list(call: Call, node: Node | None) -> Reply:
    names = call.vfs.list_xattr(call, node) if node is not None else []
    return _give(call, b"".join(name + b"\0" for name in names), call.args[1], call.args[2])


def _set(call: Call, node: Node | None) -> Reply:
    flags = u32(call, 4)
    if flags & ~3:
        raise OSError(errno.EINVAL, "unknown flag")
    name = _attribute(call)
    if call.args[3] > SIZE_MAX:
        raise OSError(errno.E2BIG, "an attribute holds at most 64 KiB")
    value = call.raw.read(call.args[2], call.args[3])
    if node is None:
        raise OSError(errno.EPERM, "not a file")
    call.vfs.set_xattr(call, node, name, value, flags)
    return 0


def _remove(call: Call, node: Node | None) -> Reply:
    name = _attribute(call)
    if node is None:
        raise OSError(errno.EPERM, "not a file")
    call.vfs.remove_xattr(call, node, name)
    return 0
