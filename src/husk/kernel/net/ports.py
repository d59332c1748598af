"""kernel: the box's loopback mapped to the host's: which host port stands for which guest port.

A box has 256 addresses of the host's loopback to itself, 127.A.B.*, drawn at random. The last byte encodes the guest
address. The host port is drawn by husk and differs from the guest port, so that a guest meets no host service by its
port number. A host port stands for the same guest port as long as the box lives: the host itself then knows which ports
are taken, shared or free again, and husk keeps no account of it.
"""

from __future__ import annotations

import errno
import os

from husk.native._core import bind_address

AF_INET, AF_INET6 = 2, 10
MAPPED_PREFIX = bytes(10) + b"\xff\xff"
LOCALHOST, LOCALHOST6, ANY, ANY6 = b"\x7f\0\0\1", bytes(15) + b"\1", bytes(4), bytes(16)
FOUR, SIX, FIRST_OTHER, LAST_OTHER = 4, 6, 10, 250  # last bytes: of 127.0.0.1, of ::1, of other addresses in 127/8
TRIES, MOST_PORTS = 200, 8000


class Ports:
    """Keys are (socket type, last byte, port)."""

    __slots__ = ("_count", "_first", "_guest", "_host", "_others", "block")

    def __init__(self) -> None:
        draw = os.urandom(2)
        self.block = bytes((127, 1 + draw[0] % 254, 1 + draw[1] % 254))
        self._host: dict[tuple[int, int, int], int] = {}
        self._guest: dict[tuple[int, int, int], int] = {}
        self._others: dict[bytes, int] = {}  # other addresses of 127/8 -> last byte
        self._first, self._count = _non_ephemeral_ports()

    # -- addresses ---------------------------------------------------------------------------------------------
    def last_byte(self, ip: bytes) -> int:
        """The last byte that stands for a loopback address or "any", given as 4 or 16 bytes."""
        if ip in (LOCALHOST6, ANY6):
            return SIX
        if ip in (LOCALHOST, ANY):
            return FOUR
        if ip not in self._others:
            if FIRST_OTHER + len(self._others) > LAST_OTHER:
                raise OSError(errno.EADDRNOTAVAIL, "too many addresses of 127/8 are in use")
            self._others[ip] = FIRST_OTHER + len(self._others)
        return self._others[ip]

    def host_ip(self, last: int) -> bytes:
        return self.block + bytes((last,))

    def guest_ip(self, host_ip: bytes) -> bytes | None:
        """The guest address, 4 or 16 bytes; None for an address outside this box's block."""
        if host_ip[:3] != self.block:
            return None
        if host_ip[3] == SIX:
            return LOCALHOST6
        for ip, last in self._others.items():
            if last == host_ip[3]:
                return ip
        return LOCALHOST

    # -- ports -------------------------------------------------------------------------------------------------
    def host_port(self, kind: int, last: int, port: int) -> int | None:
        """The host port for a guest port; None while no socket has bound it. Ports drawn for a bind to port 0 are the
        same on both sides."""
        known = self._host.get((kind, last, port))
        if known is None and self._first <= port < self._first + self._count and (kind, last, port) not in self._guest:
            return port
        return known

    def guest_port(self, kind: int, last: int, host_port: int) -> int:
        return self._guest.get((kind, last, host_port), host_port)

    def bind(self, fd: int, family: int, kind: int, last: int, port: int, *, wildcard: bool = False) -> None:
        """Bind to the host port for `port`, or to a free one for 0. `wildcard`: bind to every address of the host,
        for a socket that also reaches remote addresses."""
        ip = ANY if wildcard else self.host_ip(last)
        known = self.host_port(kind, last, port) if port else None
        if known is not None:
            bind_address(fd, host_address(family, ip, known))
            return
        for _ in range(TRIES):
            host_port = self._draw(kind, last)
            try:
                bind_address(fd, host_address(family, ip, host_port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                continue
            if port:
                self._remember(kind, last, port, host_port)
            return
        raise OSError(errno.EADDRINUSE, "the host has no free port")

    def reserve(self, kind: int, last: int, port: int) -> int:
        """The host port for `port`, bound or not: a datagram may be sent before its receiver exists."""
        known = self.host_port(kind, last, port)
        if known is None:
            known = self._draw(kind, last)
            self._remember(kind, last, port, known)
        return known

    def _draw(self, kind: int, last: int) -> int:
        while True:  # ends soon: MOST_PORTS is well below the number of ports
            port = self._first + int.from_bytes(os.urandom(4), "little") % self._count
            if (kind, last, port) not in self._guest:
                return port

    def _remember(self, kind: int, last: int, port: int, host_port: int) -> None:
        if len(self._host) >= MOST_PORTS:
            raise OSError(errno.EADDRNOTAVAIL, "a box can use no more ports")
        self._host[kind, last, port] = host_port
        self._guest[kind, last, host_port] = port


def host_address(family: int, ip: bytes, port: int) -> bytes:
    """An IPv4 address for a socket of either family."""
    if family == AF_INET:
        return b"\2\0" + port.to_bytes(2, "big") + ip + bytes(8)
    whole = ANY6 if ip == ANY else MAPPED_PREFIX + ip
    return b"\n\0" + port.to_bytes(2, "big") + bytes(4) + whole + bytes(4)


def _non_ephemeral_ports() -> tuple[int, int]:
    """First and number of the ports to draw from: outside the host's ephemeral range."""
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range", "rb") as file:
            low, high = (int(word) for word in file.read().split())
    except (OSError, ValueError):
        low, high = 32768, 60999
    if low > 24000:
        return low - 12000, 12000
    return (high + 1, 65535 - high) if high < 61000 else (10000, 50000)
