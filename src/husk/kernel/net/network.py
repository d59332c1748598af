"""kernel: a box's network where a namespace gives it a loopback of its own, and nothing beyond.

Sockets are the host's own there, in the box's namespace: no address has to be translated, and whoever wants more is
told why not. husk.kernel.net.mapped is the other kind.
"""

from __future__ import annotations

import _socket
import errno

from husk.kernel.call import Call, Refused
from husk.kernel.net.netlink import may_join
from husk.native._core import bind_address, get_option, set_option, socket_name

AF_UNSPEC, AF_INET, AF_INET6, AF_NETLINK = 0, 2, 10, 16
CONNECT, FIRST_FREE_PORT = 42, 1024
# What /etc/resolv.conf names in a box without a network. Nobody has this address: programs learn at once that there is
# no resolver, and husk hears that a name was to be looked up.
NO_RESOLVER = "192.0.2.53"
MAPPED_PREFIX = bytes(10) + b"\xff\xff"


class Network:
    """What handlers ask of a network; the mapped kind answers each question in its own way."""

    __slots__ = ()
    mapped = False  # do addresses have to be translated?

    def socket(self, family: int, kind: int, protocol: int, flags: int) -> int:
        raise OSError(errno.EAFNOSUPPORT, "such sockets are native here")

    def bind(self, call: Call, fd: int, kind: tuple[int, int], address: bytes) -> None:
        if kind[0] == AF_NETLINK and address[:2] == b"\x10\0" and len(address) >= 12:
            may_join(int.from_bytes(address[8:12], "little"))
            if not any(address[4:8]):
                return _bind_netlink(call, fd, address)
        if _privileged(kind[0], address) and not far_address(address):
            raise OSError(errno.EACCES, "a privileged port")  # husk itself might be allowed to
        return bind_address(fd, address)

    def may_listen(self, fd: int, kind: tuple[int, int]) -> None:
        pass

    def destination(self, call: Call, fd: int, kind: tuple[int, int], address: bytes) -> bytes:
        if kind[0] == AF_NETLINK and call.nr == CONNECT and not any(socket_name(fd, False)[4:8]):
            _bind_netlink(call, fd, b"\x10\0" + bytes(10))
        far = far_address(address)
        if far and not to_many(address):
            raise unreachable(far)
        return address

    def is_netlink(self, fd: int) -> bool:
        """Is this Unix socket one that stands in for a netlink socket?"""
        return False

    def shown(self, fd: int, address: bytes) -> bytes:
        return address

    def accepted(self, address: bytes) -> bytes:
        return address

    def source(self, fd: int, kind: tuple[int, int], to: bytes) -> list[tuple[int, int, bytes]]:
        return []

    def name(self, fd: int, peer: bool) -> bytes:
        return b""  # ask the host

    def option(self, fd: int, level: int, name: int) -> bytes:
        raise OSError(errno.ENOPROTOOPT, "the host answers this")

    def set_option(self, fd: int, level: int, name: int, value: bytes) -> None:
        raise OSError(errno.ENOPROTOOPT, "the host answers this")

    def close(self) -> None:
        pass


class HostNetwork(Network):
    """The host's own network, all of it: husk makes the sockets, and no address is judged."""

    __slots__ = ()

    def socket(self, family: int, kind: int, protocol: int, flags: int) -> int:
        return _socket.socket(family, kind | flags | _socket.SOCK_CLOEXEC, protocol).detach()

    def bind(self, call: Call, fd: int, kind: tuple[int, int], address: bytes) -> None:
        if far_address(address) and _privileged(kind[0], address):
            # As in Linux: first whether it is an address of this machine, then whether the port is for everybody.
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
        given = AF_INET  # which Linux takes it for, as old programs do
    port = int.from_bytes(address[2:4], "big")
    return given == family and family in (AF_INET, AF_INET6) and 0 < port < FIRST_FREE_PORT


def _bind_netlink(call: Call, fd: int, address: bytes) -> None:
    """Linux chooses the process's number, unless it is taken; left to choose, the host would take husk's."""
    own = call.kernel.tasks.guest_of(call.raw.tgid())
    try:
        bind_address(fd, address[:4] + own.to_bytes(4, "little") + address[8:])
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        bind_address(fd, address)


def unreachable(far: str) -> Refused:
    """Why an address cannot be reached from a box that has a loopback alone."""
    if far == f"{NO_RESOLVER}:53":
        what, allow = "look-up of a host name", "--allow-net HOST:PORT"
        why = "the box has no network but its own loopback, so no name can be looked up"
    else:
        what, allow = f"connection to {far}", f"--allow-net {far}"
        why = "the box's network is its own loopback and nothing else"
        if far.startswith("169.254."):
            why += ", and the address is link-local, where clouds keep credentials"
    return Refused(errno.ENETUNREACH, why, what, None, allow)


def to_many(address: bytes) -> bool:
    """Multicast or broadcast: in a namespace of its own a box may talk to its own groups."""
    if address[:2] == b"\2\0":
        return address[4] >> 4 == 14 or address[4:8] == b"\xff\xff\xff\xff"
    return address[:2] == b"\n\0" and address[8] == 255


def far_address(address: bytes) -> str:
    """The address as text where it is neither loopback nor "any"."""
    family, port = int.from_bytes(address[:2], "little"), int.from_bytes(address[2:4], "big")
    if family == AF_INET and len(address) >= 8 and address[4] != 127 and any(address[4:8]):
        return ".".join(str(byte) for byte in address[4:8]) + f":{port}"
    if family == AF_INET6 and len(address) >= 24:
        ip = address[8:24]
        if ip[:12] == MAPPED_PREFIX:
            return far_address(b"\2\0" + address[2:4] + ip[12:])
        if any(ip[:15]) or ip[15] > 1:
            return f"[{ip.hex(':', 2)}]:{port}"
    return ""
