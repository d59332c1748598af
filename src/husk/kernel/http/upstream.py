"""kernel: connections of the HTTP gateway to the real hosts. The address is judged here, and TLS is checked here.

Uses the standard library's `socket` and `ssl`, which only boxes with `--allow-http` import.
"""

from __future__ import annotations

import socket

from husk.kernel.http.http_rules import Service
from husk.kernel.net.network_rules import Rule, endpoint, parse_ip
from husk.kernel.net.own_addresses import is_own_address
from husk.kernel.net.special_ranges import carried, closed_range

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from typing import Protocol

    from husk.kernel.net.publishing import Relays

    class Stream(Protocol):
        def recv(self, size: int, /) -> bytes: ...
        def sendall(self, data: bytes, /) -> None: ...
        def settimeout(self, seconds: float | None, /) -> None: ...


CONNECTING = 15.0


class Unreachable(Exception):
    """One sentence; `refused` where a rule of husk's says so."""

    def __init__(self, why: str, *, refused: bool = False, allow: str = "") -> None:
        super().__init__(why)
        self.why, self.refused, self.allow = why, refused, allow


class Upstream:
    """`lookup` gives a name's addresses as text. `deny`: the rules of --deny-net hold here, too."""

    __slots__ = ("_context", "_deny", "_lookup")

    def __init__(self, lookup: Callable[[str], list[str]], deny: list[Rule]) -> None:
        self._lookup, self._deny = lookup, deny
        self._context: ssl.SSLContext | None = None

    def connect(self, service: Service, relays: Relays) -> socket.socket:
        """A connection to the host, which `relays` holds."""
        family, ip = self._address(service)
        made = socket.socket(family, socket.SOCK_STREAM)
        try:
            relays.hold(made)
            made.settimeout(CONNECTING)
            made.connect((socket.inet_ntop(family, ip), service.port))
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            relays.drop(made)
            raise Unreachable(f"{service.authority} cannot be reached: {error.strerror or error}") from None
        return made

    def protect(self, service: Service, plain: socket.socket) -> socket.socket:
        """TLS over it. The certificate must be the host's, and signed by an authority that this machine trusts."""
        import ssl

        if self._context is None:
            self._context = ssl.create_default_context()
            self._context.set_alpn_protocols(["http/1.1"])
        try:
            return self._context.wrap_socket(plain, server_hostname=service.host)
        except (OSError, ValueError) as error:
            why = getattr(error, "verify_message", "") or getattr(error, "reason", "") or str(error)
            raise Unreachable(f"no TLS with {service.authority}: {why}") from None

    def _address(self, service: Service) -> tuple[int, bytes]:
        literal = parse_ip(service.host)
        if literal is not None:
            found = [literal]
        else:
            try:
                texts = self._lookup(service.host)
            except OSError as error:
                raise Unreachable(f"{service.host} cannot be looked up: {error.strerror or error}") from None
            found = [ip for text in texts if (ip := parse_ip(text.partition("%")[0])) is not None]
        wrong = Unreachable(f"{service.host} has no address")
        for ip in found:
            why = self._refusal(service, ip, named=literal is not None)
            if why is None:
                return (socket.AF_INET if len(ip) == 4 else socket.AF_INET6), ip
            wrong = why
        raise wrong

    def _refusal(self, service: Service, ip: bytes, *, named: bool) -> Unreachable | None:
        """Whoever owns a name says where it leads: not into this machine or its networks, unless a rule says so."""
        for rule in self._deny:
            if any(rule.fits(each, service.port, [service.host]) for each in (ip, *carried(ip))):
                return Unreachable(f"--deny-net {rule.text} forbids it", refused=True)
        if named or any(net.holds(ip) for net in service.vias):
            return None
        closed = closed_range(ip)
        if closed is None and not any(is_own_address(each) for each in (ip, *carried(ip))):
            return None
        shown = endpoint(ip, 0).rpartition(":")[0].strip("[]")
        allow = f"--allow-http '{service.rules[0].text} via {shown}'"
        return Unreachable(f"it leads to {shown}, which is {closed or 'this machine'}", refused=True, allow=allow)
