"""kernel: a box's network made of the host's sockets: where no namespace stands, or the policy lets something out.

husk makes every network socket itself, on the host's network, with a filter that hears nothing from the start
(husk.kernel.net.socket_filter). Loopback addresses mean the box's own loopback and are mapped (husk.kernel.net.ports).
Any other address is a matter of the rules, if there are any. The address a guest gives is copied once, judged here, and
used by husk: what is judged is what is dialled.
"""

from __future__ import annotations

import _socket
import errno
import os
import struct

from husk.kernel.call import Call
from husk.kernel.net import port_owners as occupants
from husk.kernel.net.netlink import may_join
from husk.kernel.net.network import CONNECT, FIRST_FREE_PORT, Network, far_address, unreachable
from husk.kernel.net.ports import ANY, ANY6, FOUR, LOCALHOST, LOCALHOST6, MAPPED_PREFIX, SIX, Ports, host_address
from husk.kernel.net.socket_filter import hear_only
from husk.native._core import bind_address, connect_address, get_option, set_option, socket_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.kernel.net.outside import Outside
    from husk.kernel.net.publishing import Published
    from husk.kernel.net.resolver import Resolver

AF_UNSPEC, AF_INET, AF_INET6, AF_NETLINK = 0, 2, 10, 16
SOCK_STREAM, SOCK_DGRAM = 1, 2
SOL_SOCKET, SO_TYPE = 1, 3
SOL_IP, IP_BIND_ADDRESS_NO_PORT, IP_PKTINFO = 0, 24, 8
SOL_IPV6, IPV6_V6ONLY, IPV6_PKTINFO = 41, 26, 50
MOST_NOTED, MOST_PEERS = 65536, 32


class _Note:
    """What husk knows of a socket, by inode number. Nobody tells when it is closed: the oldest are forgotten."""

    __slots__ = ("asked", "meant", "netlink", "only6", "peers", "wild")

    def __init__(self) -> None:
        self.netlink = False
        self.asked: bytes | None = None  # the address it was bound to, as the guest said it
        self.meant: bytes | None = None  # the loopback address it was connected to, as the guest said it
        self.only6 = False
        self.peers: list[bytes] = []  # outside
        self.wild = False  # bound to every address of the host's


class MappedNetwork(Network):
    """`outside` decides about addresses that are not loopback; None: there is no outside."""

    __slots__ = ("_notes", "outside", "ports", "services")
    mapped = True

    def __init__(self, outside: Outside | None) -> None:
        self.outside = outside
        self.ports = Ports()
        self._notes: dict[int, _Note] = {}
        self.services: list[Resolver | Published] = []  # threads of husk's that serve this network

    def close(self) -> None:
        for each in self.services:
            each.close()

    # -- making and options ------------------------------------------------------------------------------------
    def socket(self, family: int, kind: int, protocol: int, flags: int) -> int:
        if family == AF_NETLINK:
            from husk.kernel.net.routes import stand_in

            fd = stand_in(flags)
            self._note(fd).netlink = True
            return fd
        fd = _socket.socket(family, kind | flags | _socket.SOCK_CLOEXEC, protocol).detach()
        try:
            if family == AF_INET6:
                set_option(fd, SOL_IPV6, IPV6_V6ONLY, bytes(4))  # both kinds go over IPv4 on our loopback
            hear_only(fd, b"", [])
        except BaseException:
            os.close(fd)
            raise
        return fd

    def option(self, fd: int, level: int, name: int) -> bytes:
        if (level, name) != (SOL_IPV6, IPV6_V6ONLY):
            return get_option(fd, level, name, 4)
        get_option(fd, level, name, 4)  # whatever this is, the host knows whether it has such an option
        return int(self._note(fd).only6).to_bytes(4, "little")

    def set_option(self, fd: int, level: int, name: int, value: bytes) -> None:
        if (level, name) != (SOL_IPV6, IPV6_V6ONLY):
            raise OSError(errno.ENOPROTOOPT, "the socket would change its family")
        get_option(fd, level, name, 4)
        if socket_name(fd, False)[2:4] != b"\0\0":
            raise OSError(errno.EINVAL, "already bound")
        self._note(fd).only6 = any(value)

    # -- names -------------------------------------------------------------------------------------------------
    def bind(self, call: Call, fd: int, kind: tuple[int, int], address: bytes) -> None:
        if self.is_netlink(fd):
            may_join(int.from_bytes(address[8:12], "little"))
            return  # its address is made up
        if kind[0] not in (AF_INET, AF_INET6):
            super().bind(call, fd, kind, address)
            return
        ip, port = _split(kind[0], address, binding=True)
        if far_address(address) or (len(ip) == 4 and ip[0] not in (0, 127)):
            raise OSError(errno.EADDRNOTAVAIL, "no address of this box")
        if 0 < port < FIRST_FREE_PORT:
            raise OSError(errno.EACCES, "a privileged port")
        if socket_name(fd, False)[2:4] != b"\0\0":
            raise OSError(errno.EINVAL, "already bound")
        note = self._note(fd)
        last = self.ports.last_byte(ip)
        if ip == ANY6 and not note.only6:
            last = FOUR  # for both families
            if port and self._listens(kind[1], SIX, port):
                raise OSError(errno.EADDRINUSE, "taken for IPv6")
        note.wild = self.outside is not None and kind[1] == SOCK_DGRAM and ip in (ANY, ANY6)
        hear_only(fd, self.ports.block, note.peers)
        self.ports.bind(fd, kind[0], kind[1], last, port, wild=note.wild)
        note.asked = ip

    def may_listen(self, fd: int, kind: tuple[int, int]) -> None:
        """Only on the box's own loopback. One that is not bound yet gets any port there, as in Linux."""
        if kind[0] not in (AF_INET, AF_INET6) or kind[1] != SOCK_STREAM:
            return  # the host has an errno for it
        own = socket_name(fd, False)
        if own[2:4] == b"\0\0":
            note = self._note(fd)
            hear_only(fd, self.ports.block, [])
            self.ports.bind(fd, kind[0], SOCK_STREAM, SIX if note.only6 else FOUR, 0)
            note.asked = ANY if kind[0] == AF_INET else ANY6
        elif (own[4:7] if kind[0] == AF_INET else own[20:23]) != self.ports.block:
            raise OSError(errno.EINVAL, "it has been elsewhere")

    def is_netlink(self, fd: int) -> bool:
        note = self._notes.get(os.fstat(fd).st_ino)
        return note is not None and note.netlink

    def name(self, fd: int, peer: bool) -> bytes:
        if self.is_netlink(fd):
            return routes_address()
        address = socket_name(fd, peer)
        if address[:2] not in (b"\2\0", b"\n\0"):
            return b""
        note = self._notes.get(os.fstat(fd).st_ino)
        told = self._shown(address, int.from_bytes(get_option(fd, SOL_SOCKET, SO_TYPE, 4), "little"))
        if not peer and note is not None and note.asked is not None:
            return _with_ip(told, note.asked)
        return self._as_six(fd, told, of_peer=not peer)

    def shown(self, fd: int, address: bytes) -> bytes:
        if self.is_netlink(fd):
            return routes_address()
        return self._as_six(fd, self._shown(address, SOCK_DGRAM), of_peer=False)

    def accepted(self, address: bytes) -> bytes:
        return self._shown(address, SOCK_STREAM)

    def _as_six(self, fd: int, told: bytes, *, of_peer: bool) -> bytes:
        """Who bound "any" for both families is found at 127.0.0.1. The other end tells whether ::1 was meant."""
        note = self._notes.get(os.fstat(fd).st_ino)
        if told[:2] == b"\n\0" and note is not None and note.meant is not None:
            own_loopback = told[8:24] in (LOCALHOST6, MAPPED_PREFIX + LOCALHOST)
            return _with_ip(told, LOCALHOST6 if len(note.meant) == 16 else LOCALHOST) if own_loopback else told
        if told[:2] == b"\n\0" and told[8:24] == MAPPED_PREFIX + LOCALHOST:
            try:
                if self.ports.guest_ip(socket_name(fd, of_peer)[20:24]) == LOCALHOST6:
                    return _with_ip(told, LOCALHOST6)
            except OSError:
                pass
        return told

    def _shown(self, address: bytes, kind: int) -> bytes:
        """A host address as the guest knows it."""
        if address[:2] == b"\2\0":
            ip = address[4:8]
        elif address[:2] == b"\n\0" and address[8:20] == MAPPED_PREFIX:
            ip = address[20:24]
        else:
            return address
        guest_ip = self.ports.guest_ip(ip)
        if guest_ip is None:
            return address
        port = self.ports.guest_port(kind, ip[3], int.from_bytes(address[2:4], "big"))
        return _with_ip(address[:2] + port.to_bytes(2, "big") + address[4:], guest_ip)

    # -- destinations ------------------------------------------------------------------------------------------
    def destination(self, call: Call, fd: int, kind: tuple[int, int], address: bytes) -> bytes:
        if kind[0] not in (AF_INET, AF_INET6):
            return address if self.is_netlink(fd) else super().destination(call, fd, kind, address)
        if address[:2] == b"\0\0" and call.nr == CONNECT:  # let go of the peer
            hear_only(fd, b"", [])
            self._note(fd).meant = None
            return address
        if kind == (AF_INET6, SOCK_DGRAM) and address[:2] == b"\2\0" and len(address) >= 16:
            # Linux lets an IPv6 datagram socket take IPv4 addresses as they are.
            address = b"\n\0" + address[2:4] + bytes(4) + MAPPED_PREFIX + address[4:8] + bytes(4)
        ip, port = _split(kind[0], address, binding=False)
        if ip in (ANY, ANY6):
            ip = LOCALHOST6 if len(ip) == 16 else LOCALHOST
        loopback = ip == LOCALHOST6 or (len(ip) == 4 and ip[0] == 127)
        if not loopback or (self.outside is not None and self.outside.names(ip, port)):
            return self._outside(fd, kind, address, ip, port)
        if call.nr == CONNECT and kind[0] == AF_INET6:
            self._note(fd).meant = ip
        return self._inside(fd, kind, ip, port)

    def _outside(self, fd: int, kind: tuple[int, int], address: bytes, ip: bytes, port: int) -> bytes:
        if self.outside is None:
            raise unreachable(far_address(address))
        self.outside.judge(ip, port)
        note = self._note(fd)
        if note.asked is not None and not note.wild:
            raise OSError(errno.EINVAL, "a socket bound to loopback leads nowhere else")
        if ip not in note.peers:
            # The peer before this one may go on talking to a datagram socket, but not for ever.
            note.peers = [*note.peers[-MOST_PEERS + 1 :], ip] if kind[1] == SOCK_DGRAM else [ip]
        hear_only(fd, self.ports.block if note.wild else b"", note.peers)
        return _plain(kind[0], ip, port, address)

    def _inside(self, fd: int, kind: tuple[int, int], ip: bytes, port: int) -> bytes:
        last = self._target(kind[1], ip, port)
        if last is None:
            if kind[1] == SOCK_STREAM:
                raise OSError(errno.ECONNREFUSED, "nobody in the box listens there")
            last = self.ports.last_byte(ip)
        host_port = self.ports.reserve(kind[1], last, port)
        self._have_source(fd, kind, SIX if ip == LOCALHOST6 else FOUR)
        return host_address(kind[0], self.ports.host_ip(last), host_port)

    def listener(self, ip: bytes, port: int) -> bytes | None:
        """The host's address of the box's server at this port; None while there is none."""
        last = self._target(SOCK_STREAM, ip, port)
        if last is None:
            return None
        return host_address(AF_INET, self.ports.host_ip(last), self.ports.reserve(SOCK_STREAM, last, port))

    def _target(self, kind: int, ip: bytes, port: int) -> int | None:
        """The last byte of the address where somebody of the box has bound this port."""
        own = self.ports.last_byte(ip)
        if self._listens(kind, own, port):
            return own
        # Whoever bound "any" did so as 127.0.0.1, for IPv6 too unless it said otherwise.
        if own != FOUR and (found := self._listens(kind, FOUR, port)):
            note = self._notes.get(found)
            if note is not None and note.asked in ((ANY6,) if own == SIX else (ANY, ANY6)):
                return FOUR
        return None

    def _listens(self, kind: int, last: int, port: int) -> int:
        """Inode number of the box's socket at a guest's port, 0 for none. A host service bound to every address would
        answer there, too: only one bound to exactly this address is the box's."""
        host_port = self.ports.host_port(kind, last, port)
        if host_port is None:
            return 0
        ip, inode = occupants.find(kind, self.ports.host_ip(last), host_port)
        if ip == self.ports.host_ip(last) or (ip == ANY and inode in self._notes and self._notes[inode].wild):
            return inode or 1
        return 0

    def _have_source(self, fd: int, kind: tuple[int, int], last: int) -> None:
        """An address of the box to come from: others are not heard by its sockets."""
        own = socket_name(fd, False)
        if own[2:4] != b"\0\0":
            note = self._note(fd)
            if note.asked is not None or note.peers or any(own[4:8] if kind[0] == AF_INET else own[8:24]):
                return
            connect_address(fd, bytes(16))  # the host bound it in passing; letting go of no peer takes that back
        hear_only(fd, self.ports.block, [])
        if kind[1] == SOCK_DGRAM:
            self.ports.bind(fd, kind[0], SOCK_DGRAM, last, 0)
        else:
            set_option(fd, SOL_IP, IP_BIND_ADDRESS_NO_PORT, b"\1\0\0\0")
            bind_address(fd, host_address(kind[0], self.ports.host_ip(last), 0))

    def source(self, fd: int, kind: tuple[int, int], to: bytes) -> list[tuple[int, int, bytes]]:
        """Control messages for a datagram to `to`: one that is bound to every address must say which it comes from."""
        note = self._notes.get(os.fstat(fd).st_ino)
        if note is None or kind[1] != SOCK_DGRAM or not (note.wild or note.peers):
            return []
        if kind[0] == AF_INET and to[4:7] == self.ports.block:
            return [(SOL_IP, IP_PKTINFO, struct.pack("<i4s4s", 0, self.ports.host_ip(FOUR), bytes(4)))]
        if to[8:20] == MAPPED_PREFIX and to[20:23] == self.ports.block:
            last = SIX if to[23] == SIX else FOUR
            return [(SOL_IPV6, IPV6_PKTINFO, MAPPED_PREFIX + self.ports.host_ip(last) + bytes(4))]
        return []

    def _note(self, fd: int) -> _Note:
        inode = os.fstat(fd).st_ino
        note = self._notes.get(inode)
        if note is None:
            if len(self._notes) >= MOST_NOTED:
                del self._notes[next(iter(self._notes))]
            note = self._notes[inode] = _Note()
        return note


def routes_address() -> bytes:
    from husk.kernel.net.routes import ADDRESS

    return ADDRESS


def _split(family: int, address: bytes, *, binding: bool) -> tuple[bytes, int]:
    """Address (4 or 16 bytes; IPv4 in IPv6 as 4) and port, for the family the host would read."""
    given = int.from_bytes(address[:2], "little")
    if len(address) < 2 or len(address) < (16 if family == AF_INET else 24):
        raise OSError(errno.EINVAL, "too short for its family")
    if given != family and not (binding and given == AF_UNSPEC and family == AF_INET and not any(address[4:8])):
        raise OSError(errno.EAFNOSUPPORT, "another family")
    port = int.from_bytes(address[2:4], "big")
    if family == AF_INET:
        return address[4:8], port
    ip = address[8:24]
    return (ip[12:] if ip[:12] == MAPPED_PREFIX else ip), port


def _with_ip(address: bytes, ip: bytes) -> bytes:
    if address[:2] == b"\2\0":
        return address[:4] + (ip if len(ip) == 4 else LOCALHOST) + address[8:]
    whole = ip if len(ip) == 16 else MAPPED_PREFIX + ip
    return address[:8] + whole + address[24:]


def _plain(family: int, ip: bytes, port: int, address: bytes) -> bytes:
    """The judged address anew, without what else the guest's had to say (a flow label), but with its interface."""
    if family == AF_INET:
        return b"\2\0" + port.to_bytes(2, "big") + ip + bytes(8)
    whole = ip if len(ip) == 16 else MAPPED_PREFIX + ip
    return b"\n\0" + port.to_bytes(2, "big") + bytes(4) + whole + address[24:28]
