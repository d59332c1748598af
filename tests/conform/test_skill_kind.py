"""Skills and their cases as a suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from husk.conform.suites import kind
from husk.conform.units import Ended
from husk.sandbox.errors import UsageError
from tests.conform.small_suites import run_all, run_natively, write_suite

SKILL = "---\nname: {name}\ndescription: A skill for a test.\n---\nRun scripts/work.sh.\n"
WORK = """#!/bin/sh
case $1 in
upper) tr a-z A-Z < "$2" > "$3"; echo "wrote $3"; pwd | grep -c results ;;
stdin) mkdir sub; cat > sub/from_stdin; echo "$HOME" > home ;;
dies) kill -SEGV $$ ;;
hangs) sleep 60 ;;
garbage) head -c 2000 /dev/urandom ;;
esac
"""
CASES = """
[[case]]
name = "upper"
argv = ["upper", "{in}/a.txt", "{out}/b.txt"]
input = "sample"
stdout = "wrote {out}/b.txt\\n1\\n"
files = { "b.txt" = "HELLO\\n" }
[[case]]
name = "wrong"
argv = ["upper", "{in}/a.txt", "c.txt"]
input = "sample"
files = { "c.txt" = "Hello\\n" }
[[case]]
name = "stdin"
argv = ["stdin"]
stdin = "two\\nlines"
files = { "sub/from_stdin" = "two\\nlines" }
[[case]]
name = "dies"
argv = ["dies"]
[[case]]
name = "garbage"
argv = ["garbage"]
stdout = ""
[[case]]
name = "program"
needs = ["no-such-program"]
[[case]]
name = "module"
modules = ["json", "no_such_module"]
[[case]]
name = "has module"
argv = ["stdin"]
modules = ["json"]
"""
HEAD = "kind = 'skills'\ntimeout = 30\n[[files]]\npath = 'one'\n[[files]]\npath = 'slow'\ntimeout = 1\n"
FILES = {
    "one/SKILL.md": SKILL.format(name="one"), "one/scripts/work.sh": WORK, "one/cases.toml": CASES,
    "one/sample/a.txt": "hello\n", "not-a-skill/readme": "", "slow/SKILL.md": SKILL.format(name="slow"),
    "slow/scripts/work.sh": WORK, "slow/cases.toml": '[[case]]\nname = "hangs"\nargv = ["hangs"]\n',
}  # fmt: skip


def test_every_ending(tmp_path: Path) -> None:
    found = run_all(write_suite(tmp_path, HEAD, FILES))
    assert {name: (one.outcome, one.why) for name, one in found.items() if "garbage" not in name} == {
        "one/upper": ("pass", ""),
        "one/wrong": ("fail", r"c.txt is 'HELLO\n', not 'Hello\n'"),
        "one/stdin": ("pass", ""),
        "one/dies": ("crash", "SIGSEGV"),
        "slow/hangs": ("hang", "it did not end within 1 s"),
        "one/program": ("skip", "no-such-program is not on this machine"),
        "one/module": ("skip", "the Python module no_such_module is not on this machine"),
        "one/has module": ("pass", ""),
    }
    assert found["one/garbage"].outcome == "fail"


def test_a_sandbox_that_shows_no_result(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, HEAD, FILES)
    unit = kind("skills").units(suite, run_natively)[0]
    (read,) = kind("skills").read(unit, Ended(0, False, 0.1, b"wrote /else/b.txt\n1\n", b"/else\n")).results
    assert (read.outcome, read.why) == ("fail", "b.txt was not made")


@pytest.mark.parametrize(
    ("head", "files", "said"),
    [
        ("", {}, "has no tests: no folder in .* has a SKILL.md and a cases.toml"),
        ("[[files]]\npath = 'not-a-skill'\n", FILES, "there are no cases in it"),
        ("[settings]\ncolour = 1\n", FILES, "no key 'colour'"),
        ("", FILES | {"one/cases.toml": "[[case]]\nname = 'a'\n" * 2}, "two cases of one have the name 'a'"),
        ("", FILES | {"one/cases.toml": "[[case]]\ninput = '..'\n"}, "leads out of the folder"),
    ],
)
def test_no_suite(tmp_path: Path, head: str, files: dict[str, str], said: str) -> None:
    suite = write_suite(tmp_path, f"kind = 'skills'\n{head}", files)
    with pytest.raises(UsageError, match=said):
        kind("skills").units(suite, run_natively)
