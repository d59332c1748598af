"""The DNS messages of the resolver, and which addresses a name may resolve to."""

from __future__ import annotations

import random
import socket
import struct
import threading

import pytest

from husk.kernel.call import Refused
from husk.kernel.loopback.routes import answers
from husk.kernel.net.egress import Egress
from husk.kernel.net.network_rules import Rules, parse, parse_ip
from husk.kernel.net.own_addresses import is_own_address
from husk.kernel.net.resolver import Resolver, read_name

NAMES = {
    "good.example": ["192.0.2.7", "2001:db8::7"],
    "rebound.example": ["169.254.169.254", "10.0.0.1"],
    "half.example": ["192.168.0.1", "192.0.2.8"],
    "many.example": [f"192.0.2.{n}" for n in range(100)],
}
ALIASES: dict[str, str] = {}


def lookup(name: str) -> tuple[list[str], str]:
    if name == "busy.example":
        raise socket.gaierror(socket.EAI_AGAIN, "later")
    if name not in NAMES:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")
    return NAMES[name], ALIASES.get(name, name)


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

    assert asked(18, 0) == [16, 3] and asked(22, 0) == [20, 3] and asked(26, 0) == [24, 3]
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


def test_a_second_connection_waits_for_the_addresses_of_denied_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the first look-up is under way nothing is known of any address: a second thread must not slip through."""
    asked, go_on = threading.Event(), threading.Event()

    def slow(name: str) -> tuple[list[str], str]:
        asked.set()
        assert go_on.wait(60)
        return NAMES[name], name

    egress = Egress(Rules([parse("*")], [parse("good.example")]), slow, lambda *_: None)
    said: list[str] = []

    def connect() -> None:
        try:
            egress.check(parse_ip("192.0.2.7") or b"", 443)
            said.append("allowed")
        except Refused:
            said.append("refused")

    threads = [threading.Thread(target=connect) for _ in range(2)]
    threads[0].start()
    assert asked.wait(60)
    threads[1].start()
    threads[1].join(0.2)
    early = list(said)
    go_on.set()
    for thread in threads:
        thread.join()
    assert early == [] and said == ["refused", "refused"]


def test_a_denied_name_without_an_answer_closes_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resolver that fails is no permission. A name that does not exist binds nothing."""
    now = [1000.0]
    monkeypatch.setattr("husk.kernel.net.egress.time.monotonic", lambda: now[0])
    address = parse_ip("192.0.2.7") or b""
    box = Asked("*", deny=("busy.example", "none.example"))
    with pytest.raises(Refused, match=r"busy\.example: that name cannot be looked up now"):
        box._egress.check(address, 443)
    monkeypatch.setattr(box._egress, "_lookup", lambda name: (["192.0.2.8"], name))
    now[0] += 6
    box._egress.check(address, 443)
    # Once known it stays known when the resolver fails later.
    monkeypatch.setattr(box._egress, "_lookup", lookup)
    now[0] += 61
    box._egress.check(address, 443)
    with pytest.raises(Refused, match="forbids it"):
        box._egress.check(parse_ip("192.0.2.8") or b"", 443)


def test_an_alias_of_a_denied_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NAMES, "alias.test", ["192.0.2.66"])
    monkeypatch.setitem(ALIASES, "alias.test", "www.bad.example")
    box = Asked("*", deny=("*.bad.example",))
    assert read(box.answer(query("alias.test"))) == (3, [])
    assert box.told[0][1] == "it leads to www.bad.example, which a --deny-net rule names"
    with pytest.raises(Refused, match="forbids it"):
        box._egress.check(parse_ip("192.0.2.66") or b"", 443)
    # Denied on one port only: the name leads there, the port stays closed. And an alias never allows anything.
    half = Asked("alias.test:443", "www.bad.example:22", deny=("*.bad.example:25",))
    assert read(half.answer(query("alias.test"))) == (0, ["192.0.2.66"])
    half._egress.check(parse_ip("192.0.2.66") or b"", 443)
    for port in (22, 25):
        with pytest.raises(Refused):
            half._egress.check(parse_ip("192.0.2.66") or b"", port)


def test_names_of_one_address_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A domain that answers for every name below it must not fill husk's memory."""
    box = Asked("*.wild.example:443", "*.wild.example:80", "other.test")
    monkeypatch.setattr(box._egress, "_lookup", lambda name: (["192.0.2.7"], name))
    for number in range(300):
        box._egress.resolve(f"n{number}.wild.example")
    box._egress.resolve("other.test")
    assert sum(map(len, box._egress._names.values())) == 2
    box._egress.check(parse_ip("192.0.2.7") or b"", 80)


def test_a_guest_cannot_push_out_what_is_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("husk.kernel.net.egress.MOST_REMEMBERED", 16)
    box = Asked("*", deny=("good.example", "*.bad.example"))
    address = parse_ip("192.0.2.7") or b""
    with pytest.raises(Refused):
        box._egress.check(address, 443)
    for number in range(100):
        monkeypatch.setitem(NAMES, f"n{number}.bad.example", [f"198.51.100.{number}"])
        box._egress.resolve(f"n{number}.bad.example")
    with pytest.raises(Refused, match="forbids it"):
        box._egress.check(address, 443)
    assert len(box._egress._asked) == 16


def test_own_addresses() -> None:
    assert is_own_address(b"\x7f\0\0\1") and is_own_address(b"\x7f\1\2\3")
    assert not is_own_address(b"\xc0\0\2\x63") and not is_own_address(parse_ip("2001:db8::99") or b"")


def test_this_machine_behind_a_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own public address, in the form that a gateway translates back."""
    own = parse_ip("192.0.2.7")
    monkeypatch.setattr("husk.kernel.net.egress.is_own_address", lambda ip: ip == own)
    for text in ("192.0.2.7", "64:ff9b::192.0.2.7", "2002:c000:207::1"):
        with pytest.raises(Refused, match="this machine"):
            Asked("*")._egress.check(parse_ip(text) or b"", 443)
    Asked("*")._egress.check(parse_ip("64:ff9b::192.0.2.8") or b"", 443)
