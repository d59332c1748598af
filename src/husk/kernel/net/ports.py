"""kernel: the ports of a box's loopback where it is mapped to the host's: addresses, the host port that stands for each
guest port, and Linux's rules about sockets that want the same port.

A box has 256 addresses of the host's loopback to itself, 127.A.B.*, drawn at random. The last byte, the *slot*, says
which guest address is meant. "Any" has slots of its own: for IPv4, for IPv6 alone, and for both. One host port stands
for a guest port in all slots, as long as the box lives.

So two guest sockets that want one address and port meet at one host address and port, and the host itself applies its
rules: SO_REUSEADDR, SO_REUSEPORT, connections that wait in TIME_WAIT or FIN_WAIT2, the ports of clients. husk keeps no
account of sockets, and need not learn of closed ones. What the host cannot see is that slots overlap: "any" includes
127.0.0.1. So before a socket is bound to its slot, husk binds a probe with the same options to each slot that overlaps.
If the host refuses one, Linux would have refused the guest. A datagram socket may be connected to a port before its
server exists: a server on "any" address then takes the slot at which that client waits.

Host ports differ from guest ports, so that a guest meets no host service by its number, with two exceptions. Ports that
husk draws itself stand for themselves. So do those that the host chooses for TCP sockets: each connection is looked up
before it is made, so nothing reaches what has such a port later.
"""

from __future__ import annotations

import _socket
import _thread
import errno
import os

from husk.kernel.net import port_owners
from husk.kernel.net.socket_filter import set_source_filter
from husk.native._core import bind_address, get_option, make_as, set_option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable

AF_INET, AF_INET6, SOCK_STREAM, SOCK_DGRAM = 2, 10, 1, 2
SOL_SOCKET, SO_REUSEADDR, SO_REUSEPORT = 1, 2, 15
MAPPED_PREFIX = bytes(10) + b"\xff\xff"
LOCALHOST, LOCALHOST6, ANY, ANY6 = b"\x7f\0\0\1", bytes(15) + b"\1", bytes(4), bytes(16)
# Slots: two that no guest socket has, 127.0.0.1, ::1, "any" of IPv4, of IPv6 alone and of both, others of 127/8.
SPARE, GUARD, FOUR, SIX, ANY_FOUR, ANY_SIX, ANY_BOTH, FIRST_OTHER, LAST_OTHER = 2, 8, 4, 6, 3, 5, 7, 10, 250
IPV6_SLOTS = frozenset((SIX, ANY_SIX))
WILDCARDS = frozenset((ANY_FOUR, ANY_SIX, ANY_BOTH))
TRIES, MOST_PORTS = 200, 8000
MOST_GUARDS, CONNECTING = 128, 32  # descriptors of husk; those whose sockets are perhaps not connected yet


class Ports:
    """Keys are (socket type, port)."""

    __slots__ = (
        "_binding",
        "_count",
        "_ephemeral",
        "_first",
        "_guards",
        "_guest",
        "_host",
        "_others",
        "_used",
        "_waited",
        "block",
    )

    def __init__(self) -> None:
        draw = os.urandom(2)
        self.block = bytes((127, 1 + draw[0] % 254, 1 + draw[1] % 254))
        self._host: dict[tuple[int, int], int] = {}
        self._guest: dict[tuple[int, int], int] = {}
        self._others: dict[bytes, int] = {}  # other addresses of 127/8 -> slot
        self._used: dict[tuple[int, int], set[int]] = {}  # (type, host port) -> slots of other addresses bound there
        self._waited: dict[tuple[int, int], int] = {}  # (type, host port) -> slot to which a client was connected early
        self._guards: dict[int, _socket.socket] = {}  # by host port of datagrams
        self._ephemeral, (self._first, self._count) = _port_ranges()
        self._binding = _thread.allocate_lock()  # one at a time: a probe must not meet another's

    # -- addresses ---------------------------------------------------------------------------------------------
    def slot(self, ip: bytes, *, v6only: bool = False) -> int:
        """The slot for a loopback address or "any", given as 4 or 16 bytes."""
        if ip == ANY6:
            return ANY_SIX if v6only else ANY_BOTH
        fixed = {LOCALHOST: FOUR, LOCALHOST6: SIX, ANY: ANY_FOUR}.get(ip)
        if fixed is not None:
            return fixed
        if ip not in self._others:
            if FIRST_OTHER + len(self._others) > LAST_OTHER:
                raise OSError(errno.EADDRNOTAVAIL, "too many addresses of 127/8 are in use")
            self._others[ip] = FIRST_OTHER + len(self._others)
        return self._others[ip]

    def knows(self, ip: bytes) -> bool:
        return ip in self._others

    def host_ip(self, slot: int) -> bytes:
        return self.block + bytes((slot,))

    def slot_of(self, host_ip: bytes) -> int | None:
        """The slot of a host address, 4 bytes; None outside this box's block."""
        return host_ip[3] if host_ip[:3] == self.block else None

    def guest_ip(self, slot: int) -> bytes | None:
        """The guest address of a slot; None for "any", which can mean several."""
        if slot in WILDCARDS:
            return None
        if slot == SIX:
            return LOCALHOST6
        for ip, other in self._others.items():
            if other == slot:
                return ip
        return LOCALHOST

    def receivers(self, kind: int, ip: bytes, host_port: int) -> list[int]:
        """The slots of sockets that receive what is sent to a loopback address, the closest match first."""
        if len(ip) == 16:
            slots = [SIX, ANY_SIX, ANY_BOTH]
        else:
            own = FOUR if ip == LOCALHOST else self._others.get(ip)
            slots = ([] if own is None else [own]) + [ANY_FOUR, ANY_BOTH]
        return [self._place(kind, each, host_port) for each in slots]

    def _overlapping(self, kind: int, slot: int, host_port: int) -> set[int]:
        """The other slots whose sockets would receive some of the same packets."""
        if slot in IPV6_SLOTS:
            slots = [SIX, ANY_SIX, ANY_BOTH]
        elif slot not in WILDCARDS:
            slots = [ANY_FOUR, ANY_BOTH]
        else:
            slots = [FOUR, ANY_FOUR, ANY_BOTH, *self._used.get((kind, host_port), ())]
            if slot == ANY_BOTH:
                slots += IPV6_SLOTS
        return {self._place(kind, each, host_port) for each in slots} - {self._place(kind, slot, host_port)}

    def _place(self, kind: int, slot: int, host_port: int) -> int:
        """Where sockets of a slot are bound: at the slot of a client that waits for them, if they include it."""
        waited = self._waited.get((kind, host_port))
        if waited is None or slot not in WILDCARDS or (slot != ANY_BOTH and (slot in IPV6_SLOTS) != (waited == SIX)):
            return slot
        return waited

    # -- ports -------------------------------------------------------------------------------------------------
    def host_ports(self, kind: int, port: int) -> list[int]:
        """The host ports at which sockets of the box may have this guest port: at most one that stands for it, and the
        port itself where the host may have given it to a client."""
        known = self._host.get((kind, port))
        clients = kind == SOCK_STREAM and port in self._ephemeral
        if known is None:
            return [port] if clients or self._stands_for_itself(kind, port) else []
        return [known, port] if clients else [known]

    def guest_port(self, kind: int, host_port: int) -> int:
        return self._guest.get((kind, host_port), host_port)

    def bind(self, fd: int, family: int, kind: int, slot: int, port: int, *, wildcard: bool = False) -> None:
        """Bind to the host port for `port`, or to a free one for 0. `wildcard`: bind to every address of the host,
        for a socket that also reaches remote addresses."""
        if kind == SOCK_STREAM and not port:
            # The host's choice. Unlike one of ours it is the host's to take back, when the connection is over.
            bind_address(fd, host_address(family, self.host_ip(slot), 0))
            return
        with self._binding:
            chosen = self._choose(fd, kind, slot, port) if port else None
            if chosen is not None:
                if wildcard:
                    self._drop_guards(keep=self._guards.keys() - {chosen})  # it would refuse that address
                ip = ANY if wildcard else self.host_ip(self._place(kind, slot, chosen))
                bind_address(fd, host_address(family, ip, chosen))
            else:
                chosen = self._bind_to_drawn(fd, family, kind, slot, ANY if wildcard else self.host_ip(slot))
                if port or wildcard:
                    self._remember(kind, port or chosen, chosen)
            if slot >= FIRST_OTHER:
                self._used.setdefault((kind, chosen), set()).add(slot)

    def check_overlap(self, fd: int, kind: int, slot: int, host_port: int) -> None:
        """EADDRINUSE where another socket of the box keeps this one from receiving at `slot`."""
        with self._binding:
            self._check(fd, kind, self._overlapping(kind, slot, host_port), host_port)

    def reserve(self, kind: int, port: int) -> int:
        """A host port for a guest port that no socket of the box has: datagrams may be sent before their receiver
        exists. No socket of the host receives there: it is never the number that the guest chose, nor one that a host
        service has taken since."""
        known = self._host.get((kind, port))
        if known is None or self._is_foreign(kind, known):
            if known is not None:
                del self._host[kind, port], self._guest[kind, known]
            known = self._draw(kind)
            if len(self._host) < MOST_PORTS:
                self._remember(kind, port, known)
        return known

    def wait(self, kind: int, slot: int, host_port: int) -> None:
        """A client was connected to this slot before its server is there."""
        if len(self._waited) < MOST_PORTS:
            self._waited.setdefault((kind, host_port), slot)

    def guard(self, host_port: int) -> None:
        """Keep programs of the host off a port of datagrams. A guest socket that is connected to it sends without husk,
        whoever has the port by then. While husk holds it at one address, it cannot be had for all addresses."""
        with self._binding:
            if host_port in self._guards:
                self._guards[host_port] = self._guards.pop(host_port)  # the latest
                return
            if len(self._guards) >= MOST_GUARDS:
                latest = list(self._guards)[-CONNECTING:]
                self._drop_guards(keep=port_owners.connected_ports(self.block).union(latest))
            if len(self._guards) >= MOST_GUARDS:
                raise OSError(errno.EADDRNOTAVAIL, "the box's sockets are connected to too many ports")
            made = _probe(SOCK_DGRAM)
            set_source_filter(made.fileno(), b"", [])
            if not self._can_bind(made, GUARD, host_port):
                made.close()
                raise OSError(errno.EADDRNOTAVAIL, "a program of the host has the port, too")
            self._guards[host_port] = made

    def close(self) -> None:
        self._drop_guards(keep=())

    # -- what they mean ----------------------------------------------------------------------------------------
    def _drop_guards(self, keep: Container[int]) -> None:
        for port in [port for port in self._guards if port not in keep]:
            self._guards.pop(port).close()

    def _choose(self, fd: int, kind: int, slot: int, port: int) -> int | None:
        """The host port to bind to; None: one has to be drawn. EADDRINUSE where the box itself has the guest port."""
        candidates = self.host_ports(kind, port)
        for each in candidates[1:]:
            self._check(fd, kind, [slot, *self._overlapping(kind, slot, each)], each)
        if not candidates or ((kind, port) not in self._host and self._is_foreign(kind, port)):
            return None
        chosen = candidates[0]
        self._check(fd, kind, self._overlapping(kind, slot, chosen), chosen)
        return chosen

    def _check(self, fd: int, kind: int, slots: Iterable[int], host_port: int) -> None:
        if any(self._taken(fd, kind, each, host_port) for each in slots):
            raise OSError(errno.EADDRINUSE, "another socket of the box has the port")

    def _taken(self, fd: int, kind: int, slot: int, host_port: int) -> bool:
        """Whether the host would refuse `fd` this address. The host is asked: with a socket that has the same options
        and owner, by which it decides who may share a port."""
        owner = os.fstat(fd)
        probe = (
            _probe(kind) if owner.st_uid == os.geteuid() else make_as(owner.st_uid, owner.st_gid, lambda: _probe(kind))
        )
        try:
            for option in (SO_REUSEADDR, SO_REUSEPORT):
                set_option(probe.fileno(), SOL_SOCKET, option, get_option(fd, SOL_SOCKET, option, 4))
            return not self._can_bind(probe, slot, host_port)
        finally:
            probe.close()

    def _is_foreign(self, kind: int, host_port: int) -> bool:
        """Whether a socket of the host receives at this port of all addresses, those of the box among them."""
        probe = _probe(kind)
        try:
            return not self._can_bind(probe, SPARE, host_port)
        finally:
            probe.close()

    def _can_bind(self, probe: _socket.socket, slot: int, host_port: int) -> bool:
        try:
            bind_address(probe.fileno(), host_address(AF_INET, self.host_ip(slot), host_port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
        return True

    def _bind_to_drawn(self, fd: int, family: int, kind: int, slot: int, ip: bytes) -> int:
        for _ in range(TRIES):
            host_port = self._draw(kind)
            if any(self._taken(fd, kind, each, host_port) for each in self._overlapping(kind, slot, host_port)):
                continue
            try:
                bind_address(fd, host_address(family, ip, host_port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                continue
            return host_port
        raise OSError(errno.EADDRINUSE, "the host has no free port")

    def _stands_for_itself(self, kind: int, port: int) -> bool:
        return self._first <= port < self._first + self._count and (kind, port) not in self._guest

    def _draw(self, kind: int) -> int:
        while True:  # ends soon: MOST_PORTS is well below the number of ports
            port = self._first + int.from_bytes(os.urandom(4), "little") % self._count
            if (kind, port) not in self._guest and (kind, port) not in self._host and not self._is_foreign(kind, port):
                return port

    def _remember(self, kind: int, port: int, host_port: int) -> None:
        if len(self._host) >= MOST_PORTS:
            raise OSError(errno.EADDRNOTAVAIL, "a box can use no more ports")
        self._host[kind, port] = host_port
        self._guest[kind, host_port] = port


def _probe(kind: int) -> _socket.socket:
    return _socket.socket(AF_INET, kind | _socket.SOCK_CLOEXEC)


def host_address(family: int, ip: bytes, port: int) -> bytes:
    """An IPv4 address for a socket of either family."""
    if family == AF_INET:
        return b"\2\0" + port.to_bytes(2, "big") + ip + bytes(8)
    whole = ANY6 if ip == ANY else MAPPED_PREFIX + ip
    return b"\n\0" + port.to_bytes(2, "big") + bytes(4) + whole + bytes(4)


def _port_ranges() -> tuple[range, tuple[int, int]]:
    """The host's ephemeral ports; and first and number of the ports to draw from, which are none of them."""
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range", "rb") as file:
            low, high = (int(word) for word in file.read().split())
    except (OSError, ValueError):
        low, high = 32768, 60999
    if low > 24000:
        return range(low, high + 1), (low - 12000, 12000)
    return range(low, high + 1), (high + 1, 65535 - high) if high < 61000 else (10000, 50000)
