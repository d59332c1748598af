"""Test files that print TAP: what each line means, and what a file that dies, hangs or prints garbage becomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from husk.conform.execute.shards import Filter
from husk.conform.suites import kind
from husk.conform.suites.tap_stream import read_tap
from husk.conform.units import Ended, Unit
from husk.sandbox.errors import UsageError
from tests.conform.small_suites import outcomes, run_all, run_natively, write_suite

SH = "#!/bin/sh\n"
FILES = {
    "t/fine.t": SH + "echo 1..3; echo ok 1 - opens; echo 'ok 2 # SKIP no device'; echo 'not ok 3 - bad # TODO later'\n",
    "t/wrong.t": SH + "echo ok 1; echo not ok 2 - it is 7; echo '# got 8'; echo 1..2; exit 1\n",
    "t/dies.t": SH + "echo 1..3; echo ok 1; kill -SEGV $$\n",
    "t/hangs.t": SH + "echo 1..2; echo ok 1; sleep 60\n",
    "t/bails.t": SH + "echo 1..2; echo ok 1; echo 'Bail out! no memory'; exit 255\n",
    "t/skipped.t": SH + "echo '1..0 # SKIP needs root'\n",
    "t/garbage.t": SH + "head -c 2000 /dev/urandom; exit 3\n",
    "t/code.t": SH + "echo 1..1; echo ok 1; exit 4\n",
    "t/no_plan.t": SH + "echo ok 1\n",
    "t/by_interpreter.t": SH + "echo 1..1; echo ok 1\n",
}  # fmt: skip
HEAD = "kind = 'tap'\ntimeout = 30\n[settings]\nnames = 'number'\n"


def test_every_ending(tmp_path: Path) -> None:
    rows = (f"[[files]]\npath = '{name}'\ntimeout = {1 if 'hangs' in name else 30}\n" for name in FILES)
    suite = write_suite(tmp_path, HEAD + "".join(rows), FILES)
    (tmp_path / "t/by_interpreter.t").chmod(0o644)
    found = {name.removeprefix("t/"): outcome for name, outcome in outcomes(suite).items()}
    assert found == {
        "fine.t/1": "pass", "fine.t/2": "skip", "fine.t/3": "skip", "fine.t/(end)": "pass",
        "wrong.t/1": "pass", "wrong.t/2": "fail", "wrong.t/(end)": "pass",
        "dies.t/1": "pass", "dies.t/2": "crash", "dies.t/3": "fail", "dies.t/(end)": "crash",
        "hangs.t/1": "pass", "hangs.t/2": "hang", "hangs.t/(end)": "hang",
        "bails.t/1": "pass", "bails.t/2": "fail", "bails.t/(end)": "fail",
        "skipped.t/(end)": "skip", "garbage.t/(end)": "fail",
        "code.t/1": "pass", "code.t/(end)": "fail",
        "no_plan.t/1": "pass", "no_plan.t/(end)": "fail",
        "by_interpreter.t/1": "pass", "by_interpreter.t/(end)": "pass",
    }  # fmt: skip


def test_reasons(tmp_path: Path) -> None:
    """With descriptions as part of the names, as git has them; and the reason of each miss."""
    names = ("wrong", "bails", "garbage", "code", "fine")
    chosen = {name: text for name, text in FILES.items() if name[2:-2] in names}
    suite = write_suite(tmp_path, HEAD.replace("number", "both"), chosen)
    found = {name.removeprefix("t/"): one.why for name, one in run_all(suite).items() if one.why}
    assert found == {
        "wrong.t/2 it is 7": "it is 7",
        "bails.t/(end)": "Bail out! no memory",
        "garbage.t/(end)": "it printed no TAP, and ended with exit code 3",
        "code.t/(end)": "exit code 4 though no test failed",
        "fine.t/2": "no device",
        "fine.t/3 bad": "TODO later",
    }


def test_subtests_escapes_and_yaml() -> None:
    text = """TAP version 14
# Subtest: outer
    # Subtest: inner
        ok 1 - deep
        1..1
    ok 1 - inner
    not ok 2 - second \\# of two
      ---
      message: "it broke"
      severity: fail
      ...
    1..2
not ok 1 - outer
ok - counted
1..2
"""
    stream = read_tap(text)
    assert [(point.number, point.ok, point.text, point.message) for point in stream.points] == [
        ("1.1.1", True, "deep", ""),
        ("1.1", True, "inner", ""),
        ("1.2", False, "second # of two", "it broke"),
        ("1", False, "outer", ""),
        ("2", True, "counted", ""),
    ]
    assert (stream.planned, stream.missing(), stream.beyond()) == (2, [], 0)


@pytest.mark.parametrize(
    "text", ["okay", "not okay 1", "1..", "    " * 50 + "ok 1", "ok" * 100_000, "1..999999999999\n" * 3]
)
def test_what_is_no_test_point(text: str) -> None:
    assert read_tap(text).points == []


def test_a_number_twice_and_more_than_planned() -> None:
    unit = Unit("mini", "tap", "a.t", ("a.t",), settings=(("names", "number"),))
    read = kind("tap").read(unit, Ended(0, False, 0.1, b"1..1\nok 1\nok 1\nok 2\n", b"")).results
    assert [(one.name.case, one.outcome) for one in read] == [
        ("1", "pass"), ("1 (2)", "pass"), ("2", "pass"), ("(end)", "fail"),
    ]  # fmt: skip
    assert read[-1].why == "1 tests more than the 1 that were planned"


def test_arguments_directory_command_and_skip(tmp_path: Path) -> None:
    rows = "[[files]]\npath = 'a.sh'\nargs = ['x y']\n[[files]]\npath = 'gone.sh'\nskip = 'not here'\n"
    head = f"kind = 'tap'\n[settings]\ncommand = ['sh', '-e']\ndirectory = 'sub'\n{rows}"
    suite = write_suite(tmp_path, head, {"a.sh": 'echo 1..1; echo ok 1 "$1" ${PWD##*/}\n', "sub/empty": ""})
    assert outcomes(suite) == {"a.sh/(end)": "pass", "a.sh/1 x y sub": "pass", "gone.sh/(end)": "skip"}


@pytest.mark.parametrize(
    ("head", "files", "said"),
    [
        ("", {}, r"no tests: no file in .* fits t/\*\.t"),
        ("[settings]\nfind = ['/etc/*']\n", {}, "pattern that does not work"),
        ("[settings]\nnames = 'colour'\n", FILES, "`names` is one of"),
        ("[settings]\nfinds = []\n", FILES, "no key 'finds'"),
        ("[[files]]\npath = 'gone.t'\n", FILES, "there is no gone.t"),
        ("", {"t/a.t": "plain text\n"}, "neither executable nor a script"),
    ],
)
def test_no_suite(tmp_path: Path, head: str, files: dict[str, str], said: str) -> None:
    suite = write_suite(tmp_path, f"kind = 'tap'\n{head}", files)
    with pytest.raises(UsageError, match=said):
        kind("tap").units(suite, run_natively)


@pytest.mark.parametrize(
    ("pattern", "runs"),
    [("t/a.t/*", True), ("t/a*", True), ("*/3 opens", True), ("mini/t/a.t/1", True), ("t/b*", False), ("t/a.t", False)],
)
def test_a_filter_leaves_out_files_whose_cases_are_not_known_yet(pattern: str, runs: bool) -> None:
    unit = Unit("mini", "tap", "t/a.t", ("a.t",))
    assert (Filter((pattern,)).applied(unit, None) is unit) == runs
