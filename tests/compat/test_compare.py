"""`husk compare`: it names what differs, and does not name what varies by itself."""

from __future__ import annotations

import json
import random
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from husk.cli import main
from husk.compat.census import Asked, Census, write_census
from husk.compat.compare.align_lines import VARIES, baseline, lines_of, masked, opcodes
from husk.compat.compare.divergence import compare_outcomes
from husk.compat.compare.run_under import Outcome, show_directory

HUSK = Path(sys.executable).parent / "husk"


def told(words: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["compare", "--json", *words]) == code
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def sides(script: str, *options: str) -> list[str]:
    """A script that does one thing where SIDE is a, another where it is b."""
    return ["--under", "env SIDE=a", "--under", "env SIDE=b", "--repeat", "0", *options, "--", "sh", "-c", script]


# -- what differs ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("script", "where", "a", "b"), [
    ("echo one; echo $SIDE", "stdout", "a", "b"),
    ("echo one >&2; [ $SIDE = a ] || echo more >&2", "stderr", "(nothing)", "more"),
    ("[ $SIDE = a ]", "exit status", "exit code 0", "exit code 1"),
    ("[ $SIDE = a ] || kill -SEGV $$", "exit status", "exit code 0", "SIGSEGV"),
    ("echo $SIDE > f", "file f", "a", "b"),
    ("mkdir d; [ $SIDE = a ] && echo > d/only; :", "file d/only", "file, mode 0644, 1 bytes", "not there"),
    ("echo > f; [ $SIDE = a ] && chmod 600 f; :", "file f", "file, mode 0600", "file, mode 0644"),
    ("ln -s $SIDE l", "file l", "a", "b"),
    ("[ $SIDE = a ] && mkdir x || echo > x", "file x", "directory", "file"),
    ("printf '\\0a' > f; [ $SIDE = a ] || printf '\\0b' > f", "file f", "2 bytes", "2 bytes"),
])  # fmt: skip
def test_the_first_difference(script: str, where: str, a: str, b: str, capsys: pytest.CaptureFixture[str]) -> None:
    first = told(sides(f"umask 022; {script}"), 1, capsys)["first"]
    assert first["where"] == where and a in first["a"] and b in first["b"]


def test_context_and_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *sides("seq 8; [ $SIDE = a ] || echo more; seq 3; echo $SIDE")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["first difference:", "  stdout"]
    assert [line.split()[-1] for line in lines[2:5]] == ["6", "7", "8"]
    assert "9: (nothing)" in lines[5] and "9: more" in lines[6] and "also stdout, line 12" in lines[7]


def test_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    script = "echo hi; pwd; mkdir -p a/b; echo x > a/b/c; ln -s nowhere l; mkfifo p; chmod 0 a/b; exit 3"
    document = told(["--under", "env -u X", "--repeat", "2", "--", "sh", "-c", script], 0, capsys)
    assert document["same"] and document["first"] is None and document["varying"] == {}
    assert [run["status"] for run in document["runs"]] == ["exit code 3"] * 2
    assert document["runs"][0]["files"] == ["a", "a/b", "a/b/c", "l", "p"]


def test_what_varies_natively_is_not_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """Pids and random names differ anyway; the line that differs by place is found among them."""
    script = (
        "echo begin; echo pid $$; echo also $$; echo middle; date +%N; [ -z $SIDE ] || echo place; mktemp ./tXXXXXX;"
        "  echo $$ > log; echo end >> log; head -c 9 /dev/urandom > bin"
    )
    command = ["--", "sh", "-c", script]
    document = told(["--under", "", "--under", "env Y=1", "--repeat", "3", *command], 0, capsys)
    assert document["varying"]["stdout"] >= 3 and "file log" in document["varying"]
    document = told(["--under", "env SIDE=x", *command], 1, capsys)
    assert [(one["where"], one["b"]) for one in document["divergences"]] == [("stdout", "place")]


def test_one_place_is_compared_with_the_host(capsys: pytest.CaptureFixture[str]) -> None:
    document = told(["--under", "env SIDE=b", "--repeat", "1", "--", "sh", "-c", "echo $SIDE"], 1, capsys)
    assert document["under"] == ["", "env SIDE=b"] and document["first"]["a"] == "" and document["first"]["b"] == "b"


@pytest.mark.parametrize("options", [(), ("--no-namespaces",)], ids=["walled", "bare"])
def test_in_a_box(options: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """A box has another host name; the files it writes are those of the host."""
    prefix = " ".join([str(HUSK), "run", *options])
    script = "mkdir d; echo x > d/f; cat d/f; pwd; exit 4"
    assert told(["--under", prefix, "--repeat", "1", "--", "sh", "-c", script], 0, capsys)["same"]
    first = told(["--under", prefix, "--repeat", "1", "--", "sh", "-c", "ls /etc/shadow"], 1, capsys)["first"]
    assert first["where"] == "stdout" and first["a"] == "/etc/shadow"


def test_with_another_runtimes_surface(capsys: pytest.CaptureFixture[str]) -> None:
    program = "import socket\ntry: socket.socket(socket.AF_INET6); print('made')\nexcept OSError as e: print(e.errno)"
    prefixes = ["--under", f"{HUSK} run", "--under", f"{HUSK} run --as litebox"]
    first = told([*prefixes, "--repeat", "0", "--", "python3", "-c", program], 1, capsys)["first"]
    assert (first["where"], first["a"]) == ("stdout", "made")


# -- bounds ------------------------------------------------------------------------------------------------------------
def test_a_run_that_does_not_end(capsys: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()
    document = told(sides("echo hi; [ $SIDE = a ] || sleep 100", "--timeout", "0.5"), 1, capsys)
    assert document["first"]["b"] == "ended by the time limit" and time.monotonic() - began < 20


def test_what_is_left_behind_does_not_hold_it_up(capsys: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()
    assert told(sides("sleep 100 & echo hi"), 0, capsys)["same"] and time.monotonic() - began < 20


def test_endless_output_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    document = told(sides("head -c 6000000 /dev/zero"), 0, capsys)
    assert document["cut"] == ["stdout beyond 4194304 bytes"] and document["runs"][0]["stdout_bytes"] == 4 << 20


def test_aligning_is_bounded() -> None:
    began = time.monotonic()
    chance = random.Random(1)
    runs = [Outcome("exit code 0", "\n".join(chance.choices("ab", k=30000)).encode(), b"") for _ in range(3)]
    compare_outcomes(runs[0], runs[1], [runs[2], runs[0]])
    assert time.monotonic() - began < 20


# -- mistakes ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("words", "sentence"), [
    ([], "name a command"),
    (["--", "true"], "name two places"),
    (["--under", "a", "--under", "b", "--under", "c", "--", "true"], "name two places"),
    (["--under", "'a", "--", "true"], "quote it as for a shell"),
    (["--under", "/no/such", "--", "true"], "'/no/such' cannot be started"),
    (["--under", "husk shell", "--", "true"], "write --under 'husk run'"),
    (["--under", "env", "--", "/no/such"], "'/no/such' cannot be started"),
    (["--under", "env", "--repeat", "-1", "--", "true"], "--repeat"),
    (["--under", "env", "--repeat", "x", "--", "true"], "from 0 to 50"),
    (["--under", "env", "--timeout", "nan", "--", "true"], "a number of seconds"),
    (["--trace", "x"], "given twice"),
    (["--trace", "/no/a", "--trace", "/no/b"], "No such file"),
])  # fmt: skip
def test_mistakes(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *words]) == 2
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1


def test_prefixes() -> None:
    place = "/tmp/x"
    assert show_directory([], place) == [] and show_directory(["nice", "-n5"], place) == ["nice", "-n5"]
    assert show_directory(["docker", "run", "-v", "{}:{}", "img"], place)[2:] == ["-v", "/tmp/x:/tmp/x", "img"]
    assert show_directory(["bwrap", "--dev-bind", "/", "/", "--"], place)[-4:] == [place, "--chdir", place, "--"]
    assert show_directory(["husk", "run", "--as", "linux-6.1"], place)[2:4] == ["--mount", "/tmp/x:/tmp/x:rw"]
    assert show_directory(["husk", "run"], place)[-1] == "--"


# -- lines -------------------------------------------------------------------------------------------------------------
def test_masking() -> None:
    base = baseline([["a", "1", "b", "x"], ["a", "2", "b", "more", "x"]])
    assert base.varying == {1} and base.gaps == {3}
    texts = [text for _, text in masked(["a", "99", "b", "x"], base)]
    assert texts == ["a", VARIES, "b", "x"]
    assert [text for _, text in masked(["a", "99", "b", "other", "x"], base)] == ["a", VARIES, "b", VARIES, "x"]
    assert [text for _, text in masked(["a", "1", "B", "x"], base)] == ["a", VARIES, "B", "x"]
    assert masked(["q"], baseline([])) == [(1, "q")]


def test_opcodes_turn_one_into_the_other() -> None:
    chance = random.Random(3)
    for size in (0, 1, 5, 40, 3000):
        a = [chance.choice("abc") for _ in range(size)]
        b = [chance.choice("abc") for _ in range(max(0, size + chance.randint(-3, 3)))]
        made = []
        for tag, i, j, k, m in opcodes(a, b):
            assert tag != "equal" or a[i:j] == b[k:m]
            made += b[k:m]
        assert made == b


def test_lines_of_anything() -> None:
    assert lines_of(b"") == [] and lines_of(b"a\nb") == ["a", "b"] == lines_of(b"a\nb\n")
    assert lines_of(b"\xff\0\n") == ["\\xff\\0"] and len(lines_of(b"x" * 9000)[0]) == 2001


# -- traces ------------------------------------------------------------------------------------------------------------
def test_two_traces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = Census(["x"], calls=[Asked("read", "native", count=3), Asked("socket", "native", {0: 10}, count=1)])
    refused = Asked("socket", "refused", {0: 10}, count=1, errors={"EAFNOSUPPORT": 1}, example="socket(AF_INET6)")
    two = Census(["x"], status=1, calls=[Asked("read", "native", count=5), refused])
    files = [tmp_path / "a", tmp_path / "b"]
    for file, census in zip(files, (one, two), strict=True):
        file.write_text(write_census(census))
    document = told(["--trace", str(files[0]), "--trace", str(files[1])], 1, capsys)
    assert [each["where"] for each in document["divergences"]] == ["call socket", "exit status"]
    assert document["first"]["b"] == "socket(AF_INET6)"
    assert told(["--trace", str(files[0]), "--trace", str(files[0])], 0, capsys)["same"]


def test_nothing_is_left_in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", None)
    assert main(["compare", "--under", "env", "--repeat", "1", "--", "sh", "-c", "mkdir d; touch d/f; chmod 0 d"]) == 0
    assert list(tmp_path.iterdir()) == [] and shutil.which("sh")
