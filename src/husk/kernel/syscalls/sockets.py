"""bind(2), connect(2), getsockname(2), getpeername(2): calls that name a peer, or are told its name.

The address is copied once, judged, and used by husk on a duplicate of the guest's socket; letting the host read it from
guest memory would let a second thread change a harmless address into `../../run/docker.sock` in between.
"""

from __future__ import annotations

import errno
import os
import stat as st

from husk.kernel.call import AT_FDCWD, Call, Refused, Reply, i32, open_link, start_dir
from husk.kernel.sockets import unix_address
from husk.kernel.waiting import later
from husk.native._core import bind_address, connect_address, socket_name

AF_UNSPEC, AF_INET, AF_INET6 = 0, 2, 10
LONGEST_ADDRESS = 128


def bind(call: Call) -> Reply:
    fd = _socket(call)
    try:
        address = _address(call)
        name = _path_in(address)
        if name:
            start = start_dir(call, AT_FDCWD, name)
            bound = call.kernel.sockets
            call.vfs.bind(call, start, name, 0o777, lambda directory, entry: bound.bind(fd, name, directory, entry))
        else:
            _must_be_confined(call, address)
            bind_address(fd, address)
    finally:
        os.close(fd)
    return 0


def connect(call: Call) -> Reply:
    fd = _socket(call)
    held = [fd]
    try:
        address = _address(call)
        name = _path_in(address)
        if name:
            held.append(_socket_file(call, name))
            address = unix_address(b"/proc/self/fd/%d" % held[1])
        else:
            _must_be_confined(call, address)
        if os.get_blocking(fd) and address[:2] != b"\0\0":
            target = held.pop(0)
            path_fd = held.pop() if held else -1
            return later(call, lambda: _connect_and_close(target, address, path_fd), target, also=path_fd)
        connect_address(fd, address)
    finally:
        for each in held:
            os.close(each)
    return 0


def getsockname(call: Call) -> Reply:
    return _name(call, peer=False)


def getpeername(call: Call) -> Reply:
    return _name(call, peer=True)


# -- what they mean ----------------------------------------------------------------------------------------------------


def _socket(call: Call) -> int:
    """A duplicate of the guest's socket: EBADF and ENOTSOCK come before anything about the address."""
    open_link(call, i32(call, 0))
    fd = call.raw.get_fd(i32(call, 0))
    try:
        if not st.S_ISSOCK(os.fstat(fd).st_mode):
            raise OSError(errno.ENOTSOCK, "not a socket")
    except OSError:
        os.close(fd)
        raise
    return fd


def _name(call: Call, *, peer: bool) -> Reply:
    fd = _socket(call)
    try:
        address = socket_name(fd, peer)
    finally:
        os.close(fd)
    room = int.from_bytes(call.raw.read(call.args[2], 4), "little", signed=True)
    if room < 0:
        raise OSError(errno.EINVAL, "a negative size")
    shown = address[:2] + call.kernel.sockets.guest_name(address[2:]) if address[:2] == b"\1\0" else address
    call.raw.write(call.args[1], shown[:room])
    call.raw.write(call.args[2], len(shown).to_bytes(4, "little"))
    return 0


def _connect_and_close(fd: int, address: bytes, path_fd: int) -> int:
    try:
        connect_address(fd, address)
    finally:
        if path_fd >= 0:
            os.close(path_fd)
    return 0


def _address(call: Call) -> bytes:
    size = i32(call, 2)
    if not 2 <= size <= LONGEST_ADDRESS:
        raise OSError(errno.EINVAL, "an address of impossible length")
    return call.raw.read(call.args[1], size)


def _path_in(address: bytes) -> bytes:
    """The path of a Unix address; empty for unnamed and abstract ones, and for other families."""
    return address[2:].split(b"\0", 1)[0] if address[:2] == b"\1\0" else b""


def _socket_file(call: Call, name: bytes) -> int:
    node = call.vfs.walk(call, start_dir(call, AT_FDCWD, name), name)
    call.vfs.access_node(call, node, os.W_OK)
    if node.kind != st.S_IFSOCK:
        raise OSError(errno.ECONNREFUSED, "not a socket")
    return node.tree.open(call, node, os.O_PATH)


def _far_address(family: int, address: bytes) -> str:
    """The address as text where it is neither loopback nor "any"."""
    port = int.from_bytes(address[2:4], "big")
    if family == AF_INET and len(address) >= 8 and address[4] not in (0, 127):
        return ".".join(str(byte) for byte in address[4:8]) + f":{port}"
    if family == AF_INET6 and len(address) >= 24:
        ip = address[8:24]
        mapped = ip[:12] == bytes(10) + b"\xff\xff"
        if mapped:
            return _far_address(AF_INET, address[:4] + ip[12:])
        if any(ip[:15]) or ip[15] > 1:
            return f"[{ip.hex(':', 2)}]:{port}"
    return ""


def _must_be_confined(call: Call, address: bytes) -> None:
    """Without a network namespace the box's loopback, and its abstract names, would be the host's; with one, loopback
    is all there is, and whoever wants more is told so instead of being left with the host's bare ENETUNREACH."""
    family = int.from_bytes(address[:2], "little")
    far = _far_address(family, address)
    if far:
        raise Refused(
            errno.ENETUNREACH, "the box's network is its own loopback and nothing else", f"connection to {far}"
        )
    if not call.kernel.walls.net and family != AF_UNSPEC and len(address) > 2:
        raise Refused(errno.EACCES, "no network namespace confines this box, so husk lets no network address through")
