"""`husk syscalls` and docs/compat.md show the registry, all of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from husk.abi.registry import ROWS
from husk.abi.registry.row_text import rule_texts
from husk.abi.registry.rules import WAYS
from husk.cli.cmd_syscalls import main, markdown, table

COMPAT = Path(__file__).parents[3] / "docs" / "compat.md"


def test_compat_page_is_up_to_date() -> None:
    assert COMPAT.read_text() == markdown(), "write it anew: husk syscalls --markdown > docs/compat.md"


def test_every_call_is_listed_once_and_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    heads = [line.split()[:2] for line in lines if line and not line.startswith((" ", "*"))]
    assert heads == [[row.name, str(row.nr)] for row in sorted(ROWS.values(), key=lambda row: row.nr)]


@pytest.mark.parametrize("width", [80, 100, 140])
def test_tables_keep_their_width(width: int) -> None:
    rows = list(ROWS.values())
    for text in (table(rows, width, details=False), table(rows, width, details=True)):
        assert max(len(line) for line in text.splitlines()) <= width


def test_terminal_width_is_used(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    longest: dict[str, int] = {}
    for columns in ("80", "132"):
        monkeypatch.setenv("COLUMNS", columns)
        assert main([]) == 0
        longest[columns] = max(len(line) for line in capsys.readouterr().out.splitlines())
    assert longest["80"] <= 80 < longest["132"] <= 132


def test_named_calls_come_with_their_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ioctl", "41"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("ioctl") and "\nsocket" in out
    words = " ".join(out.split())
    assert "TIOCGWINSZ" in out and "refused ENOTTY otherwise" in words
    assert "ioctl(fd: fd, cmd: ioctl, arg: addr)" in words and "answered in kernel/syscalls/tty.py" in words
    assert "EINTR after a handler without SA_RESTART" in words


def test_judged_calls_say_their_errno(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mount", "--json"]) == 0
    (mount,) = json.loads(capsys.readouterr().out)
    assert mount["way"] == "judged" and mount["otherwise"]["errno"] == "EPERM" and mount["otherwise"]["reported"]
    assert main(["mount"]) == 0
    assert "judged EPERM" in capsys.readouterr().out


def test_ways_are_a_partition(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[int] = []
    for way in WAYS:
        assert main(["--way", way, "--json"]) == 0
        rows = json.loads(capsys.readouterr().out)
        assert all(row["way"] == way for row in rows)
        seen += [row["number"] for row in rows]
    assert sorted(seen) == sorted(ROWS)


def test_json_says_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", "prctl", "io_uring_setup"]) == 0
    prctl, io_uring_setup = json.loads(capsys.readouterr().out)
    assert prctl["arguments"][0] == {"name": "option", "kind": "PR_*"} and prctl["eintr"] == "never"
    assert prctl["number"] == 157 and prctl["otherwise"]["errno"] == "EINVAL" and prctl["otherwise"]["reported"]
    assert [rule["way"] for rule in prctl["rules"] if "SUID_DUMP_USER" in rule["when"]] == ["virtual"]
    assert io_uring_setup["otherwise"] == {
        "way": "refused",
        "errno": "ENOSYS",
        "reported": False,
        "reason": ROWS[425].reason,
    }


def test_unknown_names_get_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opnat"]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1 and "openat" in captured.err
    assert main(["9999"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_rules_end_with_what_happens_otherwise() -> None:
    for row in ROWS.values():
        texts = rule_texts(row)
        assert len(texts) == (len(row.rules) + 1 if row.rules else 0)
        assert not texts or "otherwise" in texts[-1]
