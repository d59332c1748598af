"""kernel: IP options and control messages of a mapped network (ip(7), ipv6(7), RFC 3542).

IPv6 sockets of a mapped network speak IPv4 on the host. So what a guest asks of IPv6 (hop limit, traffic class,
original destination) is asked of IPv4 as well, and what the host tells of IPv4 packets is told as IPv6 would. Addresses
in control messages are the host's: here they become the guest's, and the interface is lo.
"""

from __future__ import annotations

import errno
import struct

from husk.kernel.loopback.groups import is_group
from husk.kernel.net.msghdr import control_messages, pack_control
from husk.native._core import get_option, set_option, socket_kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.kernel.net.mapped import MappedNetwork

AF_INET, AF_INET6 = 2, 10
SOL_SOCKET, SO_BINDTODEVICE, SO_BINDTOIFINDEX = 1, 25, 62
SOL_IP, IP_TOS, IP_TTL, IP_PKTINFO, IP_RECVTTL, IP_RECVTOS, IP_ORIGDSTADDR = 0, 1, 2, 8, 12, 13, 20
SOL_IPV6, IPV6_UNICAST_HOPS, IPV6_PKTINFO, IPV6_RECVHOPLIMIT, IPV6_HOPLIMIT = 41, 16, 50, 51, 52
IPV6_RECVTCLASS, IPV6_TCLASS, IPV6_ORIGDSTADDR = 66, 67, 74
SCM_CREDENTIALS = SOL_SOCKET, 2
IP_RECVERR, IPV6_RECVERR = 11, 25
ERRORS, EXTENDED_ERROR = ((SOL_IP, IP_RECVERR), (SOL_IPV6, IPV6_RECVERR)), struct.Struct("<IBBBxII")
LOCALHOST, LOCALHOST6 = b"\x7f\0\0\1", bytes(15) + b"\1"
PORT_UNREACHABLE, PORT_UNREACHABLE6 = (2, 3, 3), (3, 1, 4)  # origin, type and code
LO = 1  # the number of lo, here and in every network namespace
MAPPED_PREFIX = bytes(10) + b"\xff\xff"

# Options of IPv6, and what they are for IPv4.
TWINS = {
    IPV6_UNICAST_HOPS: IP_TTL,
    IPV6_RECVERR: IP_RECVERR,
    IPV6_RECVHOPLIMIT: IP_RECVTTL,
    IPV6_RECVTCLASS: IP_RECVTOS,
    IPV6_TCLASS: IP_TOS,
    IPV6_ORIGDSTADDR: IP_ORIGDSTADDR,
}


def sets(level: int, name: int) -> bool:
    """Whether this is an option that set_ip_option sets."""
    if level == SOL_SOCKET:
        return name in (SO_BINDTODEVICE, SO_BINDTOIFINDEX)
    return level == SOL_IPV6 and name in TWINS


def set_ip_option(fd: int, level: int, name: int, value: bytes) -> None:
    if level == SOL_SOCKET:
        _bind_to_device(fd, name, value)
        return
    set_option(fd, level, name, value[:4])  # the host knows which values it takes
    try:
        set_option(fd, SOL_IP, TWINS[name], value[:4])
    except OSError:
        if name != IPV6_UNICAST_HOPS or any(value[:4]):  # only IPv6 has a hop limit of 0
            raise


def _bind_to_device(fd: int, name: int, value: bytes) -> None:
    """To lo, where all packets of the box are, or to none again. The host's other interfaces do not exist."""
    if name == SO_BINDTODEVICE:
        text = value[:15].partition(b"\0")[0]
        if text not in (b"", b"lo"):
            raise OSError(errno.ENODEV, "the box has only lo")
        set_option(fd, SOL_SOCKET, SO_BINDTODEVICE, text + b"\0")
    else:
        if int.from_bytes(value[:4], "little", signed=True) not in (0, LO):
            raise OSError(errno.ENODEV, "the box has only lo")
        set_option(fd, SOL_SOCKET, SO_BINDTOIFINDEX, value[:4])


# -- control messages --------------------------------------------------------------------------------------------------


def to_host(level: int, kind: int, value: bytes) -> list[tuple[int, int, bytes]]:
    """A control message of a guest that sends, as the host gets it. Source addresses and interfaces are left out: husk
    has bound the socket, and there is but one interface."""
    if level == SOL_IP and kind in (IP_TOS, IP_TTL):
        return [(level, kind, value)]
    if level == SOL_IP and kind == IP_PKTINFO:
        _check_interface(value, 12, 0)
    elif level == SOL_IPV6 and kind == IPV6_PKTINFO:
        _check_interface(value, 20, 16)
    elif level == SOL_IPV6 and kind in (IPV6_HOPLIMIT, IPV6_TCLASS):
        # To an IPv4 address the host takes the one, to an IPv6 address the other. -1 is the default.
        number = int.from_bytes(value[:4], "little", signed=True)
        if len(value) != 4 or not -1 <= number <= 255:
            raise OSError(errno.EINVAL, "no such hop limit or traffic class")
        least, twin = (1, IP_TTL) if kind == IPV6_HOPLIMIT else (0, IP_TOS)
        return [(level, kind, value), *([(SOL_IP, twin, value)] if number >= least else [])]
    return []


def _check_interface(value: bytes, size: int, at: int) -> None:
    if len(value) != size:
        raise OSError(errno.EINVAL, "no struct in_pktinfo")
    if int.from_bytes(value[at : at + 4], "little", signed=True) not in (0, LO):
        raise OSError(errno.ENODEV, "the box has only lo")


def to_guest(network: MappedNetwork, fd: int, peer: bytes, control: bytes) -> bytes:
    """The control messages of a datagram that came from the host address `peer`, as the guest gets them."""
    six = socket_kind(fd)[0] == AF_INET6 and network.guest_address(fd, peer)[8:20] != MAPPED_PREFIX
    return pack_control([_to_guest(network, fd, six, peer, each) for each in control_messages(control)])


def from_kernel(control: bytes) -> bytes:
    """The control messages of an emulated netlink socket: its messages are the kernel's, not husk's."""
    messages = control_messages(control)
    return pack_control([(*each[:2], bytes(12)) if each[:2] == SCM_CREDENTIALS else each for each in messages])


def _to_guest(
    network: MappedNetwork, fd: int, six: bool, peer: bytes, message: tuple[int, int, bytes]
) -> tuple[int, int, bytes]:
    level, kind, value = message
    if level == SOL_IP and kind == IP_PKTINFO and len(value) == 12:
        ip = network.guest_own_ip(fd, value[8:12], peer)
        if ip is not None:
            four = ip[-4:] if len(ip) == 4 else LOCALHOST
            return level, kind, LO.to_bytes(4, "little") + (LOCALHOST if is_group(four) else four) + four
    elif level == SOL_IPV6 and kind == IPV6_PKTINFO and len(value) == 20 and value[:12] == MAPPED_PREFIX:
        ip = network.guest_own_ip(fd, value[12:16], peer)
        if ip is not None:
            return level, kind, (ip if len(ip) == 16 else MAPPED_PREFIX + ip) + LO.to_bytes(4, "little")
    elif level == SOL_IP and kind == IP_ORIGDSTADDR and len(value) == 16:
        return _original_destination(network, fd, six, peer, value)
    elif (level, kind) in ERRORS and len(value) > EXTENDED_ERROR.size:
        return level, kind, _error(network, fd, six, value)
    elif level == SOL_IP and six and kind == IP_TTL and _asked(fd, IPV6_RECVHOPLIMIT):
        return SOL_IPV6, IPV6_HOPLIMIT, value
    elif level == SOL_IP and six and kind == IP_TOS and _asked(fd, IPV6_RECVTCLASS):
        return SOL_IPV6, IPV6_TCLASS, value[:1].ljust(4, b"\0")
    return message


def _error(network: MappedNetwork, fd: int, six: bool, value: bytes) -> bytes:
    """struct sock_extended_err and the address that sent the error. To IPv6 an ICMP error is one of ICMPv6."""
    number, origin, kind, code, info, data = EXTENDED_ERROR.unpack_from(value)
    if six and (origin, kind, code) == PORT_UNREACHABLE:
        origin, kind, code = PORT_UNREACHABLE6
    offender = value[EXTENDED_ERROR.size :]
    at = {b"\2\0": 4, b"\n\0": 20}.get(offender[:2], len(offender))
    ip = network.guest_own_ip(fd, offender[at : at + 4], offender)
    if ip is not None and at == 4:
        offender = offender[:4] + ip[-4:] + offender[8:]
    elif ip is not None:
        offender = offender[:8] + (LOCALHOST6 if six else MAPPED_PREFIX + ip[-4:]) + offender[24:]
    return EXTENDED_ERROR.pack(number, origin, kind, code, info, data) + offender


def _original_destination(
    network: MappedNetwork, fd: int, six: bool, peer: bytes, value: bytes
) -> tuple[int, int, bytes]:
    ip = network.guest_own_ip(fd, value[4:8], peer)
    if ip is None:
        return SOL_IP, IP_ORIGDSTADDR, value
    port = network.guest_name(fd, False)[2:4]
    if not six:
        return SOL_IP, IP_ORIGDSTADDR, b"\2\0" + port + ip[-4:] + bytes(8)
    whole = ip if len(ip) == 16 else MAPPED_PREFIX + ip
    return SOL_IPV6, IPV6_ORIGDSTADDR, struct.pack("<H2sI16sI", AF_INET6, port, 0, whole, 0)


def _asked(fd: int, option: int) -> bool:
    return any(get_option(fd, SOL_IPV6, option, 4))
