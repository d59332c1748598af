"""kernel: a box's network on host sockets, for boxes without a network namespace or with rules that open the network.

husk makes every network socket itself, on the host's network. Each starts with a socket filter that drops everything
(husk.kernel.net.socket_filter). Loopback addresses mean the box's own loopback and are mapped (husk.kernel.net.ports).
Other addresses are judged by the rules, if there are any (husk.kernel.net.egress). husk copies an address once, judges
the copy and connects to the copy.
"""

from __future__ import annotations

import _socket
import _thread
import errno
import os
import struct

from husk.kernel.call import Call, Refused
from husk.kernel.loopback import groups, ip_control
from husk.kernel.loopback.groups import Groups, is_group
from husk.kernel.net import port_owners
from husk.kernel.net.network import (
    CONNECT,
    FIRST_FREE_PORT,
    NOWHERE,
    Network,
    is_connected,
    remote_address,
    unreachable,
)
from husk.kernel.net.port_owners import NO_SENDER
from husk.kernel.net.ports import (
    ANY,
    ANY6,
    ANY_FOUR,
    ANY_SIX,
    FOUR,
    GUARD,
    IPV6_SLOTS,
    LOCALHOST,
    LOCALHOST6,
    MAPPED_PREFIX,
    SIX,
    SPARE,
    WILDCARDS,
    Ports,
    host_address,
)
from husk.kernel.net.socket_filter import set_source_filter
from husk.native._core import bind_address, connect_address, get_option, set_option, socket_kind, socket_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from husk.kernel.loopback.netlink_sockets import NetlinkSocket, NetlinkSockets
    from husk.kernel.net.egress import Egress

    class Service(Protocol):
        def close(self) -> None: ...

AF_UNSPEC, AF_INET, AF_INET6, AF_NETLINK = 0, 2, 10, 16
SOCK_STREAM, SOCK_DGRAM = 1, 2
SOL_SOCKET, SO_TYPE = 1, 3
SOL_IP, IP_BIND_ADDRESS_NO_PORT, IP_PKTINFO = 0, 24, 8
SOL_IPV6, IPV6_V6ONLY, IPV6_PKTINFO = 41, 26, 50
SOL_NETLINK = 270
NETLINK_KERNEL = b"\x10\0" + bytes(10)  # the kernel's own netlink address
SO_BROADCAST = 6
# Keys of the slots for sockets that share a port: addresses that no guest can have.
SHARING = tuple(bytes((240, 0, 0, number)) for number in range(1, 9))
MOST_SOCKETS, MOST_PEERS = 65536, 32


class _SocketState:
    """What husk knows of a socket, by inode number. husk does not learn of its close: the oldest are forgotten."""

    __slots__ = (
        "bound_ip",
        "connected",
        "drawn",
        "gateway",
        "netlink",
        "peers",
        "released",
        "source",
        "v6only",
        "wildcard",
    )

    def __init__(self) -> None:
        self.netlink = False
        self.bound_ip: bytes | None = None  # the address it was bound to, as the guest gave it, or "any" for a send
        self.drawn = False  # husk drew the port of a datagram socket
        self.released = False  # then it was disconnected: Linux takes such a port back
        self.connected: tuple[bytes, int] | None = None  # loopback address and port to which the guest connected it
        self.gateway = False  # that was the HTTP gateway
        self.v6only = False
        self.peers: list[bytes] = []  # remote addresses it may receive from
        self.wildcard = False  # bound to every address of the host
        self.source = FOUR  # the slot from which such a socket sends to the box


class GatewayPlaces:
    """Where the HTTP gateway of a box listens, and which addresses outside lead there instead."""

    __slots__ = ("address", "outside", "ports")

    def __init__(self, address: bytes, ports: set[int], outside: set[tuple[bytes, int]]) -> None:
        self.address, self.ports, self.outside = address, ports, outside

    def takes(self, ip: bytes, port: int) -> bool:
        """Does the gateway serve this? Refuses where only a client that speaks TLS would connect."""
        if ip == self.address and port not in self.ports:
            why = "husk speaks plain HTTP for the hosts of --allow-http: inside, write http:// in place of https://"
            raise Refused(errno.ECONNREFUSED, why, f"connection to port {port} of a host of --allow-http", None, "")
        return ip == self.address or (ip, port) in self.outside


class MappedNetwork(Network):
    """`egress` decides about addresses that are not loopback. None: all of them are unreachable."""

    __slots__ = (
        "_making",
        "_meant",
        "_netlinks",
        "_sink",
        "_states",
        "egress",
        "gateway",
        "groups",
        "ports",
        "services",
    )
    mapped = True

    def __init__(self, egress: Egress | None) -> None:
        self.egress = egress
        self.ports = Ports()
        self.groups = Groups()
        self._sink: _socket.socket | None = None  # takes datagrams for groups that have no receiver
        self._states: dict[int, _SocketState] = {}
        self._making = _thread.allocate_lock()
        self._netlinks: NetlinkSockets | None = None  # made when a program first wants one
        # (type, slot, host port) of a sender -> the address it meant, where its slot and the receiver's do not tell
        self._meant: dict[tuple[int, int, int], bytes] = {}
        self.services: list[Service] = []  # husk's threads that serve this network
        self.gateway: GatewayPlaces | None = None  # where the HTTP gateway serves; None: there is none

    def close(self) -> None:
        for each in self.services:
            each.close()
        self.ports.close()
        if self._sink is not None:
            self._sink.close()

    # -- making and options ------------------------------------------------------------------------------------
    def socket(self, family: int, kind: int, protocol: int, flags: int) -> int:
        if family == AF_NETLINK:
            fd = self._own_netlinks().make(flags, kind, protocol)
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
            return self._netlink_socket(fd).option(level, name)
        if (level, name) in groups.OPTIONS:
            get_option(fd, level, name, 4)  # the host knows whether this socket has the option
            return self.groups.interface(os.fstat(fd).st_ino, level)
        if (level, name) != (SOL_IPV6, IPV6_V6ONLY):
            return get_option(fd, level, name, 4)
        get_option(fd, level, name, 4)  # the host knows whether this socket has the option
        return int(self._state(fd).v6only).to_bytes(4, "little")

    def set_option(self, fd: int, level: int, name: int, value: bytes) -> None:
        if level == SOL_NETLINK:
            if not self.is_netlink(fd):
                raise OSError(errno.ENOPROTOOPT, "no netlink socket")
            self._netlink_socket(fd).set_option(name, value)
            return
        if (level, name) in groups.OPTIONS:
            family, kind = socket_kind(fd)
            if kind != SOCK_DGRAM or (level == SOL_IPV6 and family != AF_INET6):
                raise OSError(errno.EINVAL if kind != SOCK_DGRAM else errno.ENOPROTOOPT, "no groups for this socket")
            self.groups.set_option(os.fstat(fd).st_ino, level, name, value)
            return
        if ip_control.sets(level, name):
            ip_control.set_ip_option(fd, level, name, value)
            return
        if (level, name) != (SOL_IPV6, IPV6_V6ONLY) or socket_kind(fd)[0] != AF_INET6:
            raise OSError(errno.ENOPROTOOPT, "the socket would change its family, or has another")
        if socket_name(fd, False)[2:4] != b"\0\0":
            raise OSError(errno.EINVAL, "already bound")
        self._state(fd).v6only = any(value)

    # -- names -------------------------------------------------------------------------------------------------
    def bind(self, call: Call, fd: int, kind: tuple[int, int], address: bytes) -> None:
        if self.is_netlink(fd):
            self._netlink_socket(fd).bind(address, call.kernel.tasks.guest_of(call.raw.tgid()))
            return
        if kind[0] not in (AF_INET, AF_INET6):
            super().bind(call, fd, kind, address)
            return
        ip, port = _parse(kind[0], address, binding=True)
        state = self._state(fd)
        if kind[1] != SOCK_DGRAM or not is_group(ip):
            self._check_bind(fd, kind[0], state, address, ip, port)
        elif _port(socket_name(fd, False)):
            raise OSError(errno.EINVAL, "already bound")
        state.wildcard = self.egress is not None and kind[1] == SOCK_DGRAM and ip in (ANY, ANY6)
        set_source_filter(fd, self.ports.block, state.peers)
        slot = self.ports.slot(ip, v6only=state.v6only)
        if self.groups.is_member(os.fstat(fd).st_ino):
            slot = self._free_slot(kind[1], slot, port)
        self.ports.bind(fd, kind[0], kind[1], slot, port, wildcard=state.wildcard)
        state.bound_ip, state.drawn, state.released = ip, port == 0 and kind[1] == SOCK_DGRAM, False

    def _check_bind(self, fd: int, family: int, state: _SocketState, address: bytes, ip: bytes, port: int) -> None:
        """Linux's checks, in the order of the socket's family."""
        foreign = bool(remote_address(address)) or (len(ip) == 4 and ip[0] not in (0, 127))
        if family == AF_INET and foreign:
            raise OSError(errno.EADDRNOTAVAIL, "no address of this box")
        if 0 < port < FIRST_FREE_PORT:
            raise OSError(errno.EACCES, "a privileged port")
        if socket_name(fd, False)[2:4] != b"\0\0":
            raise OSError(errno.EINVAL, "already bound")
        if family == AF_INET6 and state.v6only and len(ip) == 4:
            raise OSError(errno.EINVAL, "an IPv4 address for a socket of IPv6 only")
        if foreign:
            raise OSError(errno.EADDRNOTAVAIL, "no address of this box")

    def prepare_listen(self, fd: int, kind: tuple[int, int]) -> None:
        """Allow the box's own loopback only. An unbound socket gets any free port there, as in Linux."""
        if kind[0] not in (AF_INET, AF_INET6) or kind[1] != SOCK_STREAM:
            return  # the host gives the errno
        own = socket_name(fd, False)
        slot = self.ports.slot_of(_host_ip(own))
        if own[2:4] == b"\0\0":
            state = self._state(fd)
            set_source_filter(fd, self.ports.block, [])
            state.bound_ip = state.bound_ip or (ANY if kind[0] == AF_INET else ANY6)
            slot = self.ports.slot(state.bound_ip, v6only=state.v6only)
            self.ports.bind(fd, kind[0], SOCK_STREAM, slot, 0)
        elif slot is None:
            raise OSError(errno.EINVAL, "it was connected outside the box")
        else:  # sockets that share a port do so until one of them listens
            self.ports.check_overlap(fd, SOCK_STREAM, slot, _port(own))

    def is_netlink(self, fd: int) -> bool:
        state = self._states.get(os.fstat(fd).st_ino)
        return state is not None and state.netlink

    def guest_name(self, fd: int, peer: bool) -> bytes:
        if self.is_netlink(fd):
            return NETLINK_KERNEL if peer else self._netlink_socket(fd).name
        address = socket_name(fd, peer)
        if address[:2] not in (b"\2\0", b"\n\0"):
            return b""
        state = self._states.get(os.fstat(fd).st_ino)
        kind = int.from_bytes(get_option(fd, SOL_SOCKET, SO_TYPE, 4), "little")
        if state is not None and (state.bound_ip is not None or state.connected is not None):
            return self._known_name(address, kind, state, peer=peer)
        if self.ports.slot_of(_host_ip(address)) is None:
            return address  # unbound, or outside the box
        if _port(address) == 0:
            return _sockaddr(address, ANY6, 0)
        try:  # an accepted socket
            ends = self._ends(kind, _host_ip(socket_name(fd, False)), socket_name(fd, True))
        except OSError:
            ends = self._ends(kind, _host_ip(address), address)
        return _sockaddr(address, ends[peer], self.ports.guest_port(kind, _port(address)))

    def _known_name(self, address: bytes, kind: int, state: _SocketState, *, peer: bool) -> bytes:
        """The name of a socket that husk bound or connected for the guest."""
        if peer and state.connected is not None:
            return _sockaddr(address, *state.connected)
        if peer:  # outside the box
            return address
        ip, port = state.bound_ip, self.ports.guest_port(kind, _port(address))
        if state.released:
            port = 0
        if ip in (None, ANY, ANY6) and state.connected is not None and port:
            ip = LOCALHOST if len(state.connected[0]) == 4 else LOCALHOST6
        return _sockaddr(address, ip or ANY6, port)

    def guest_address(self, fd: int, address: bytes) -> bytes:
        if self.is_netlink(fd):
            return NETLINK_KERNEL
        if address[:2] not in (b"\2\0", b"\n\0") or self.ports.slot_of(_host_ip(address)) is None:
            return address
        state = self._states.get(os.fstat(fd).st_ino)
        if state is not None and state.connected is not None and address == socket_name(fd, True):
            return _sockaddr(address, *state.connected)
        port = self.ports.guest_port(SOCK_DGRAM, _port(address))
        return _sockaddr(address, self._ends(SOCK_DGRAM, _host_ip(socket_name(fd, False)), address)[1], port)

    def guest_peer_address(self, fd: int, address: bytes) -> bytes:
        if self.ports.slot_of(_host_ip(address)) is None:
            return address
        port = self.ports.guest_port(SOCK_STREAM, _port(address))
        return _sockaddr(address, self._ends(SOCK_STREAM, _host_ip(socket_name(fd, False)), address)[1], port)

    def _ends(self, kind: int, own: bytes, peer: bytes) -> tuple[bytes, bytes]:
        """The guest's addresses of a receiving socket and of the sender, from the receiver's host address and the
        sender's sockaddr."""
        own_slot, peer_slot = self.ports.slot_of(own), self.ports.slot_of(_host_ip(peer))
        meant = self._meant.get((kind, peer_slot or 0, _port(peer)))
        own_ip = meant or self._likely(own_slot, peer_slot)
        peer_ip = None if peer_slot is None else self.ports.guest_ip(peer_slot)
        if peer_ip is None or len(peer_ip) != len(own_ip):
            peer_ip = LOCALHOST if len(own_ip) == 4 else LOCALHOST6
        return own_ip, peer_ip

    def _likely(self, slot: int | None, sender: int | None) -> bytes:
        """The address that a sender has most likely used for a socket."""
        ip = None if slot is None else self.ports.guest_ip(slot)
        if ip is not None:
            return ip
        return LOCALHOST6 if slot == ANY_SIX or (slot != ANY_FOUR and sender in IPV6_SLOTS) else LOCALHOST

    # -- destinations ------------------------------------------------------------------------------------------
    def destination(self, call: Call, fd: int, kind: tuple[int, int], address: bytes) -> bytes:
        if kind[0] not in (AF_INET, AF_INET6):
            return address if self.is_netlink(fd) else super().destination(call, fd, kind, address)
        if address[:2] == b"\0\0" and call.nr == CONNECT:
            self._disconnect(fd)
            return address
        if kind[1] == SOCK_STREAM and is_connected(fd):
            return NOWHERE[kind[0]]
        if kind == (AF_INET6, SOCK_DGRAM) and address[:2] == b"\2\0" and len(address) >= 16:
            # Linux lets an IPv6 datagram socket take IPv4 addresses as they are.
            address = b"\n\0" + address[2:4] + bytes(4) + MAPPED_PREFIX + address[4:8] + bytes(4)
        ip, port = _parse(kind[0], address, binding=False)
        if ip in (ANY, ANY6):
            ip = LOCALHOST6 if len(ip) == 16 else LOCALHOST
        if kind[0] == AF_INET6:
            _check_family(self._state(fd), ip, connecting=call.nr == CONNECT)
        if self.gateway is not None and kind[1] == SOCK_STREAM and self.gateway.takes(ip, port):
            return self._to_gateway(call, fd, kind[0], ip, port)
        loopback = ip == LOCALHOST6 or (len(ip) == 4 and ip[0] == 127)
        inside = self.egress is None or not self.egress.names_address(ip, port)
        if inside and kind[1] == SOCK_DGRAM and is_group(ip):
            return self._to_group(fd, kind[0], ip, port, connecting=call.nr == CONNECT)
        if not loopback or not inside:
            return self._to_remote(call, fd, kind, address, ip, port)
        if kind[1] == SOCK_STREAM:
            to = self._connect_to(fd, kind[0], ip, port)
        else:
            to = self._send_to(fd, kind[0], ip, port, connecting=call.nr == CONNECT)
        if call.nr == CONNECT:
            self._state(fd).connected = ip, port
        return to

    def _to_gateway(self, call: Call, fd: int, family: int, ip: bytes, port: int) -> bytes:
        assert self.gateway is not None
        to = self._connect_to(fd, family, self.gateway.address, port)
        self._state(fd).gateway = True
        if call.nr == CONNECT:
            self._state(fd).connected = ip, port
        return to

    def was_connected(self, inode: int) -> bool:
        """Did husk connect this socket to the HTTP gateway, for a guest of this box?"""
        state = self._states.get(inode)
        return state is not None and state.gateway

    def _to_group(self, fd: int, family: int, ip: bytes, port: int, *, connecting: bool) -> bytes:
        if ip in groups.BROADCASTS and not any(get_option(fd, SOL_SOCKET, SO_BROADCAST, 4)):
            raise OSError(errno.EACCES, "a broadcast without SO_BROADCAST")
        self._send_to(fd, family, ip, port, connecting=False)  # binds it, and notes which address is meant
        receivers = self._receivers(family, ip, port)
        if connecting:
            # A connected socket receives from its peer only, and no group ever sends.
            own = socket_name(fd, False)
            receivers = [each for each in receivers if each[:24] != own[:24]][:1]
            for each in receivers:
                self._guard(_port(each))
            self._state(fd).connected = ip, port
        return receivers[0] if receivers else self._drain(family)

    def further_destinations(self, fd: int, kind: tuple[int, int], address: bytes) -> list[bytes]:
        if kind[1] != SOCK_DGRAM or kind[0] not in (AF_INET, AF_INET6) or len(address) < 16:
            return []
        if kind[0] == AF_INET6 and address[:2] == b"\2\0":
            ip, port = address[4:8], _port(address)
        else:
            ip, port = _parse(kind[0], address, binding=False)
        if not is_group(ip) or (self.egress is not None and self.egress.names_address(ip, port)):
            return []
        return self._receivers(kind[0], ip, port)[1:]

    def _receivers(self, family: int, ip: bytes, port: int) -> list[bytes]:
        """The host addresses of the box's sockets that get a datagram for a group, or for all."""
        if not self.groups.is_joined(ip):
            return []  # whatever IP_MULTICAST_LOOP says: lo brings back what is sent there
        found = []
        for host_port in self.ports.host_ports(SOCK_DGRAM, port) if port else ():
            slots = [self.ports.slot(ip), *(self.ports.receivers(SOCK_DGRAM, ip, host_port))]
            slots += [self.ports.slot(each) for each in SHARING if self.ports.knows(each)]
            slots = list(dict.fromkeys(slots))
            slots = [each for each in slots if each not in (FOUR, SIX)]  # bound to one address, which no group is
            owners = port_owners.find(SOCK_DGRAM, [self.ports.host_ip(each) for each in slots], host_port)
            for slot, (bound, inode) in zip(slots, owners, strict=True):
                state = self._states.get(inode)
                if state is None or state.bound_ip not in (ip, ANY6, *((ANY,) if len(ip) == 4 else ())):
                    continue
                if bound == self.ports.host_ip(slot) or (bound == ANY and state.wildcard):
                    slot = FOUR if bound == ANY else slot
                    found.append(host_address(family, self.ports.host_ip(slot), host_port))
        return list(dict.fromkeys(found))

    def _free_slot(self, kind: int, slot: int, port: int) -> int:
        """For a member that shares its port with others: a slot of its own, so that each gets the group's datagrams."""
        for each in (slot, *(self.ports.slot(ip) for ip in SHARING)):
            hosts = self.ports.host_ports(kind, port) if port else []
            owners = [found for host in hosts for found, _ in port_owners.find(kind, [self.ports.host_ip(each)], host)]
            if self.ports.host_ip(each) not in owners:
                return each
        return slot

    def _drain(self, family: int) -> bytes:
        """Where datagrams go that nobody gets: to a socket of husk's that drops everything."""
        if self._sink is None:
            made = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM | _socket.SOCK_CLOEXEC)
            set_source_filter(made.fileno(), b"", [])
            bind_address(made.fileno(), host_address(AF_INET, self.ports.host_ip(SPARE), 0))
            self._sink = made
        return host_address(family, self.ports.host_ip(SPARE), _port(socket_name(self._sink.fileno(), False)))

    def _disconnect(self, fd: int) -> None:
        state = self._state(fd)
        state.connected, state.peers, state.released = None, [], state.drawn
        set_source_filter(fd, self.ports.block if state.bound_ip is not None else b"", [])

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

    def _connect_to(self, fd: int, family: int, ip: bytes, port: int) -> bytes:
        """Where to connect a TCP socket to. Bind it to a source address of the box: listeners drop any other."""
        found = self._locate(SOCK_STREAM, ip, port)
        own = socket_name(fd, False)
        source = self.ports.slot_of(_host_ip(own))
        if _port(own) and source is not None:
            set_source_filter(fd, self.ports.block, [])  # it may have been connected before, and disconnected
            if found is None and self._receives(SOCK_STREAM, own, source, ip, port):
                return host_address(family, _host_ip(own), _port(own))  # to itself
        else:
            source = SIX if len(ip) == 16 else FOUR
            set_source_filter(fd, self.ports.block, [])
            if found is not None and self._likely(found[0], source) != ip:
                self.ports.bind(fd, family, SOCK_STREAM, source, 0)  # a port that can be noted before the server asks
                own = socket_name(fd, False)
            else:
                _bind_without_port(fd, host_address(family, self.ports.host_ip(source), 0))
        if found is None:
            return self._nowhere(family, ip)
        self._note_meaning((SOCK_STREAM, source, _port(own)), ip, self._likely(found[0], source))
        return host_address(family, self.ports.host_ip(found[0]), found[1])

    def _send_to(self, fd: int, family: int, ip: bytes, port: int, *, connecting: bool) -> bytes:
        """Where to send datagrams to, or to connect a datagram socket to. Bind the socket, as Linux does."""
        state = self._state(fd)
        own = socket_name(fd, False)
        if not _port(own) or not (state.bound_ip is not None or state.peers or any(_host_ip(own))):
            if _port(own):
                connect_address(fd, bytes(16))  # the host bound it implicitly; AF_UNSPEC undoes that
            set_source_filter(fd, self.ports.block, [])
            state.bound_ip, state.drawn = ANY if family == AF_INET else ANY6, True
            likely = LOCALHOST if len(ip) == 4 else LOCALHOST6
            slot = self.ports.slot(likely if connecting else state.bound_ip, v6only=state.v6only)
            self.ports.bind(fd, family, SOCK_DGRAM, slot, 0)
            own = socket_name(fd, False)
        state.released = False
        slot = SIX if len(ip) == 16 else FOUR if ip == LOCALHOST else self.ports.slot(ip)
        if port == 0:
            return host_address(family, self.ports.host_ip(slot), 0)  # the host has an errno, or no receiver
        state.source = SIX if len(ip) == 16 else FOUR
        source = self.ports.slot_of(_host_ip(own)) or state.source
        found = self._locate(SOCK_DGRAM, ip, port, (self.ports.host_ip(source), _port(own)))
        if found is None and state.connected == (ip, port):
            return b""
        if found is None:
            found = slot, self.ports.reserve(SOCK_DGRAM, port)
            if connecting:
                self.ports.wait(SOCK_DGRAM, *found)
        if connecting:
            self._guard(found[1])
        self._note_meaning((SOCK_DGRAM, source, _port(own)), ip, self._likely(found[0], source))
        return host_address(family, self.ports.host_ip(found[0]), found[1])

    def _guard(self, host_port: int) -> None:
        try:
            self.ports.guard(host_port)
        except OSError:
            if self.egress is None:  # with rules the box's own server may have the port for all addresses
                raise

    def _nowhere(self, family: int, ip: bytes) -> bytes:
        """An address where no TCP socket listens: there is no port 0. The host refuses the connection as usual."""
        return host_address(family, self.ports.host_ip(SIX if len(ip) == 16 else FOUR), 0)

    def _note_meaning(self, sender: tuple[int, int, int], ip: bytes, likely: bytes) -> None:
        if ip == likely:
            self._meant.pop(sender, None)
            return
        if len(self._meant) >= MOST_SOCKETS:
            del self._meant[next(iter(self._meant))]
        self._meant[sender] = ip

    def listener(self, ip: bytes, port: int) -> bytes | None:
        """The host address of the box's server at this port; None while there is none."""
        found = self._locate(SOCK_STREAM, ip, port)
        return None if found is None else host_address(AF_INET, self.ports.host_ip(found[0]), found[1])

    def _locate(self, kind: int, ip: bytes, port: int, sender: tuple[bytes, int] = NO_SENDER) -> tuple[int, int] | None:
        """Slot and host port of the box's socket that receives what `sender` sends to this address and port. A host
        service bound to every address would receive there, too: only a socket bound to exactly the slot is the box's,
        or one that husk bound to every address itself."""
        for host_port in self.ports.host_ports(kind, port) if port else ():
            slots = self.ports.receivers(kind, ip, host_port)
            owners = port_owners.find(kind, [self.ports.host_ip(each) for each in slots], host_port, sender)
            for slot, (bound, inode) in zip(slots, owners, strict=True):
                if bound == self.ports.host_ip(slot):
                    return slot, host_port
                state = self._states.get(inode)
                if bound == ANY and state is not None and state.wildcard:
                    return (SIX if len(ip) == 16 else FOUR if slot in WILDCARDS else slot), host_port
        return None

    def _receives(self, kind: int, own: bytes, slot: int, ip: bytes, port: int) -> bool:
        """Whether a socket with the host name `own` receives what is sent to this address and port."""
        return self.ports.guest_port(kind, _port(own)) == port and slot in self.ports.receivers(kind, ip, _port(own))

    def source_control(self, fd: int, kind: tuple[int, int], to: bytes) -> list[tuple[int, int, bytes]]:
        """Control messages for a datagram to `to`: a socket bound to every address must name the source address."""
        state = self._states.get(os.fstat(fd).st_ino)
        if state is None or kind[1] != SOCK_DGRAM or not (state.wildcard or state.peers):
            return []
        if kind[0] == AF_INET and to[4:7] == self.ports.block:
            return [(SOL_IP, IP_PKTINFO, struct.pack("<i4s4s", 0, self.ports.host_ip(state.source), bytes(4)))]
        if to[8:20] == MAPPED_PREFIX and to[20:23] == self.ports.block:
            return [(SOL_IPV6, IPV6_PKTINFO, MAPPED_PREFIX + self.ports.host_ip(state.source) + bytes(4))]
        return []

    def is_own(self, address: bytes) -> bool:
        return self.ports.slot_of(_host_ip(address)) not in (None, GUARD)

    def guest_names(self, kind: int, inode: int, own: bytes, peer: bytes) -> tuple[bytes, bytes]:
        state = self._states.get(inode)
        if state is not None and (state.bound_ip is not None or state.connected is not None):
            shown = self._known_name(peer, kind, state, peer=True) if _port(peer) else peer
            return self._known_name(own, kind, state, peer=False), shown
        if not self.is_own(own):
            return own, peer  # outside the box
        ends = self._ends(kind, _host_ip(own), peer if _port(peer) else own)
        first = _sockaddr(own, ends[0], self.ports.guest_port(kind, _port(own)))
        return first, _sockaddr(peer, ends[1], self.ports.guest_port(kind, _port(peer))) if _port(peer) else peer

    def host_control(self, level: int, kind: int, value: bytes) -> list[tuple[int, int, bytes]]:
        return ip_control.to_host(level, kind, value)

    def guest_control(self, fd: int, peer: bytes, control: bytes) -> bytes:
        if self.is_netlink(fd):
            return ip_control.from_kernel(control)
        return ip_control.to_guest(self, fd, peer, control) if peer[:2] in (b"\2\0", b"\n\0") else control

    def guest_own_ip(self, fd: int, ip: bytes, peer: bytes) -> bytes | None:
        """The guest's address, 4 or 16 bytes, that `peer` meant by the host address `ip`; None outside of the box."""
        return None if self.ports.slot_of(ip) is None else self._ends(SOCK_DGRAM, ip, peer)[0]

    def _own_netlinks(self) -> NetlinkSockets:
        from husk.kernel.loopback.netlink_sockets import NetlinkSockets

        with self._making:
            if self._netlinks is None:
                self._netlinks = NetlinkSockets()
            return self._netlinks

    def _netlink_socket(self, fd: int) -> NetlinkSocket:
        found = self._netlinks.find(fd) if self._netlinks is not None else None
        if found is None:
            raise OSError(errno.EIO, "husk lost the other end")
        return found

    def _state(self, fd: int) -> _SocketState:
        inode = os.fstat(fd).st_ino
        state = self._states.get(inode)
        if state is None:
            if len(self._states) >= MOST_SOCKETS:
                del self._states[next(iter(self._states))]
            state = self._states[inode] = _SocketState()
        return state


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


def _host_ip(address: bytes) -> bytes:
    """The IPv4 address in a sockaddr of the host; "any" for an address of IPv6."""
    if address[:2] == b"\2\0":
        return address[4:8]
    return address[20:24] if address[8:20] == MAPPED_PREFIX else ANY


def _port(address: bytes) -> int:
    return int.from_bytes(address[2:4], "big")


def _sockaddr(like: bytes, ip: bytes, port: int) -> bytes:
    """A sockaddr of the same family. IPv4 in IPv6 is mapped; an IPv6 address in IPv4 can only be "any" or loopback."""
    if like[:2] == b"\2\0":
        return b"\2\0" + port.to_bytes(2, "big") + (ip if len(ip) == 4 else ANY if ip == ANY6 else LOCALHOST) + bytes(8)
    whole = ip if len(ip) == 16 else MAPPED_PREFIX + ip
    return b"\n\0" + port.to_bytes(2, "big") + bytes(4) + whole + bytes(4)


def _check_family(state: _SocketState, ip: bytes, *, connecting: bool) -> None:
    """An IPv6 socket that is bound to an address of one family does not reach the other."""
    bound = state.bound_ip
    if len(ip) == 4 and (state.v6only or (bound is not None and len(bound) == 16 and bound != ANY6)):
        raise OSError(errno.ENETUNREACH, "IPv4 from a socket of IPv6")
    pinned = bound if connecting or state.connected is None else state.connected[0]
    if len(ip) == 16 and pinned is not None and len(pinned) == 4:
        raise OSError(errno.EAFNOSUPPORT, "IPv6 from a socket of IPv4")


def _bind_without_port(fd: int, address: bytes) -> None:
    """Bind to an address only. The host chooses the port when it connects, with the whole connection in view."""
    before = get_option(fd, SOL_IP, IP_BIND_ADDRESS_NO_PORT, 4)
    set_option(fd, SOL_IP, IP_BIND_ADDRESS_NO_PORT, b"\1\0\0\0")
    bind_address(fd, address)
    set_option(fd, SOL_IP, IP_BIND_ADDRESS_NO_PORT, before)


def _rebuild(family: int, ip: bytes, port: int, address: bytes) -> bytes:
    """Build a sockaddr from the judged address: without the guest's flow label, with its interface."""
    if family == AF_INET:
        return b"\2\0" + port.to_bytes(2, "big") + ip + bytes(8)
    whole = ip if len(ip) == 16 else MAPPED_PREFIX + ip
    return b"\n\0" + port.to_bytes(2, "big") + bytes(4) + whole + address[24:28]
