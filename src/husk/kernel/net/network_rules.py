"""kernel: the rules of `--allow-net` and `--deny-net`: parsing, and verdicts on names and addresses. Uses no sockets.

A RULE is a domain, `*.domain` (all below it), `*` (everything), an address, or a network in CIDR notation. Each may end
in `:PORT` or `:FIRST-LAST`; an IPv6 address with a port stands in brackets. Denials win. Private addresses and those of
this machine are opened only by a rule that names an address or network within that same range: neither `*` nor a name
nor `0.0.0.0/0` opens them.
"""

from __future__ import annotations

import _socket

from husk.kernel.net.special_ranges import Net, carried, closed_net, closed_range

ANY_PORT = (0, 65535)
V4_IN_V6 = bytes(10) + b"\xff\xff"


class RuleError(ValueError):
    """One sentence that says how to write the rule."""


class Rule:
    """`name` is a domain in lower case, with `below` for all below it; or `net` is set; or neither, for everything."""

    __slots__ = ("below", "name", "net", "ports", "text")

    def __init__(self, text: str, name: str, below: bool, net: Net | None, ports: tuple[int, int]) -> None:
        self.text, self.name, self.below, self.net, self.ports = text, name, below, net, ports

    def fits_name(self, name: str) -> bool:
        if self.net is not None:
            return False
        if self.below:
            return name.endswith("." + self.name)
        return name == self.name if self.name else True

    def fits(self, ip: bytes, port: int, names: list[str]) -> bool:
        if not self.ports[0] <= port <= self.ports[1]:
            return False
        if self.net is not None:
            return self.net.holds(ip)
        return not self.name or any(self.fits_name(name) for name in names)


class Verdict:
    __slots__ = ("allow", "allowed", "reason")

    def __init__(self, allowed: bool, reason: str = "", allow: str = "") -> None:
        self.allowed, self.reason, self.allow = allowed, reason, allow


class Rules:
    """The rules of a box. `names` are always the names whose look-up gave the address."""

    __slots__ = ("allow", "deny")

    def __init__(self, allow: list[Rule], deny: list[Rule]) -> None:
        self.allow, self.deny = allow, deny

    def denies(self, name: str) -> bool:
        """Does a rule deny this name on every port?"""
        return any(rule.fits_name(name) and rule.ports == ANY_PORT and rule.name for rule in self.deny)

    def touches_denied(self, name: str) -> bool:
        """Does a rule deny this name on some port?"""
        return any(rule.fits_name(name) and rule.name for rule in self.deny)

    def allows_every_name(self) -> bool:
        return any(not rule.name and rule.net is None for rule in self.allow)

    def tells_apart(self, name: str, others: list[str]) -> bool:
        """Is there a rule that fits this name and none of the others?"""
        named = [rule for rule in (*self.allow, *self.deny) if rule.name and rule.fits_name(name)]
        return any(not any(rule.fits_name(other) for other in others) for rule in named)

    def name(self, name: str) -> Verdict:
        """May this name be looked up? `address` decides about the connection."""
        name = name.rstrip(".").lower()
        if self.denies(name):
            return Verdict(False, "a --deny-net rule names it")
        if any(rule.fits_name(name) for rule in self.allow):
            return Verdict(True)
        return Verdict(False, "no --allow-net rule names it", f"--allow-net {name}")

    def address(self, ip: bytes, port: int, names: list[str], denied: list[str] | None = None) -> Verdict:
        """May a connection go there? `denied` are more names of it that count for denials only."""
        shown = endpoint(ip, port)
        every_name = [*names, *(denied or ())]
        for rule in self.deny:
            # A denied IPv4 address is denied in its IPv6 forms too: a gateway (NAT64, 6to4) would lead there.
            if any(rule.fits(each, port, every_name) for each in (ip, *carried(ip))):
                return Verdict(False, f"--deny-net {rule.text} forbids it")
        closed = closed_range(ip)
        if closed is not None:
            if self.names_address(ip, port):
                return Verdict(True)
            return Verdict(False, f"it is {closed}, which only a rule naming the address opens", f"--allow-net {shown}")
        if any(rule.fits(ip, port, names) for rule in self.allow):
            return Verdict(True)
        best = f"{names[0]}:{port}" if names else shown
        return Verdict(False, "no --allow-net rule covers it", f"--allow-net {best}")

    def names_address(self, ip: bytes, port: int) -> bool:
        """Does a rule name this closed address, or a network no larger than the closed range that holds it?"""
        if closed_range(ip) is None or any(rule.fits(ip, port, []) for rule in self.deny):
            return False
        found = closed_net(ip)
        smallest = found[0].bits if found is not None else 8 * len(ip)  # closed by an address inside: that one alone
        fitting = [rule.net for rule in self.allow if rule.net is not None and rule.fits(ip, port, [])]
        return any(net.bits >= smallest for net in fitting)

    def answer(self, ip: bytes) -> bool:
        """May a look-up return this address? A private one only if a rule names it: otherwise the owner of an allowed
        name could point it into the caller's own network (DNS rebinding)."""
        return closed_range(ip) is None or any(self.names_address(ip, rule.ports[0]) for rule in self.allow)


def parse(text: str) -> Rule:
    host, ports = _split_port(text)
    if not host or any(ord(c) <= 32 or ord(c) == 127 for c in text):
        raise RuleError(f"{text!r}: write a domain, *.domain, an address or a network, each with :PORT if need be.")
    if host == "*":
        return Rule(text, "", False, None, ports)
    address, slash, bits = host.partition("/")
    ip = parse_ip(address)
    if ip is not None:
        return Rule(text, "", False, _net(text, ip, slash, bits), ports)
    if slash:
        raise RuleError(f"{text}: a domain has no /; write a network like 192.0.2.0/24, or the domain alone.")
    below = host.startswith("*.")
    name = _ascii_name(host[2:] if below else host).rstrip(".").lower()
    labels = name.split(".")
    if not all(0 < len(label) <= 63 and _is_label(label) for label in labels) or len(name) > 253:
        raise RuleError(f"{text}: that is no domain name; write example.com or *.example.com.")
    if labels[-1].isdigit():
        raise RuleError(f"{text}: that is no address; an IPv4 address has four numbers up to 255.")
    return Rule(text, name, below, None, ports)


def parse_ip(text: str) -> bytes | None:
    """IPv4 in IPv6 counts as IPv4, as it does for the host."""
    try:
        ip = _socket.inet_pton(_socket.AF_INET6 if ":" in text else _socket.AF_INET, text)
    except (OSError, ValueError):
        return None
    return plain_ip(ip)


def plain_ip(ip: bytes) -> bytes:
    return ip[12:] if len(ip) == 16 and ip[:12] == V4_IN_V6 else ip


def endpoint(ip: bytes, port: int) -> str:
    if len(ip) == 4:
        return f"{_socket.inet_ntop(_socket.AF_INET, ip)}:{port}"
    return f"[{_socket.inet_ntop(_socket.AF_INET6, ip)}]:{port}"


# -- reading -----------------------------------------------------------------------------------------------------------


def _split_port(text: str) -> tuple[str, tuple[int, int]]:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or parse_ip(host.partition("/")[0]) is None or (rest and not rest.startswith(":")):
            raise RuleError(f"{text}: in brackets stands an IPv6 address; write [2001:db8::1]:443.")
        return host, _ports(text, rest[1:]) if rest else ANY_PORT
    if "://" in text:
        raise RuleError(f"{text}: that is a URL; write the host and the port, such as example.com:443.")
    if text.count(":") > 1:
        return text, ANY_PORT  # IPv6 without a port
    host, colon, ports = text.partition(":")
    return host, _ports(text, ports) if colon else ANY_PORT


def _ports(text: str, ports: str) -> tuple[int, int]:
    first, dash, last = ports.partition("-")
    if not (first.isascii() and first.isdigit() and (not dash or (last.isascii() and last.isdigit()))):
        raise RuleError(f"{text}: a port is a number, a range two of them; write :443 or :8000-8080.")
    low, high = int(first), int(last) if dash else int(first)
    if not 0 < low <= high < 65536:
        raise RuleError(f"{text}: ports go from 1 to 65535, the lower one first.")
    return low, high


def _net(text: str, ip: bytes, slash: str, bits: str) -> Net:
    if not slash:
        return Net(ip, 8 * len(ip))
    if not (bits.isascii() and bits.isdigit()) or int(bits) > 8 * len(ip):
        raise RuleError(f"{text}: after / stands the number of bits, at most {8 * len(ip)}.")
    net = Net(ip, int(bits))
    host_bits = 8 * len(ip) - net.bits
    if int.from_bytes(ip, "big") & (1 << host_bits) - 1:
        raise RuleError(f"{text}: the address has bits beyond its /{bits}; write the network's first address.")
    return net


def _ascii_name(name: str) -> str:
    if name.isascii():
        return name
    try:
        return name.encode("idna").decode()
    except UnicodeError:
        return ""


def _is_label(label: str) -> bool:
    return all(c.isalnum() or c in "-_" for c in label) and label[0] != "-" and label[-1] != "-"
