"""kernel: outgoing connections of a box whose policy opens the network: which names and addresses it may reach.

A name is judged when it is looked up, an address when a guest connects to it. In between husk remembers which allowed
names resolved to an address. Only those count for it, so a guest cannot claim a name for an address of its choice.
What names lead to is the world's to say, at any time anew: so every address is judged by itself, too.
"""

from __future__ import annotations

import _socket
import _thread
import errno
import time

from husk.kernel.call import Refused
from husk.kernel.net.network_rules import Rules, Verdict, endpoint, plain_ip
from husk.kernel.net.own_addresses import is_own_address
from husk.kernel.net.special_ranges import carried

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Lookup = Callable[[str], tuple[list[str], str]]

MOST_REMEMBERED = 16384
# Seconds after which the addresses of denied names are asked for anew: for an address that was judged by the last
# answers, for one that was not (a name may have moved there since), and where they could not be had.
KNOWN_AGAIN, NEW_AGAIN, FAILED_AGAIN = 60.0, 1.0, 5.0
NO_SUCH_NAME = frozenset((_socket.EAI_NONAME, _socket.EAI_NODATA))


class Egress:
    """`lookup` returns a name's addresses as text and the name they belong to in the end (behind aliases and search
    domains), or raises OSError; `tell` gets what, why and what would allow it."""

    __slots__ = (
        "_asked",
        "_denied",
        "_denied_at",
        "_failed",
        "_judged",
        "_looking",
        "_lookup",
        "_names",
        "_resolved",
        "_tell",
        "_writing",
        "local",
        "rules",
    )

    def __init__(self, rules: Rules, lookup: Lookup, tell: Callable[[str, str, str], None]) -> None:
        self.rules, self._lookup, self._tell = rules, lookup, tell
        self.local: dict[str, bytes] = {}  # names that lead to an address inside the box
        self._names: dict[bytes, list[str]] = {}  # address -> the allowed names that resolved to it
        # Address -> the denied names that resolved to it, at any time: those the rules spell out, and those that a
        # guest led us to. In two tables, so that a guest cannot push anything out of the first.
        self._denied: dict[bytes, list[str]] = {}
        self._asked: dict[bytes, list[str]] = {}
        self._resolved: set[str] = set()  # denied names that were looked up at least once
        self._failed: list[str] = []  # those that never were: then their addresses are not known
        self._judged: set[bytes] = set()  # addresses that were judged by the last look-up of denied names
        self._denied_at = 0.0
        self._looking, self._writing = _thread.allocate_lock(), _thread.allocate_lock()

    # -- names -------------------------------------------------------------------------------------------------
    def resolve(self, name: str) -> list[bytes]:
        """Addresses of an allowed name, 4 or 16 bytes each; empty for a name that is not allowed."""
        name = name.rstrip(".").lower()
        if name in self.local:
            return [self.local[name]]
        verdict = self.rules.name(name)
        if not verdict.allowed:
            # A question reaches the servers of the domain it is for, with whatever the guest wrote into the name. So
            # husk asks for a denied name only where the guest may ask for nearly any name.
            if self.rules.denies(name) and self.rules.allows_every_name():
                self._bind_asked(name)
            self._tell(f"look-up of {name}", verdict.reason, verdict.allow)
            return []
        texts, final = self._lookup(name)
        answers = [_ip_of(text) for text in texts]
        final = final.rstrip(".").lower()
        if final != name and self.rules.touches_denied(final):
            for ip in answers:
                self._remember(self._asked, ip, final)
            if self.rules.denies(final):
                self._tell(f"look-up of {name}", f"it leads to {final}, which a --deny-net rule names", "")
                return []
        found: list[bytes] = []
        for ip in answers:
            if not self.rules.answer(ip):
                shown = endpoint(ip, 0).rpartition(":")[0]
                self._tell(f"look-up of {name}", f"it leads to {shown}, a private address", f"--allow-net {shown}")
            elif ip not in found:
                found.append(ip)
                self._remember(self._names, ip, name)
        return found

    # -- addresses ---------------------------------------------------------------------------------------------
    def names_address(self, ip: bytes, port: int) -> bool:
        """Does a rule name this loopback address of the host?"""
        return self.rules.names_address(ip, port)

    def check(self, ip: bytes, port: int) -> None:
        self._look_up_denied(ip)
        names = self._names.get(ip, [])
        denied = [*self._denied.get(ip, []), *self._asked.get(ip, [])]
        verdict = self.rules.address(ip, port, names, denied)
        named = self.rules.names_address(ip, port)
        if verdict.allowed and not named and self._is_this_machine(ip) and not self._named_exactly(ip, port):
            verdict = Verdict(False, "it is this machine", f"--allow-net {endpoint(ip, port)}")
        if verdict.allowed and self._failed:
            why = f"--deny-net {self._failed[0]}: that name cannot be looked up now, so its addresses are not known"
            verdict = Verdict(False, why)
        if not verdict.allowed:
            called = next((f" ({name})" for name in (*names, *denied)), "")
            what = f"connection to {endpoint(ip, port)}{called}"
            raise Refused(errno.EACCES, verdict.reason, what, None, verdict.allow)

    def _look_up_denied(self, ip: bytes) -> None:
        """A denied name binds its addresses, whatever name or number a guest uses for them. Those of a `*.domain`
        cannot be listed, and are bound when a guest comes to one."""
        wanted = [rule.name for rule in self.rules.deny if rule.name and not rule.below]
        if not wanted:
            return
        # Whoever comes second waits for the answers, too: until they are here nothing is known of any address.
        with self._looking:
            pause = FAILED_AGAIN if self._failed else KNOWN_AGAIN if ip in self._judged else NEW_AGAIN
            if not self._denied_at or time.monotonic() >= self._denied_at + pause:
                self._judged.clear()
                self._failed = [name for name in wanted if not self._bind_denied(name) and name not in self._resolved]
                self._denied_at = time.monotonic()
            if len(self._judged) < MOST_REMEMBERED:
                self._judged.add(ip)

    def _bind_denied(self, name: str) -> bool:
        """False: there was no answer, not even that the name does not exist."""
        try:
            texts, _ = self._lookup(name)
        except OSError as error:
            if not error.args or error.args[0] not in NO_SUCH_NAME:
                return False
            texts = []
        for text in texts:
            self._remember(self._denied, _ip_of(text), name)
        self._resolved.add(name)
        return True

    def _bind_asked(self, name: str) -> None:
        try:
            texts, _ = self._lookup(name)
        except OSError:
            return
        for text in texts:
            self._remember(self._asked, _ip_of(text), name)

    def _remember(self, table: dict[bytes, list[str]], ip: bytes, name: str) -> None:
        """One name for each rule is enough, however many names lead to an address."""
        with self._writing:
            names = table.setdefault(ip, [])
            if not names or self.rules.tells_apart(name, names):
                names.append(name)
            if len(table) > MOST_REMEMBERED:
                del table[next(iter(table))]

    def _named_exactly(self, ip: bytes, port: int) -> bool:
        return any(
            rule.net is not None and rule.net.bits == 8 * len(ip) and rule.fits(ip, port, [])
            for rule in self.rules.allow
        )

    def _is_this_machine(self, ip: bytes) -> bool:
        """Is this an address of the host? Then the host's services would be reachable, whatever the name is. Gateways
        lead from an IPv6 address to the IPv4 one inside, and back here."""
        return any(is_own_address(each) for each in (ip, *carried(ip)))


def _ip_of(text: str) -> bytes:
    return plain_ip(_socket.inet_pton(_socket.AF_INET6 if ":" in text else _socket.AF_INET, text.split("%")[0]))


def host_lookup(name: str) -> tuple[list[str], str]:
    """The addresses that the host's own resolver gives, and the name at the end of its aliases."""
    found = _socket.getaddrinfo(name, None, 0, _socket.SOCK_STREAM, 0, _socket.AI_CANONNAME)
    final = next((each[3] for each in found if each[3]), name)
    return [str(each[4][0]) for each in found], final
