"""kernel/net: address ranges that are not the public Internet, and IPv6 forms that carry an IPv4 address.

The ranges are those of IANA's IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890) as of 2025-10-09, multicast
(RFC 5771, RFC 4291), and the addresses under which clouds serve credentials. How rules open them: see network_rules.
Everything in IPv6 outside 2000::/3 is closed, because nothing else was ever allocated for global unicast (IANA's
Internet Protocol Version 6 Address Space).

Not closed although listed there: ranges that IANA says are globally reachable, and the documentation ranges, which lead
nowhere. They stand below all the same, so that the table can be held against the registry.
"""

from __future__ import annotations

import _socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

AS_OF = "2025-10-09"
GLOBAL, DOCUMENTATION = "globally reachable", "documentation"
OPEN = frozenset((GLOBAL, DOCUMENTATION))

# (network, what it is): the most specific entry decides.
RANGES = {
    "0.0.0.0/8": "this machine",
    "10.0.0.0/8": "a private network",
    "100.64.0.0/10": "a provider's private network",
    "127.0.0.0/8": "the host's own loopback",
    "168.63.129.16/32": "Azure's platform address, where virtual machines get credentials",
    "169.254.0.0/16": "link-local, where clouds keep credentials",
    "172.16.0.0/12": "a private network",
    "192.0.0.0/24": "reserved",
    "192.0.0.9/32": GLOBAL,  # Port Control Protocol anycast
    "192.0.0.10/32": GLOBAL,  # TURN anycast
    "192.0.2.0/24": DOCUMENTATION,
    "192.31.196.0/24": GLOBAL,  # AS112
    "192.52.193.0/24": GLOBAL,  # AMT
    "192.88.99.0/24": "a gateway to IPv6 (6to4 relay)",
    "192.168.0.0/16": "a private network",
    "192.175.48.0/24": GLOBAL,  # AS112
    "198.18.0.0/15": "reserved for tests",
    "198.51.100.0/24": DOCUMENTATION,
    "203.0.113.0/24": DOCUMENTATION,
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved, or broadcast",
    **dict.fromkeys(
        (
            "::/8",
            "100::/8",
            "200::/7",
            "400::/6",
            "800::/5",
            "1000::/4",
            "4000::/3",
            "6000::/3",
            "8000::/3",
            "a000::/3",
            "c000::/3",
            "e000::/4",
            "f000::/5",
            "f800::/6",
            "fe00::/9",
        ),
        "not allocated for the Internet",
    ),
    "::/127": "this machine",
    "64:ff9b::/96": GLOBAL,  # NAT64: the address inside decides
    "64:ff9b:1::/48": "a local gateway to IPv4 (NAT64)",
    "100::/64": "a range that discards",
    "100:0:0:1::/64": "a dummy range",
    "2000::/3": GLOBAL,
    "2001::/23": "reserved for protocols",
    "2001::/32": GLOBAL,  # Teredo: the addresses inside decide
    "2001:1::1/128": GLOBAL,
    "2001:1::2/128": GLOBAL,
    "2001:1::3/128": GLOBAL,
    "2001:2::/48": "reserved for tests",
    "2001:3::/32": GLOBAL,
    "2001:4:112::/48": GLOBAL,
    "2001:20::/28": GLOBAL,
    "2001:30::/28": GLOBAL,
    "2001:db8::/32": DOCUMENTATION,
    "2002::/16": GLOBAL,  # 6to4: the address inside decides
    "2620:4f:8000::/48": GLOBAL,
    "3fff::/20": DOCUMENTATION,
    "5f00::/16": "segment routing",
    "fc00::/7": "a private network",
    "fe80::/10": "link-local",
    "fec0::/10": "a private network",
    "ff00::/8": "multicast",
}
# An interface identifier of ISATAP (RFC 5214): these four bytes, then an IPv4 address, below any prefix.
ISATAP = (b"\0\0\x5e\xfe", b"\2\0\x5e\xfe")


class Net:
    """A network: an address of 4 or 16 bytes and how many of its bits count."""

    __slots__ = ("bits", "ip")

    def __init__(self, ip: bytes, bits: int) -> None:
        self.ip, self.bits = ip, bits

    def holds(self, ip: bytes) -> bool:
        if len(ip) != len(self.ip):
            return False
        shift = 8 * len(ip) - self.bits
        return int.from_bytes(ip, "big") >> shift == int.from_bytes(self.ip, "big") >> shift


def closed_net(ip: bytes) -> tuple[Net, str] | None:
    """The closed range this very address lies in, and what it is. Addresses inside are not looked at."""
    for net, what in _nets():
        if net.holds(ip):
            return None if what in OPEN else (net, what)
    return None


def closed_range(ip: bytes) -> str | None:
    """What makes this address private, or None. An IPv4 address inside an IPv6 one decides for it, too."""
    for each in (ip, *carried(ip)):
        found = closed_net(each)
        if found is not None:
            return found[1]
    return None


def carried(ip: bytes) -> list[bytes]:
    """Every IPv4 address that some gateway would find in an IPv6 one."""
    return list(dict.fromkeys(_carried(ip))) if len(ip) == 16 else []


def _carried(ip: bytes) -> Iterator[bytes]:
    # Mapped, and compatible (RFC 4291) but for "any" and loopback.
    if ip[:12] == bytes(10) + b"\xff\xff" or (not any(ip[:12]) and any(ip[12:15])):
        yield ip[12:]
    if ip[:12] == bytes(8) + b"\xff\xff\0\0":  # translated, ::ffff:0:a.b.c.d (RFC 7915's predecessor, RFC 2765)
        yield ip[12:]
    if ip[:2] == b"\x20\x02":  # 6to4 (RFC 3056)
        yield ip[2:6]
    if ip[:4] == b"\x20\x01\0\0":  # Teredo (RFC 4380): its server, and its client with all bits turned
        yield ip[4:8]
        yield bytes(byte ^ 0xFF for byte in ip[12:])
    if ip[:4] == b"\0\x64\xff\x9b":  # NAT64 (RFC 6052): behind a prefix of 48, 56, 64 or 96 bits, without byte 8
        if ip[4:6] == b"\0\1":
            yield ip[6:8] + ip[9:11]
            yield ip[7:8] + ip[9:12]
            yield ip[9:13]
        yield ip[12:]
    if ip[8:12] in ISATAP:
        yield ip[12:]


_table: list[tuple[Net, str]] = []


def _nets() -> list[tuple[Net, str]]:
    """The most specific first."""
    if not _table:
        found = []
        for text, what in RANGES.items():
            address, _, bits = text.partition("/")
            ip = _socket.inet_pton(_socket.AF_INET6 if ":" in text else _socket.AF_INET, address)
            found.append((Net(ip, int(bits)), what))
        _table.extend(sorted(found, key=lambda one: -one[0].bits))
    return _table
