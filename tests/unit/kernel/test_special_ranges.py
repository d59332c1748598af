"""Ranges of IANA's registries, one by one, and IPv4 addresses found inside IPv6 ones."""

from __future__ import annotations

import ipaddress

import pytest

from husk.kernel.net.network_rules import Rules, parse, parse_ip
from husk.kernel.net.special_ranges import OPEN, RANGES, carried, closed_range

METADATA = "169.254.169.254"


def ip(text: str) -> bytes:
    found = parse_ip(text)
    assert found is not None, text
    return found


def most_specific(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """What the table says of an address, found in another way."""
    nets = [ipaddress.ip_network(text) for text in RANGES]
    fitting = [net for net in nets if net.version == address.version and address in net]
    return RANGES[str(max(fitting, key=lambda net: net.prefixlen))] if fitting else next(iter(OPEN))


@pytest.mark.parametrize("text", RANGES)
def test_every_range_from_its_first_address_to_its_last(text: str) -> None:
    net = ipaddress.ip_network(text)
    for address in (net[0], net[-1]):
        what = most_specific(address)
        if what in OPEN and carried(address.packed):
            continue  # the address inside decides
        packed = ip(str(address))
        if len(packed) == 4 and address.version == 6:
            continue  # IPv4 in IPv6 counts as IPv4
        assert (closed_range(packed) is None) == (what in OPEN), address
        everything = Rules([parse("*"), parse("0.0.0.0/0"), parse("::/0")], [])
        assert everything.address(packed, 443, []).allowed == (what in OPEN), address


@pytest.mark.parametrize("text", [text for text, what in RANGES.items() if what not in OPEN])
def test_a_closed_range_opens_to_a_rule_that_names_it(text: str) -> None:
    net = ipaddress.ip_network(text)
    address = ip(str(net[-1]))
    if not carried(address):
        assert Rules([parse(str(net[-1]))], []).address(address, 443, []).allowed


def test_the_standard_library_knows_no_private_range_that_we_lack() -> None:
    """Its own copy of the registries, older or newer than ours."""
    networks = [
        *ipaddress.IPv4Address("0.0.0.0")._constants._private_networks,  # type: ignore[attr-defined]
        *ipaddress.IPv6Address("::")._constants._private_networks,  # type: ignore[attr-defined]
    ]
    assert len(networks) > 20
    for net in networks:
        what = most_specific(net[0])
        assert what not in OPEN or what == "documentation" or carried(net[0].packed), net


@pytest.mark.parametrize(
    "text",
    [
        f"::{METADATA}", f"::ffff:0:{METADATA}", f"64:ff9b::{METADATA}", "2002:a9fe:a9fe::1", f"64:ff9b:1::{METADATA}",
        "64:ff9b:1:a9fe:a9:fe00::", "64:ff9b:1:00a9:fe:a9fe::", "64:ff9b:1:0:a9:fea9:fe00:0",
        "2001:0:a9fe:a9fe::", "2001:0:808:808:0:0:5601:5601", f"2606:4700::5efe:{METADATA}",
        f"2606:4700::200:5efe:{METADATA}",
    ],
)
def test_metadata_inside_an_ipv6_address(text: str) -> None:
    assert ip(METADATA) in carried(ip(text))
    for wide in ("*", "::/0", "evil.example"):
        assert not Rules([parse(wide)], []).address(ip(text), 80, ["evil.example"]).allowed
    assert Rules([parse(text)], []).address(ip(text), 80, []).allowed, "named as it stands"
    assert not Rules([parse("*"), parse(text)], [parse(METADATA)]).address(ip(text), 80, []).allowed


@pytest.mark.parametrize("text", ["168.63.129.16", "100.100.100.200", "fd00:ec2::254", "192.0.0.192"])
def test_addresses_where_clouds_serve_credentials(text: str) -> None:
    assert closed_range(ip(text))
    assert not Rules([parse("*")], []).address(ip(text), 80, []).allowed
