"""DNS rebinding: names of a live DNS server that lead elsewhere each time they are asked for.

Whatever they say, a guest reaches public addresses of allowed names only, and never this machine, a private network or
the cloud's metadata address. dns_world.py is that world; the same program reaches all of it natively.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.escape.dns_world import HERE, HERE6, in_world
from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import husk

pytestmark = [
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.both_settings,
]

PYTHON = "/usr/bin/python3"
# Looks each name up, several times, connects to whatever comes back, and prints who answered. An address or a name
# with a number before it is connected to as it is.
GUEST = """
import socket, sys
def reach(name, family, address):
    s = socket.socket(family)
    s.settimeout(20)
    try:
        s.connect(address[:2])
        print(name, s.recv(100).decode())
    except OSError as error:
        print(name, type(error).__name__)
    finally:
        s.close()
for word in sys.argv[1:]:
    name, _, times = word.partition("*")
    for _ in range(int(times or 1)):
        try:
            found = socket.getaddrinfo(name, 80, type=socket.SOCK_STREAM)
        except OSError as error:
            print(name, type(error).__name__)
            continue
        for family, *_, address in found:
            reach(name, family, address)
"""
ROUTED = "2001:db8:2::99"  # in a network that is routed to this machine as a whole: it cannot be bound
TARGETS = [
    "127.0.0.1",
    "169.254.169.254",
    "10.0.0.1",
    HERE,
    "0.0.0.0",
    "::1",
    f"::ffff:{HERE}",
    "::ffff:169.254.169.254",
]
ANSWERS: dict[str, list[list[str]]] = {
    "public.example": [["192.0.2.7"]],
    **{f"turn{number}.example": [["192.0.2.7"], [target]] for number, target in enumerate(TARGETS)},
    "mixed.example": [["192.0.2.8", *TARGETS, "2001:db8:1::7", HERE6, ROUTED]],
    "tcp.example": [["192.0.2.7", *(f"127.0.0.{number}" for number in range(1, 40))]],  # too long for a datagram
    "inner.example": [["169.254.169.254"]],
    "chain.example": [["CNAME link.example"]],
    "link.example": [["CNAME inner.example"]],
    "bad.example": [["192.0.2.8"]],
    "www.bad.example": [["192.0.2.9"]],
    "alias.example": [["CNAME bad.example"]],
    "below.example": [["CNAME www.bad.example"]],
    "moving.example": [["192.0.2.7"], ["192.0.2.9"]],
    "down.example": [[]],
}


@pytest.fixture(scope="module", autouse=True)
def _worlds_can_be_made() -> None:
    for program in ("unshare", "ip", "mount", "setpriv"):
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed (Debian: iproute2, util-linux)")
    words = in_world({}, Path("/dev/null"))
    asked = subprocess.run([*words[: words.index("--") + 1], "true"], capture_output=True, check=False)
    if asked.returncode:
        pytest.skip("this host gives no network namespace to build the outside in")


def natively(place: Path, *words: str) -> list[str]:
    command = [*in_world(ANSWERS, place / "asked"), PYTHON, "-c", GUEST, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.splitlines()


def boxed(place: Path, options: list[str], *words: str) -> tuple[list[str], list[str]]:
    """What the guest printed, and the reasons of refusals."""
    asked = place / "asked"
    asked.write_text("")
    command = ["run", "--json", *options, "--", PYTHON, "-c", GUEST, *words]
    told = husk(command, wrapper=in_world(ANSWERS, asked))
    assert told.out, told.err
    result = json.loads(told.out)
    assert not result["faults"] and result["exit_code"] == 0, result
    return result["stdout"].splitlines(), [f"{item['what']}: {item['reason']}" for item in result["refusals"]]


def reached(lines: list[str]) -> set[str]:
    return {" ".join(line.split()[1:]) for line in lines if len(line.split()) == 3}


def test_the_world_is_as_dangerous_as_it_says(place: Path) -> None:
    """Natively every one of them is reached."""
    turns = [f"turn{number}.example*2" for number in range(len(TARGETS))]
    found = reached(natively(place, "public.example", *turns, "chain.example", "mixed.example", "tcp.example"))
    for wanted in (
        "outside 192.0.2.7",
        "HOST 127.0.0.1",
        "outside 169.254.169.254",
        "outside 10.0.0.1",
        f"HOST {HERE}",
    ):
        assert wanted in found
    assert {"HOST ::1", f"HOST {HERE6}", "HOST 2001:db8:2::99", "outside 2001:db8:1::7"} <= found


@pytest.mark.parametrize("rule", ["*", "*.example", "*.example:80"])
def test_a_name_leads_where_it_is_judged_to_lead(place: Path, rule: str) -> None:
    turns = [f"turn{number}.example*2" for number in range(len(TARGETS))]
    words = (
        "public.example",
        *turns,
        "chain.example",
        "mixed.example",
        "tcp.example",
        *TARGETS,
        HERE6,
        "2001:db8:2::99",
    )
    lines, refused = boxed(place, ["--allow-net", rule], *words)
    assert reached(lines) == {"outside 192.0.2.7", "outside 192.0.2.8", "outside 2001:db8:1::7"}, "\n".join(lines)
    assert any("this machine" in each for each in refused) and any("a private address" in each for each in refused)


def test_a_network_that_a_rule_opens_does_not_open_this_machine(place: Path) -> None:
    options = ["--allow-net", "192.0.2.0/24", "--allow-net", "2001:db8::/32"]
    lines, _ = boxed(place, options, "192.0.2.8", HERE, f"::ffff:{HERE}", HERE6, ROUTED, "2001:db8:1::7")
    assert reached(lines) == {"outside 192.0.2.8", "outside 2001:db8:1::7"}
    lines, _ = boxed(place, ["--allow-net", f"{HERE}:80"], HERE)
    assert reached(lines) == {f"HOST {HERE}"}


def test_a_denied_name_is_denied_by_every_alias(place: Path) -> None:
    assert reached(natively(place, "alias.example", "below.example")) == {"outside 192.0.2.8", "outside 192.0.2.9"}
    options = ["--allow-net", "*", "--deny-net", "bad.example", "--deny-net", "*.bad.example"]
    words = ("bad.example", "alias.example", "below.example", "192.0.2.8", "192.0.2.9", "public.example")
    lines, refused = boxed(place, options, *words)
    assert reached(lines) == {"outside 192.0.2.7"}, "\n".join(lines)
    assert "look-up of below.example: it leads to www.bad.example, which a --deny-net rule names" in refused


def test_a_denied_name_that_moves_is_found_again(place: Path) -> None:
    """An address that was not judged before is judged by where the name leads now, not by an answer of a minute ago."""
    later = "import time; time.sleep(1.2); reach('later', socket.AF_INET, ('192.0.2.9', 80))"
    words = ["--allow-net", "*", "--deny-net", "moving.example", "--", PYTHON, "-c", GUEST + later]
    told = husk(["run", *words, "192.0.2.7", "192.0.2.8"], wrapper=in_world(ANSWERS, place / "asked"))
    wanted = ["192.0.2.7 PermissionError", "192.0.2.8 outside 192.0.2.8", "later PermissionError"]
    assert told.out.splitlines() == wanted, told.err


def test_a_denied_name_that_cannot_be_looked_up_opens_nothing(place: Path) -> None:
    lines, refused = boxed(place, ["--allow-net", "*", "--deny-net", "down.example"], "192.0.2.7")
    assert lines == ["192.0.2.7 PermissionError"] and "cannot be looked up now" in refused[0]


def test_no_question_leaves_for_a_name_that_is_not_allowed(place: Path) -> None:
    """A name carries data to the servers of its domain: a denial must not make husk ask for it."""
    options = ["--allow-net", "public.example", "--deny-net", "*.bad.example"]
    boxed(place, options, "secret.bad.example", "secret.other.example", "public.example")
    assert set((place / "asked").read_text().split()) == {"public.example"}
