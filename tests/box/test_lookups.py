"""Look-ups that a box refuses: which name it was, and a word in time to a person whose program keeps trying."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from husk.cli.cmd_run import RepeatedRefusals
from husk.kernel.net.asked_name import _name_in
from tests.lib import running

LINE = "husk: it keeps trying; refused: look-up of again.example: "


def husk_run(place: Path, *words: str) -> str:
    command = [*running.husk_command(), "run", *running.OPTIONS, *words]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=100).stderr


@pytest.mark.both_settings
@pytest.mark.needs("getent")
def test_a_refused_look_up_is_named(tmp_path: Path) -> None:
    told = husk_run(tmp_path, "--summary", "--", "getent", "hosts", "named.example")
    assert "look-up of named.example: the box has no network" in told
    assert "to allow it, --allow-net named.example\n" in told


@pytest.mark.needs("getent")
def test_a_program_that_keeps_trying_is_told_of_once(tmp_path: Path) -> None:
    tries = ["sh", "-c", "for i in 1 2 3 4; do getent hosts again.example; sleep 0.4; done; echo end >&2; exit 0"]
    told = husk_run(tmp_path, "--", *tries).splitlines()
    assert [line.startswith(LINE) for line in told] == [True, False] and told[1] == "end", told
    assert told[0].endswith("; to allow it, --allow-net again.example")
    assert husk_run(tmp_path, "--quiet", "--", *tries) == "end\n"


def test_what_counts_as_trying_again(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    repeated = RepeatedRefusals("husk", lambda allow: allow.upper())

    def refuse(count: int, allow: str = "--allow-net a", what: str = "look-up of a") -> str:
        repeated.note({"what": what, "reason": "why", "allow": allow, "count": count})
        return capsys.readouterr().err

    assert [refuse(count) for count in (1, 2, 3, 4)] == [""] * 4  # one look-up is several calls at once
    now[0] = 5.0
    assert refuse(9, "--mount /a:/a:ro", "/a") == ""  # files are looked for in vain all the time
    assert refuse(5) == "husk: it keeps trying; refused: look-up of a: why; to allow it, --ALLOW-NET A\n"
    assert refuse(6) == ""


def query(name: bytes, flags: bytes = b"\1\0", kind: bytes = b"\0\1\0\1") -> bytes:
    return b"\x12\x34" + flags + b"\0\1\0\0\0\0\0\0" + name + b"\0" + kind


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"", ""),
        (b"\0" * 64, ""),
        (b"\0\1\0\0\0\0\0", ""),
        (b"junk" * 9 + query(b"\1a\7example") + b"more", "a.example"),
        (query(b"\1a\7example", b"\1\x20", b"\0\x1c\0\1"), "a.example"),
        (query(b"\1a", b"\x81\x80"), ""),  # an answer
        (query(b"\1a", kind=b"\0\1\0\3"), ""),  # not of the internet
        (query(b"\3\x1b[2"), ""),  # not a host name: it goes to a terminal
        (query(b"\x3fa"), ""),  # a label that goes beyond the end
        (query(b"\xc0\x0c"), ""),
        (query(b"\3a b") + query(b"\1b"), "b"),
    ],
)
def test_a_query_is_found_among_other_bytes(data: bytes, name: str) -> None:
    assert _name_in(data) == name
