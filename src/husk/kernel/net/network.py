"""kernel: a box's network in a network namespace of its own, which has a loopback and an eth0 that leads nowhere.

Sockets live in the box's namespace: no address is translated, and a guest that wants another address is refused with a
reason. husk.kernel.net.mapped is the other kind of network.
"""

from __future__ import annotations

import _socket
import errno

from husk.abi.registry import number
from husk.kernel.call import Call, Refused
from husk.kernel.net import NO_RESOLVER
from husk.kernel.net.netlink import check_groups
from husk.native._core import bind_address, get_option, set_option, socket_name

AF_UNSPEC, AF_INET, AF_INET6, AF_NETLINK = 0, 2, 10, 16
NETLINK_ROUTE = 0
CONNECT, FIRST_FREE_PORT = number("connect"), 1024
ETH_ADDRESS, ETH_BROADCAST = b"\xc6\x33\x64\x01", b"\xc6\x33\x64\xff"  # of eth0 (native/init/interfaces.c)
SOCK_STREAM = 1
# There is no port 0, so nothing listens there. For a connected socket the address does not matter: the host says so.
NOWHERE = {AF_INET: b"\2\0\0\0\x7f\0\0\1" + bytes(8), AF_INET6: b"\n\0" + bytes(21) + b"\1" + bytes(4)}
SHORTEST = {2: 16, 10: 24}  # addresses of IPv4 and IPv6; the host says EINVAL for a shorter one
MAPPED_PREFIX = bytes(10) + b"\xff\xff"


class Network:
    """The interface that socket handlers use. MappedNetwork overrides each method."""

    __slots__ = ()
    mapped = False  # whether addresses are translated

    def socket(self, family: int, kind: int, protocol: int, flags: int) -> int:
        raise OSError(errno.EAFNOSUPPORT, "such sockets are native here")

    def bind(self, call: Call, fd: int, kind: tuple[int, int], address: bytes) -> None:
        if kind[0] == AF_NETLINK and address[:2] == b"\x10\0" and len(address) >= 12:
            check_groups(int.from_bytes(address[8:12], "little"))
            if not any(address[4:8]):
                return _bind_netlink(call, fd, address)
        port_first = kind[0] == AF_INET6 or _own_address(address)  # IPv4 looks at the address first
        if port_first and len(address) >= SHORTEST.get(kind[0], 0) and _privileged(kind[0], address):
            raise OSError(errno.EACCES, "a privileged port")  # husk itself may have CAP_NET_BIND_SERVICE
        return bind_address(fd, address)

    def prepare_listen(self, fd: int, kind: tuple[int, int]) -> None:
        pass

    def destination(self, call: Call, fd: int, kind: tuple[int, int], address: bytes) -> bytes:
        if kind[0] == AF_NETLINK and call.nr == CONNECT and not any(socket_name(fd, False)[4:8]):
            _bind_netlink(call, fd, b"\x10\0" + bytes(10))
        if address[:2] == b"\0\0" and call.nr == CONNECT:
            return address  # disconnecting
        if kind[1] == SOCK_STREAM and is_connected(fd):
            return NOWHERE.get(kind[0], address)
        remote = remote_address(address)
        if remote and not is_multicast(address) and not _on_eth(address):
            raise unreachable(call, remote)
        return address

    def is_netlink(self, fd: int) -> bool:
        """Whether this Unix socket emulates a netlink socket (husk.kernel.loopback.routes)."""
        return False

    def guest_address(self, fd: int, address: bytes) -> bytes:
        return address

    def guest_peer_address(self, fd: int, address: bytes) -> bytes:
        return address

    def further_destinations(self, fd: int, kind: tuple[int, int], address: bytes) -> list[bytes]:
        """Where a datagram goes besides its `destination`: the other members of a group."""
        return []

    def is_own(self, address: bytes) -> bool:
        """Whether a host address lies on the box's own loopback."""
        return False

    def guest_names(self, kind: int, inode: int, own: bytes, peer: bytes) -> tuple[bytes, bytes]:
        """Both ends of a socket in the host's tables, as the guest knows them."""
        return own, peer

    def host_control(self, level: int, kind: int, value: bytes) -> list[tuple[int, int, bytes]]:
        """A control message of IP that the guest sends, as the host gets it."""
        return [(level, kind, value)]

    def guest_control(self, fd: int, peer: bytes, control: bytes) -> bytes:
        """Received control messages, as the guest gets them."""
        return control

    def source_control(self, fd: int, kind: tuple[int, int], to: bytes) -> list[tuple[int, int, bytes]]:
        return []

    def guest_name(self, fd: int, peer: bool) -> bytes:
        return b""  # ask the host

    def option(self, fd: int, level: int, name: int) -> bytes:
        raise OSError(errno.ENOPROTOOPT, "the host answers this")

    def set_option(self, fd: int, level: int, name: int, value: bytes) -> None:
        raise OSError(errno.ENOPROTOOPT, "the host answers this")

    def close(self) -> None:
        pass


class HostNetwork(Network):
    """The whole network of the host: husk makes the sockets and judges no address."""

    __slots__ = ()

    def socket(self, family: int, kind: int, protocol: int, flags: int) -> int:
        if family == AF_NETLINK and protocol != NETLINK_ROUTE:
            raise OSError(errno.EPROTONOSUPPORT, "device events of the host are not for guests")
        return _socket.socket(family, kind | flags | _socket.SOCK_CLOEXEC, protocol).detach()

    def bind(self, call: Call, fd: int, kind: tuple[int, int], address: bytes) -> None:
        if remote_address(address) and _privileged(kind[0], address):
            # Linux's order: EADDRNOTAVAIL for another machine's address first, then EACCES for the port.
            probe = _socket.socket(kind[0], _socket.SOCK_DGRAM | _socket.SOCK_CLOEXEC)
            try:
                bind_address(probe.fileno(), address[:2] + bytes(2) + address[4:])
            finally:
                probe.close()
            raise OSError(errno.EACCES, "a privileged port")
        return super().bind(call, fd, kind, address)

    def destination(self, call: Call, fd: int, kind: tuple[int, int], address: bytes) -> bytes:
        return address

    def option(self, fd: int, level: int, name: int) -> bytes:
        return get_option(fd, level, name, 4)

    def set_option(self, fd: int, level: int, name: int, value: bytes) -> None:
        set_option(fd, level, name, value)


def _privileged(family: int, address: bytes) -> bool:
    given = int.from_bytes(address[:2], "little")
    if given == AF_UNSPEC and family == AF_INET and not any(address[4:8]):
        given = AF_INET  # Linux reads it so, for old programs
    port = int.from_bytes(address[2:4], "big")
    return given == family and family in (AF_INET, AF_INET6) and 0 < port < FIRST_FREE_PORT


def _bind_netlink(call: Call, fd: int, address: bytes) -> None:
    """Bind to the guest's pid, as Linux does unless it is taken. The host left to itself would choose husk's pid."""
    own = call.kernel.tasks.guest_of(call.raw.tgid())
    try:
        bind_address(fd, address[:4] + own.to_bytes(4, "little") + address[8:])
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        bind_address(fd, address)


def unreachable(call: Call, remote: str) -> Refused:
    """Why an address cannot be reached from a box that has only a loopback."""
    if remote == f"{NO_RESOLVER}:53":
        from husk.kernel.net.asked_name import asked_name

        name = asked_name(call)
        what, allow = f"look-up of {name or 'a host name'}", f"--allow-net {name or 'HOST:PORT'}"
        why = "the box has no network but its own loopback, so no name can be looked up"
    else:
        what, allow = f"connection to {remote}", f"--allow-net {remote}"
        why = "the box's network is its own loopback and nothing else"
        if remote.startswith("169.254."):
            why += ", and the address is link-local, where clouds keep credentials"
    return Refused(errno.ENETUNREACH, why, what, None, allow)


def is_connected(fd: int) -> bool:
    try:
        socket_name(fd, True)
    except OSError:
        return False
    return True


def is_multicast(address: bytes) -> bool:
    """Multicast or broadcast: in its own namespace a box may send to its own groups."""
    if address[:2] == b"\2\0":
        return address[4] >> 4 == 14 or address[4:8] == b"\xff\xff\xff\xff"
    return address[:2] == b"\n\0" and address[8] == 255


def _on_eth(address: bytes) -> bool:
    ip = address[4:8] if address[:2] == b"\2\0" else address[20:24] if address[8:20] == MAPPED_PREFIX else b""
    return ip in (ETH_ADDRESS, ETH_BROADCAST)


def _own_address(address: bytes) -> bool:
    return not remote_address(address) or _on_eth(address)


def remote_address(address: bytes) -> str:
    """The address as text where it is neither loopback nor "any"."""
    family, port = int.from_bytes(address[:2], "little"), int.from_bytes(address[2:4], "big")
    if family == AF_INET and len(address) >= 8 and address[4] != 127 and any(address[4:8]):
        return ".".join(str(byte) for byte in address[4:8]) + f":{port}"
    if family == AF_INET6 and len(address) >= 24:
        ip = address[8:24]
        if ip[:12] == MAPPED_PREFIX:
            return remote_address(b"\2\0" + address[2:4] + ip[12:])
        if any(ip[:15]) or ip[15] > 1:
            return f"[{ip.hex(':', 2)}]:{port}"
    return ""
