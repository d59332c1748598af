"""sandbox: build the network of a box from its policy. Imported only where husk has to make the sockets itself."""

from __future__ import annotations

import errno

from husk.kernel.net.mapped import MappedNetwork
from husk.kernel.net.network import HostNetwork, Network
from husk.sandbox.errors import HuskError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from husk.kernel.net.network_rules import Rule, Rules
    from husk.sandbox.policy import Policy

    class Told(Protocol):
        def refused(self, by: str, error: str, what: str, why: str, allow: str) -> None: ...
        def published(self, host: str, guest_port: int) -> None: ...


def build_network(policy: Policy, events: Told) -> Network:
    if policy.net == "host":
        return HostNetwork()
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
        _publish(network, policy, events)
    except BaseException:
        network.close()
        raise
    return network


def parse_rules(policy: Policy) -> Rules | None:
    if not policy.allow_net:
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
