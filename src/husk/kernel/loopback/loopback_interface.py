"""kernel: the interface ioctls (netdevice(7)) of a box whose network sockets husk makes outside of its namespace.

The host would answer them for its own interfaces, with their names and addresses. Such a box has one: lo. Only commands
that ask are answered.
"""

from __future__ import annotations

import errno
import os
import struct

from husk.abi.ioctls import INTERFACE
from husk.native._core import socket_kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.kernel.call import Call

AF_INET = 2
IFREQ = 40  # bytes of struct ifreq: a name of 16, then what is asked or answered
NAME = b"lo".ljust(16, b"\0")
INDEX = struct.pack("<i", 1)
UP_LOOPBACK_RUNNING = 0x49
ARPHRD_LOOPBACK = 772
ETHTOOL = {
    struct.pack("<I", 10): struct.pack("<I", 1),  # ETHTOOL_GLINK: up
    # ETHTOOL_GET_TS_INFO, a struct ethtool_ts_info: time stamps of software only, and no clock
    struct.pack("<I", 0x41): struct.pack("<Ii32x", 2 | 8 | 16, -1),
}
ANSWERS = {
    "SIOCGIFFLAGS": struct.pack("<H", UP_LOOPBACK_RUNNING),
    "SIOCGIFMETRIC": struct.pack("<i", 0),
    "SIOCGIFMTU": struct.pack("<i", 65536),
    "SIOCGIFHWADDR": struct.pack("<H14x", ARPHRD_LOOPBACK),
    "SIOCGIFINDEX": INDEX,
    "SIOCGIFTXQLEN": struct.pack("<i", 1000),
    "SIOCGIFMAP": bytes(24),
}


def _address(text: bytes) -> bytes:
    return struct.pack("<HH4s8x", AF_INET, 0, text)


ADDRESSES = {
    "SIOCGIFADDR": _address(b"\x7f\0\0\1"),
    "SIOCGIFDSTADDR": _address(b"\x7f\0\0\1"),
    "SIOCGIFBRDADDR": _address(bytes(4)),
    "SIOCGIFNETMASK": _address(b"\xff\0\0\0"),
}
_NAMES = {number: name for name, number in INTERFACE.items()}


def answer_interface_ioctl(call: Call, fd: int, command: int, address: int) -> int:
    """`command` is one of `abi.ioctls.INTERFACE`. For any socket, but addresses only of an IPv4 one."""
    asked, family = _NAMES[command], _family(call, fd)
    if asked == "SIOCGIFCONF":
        return _list(call, address)
    found = call.raw.read(address, IFREQ)
    if asked == "SIOCGIFNAME":
        if found[16:20] != INDEX:
            raise OSError(errno.ENODEV, "no interface has this number")
        call.raw.write(address, NAME)
        return 0
    told = ANSWERS.get(asked) or (ADDRESSES.get(asked) if family == AF_INET else None)
    if told is None and asked != "SIOCETHTOOL":
        raise OSError(errno.ENOTTY, "not answered for this socket")
    if found[:16].partition(b"\0")[0] != b"lo":
        raise OSError(errno.ENODEV, "the box has only lo")
    if told is None:
        return _ask_link(call, int.from_bytes(found[16:24], "little"))
    call.raw.write(address + 16, told)
    return 0


def _ask_link(call: Call, address: int) -> int:
    """SIOCETHTOOL: whether there is a link, and which time stamps, which is all that Linux tells of lo."""
    asked = call.raw.read(address, 4)
    if asked not in ETHTOOL:
        raise OSError(errno.EOPNOTSUPP, "lo is no device")
    call.raw.write(address + 4, ETHTOOL[asked])
    return 0


def _list(call: Call, address: int) -> int:
    """struct ifconf: the size of a buffer, and where it is; without one, how large it has to be."""
    size, buffer = struct.unpack("<i4xQ", call.raw.read(address, 16))
    if not buffer:
        call.raw.write(address, struct.pack("<i", IFREQ))
        return 0
    fits = size >= IFREQ
    if fits:
        call.raw.write(buffer, (NAME + ADDRESSES["SIOCGIFADDR"]).ljust(IFREQ, b"\0"))
    call.raw.write(address, struct.pack("<i", IFREQ if fits else 0))
    return 0


def _family(call: Call, fd: int) -> int:
    if not call.raw.fd_link(fd).startswith(b"socket:"):  # EBADF
        raise OSError(errno.ENOTTY, "not a socket")
    own = call.raw.get_fd(fd)
    try:
        return socket_kind(own)[0]
    finally:
        os.close(own)
