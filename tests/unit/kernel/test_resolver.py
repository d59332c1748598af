"""The DNS messages of the resolver, and which addresses a name may resolve to."""

from __future__ import annotations

import random
import socket
import struct

import pytest

from husk.kernel.call import Refused
from husk.kernel.net.egress import Egress
from husk.kernel.net.network_rules import Rules, parse, parse_ip
from husk.kernel.net.resolver import Resolver, read_name
from husk.kernel.net.routes import answers

NAMES = {
    "good.example": ["192.0.2.7", "2001:db8::7"],
    "rebound.example": ["169.254.169.254", "10.0.0.1"],
    "half.example": ["192.168.0.1", "192.0.2.8"],
    "many.example": [f"192.0.2.{n}" for n in range(100)],
}


def lookup(name: str) -> list[str]:
    if name == "busy.example":
        raise socket.gaierror(socket.EAI_AGAIN, "later")
    if name not in NAMES:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")
    return NAMES[name]


class Asked(Resolver):
    """Without its sockets and threads."""

    def __init__(self, *allow: str, deny: tuple[str, ...] = ()) -> None:
        self.told: list[tuple[str, str, str]] = []
        rules = Rules([parse(text) for text in allow], [parse(text) for text in deny])
        self._egress = Egress(rules, lookup, lambda *what: self.told.append(what))


def query(name: str, kind: int = 1, group: int = 1) -> bytes:
    labels = b"".join(bytes((len(label),)) + label.encode() for label in name.split("."))
    return struct.pack(">HHHHHH", 0x1234, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", kind, group)


def read(answer: bytes) -> tuple[int, list[str]]:
    number, flags, questions, count, *_ = struct.unpack_from(">HHHHHH", answer)
    assert number == 0x1234 and flags & 0x8000
    at = read_name(answer, 12)[1] + 4 if questions else 12
    found = []
    for _ in range(count):
        _, kind, _, _, size = struct.unpack_from(">HHHIH", answer, at)
        family = socket.AF_INET if kind == 1 else socket.AF_INET6
        found.append(socket.inet_ntop(family, answer[at + 12 : at + 12 + size]))
        at += 12 + size
    assert at == len(answer) and len(answer) <= 512
    return flags & 15, found


def test_allowed_names() -> None:
    box = Asked("*.example")
    assert read(box.answer(query("good.example"))) == (0, ["192.0.2.7"])
    assert read(box.answer(query("GOOD.example", 28))) == (0, ["2001:db8::7"])
    assert read(box.answer(query("good.example", 65))) == (0, [])
    assert read(box.answer(query("none.example"))) == (3, [])
    assert read(box.answer(query("busy.example"))) == (2, [])
    assert len(read(box.answer(query("many.example")))[1]) == 14
    assert box.told == []


def test_other_names_do_not_exist() -> None:
    box = Asked("good.example:443")
    assert read(box.answer(query("rebound.example"))) == (3, [])
    assert box.told == [("look-up of rebound.example", "no --allow-net rule names it", "--allow-net rebound.example")]


def test_private_answers_are_left_out() -> None:
    box = Asked("*")
    assert read(box.answer(query("rebound.example"))) == (3, [])
    assert read(box.answer(query("half.example"))) == (0, ["192.0.2.8"])
    assert "169.254.169.254" in box.told[0][1] and len(box.told) == 3
    box = Asked("*", "10.0.0.0/8")
    assert read(box.answer(query("rebound.example"))) == (0, ["10.0.0.1"])


def test_an_address_counts_for_the_names_that_led_to_it() -> None:
    box = Asked("good.example:443")
    address = parse_ip("192.0.2.7") or b""
    with pytest.raises(Refused):
        box._egress.check(address, 443)  # the name was not looked up
    box.answer(query("good.example"))
    box._egress.check(address, 443)
    with pytest.raises(Refused) as refused:
        box._egress.check(address, 80)
    assert refused.value.filename == "connection to 192.0.2.7:80 (good.example)"
    assert refused.value.filename2 == "--allow-net good.example:80"


@pytest.mark.parametrize(
    "later", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "0.0.0.0", "::1", "::ffff:10.0.0.1", "fd00::1"]
)
def test_a_name_that_changes_its_mind(monkeypatch: pytest.MonkeyPatch, later: str) -> None:
    """DNS rebinding: a name's earlier address says nothing about its address now."""
    box = Asked("turns.example:443")
    monkeypatch.setitem(NAMES, "turns.example", ["192.0.2.9"])
    assert read(box.answer(query("turns.example"))) == (0, ["192.0.2.9"])
    monkeypatch.setitem(NAMES, "turns.example", [later])
    assert read(box.answer(query("turns.example", 28 if ":" in later else 1))) == (3, [])
    with pytest.raises(Refused):
        box._egress.check(parse_ip(later) or b"", 443)
    box._egress.check(parse_ip("192.0.2.9") or b"", 443)


def test_no_address_of_this_machine_by_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Egress, "_is_this_machine", lambda self, ip: True)
    address = parse_ip("192.0.2.7") or b""
    for rule in ("*", "192.0.2.0/24"):
        with pytest.raises(Refused, match="this machine"):
            Asked(rule)._egress.check(address, 443)
    Asked("192.0.2.7:443")._egress.check(address, 443)


def test_any_bytes_get_an_answer_or_none() -> None:
    """For anything a guest sends: a DNS error or silence, never an exception of another kind."""
    box, choice = Asked("*"), random.Random(53)
    whole = query("good.example")
    for _ in range(3000):
        text = bytearray(whole)
        for _ in range(choice.randrange(4)):
            text[choice.randrange(len(text))] = choice.randrange(256)
        text = text[: choice.randrange(len(text) + 1)]
        try:
            assert len(box.answer(bytes(text))) >= 12
        except ValueError:
            pass


@pytest.mark.parametrize("bad", [b"\xc0\x0c", b"\x05abc", b"\x40" + b"a" * 64, b"\x01.\0", b"\x01 \0", b""])
def test_names_that_are_none(bad: bytes) -> None:
    with pytest.raises(ValueError, match=r"name|label"):
        read_name(bytes(12) + bad, 12)


def test_routes() -> None:
    def asked(kind: int, family: int, flags: int = 0x301) -> list[int]:
        question = struct.pack("<IHHIIB3x", 20, kind, flags, 7, 0, family)
        return [struct.unpack_from("<4xH", message)[0] for message in answers(question)]

    assert asked(18, 0) == [16, 3] and asked(22, 0) == [20, 3] and asked(26, 0) == [3]
    assert asked(22, 2) == [20, 3] and len(answers(struct.pack("<IHHIIB3x", 20, 22, 0x301, 7, 0, 2))[0]) == 56
    assert asked(16, 0) == asked(24, 0) == asked(99, 0) == [2]  # nothing can be changed
    assert asked(18, 0, 1) == [16] and asked(26, 0, 1) == [2]
    assert answers(b"") == answers(b"short") == []


def test_a_denied_name_binds_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """By their number, and by another name that leads to them."""
    monkeypatch.setitem(NAMES, "alias.example", NAMES["good.example"])
    box = Asked("*", deny=("good.example",))
    address = parse_ip("192.0.2.7") or b""
    assert read(box.answer(query("alias.example"))) == (0, ["192.0.2.7"])
    with pytest.raises(OSError, match=r"good\.example forbids it"):
        box._egress.check(address, 443)
    Asked("*")._egress.check(address, 443)
    # One port of it denied, one port of the address closed.
    half = Asked("*", deny=("good.example:25",))
    half._egress.check(address, 443)
    with pytest.raises(OSError, match="forbids it"):
        half._egress.check(address, 25)


def test_a_denied_domain_binds_the_addresses_a_guest_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NAMES, "www.bad.example", ["192.0.2.66"])
    box = Asked("*", deny=("*.bad.example",))
    box._egress.check(parse_ip("192.0.2.66") or b"", 443)  # not known yet as an address of the domain
    assert read(box.answer(query("www.bad.example"))) == (3, [])
    with pytest.raises(OSError, match="forbids it"):
        box._egress.check(parse_ip("192.0.2.66") or b"", 443)


def test_a_denied_name_that_moves_binds_both_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    box = Asked("*", deny=("moves.example",))
    now = [1000.0]
    monkeypatch.setattr("husk.kernel.net.egress.time.monotonic", lambda: now[0])
    for text in ("192.0.2.80", "192.0.2.81"):
        monkeypatch.setitem(NAMES, "moves.example", [text])
        with pytest.raises(OSError, match="forbids it"):
            box._egress.check(parse_ip(text) or b"", 443)
        now[0] += 61
    with pytest.raises(OSError, match="forbids it"):
        box._egress.check(parse_ip("192.0.2.80") or b"", 443)
