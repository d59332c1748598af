"""kernel: a box's network on host sockets, for boxes without a network namespace or with rules that open the network.

husk makes every network socket itself, on the host's network. Each starts with a socket filter that drops everything
(husk.kernel.net.socket_filter). Loopback addresses mean the box's own loopback and are mapped (husk.kernel.net.ports).
Other addresses are judged by the rules, if there are any (husk.kernel.net.egress). husk copies an address once, judges
the copy and connects to the copy.
"""

from __future__ import annotations

import _socket
import errno
import os
import struct

from husk.kernel.call import Call
from husk.kernel.loopback import ip_control
from husk.kernel.net import port_owners
from husk.kernel.net.network import CONNECT, FIRST_FREE_PORT, Network, remote_address, unreachable
from husk.kernel.net.ports import ANY, ANY6, FOUR, LOCALHOST, LOCALHOST6, MAPPED_PREFIX, SIX, Ports, host_address
from husk.kernel.net.socket_filter import set_source_filter
from husk.native._core import bind_address, connect_address, get_option, set_option, socket_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.kernel.loopback.netlink_sockets import NetlinkSocket
    from husk.kernel.net.egress import Egress
    from husk.kernel.net.publishing import Published, Relays
    from husk.kernel.net.resolver import Resolver

AF_UNSPEC, AF_INET, AF_INET6, AF_NETLINK = 0, 2, 10, 16
SOCK_STREAM, SOCK_DGRAM = 1, 2
SOL_SOCKET, SO_TYPE = 1, 3
SOL_IP, IP_BIND_ADDRESS_NO_PORT, IP_PKTINFO = 0, 24, 8
SOL_IPV6, IPV6_V6ONLY, IPV6_PKTINFO = 41, 26, 50
SOL_NETLINK = 270
NETLINK_KERNEL = b"\x10\0" + bytes(10)  # the kernel's own netlink address
MOST_SOCKETS, MOST_PEERS = 65536, 32


class _SocketState:
    """What husk knows of a socket, by inode number. husk does not learn of its close: the oldest are forgotten."""

    __slots__ = ("bound_ip", "connected_ip", "netlink", "peers", "v6only", "wildcard")

    def __init__(self) -> None:
        self.netlink = False
        self.bound_ip: bytes | None = None  # the address it was bound to, as the guest gave it
        self.connected_ip: bytes | None = None  # the loopback address it was connected to, as the guest gave it
        self.v6only = False
        self.peers: list[bytes] = []  # remote addresses it may receive from
        self.wildcard = False  # bound to every address of the host


class MappedNetwork(Network):
    """`egress` decides about addresses that are not loopback. None: all of them are unreachable."""

    __slots__ = ("_states", "egress", "ports", "services")
    mapped = True

    def __init__(self, egress: Egress | None) -> None:
        self.egress = egress
        self.ports = Ports()
        self._states: dict[int, _SocketState] = {}
        self.services: list[Resolver | Relays | Published] = []  # husk's threads that serve this network

    def close(self) -> None:
        for each in self.services:
            each.close()

    # -- making and options ------------------------------------------------------------------------------------
    def socket(self, family: int, kind: int, protocol: int, flags: int) -> int:
        if family == AF_NETLINK:
            from husk.kernel.loopback.netlink_sockets import emulated_socket

            fd = emulated_socket(flags, kind, protocol)
            self._state(fd).netlink = True
            return fd
        fd = _socket.socket(family, kind | flags | _socket.SOCK_CLOEXEC, protocol).detach()
        try:
            if family == AF_INET6:
                set_option(fd, SOL_IPV6, IPV6_V6ONLY, bytes(4))  # IPv6 goes over IPv4 on our loopback
            set_source_filter(fd, b"", [])
        except BaseException:
            os.close(fd)
            raise
        return fd

    def option(self, fd: int, level: int, name: int) -> bytes:
        if self.is_netlink(fd):
            return _netlink_socket(fd).option(level, name)
        if (level, name) != (SOL_IPV6, IPV6_V6ONLY):
            return get_option(fd, level, name, 4)
        get_option(fd, level, name, 4)  # the host knows whether this socket has the option
        return int(self._state(fd).v6only).to_bytes(4, "little")

    def set_option(self, fd: int, level: int, name: int, value: bytes) -> None:
        if level == SOL_NETLINK:
            if not self.is_netlink(fd):
                raise OSError(errno.ENOPROTOOPT, "no netlink socket")
            _netlink_socket(fd).set_option(name, value)
            return
        if ip_control.sets(level, name):
            ip_control.set_ip_option(fd, level, name, value)
            return
        if (level, name) != (SOL_IPV6, IPV6_V6ONLY):
            raise OSError(errno.ENOPROTOOPT, "the socket would change its family")
        get_option(fd, level, name, 4)
        if socket_name(fd, False)[2:4] != b"\0\0":
            raise OSError(errno.EINVAL, "already bound")
        self._state(fd).v6only = any(value)

    # -- names -------------------------------------------------------------------------------------------------
    def bind(self, call: Call, fd: int, kind: tuple[int, int], address: bytes) -> None:
        if self.is_netlink(fd):
            _netlink_socket(fd).bind(address, call.kernel.tasks.guest_of(call.raw.tgid()))
            return
        if kind[0] not in (AF_INET, AF_INET6):
            super().bind(call, fd, kind, address)
            return
        ip, port = _parse(kind[0], address, binding=True)
        if remote_address(address) or (len(ip) == 4 and ip[0] not in (0, 127)):
            raise OSError(errno.EADDRNOTAVAIL, "no address of this box")
        if 0 < port < FIRST_FREE_PORT:
            raise OSError(errno.EACCES, "a privileged port")
        if socket_name(fd, False)[2:4] != b"\0\0":
            raise OSError(errno.EINVAL, "already bound")
        state = self._state(fd)
        last = self.ports.last_byte(ip)
        if ip == ANY6 and not state.v6only:
            last = FOUR  # for both families
            if port and self._bound_inode(kind[1], SIX, port):
                raise OSError(errno.EADDRINUSE, "taken for IPv6")
        state.wildcard = self.egress is not None and kind[1] == SOCK_DGRAM and ip in (ANY, ANY6)
        set_source_filter(fd, self.ports.block, state.peers)
        self.ports.bind(fd, kind[0], kind[1], last, port, wildcard=state.wildcard)
        state.bound_ip = ip

    def prepare_listen(self, fd: int, kind: tuple[int, int]) -> None:
        """Allow the box's own loopback only. An unbound socket gets any free port there, as in Linux."""
        if kind[0] not in (AF_INET, AF_INET6) or kind[1] != SOCK_STREAM:
            return  # the host gives the errno
        own = socket_name(fd, False)
        if own[2:4] == b"\0\0":
            state = self._state(fd)
            set_source_filter(fd, self.ports.block, [])
            self.ports.bind(fd, kind[0], SOCK_STREAM, SIX if state.v6only else FOUR, 0)
            state.bound_ip = ANY if kind[0] == AF_INET else ANY6
        elif (own[4:7] if kind[0] == AF_INET else own[20:23]) != self.ports.block:
            raise OSError(errno.EINVAL, "it was connected outside the box")

    def is_netlink(self, fd: int) -> bool:
        state = self._states.get(os.fstat(fd).st_ino)
        return state is not None and state.netlink

    def guest_name(self, fd: int, peer: bool) -> bytes:
        if self.is_netlink(fd):
            return NETLINK_KERNEL if peer else _netlink_socket(fd).name
        address = socket_name(fd, peer)
        if address[:2] not in (b"\2\0", b"\n\0"):
            return b""
        state = self._states.get(os.fstat(fd).st_ino)
        address_shown = self._to_guest(address, int.from_bytes(get_option(fd, SOL_SOCKET, SO_TYPE, 4), "little"))
        if not peer and state is not None and state.bound_ip is not None:
            return _with_ip(address_shown, state.bound_ip)
        return self._fix_ipv6(fd, address_shown, of_peer=not peer)

    def guest_address(self, fd: int, address: bytes) -> bytes:
        if self.is_netlink(fd):
            return NETLINK_KERNEL
        return self._fix_ipv6(fd, self._to_guest(address, SOCK_DGRAM), of_peer=False)

    def guest_peer_address(self, address: bytes) -> bytes:
        return self._to_guest(address, SOCK_STREAM)

    def _fix_ipv6(self, fd: int, address_shown: bytes, *, of_peer: bool) -> bytes:
        """A socket bound to "any" for both families is at 127.0.0.1 on the host. The other end tells whether ::1 was
        meant."""
        state = self._states.get(os.fstat(fd).st_ino)
        if address_shown[:2] == b"\n\0" and state is not None and state.connected_ip is not None:
            if address_shown[8:24] not in (LOCALHOST6, MAPPED_PREFIX + LOCALHOST):
                return address_shown
            return _with_ip(address_shown, LOCALHOST6 if len(state.connected_ip) == 16 else LOCALHOST)
        if address_shown[:2] == b"\n\0" and address_shown[8:24] == MAPPED_PREFIX + LOCALHOST:
            try:
                if self.ports.guest_ip(socket_name(fd, of_peer)[20:24]) == LOCALHOST6:
                    return _with_ip(address_shown, LOCALHOST6)
            except OSError:
                pass
        return address_shown

    def _to_guest(self, address: bytes, kind: int) -> bytes:
        """Translate a host address to the guest's."""
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
        if address[:2] == b"\0\0" and call.nr == CONNECT:  # dissolve the association
            set_source_filter(fd, b"", [])
            self._state(fd).connected_ip = None
            return address
        if kind == (AF_INET6, SOCK_DGRAM) and address[:2] == b"\2\0" and len(address) >= 16:
            # Linux lets an IPv6 datagram socket take IPv4 addresses as they are.
            address = b"\n\0" + address[2:4] + bytes(4) + MAPPED_PREFIX + address[4:8] + bytes(4)
        ip, port = _parse(kind[0], address, binding=False)
        if ip in (ANY, ANY6):
            ip = LOCALHOST6 if len(ip) == 16 else LOCALHOST
        loopback = ip == LOCALHOST6 or (len(ip) == 4 and ip[0] == 127)
        if not loopback or (self.egress is not None and self.egress.names_address(ip, port)):
            return self._to_remote(call, fd, kind, address, ip, port)
        if call.nr == CONNECT and kind[0] == AF_INET6:
            self._state(fd).connected_ip = ip
        return self._to_loopback(fd, kind, ip, port)

    def _to_remote(self, call: Call, fd: int, kind: tuple[int, int], address: bytes, ip: bytes, port: int) -> bytes:
        if self.egress is None:
            raise unreachable(call, remote_address(address))
        self.egress.check(ip, port)
        state = self._state(fd)
        if state.bound_ip is not None and not state.wildcard:
            raise OSError(errno.EINVAL, "a socket bound to loopback reaches loopback only")
        if ip not in state.peers:
            # Earlier peers may still send to a datagram socket; the list is bounded.
            state.peers = [*state.peers[-MOST_PEERS + 1 :], ip] if kind[1] == SOCK_DGRAM else [ip]
        set_source_filter(fd, self.ports.block if state.wildcard else b"", state.peers)
        return _rebuild(kind[0], ip, port, address)

    def _to_loopback(self, fd: int, kind: tuple[int, int], ip: bytes, port: int) -> bytes:
        last = self._bound_last_byte(kind[1], ip, port)
        if last is None:
            if kind[1] == SOCK_STREAM:
                raise OSError(errno.ECONNREFUSED, "no server in the box listens there")
            last = self.ports.last_byte(ip)
        host_port = self.ports.reserve(kind[1], last, port)
        self._bind_source(fd, kind, SIX if ip == LOCALHOST6 else FOUR)
        return host_address(kind[0], self.ports.host_ip(last), host_port)

    def listener(self, ip: bytes, port: int) -> bytes | None:
        """The host address of the box's server at this port; None while there is none."""
        last = self._bound_last_byte(SOCK_STREAM, ip, port)
        if last is None:
            return None
        return host_address(AF_INET, self.ports.host_ip(last), self.ports.reserve(SOCK_STREAM, last, port))

    def _bound_last_byte(self, kind: int, ip: bytes, port: int) -> int | None:
        """The last byte of the host address where a socket of the box is bound to this port."""
        own = self.ports.last_byte(ip)
        if self._bound_inode(kind, own, port):
            return own
        # A socket bound to "any" is bound as 127.0.0.1, for IPv6 too unless it set IPV6_V6ONLY.
        if own != FOUR and (found := self._bound_inode(kind, FOUR, port)):
            state = self._states.get(found)
            if state is not None and state.bound_ip in ((ANY6,) if own == SIX else (ANY, ANY6)):
                return FOUR
        return None

    def _bound_inode(self, kind: int, last: int, port: int) -> int:
        """Inode number of the box's socket at a guest port, 0 for none. A host service bound to every address would
        answer there, too: only a socket bound to exactly this address is the box's."""
        host_port = self.ports.host_port(kind, last, port)
        if host_port is None:
            return 0
        ip, inode = port_owners.find(kind, self.ports.host_ip(last), host_port)
        if ip == self.ports.host_ip(last) or (ip == ANY and inode in self._states and self._states[inode].wildcard):
            return inode or 1
        return 0

    def _bind_source(self, fd: int, kind: tuple[int, int], last: int) -> None:
        """Bind to a source address of the box: the box's sockets drop packets from any other."""
        own = socket_name(fd, False)
        if own[2:4] != b"\0\0":
            state = self._state(fd)
            if state.bound_ip is not None or state.peers or any(own[4:8] if kind[0] == AF_INET else own[8:24]):
                return
            connect_address(fd, bytes(16))  # the host bound it implicitly; AF_UNSPEC undoes that
        set_source_filter(fd, self.ports.block, [])
        if kind[1] == SOCK_DGRAM:
            self.ports.bind(fd, kind[0], SOCK_DGRAM, last, 0)
        else:
            set_option(fd, SOL_IP, IP_BIND_ADDRESS_NO_PORT, b"\1\0\0\0")
            bind_address(fd, host_address(kind[0], self.ports.host_ip(last), 0))

    def source_control(self, fd: int, kind: tuple[int, int], to: bytes) -> list[tuple[int, int, bytes]]:
        """Control messages for a datagram to `to`: a socket bound to every address must name the source address."""
        state = self._states.get(os.fstat(fd).st_ino)
        if state is None or kind[1] != SOCK_DGRAM or not (state.wildcard or state.peers):
            return []
        if kind[0] == AF_INET and to[4:7] == self.ports.block:
            return [(SOL_IP, IP_PKTINFO, struct.pack("<i4s4s", 0, self.ports.host_ip(FOUR), bytes(4)))]
        if to[8:20] == MAPPED_PREFIX and to[20:23] == self.ports.block:
            last = SIX if to[23] == SIX else FOUR
            return [(SOL_IPV6, IPV6_PKTINFO, MAPPED_PREFIX + self.ports.host_ip(last) + bytes(4))]
        return []

    def host_control(self, level: int, kind: int, value: bytes) -> list[tuple[int, int, bytes]]:
        return ip_control.to_host(level, kind, value)

    def guest_control(self, fd: int, peer: bytes, control: bytes) -> bytes:
        if self.is_netlink(fd):
            return ip_control.from_kernel(control)
        return ip_control.to_guest(self, fd, peer, control) if peer[:2] in (b"\2\0", b"\n\0") else control

    def guest_own_ip(self, fd: int, ip: bytes, peer: bytes) -> bytes | None:
        """The guest's address, 4 or 16 bytes, that `peer` meant by the host address `ip`; None outside of the box."""
        guest_ip = self.ports.guest_ip(ip)
        meant = self.ports.guest_ip(peer[20:24]) if peer[8:20] == MAPPED_PREFIX else None
        return LOCALHOST6 if guest_ip == LOCALHOST and meant == LOCALHOST6 else guest_ip

    def _state(self, fd: int) -> _SocketState:
        inode = os.fstat(fd).st_ino
        state = self._states.get(inode)
        if state is None:
            if len(self._states) >= MOST_SOCKETS:
                del self._states[next(iter(self._states))]
            state = self._states[inode] = _SocketState()
        return state


def _netlink_socket(fd: int) -> NetlinkSocket:
    from husk.kernel.loopback.netlink_sockets import find

    found = find(fd)
    if found is None:
        raise OSError(errno.EIO, "husk lost the other end")
    return found


def _parse(family: int, address: bytes, *, binding: bool) -> tuple[bytes, int]:
    """Address (4 or 16 bytes; IPv4 in IPv6 as 4) and port, read as the socket's family."""
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


def _rebuild(family: int, ip: bytes, port: int, address: bytes) -> bytes:
    """Build a sockaddr from the judged address: without the guest's flow label, with its interface."""
    if family == AF_INET:
        return b"\2\0" + port.to_bytes(2, "big") + ip + bytes(8)
    whole = ip if len(ip) == 16 else MAPPED_PREFIX + ip
    return b"\n\0" + port.to_bytes(2, "big") + bytes(4) + whole + address[24:28]
