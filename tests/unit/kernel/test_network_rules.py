"""--allow-net and --deny-net: parsing rules, and verdicts on names and addresses."""

from __future__ import annotations

import socket

import pytest

from husk.kernel.net.network_rules import RuleError, Rules, endpoint, parse, parse_ip
from husk.kernel.net.special_ranges import closed_range


def ip(text: str) -> bytes:
    found = parse_ip(text)
    assert found is not None, text
    return found


def rules(*allow: str, deny: tuple[str, ...] = ()) -> Rules:
    return Rules([parse(text) for text in allow], [parse(text) for text in deny])


def allows(made: Rules, address: str, port: int = 443, *names: str) -> bool:
    return made.address(ip(address), port, list(names)).allowed


@pytest.mark.parametrize(
    ("text", "name", "below", "ports"),
    [
        ("example.com", "example.com", False, (0, 65535)),
        ("Example.COM.", "example.com", False, (0, 65535)),
        ("*.example.com:443", "example.com", True, (443, 443)),
        ("example.com:8000-8080", "example.com", False, (8000, 8080)),
        ("localhost:1", "localhost", False, (1, 1)),
        ("*", "", False, (0, 65535)),
        ("*:53", "", False, (53, 53)),
        ("bücher.example", "xn--bcher-kva.example", False, (0, 65535)),
    ],
)
def test_names(text: str, name: str, below: bool, ports: tuple[int, int]) -> None:
    rule = parse(text)
    assert (rule.name, rule.below, rule.ports, rule.net) == (name, below, ports, None)


@pytest.mark.parametrize(
    ("text", "address", "bits", "ports"),
    [
        ("192.0.2.1", "192.0.2.1", 32, (0, 65535)),
        ("192.0.2.1:80", "192.0.2.1", 32, (80, 80)),
        ("192.0.2.0/24:80-90", "192.0.2.0", 24, (80, 90)),
        ("0.0.0.0/0", "0.0.0.0", 0, (0, 65535)),
        ("2001:db8::1", "2001:db8::1", 128, (0, 65535)),
        ("[2001:db8::1]:443", "2001:db8::1", 128, (443, 443)),
        ("2001:db8::/32", "2001:db8::", 32, (0, 65535)),
        ("[2001:db8::/32]:1-2", "2001:db8::", 32, (1, 2)),
        ("::ffff:192.0.2.1", "192.0.2.1", 32, (0, 65535)),
    ],
)
def test_networks(text: str, address: str, bits: int, ports: tuple[int, int]) -> None:
    rule = parse(text)
    assert rule.net is not None
    assert (rule.net.ip, rule.net.bits, rule.ports) == (ip(address), bits, ports)


@pytest.mark.parametrize(
    "text",
    [
        "", ":80", "example.com:", "example.com:0", "example.com:65536", "example.com:9-3", "example.com:a", "a b",
        "example.com:80-", "*.", "**.com", "a..b", "-a.com", "a-.com", "exa$mple.com", "1.2.3", "1.2.3.256",
        "10.0.0.0/33",
        "10.0.0.1/8", "example.com/24", "[::1", "[example.com]:80", "[::1]80", "::/129", "x" * 64, "http://example.com",
        "1.2.3.4/٣", "example.com:٨٠", "a\nb.com",
    ],
)
def test_mistakes_get_one_sentence(text: str) -> None:
    with pytest.raises(RuleError) as caught:
        parse(text)
    said = str(caught.value)
    assert said.endswith(".") and "\n" not in said and len(said) < 200


def test_a_name_allows_the_addresses_it_led_to() -> None:
    made = rules("example.com:443", "*.example.org")
    assert allows(made, "93.184.216.34", 443, "example.com")
    assert not allows(made, "93.184.216.34", 80, "example.com")
    assert not allows(made, "93.184.216.34", 443)
    assert not allows(made, "93.184.216.34", 443, "notexample.com")
    assert allows(made, "93.184.216.34", 1, "a.b.example.org")
    assert not allows(made, "93.184.216.34", 1, "example.org")
    assert not allows(made, "93.184.216.34", 1, "evilexample.org")


def test_names_that_may_be_looked_up() -> None:
    made = rules("example.com:443", "*.example.org", deny=("bad.example.org", "half.example.org:80"))
    assert made.name("EXAMPLE.com.").allowed and made.name("a.example.org").allowed
    assert made.name("half.example.org").allowed  # on other ports
    for name in ("example.org", "bad.example.org", "example.com.evil.net", "com"):
        verdict = made.name(name)
        assert not verdict.allowed and verdict.reason
    assert made.name("other.net").allow == "--allow-net other.net"
    assert rules("192.0.2.0/24").name("example.com").allowed is False
    assert rules("*").name("anything.at.all").allowed


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "100.64.0.1", "127.0.0.1",
        "0.0.0.0",
        "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1",
        "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "::169.254.169.254", "64:ff9b:1::10.0.0.1",
    ],
)
def test_private_addresses_must_be_named(address: str) -> None:
    assert closed_range(ip(address))
    for wide in ("*", "0.0.0.0/0", "::/0", "evil.example", "128.0.0.0/1", "0.0.0.0/1"):
        assert not allows(rules(wide), address, 80, "evil.example"), wide
        assert not rules(wide, "evil.example").answer(ip(address))


def test_naming_a_private_address() -> None:
    assert allows(rules("169.254.169.254"), "169.254.169.254", 80)
    assert not allows(rules("169.254.169.254:81"), "169.254.169.254", 80)
    assert allows(rules("10.0.0.0/8"), "10.1.2.3") and not allows(rules("10.0.0.0/7"), "10.1.2.3")
    assert allows(rules("10.1.0.0/16"), "10.1.2.3") and not allows(rules("10.2.0.0/16"), "10.1.2.3")
    assert allows(rules("fe80::/10"), "fe80::1") and not allows(rules("fe00::/9"), "fe80::1")
    assert rules("10.0.0.0/8:443").answer(ip("10.1.2.3"))
    assert not allows(rules("10.0.0.0/8", deny=("10.1.0.0/16",)), "10.1.2.3")
    assert allows(rules("::1"), "::1") and allows(rules("127.0.0.0/8:5432"), "127.0.0.1", 5432)


@pytest.mark.parametrize("address", ["8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::808:808"])
def test_public_addresses(address: str) -> None:
    assert closed_range(ip(address)) is None
    assert allows(rules("*"), address) and allows(rules("::/0", "0.0.0.0/0"), address)
    assert not allows(rules("192.0.2.1"), address)
    assert not allows(rules("*", deny=(address,)), address)
    assert not allows(rules("*", deny=("a.example",)), address, 443, "a.example")
    assert allows(rules("*", deny=("*:25",)), address, 443) and not allows(rules("*", deny=("*:25",)), address, 25)


def test_what_would_allow_it() -> None:
    verdict = rules("example.com").address(ip("8.8.8.8"), 53, [])
    assert verdict.allow == "--allow-net 8.8.8.8:53" and allows(rules(verdict.allow.split()[1]), "8.8.8.8", 53)
    verdict = rules("example.com:443").address(ip("8.8.8.8"), 80, ["example.com"])
    assert verdict.allow == "--allow-net example.com:80"
    verdict = rules("*").address(ip("fe80::1"), 80, [])
    assert verdict.allow == "--allow-net [fe80::1]:80" and allows(rules(verdict.allow.split()[1]), "fe80::1", 80)
    assert endpoint(socket.inet_pton(socket.AF_INET6, "::1"), 1) == "[::1]:1"


@pytest.mark.parametrize("other_name", ["64:ff9b::192.0.2.5", "2002:c000:205::1", "::192.0.2.5", "::ffff:192.0.2.5"])
def test_a_denied_address_is_denied_by_its_other_names(other_name: str) -> None:
    made = rules("*", deny=("192.0.2.0/24",))
    assert not allows(made, other_name)
    # The form ::a.b.c.d was withdrawn (RFC 4291) and lies in no allocated range: no rule but its own opens it.
    withdrawn = other_name == "::192.0.2.5"
    assert allows(rules("*", *([other_name] if withdrawn else []), deny=("198.51.100.0/24",)), other_name)
