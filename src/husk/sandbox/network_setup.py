"""sandbox: build the network of a box from its policy. Imported only where husk has to make the sockets itself."""

from __future__ import annotations

import errno

from husk.kernel.net.mapped import MappedNetwork
from husk.kernel.net.network import HostNetwork, Network
from husk.sandbox.errors import HuskError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from husk.kernel.http.http_rules import Service
    from husk.kernel.net.egress import Egress
    from husk.kernel.net.network_rules import Rule, Rules
    from husk.sandbox.policy import Policy

    class Told(Protocol):
        def refused(self, by: str, error: str, what: str, why: str, allow: str) -> None: ...
        def published(self, host: str, guest_port: int) -> None: ...
        def requested(self, method: str, url: str, status: int) -> None: ...


def build_network(policy: Policy, events: Told) -> Network:
    if policy.net == "host":
        return HostNetwork()
    services = http_services(policy)
    rules = parse_rules(policy)
    if rules is None:
        network = MappedNetwork(None)
    else:
        from husk.kernel.net.egress import Egress, host_lookup
        from husk.kernel.net.resolver import Resolver

        def tell(what: str, why: str, allow: str) -> None:
            events.refused("resolve", "ENOENT", what, why, allow)

        own = policy.lookup
        egress = Egress(rules, host_lookup if own is None else lambda name: (own(name), name), tell)
        network = MappedNetwork(egress)
        network.services.append(Resolver(egress, network.ports))
    try:
        if services and rules is not None:
            _serve_http(network, egress, services, rules, policy, events)
        _publish(network, policy, events)
    except BaseException:
        network.close()
        raise
    return network


def _serve_http(
    network: MappedNetwork, egress: Egress, services: list[Service], rules: Rules, policy: Policy, events: Told
) -> None:
    from husk.kernel.http.gateway import ADDRESS, Gateway
    from husk.kernel.http.upstream import Upstream
    from husk.kernel.net.egress import host_lookup
    from husk.kernel.net.mapped import GatewayPlaces
    from husk.kernel.net.network_rules import parse_ip

    for each in services:
        beside = [rule.text for rule in rules.allow if parse_ip(each.host) is None and rule.fits_name(each.host)]
        if beside and not all(rule.is_open() for rule in each.rules):
            why = f"--allow-net {beside[0]} lets every request to that host pass beside it; leave one of them out."
            raise UsageError(why, option="allow-http", value=f"'{each.rules[0].text}'")
    literals = {(ip, each.inside) for each in services if (ip := parse_ip(each.host)) is not None}
    network.gateway = GatewayPlaces(ADDRESS, {each.inside for each in services}, literals)
    egress.local = {each.host: ADDRESS for each in services if parse_ip(each.host) is None}
    lookup = policy.lookup or (lambda name: host_lookup(name)[0])
    network.services.append(Gateway(network, services, Upstream(lookup, rules.deny), events))


def http_services(policy: Policy) -> list[Service]:
    """The hosts of --allow-http, with what --inject adds. The secrets are read here."""
    if not policy.allow_http:
        return []
    from husk.kernel.http.http_rules import parse_inject, services
    from husk.kernel.net.network_rules import RuleError

    option = "inject"
    try:
        headers = [parse_inject(text, read_secret) for text in policy.inject]
        option = "allow-http"
        return services(policy.allow_http, headers)
    except RuleError as error:
        raise UsageError(str(error), option=option) from None


def read_secret(name: str) -> str:
    """What stands in the braces of --inject: NAME, a variable of the caller's; file:PATH; base64: before either."""
    import os

    from husk.kernel.net.network_rules import RuleError

    if name.startswith("base64:"):
        from binascii import b2a_base64

        return b2a_base64(read_secret(name.removeprefix("base64:")).encode(), newline=False).decode()
    if name.startswith("file:"):
        path = os.path.expanduser(name.removeprefix("file:"))
        try:
            with open(path, encoding="utf-8") as file:
                return file.read(65536).strip()
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text"
            raise RuleError(f"{{{name}}}: the file cannot be read: {why}.") from None
    if name not in os.environ:
        raise RuleError(f"{{{name}}}: your environment has no variable {name}; set it, or write {{file:PATH}}.")
    return os.environ[name]


def parse_rules(policy: Policy) -> Rules | None:
    if not policy.allow_net and not policy.allow_http:
        return None
    from husk.kernel.net.network_rules import Rules

    return Rules(check_rules("allow-net", policy.allow_net), check_rules("deny-net", policy.deny_net))


def check_rules(option: str, texts: list[str]) -> list[Rule]:
    """Parse the rules of an option; a mistake is told under its name."""
    from husk.kernel.net.network_rules import RuleError, parse

    try:
        return [parse(text) for text in texts]
    except RuleError as error:
        text, _, why = str(error).partition(": ")
        raise UsageError(why, option=option, value=text) from None


def _publish(network: MappedNetwork, policy: Policy, events: Told) -> None:
    if not policy.publish:
        return
    from husk.kernel.net.publishing import Published, Relays

    relays = Relays()
    network.services.append(relays)
    for wish in policy.publish:
        try:
            published = Published(network, relays, wish.host, wish.host_port, wish.guest_port)
        except OSError as error:
            taken = "; another program has it" if error.errno == errno.EADDRINUSE else ""
            raise HuskError(
                f"{error.strerror}{taken}.", option="publish", value=f"{wish.host}:{wish.host_port}"
            ) from None
        network.services.append(published)
        events.published(f"{published.host[0]}:{published.host[1]}", wish.guest_port)
