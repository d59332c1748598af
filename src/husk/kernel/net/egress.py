"""kernel: outgoing connections of a box whose policy opens the network: which names and addresses it may reach.

A name is judged when it is looked up, an address when a guest connects to it. In between husk remembers which allowed
names resolved to an address. Only those count for it, so a guest cannot claim a name for an address of its choice.
"""

from __future__ import annotations

import _socket
import errno
import time

from husk.kernel.call import Refused
from husk.kernel.net.network_rules import Rules, Verdict, endpoint, plain_ip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MOST_REMEMBERED = 16384
LOOKED_UP_AGAIN = 60.0  # seconds after which a denied name's addresses are asked for anew


class Egress:
    """`lookup` returns a name's addresses as text, or raises OSError; `tell` gets what, why and what would allow it."""

    __slots__ = ("_denied", "_denied_at", "_lookup", "_names", "_tell", "rules")

    def __init__(self, rules: Rules, lookup: Callable[[str], list[str]], tell: Callable[[str, str, str], None]) -> None:
        self.rules, self._lookup, self._tell = rules, lookup, tell
        self._names: dict[bytes, list[str]] = {}  # address -> the allowed names that resolved to it
        self._denied: dict[bytes, list[str]] = {}  # address -> the denied names that resolved to it, at any time
        self._denied_at: float | None = None

    # -- names -------------------------------------------------------------------------------------------------
    def resolve(self, name: str) -> list[bytes]:
        """Addresses of an allowed name, 4 or 16 bytes each; empty for a name that is not allowed."""
        name = name.rstrip(".").lower()
        verdict = self.rules.name(name)
        if not verdict.allowed:
            if self.rules.denies(name):
                self._bind_denied(name)
            self._tell(f"look-up of {name}", verdict.reason, verdict.allow)
            return []
        found: list[bytes] = []
        for ip in map(_ip_of, self._lookup(name)):
            if not self.rules.answer(ip):
                shown = endpoint(ip, 0).rpartition(":")[0]
                self._tell(f"look-up of {name}", f"it leads to {shown}, a private address", f"--allow-net {shown}")
            elif ip not in found:
                found.append(ip)
                _remember(self._names, ip, name)
        return found

    # -- addresses ---------------------------------------------------------------------------------------------
    def names_address(self, ip: bytes, port: int) -> bool:
        """Does a rule name this loopback address of the host?"""
        return self.rules.names_address(ip, port)

    def check(self, ip: bytes, port: int) -> None:
        self._look_up_denied()
        names = [*self._names.get(ip, []), *self._denied.get(ip, [])]
        verdict = self.rules.address(ip, port, names)
        named = self.rules.names_address(ip, port)
        if verdict.allowed and not named and self._is_this_machine(ip) and not self._named_exactly(ip, port):
            verdict = Verdict(False, "it is this machine", f"--allow-net {endpoint(ip, port)}")
        if not verdict.allowed:
            called = f" ({names[0]})" if names else ""
            what = f"connection to {endpoint(ip, port)}{called}"
            raise Refused(errno.EACCES, verdict.reason, what, None, verdict.allow)

    def _look_up_denied(self) -> None:
        """A denied name binds its addresses, whatever name or number a guest uses for them. Names that do not resolve
        bind none; those of a `*.domain` cannot be listed, and are bound when a guest asks for one."""
        wanted = [rule.name for rule in self.rules.deny if rule.name and not rule.below]
        now = time.monotonic()
        if not wanted or (self._denied_at is not None and now < self._denied_at + LOOKED_UP_AGAIN):
            return
        self._denied_at = now
        for name in wanted:
            self._bind_denied(name)

    def _bind_denied(self, name: str) -> None:
        try:
            found = self._lookup(name)
        except OSError:
            return
        for ip in map(_ip_of, found):
            _remember(self._denied, ip, name)

    def _named_exactly(self, ip: bytes, port: int) -> bool:
        return any(
            rule.net is not None and rule.net.bits == 8 * len(ip) and rule.fits(ip, port, [])
            for rule in self.rules.allow
        )

    def _is_this_machine(self, ip: bytes) -> bool:
        """Is this an address of the host? Then the host's services would be reachable, whatever the name is."""
        family = _socket.AF_INET if len(ip) == 4 else _socket.AF_INET6
        probe = _socket.socket(family, _socket.SOCK_DGRAM | _socket.SOCK_CLOEXEC)
        try:
            probe.bind((_socket.inet_ntop(family, ip), 0))
        except OSError:
            return False
        finally:
            probe.close()
        return True


def _remember(table: dict[bytes, list[str]], ip: bytes, name: str) -> None:
    names = table.setdefault(ip, [])
    if name not in names:
        names.append(name)
    if len(table) > MOST_REMEMBERED:
        del table[next(iter(table))]


def _ip_of(text: str) -> bytes:
    return plain_ip(_socket.inet_pton(_socket.AF_INET6 if ":" in text else _socket.AF_INET, text.split("%")[0]))


def host_lookup(name: str) -> list[str]:
    """The addresses that the host's own resolver gives."""
    found = _socket.getaddrinfo(name, None, 0, _socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]
