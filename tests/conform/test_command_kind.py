"""Lists of commands with expected exit codes and output."""

from __future__ import annotations

from pathlib import Path

import pytest

from husk.conform.suites import kind
from husk.sandbox.errors import UsageError
from tests.conform.small_suites import run_all, run_natively, write_suite

LIST = """kind = 'commands'
timeout = 3
[[settings.commands]]
name = 'true'
run = ['true']
[[settings.commands]]
name = 'says more'
run = ['echo', 'hello']
stdout = "hello, world\\n"
[[settings.commands]]
name = 'has a word'
run = ['echo', 'hello']
stdout_has = ['ell']
[[settings.commands]]
name = 'exit code'
run = ['sh', '-c', 'echo broken >&2; exit 3']
[[settings.commands]]
name = 'refuses'
run = ['sh', '-c', 'exit 3']
exit = 3
[[settings.commands]]
name = 'dies'
group = 'deaths'
run = ['sh', '-c', 'kill -SEGV $$']
[[settings.commands]]
name = 'is to die'
group = 'deaths'
run = ['sh', '-c', 'kill -SEGV $$']
exit = 139
[[settings.commands]]
name = 'hangs'
run = ['sleep', '60']
timeout = 0.5
[[settings.commands]]
name = 'garbage'
run = ['sh', '-c', 'head -c 2000 /dev/urandom']
stdout = ''
[[settings.commands]]
name = 'left out'
run = ['false']
skip = 'it always fails'
[[settings.commands]]
name = 'its variable'
run = ['sh', '-c', 'echo $COLOUR ${PWD##*/}']
environment = { COLOUR = 'red' }
directory = 'sub'
stdout = "red sub\\n"
"""


def test_every_ending(tmp_path: Path) -> None:
    found = run_all(write_suite(tmp_path, LIST, {"sub/empty": ""}))
    assert {name: one.outcome for name, one in found.items()} == {
        "true/true": "pass", "echo/says more": "fail", "echo/has a word": "pass", "sh/exit code": "fail",
        "sh/refuses": "pass", "deaths/dies": "crash", "deaths/is to die": "pass", "sleep/hangs": "hang",
        "sh/garbage": "fail", "false/left out": "skip", "sh/its variable": "pass",
    }  # fmt: skip
    assert found["sh/exit code"].why == "exit code 3, not 0: broken"
    assert found["echo/says more"].why == "stdout is 'hello\\n', not 'hello, world\\n'"
    assert (found["deaths/dies"].why, found["false/left out"].why) == ("SIGSEGV", "it always fails")
    assert found["sleep/hangs"].why == "it did not end within 0.5 s"


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("", "has no tests: write a .* table"),
        ("[[settings.commands]]\nname = 'a'\n", "needs a `name`"),
        ("[[settings.commands]]\nrun = ['a']\n", "needs a `name`"),
        ("[[settings.commands]]\nname = 'a'\nrun = ['a']\nexit = 256\n", "between 0 and 255"),
        ("[[settings.commands]]\nname = 'a'\nrun = ['a']\nexit = 'x'\n", "`exit` must be a whole number"),
        ("[[settings.commands]]\nname = 'a'\nrun = ['a']\ncode = 1\n", "no key 'code'"),
        ("[[settings.commands]]\nname = 'a'\nrun = ['a']\n" * 2, "two commands have the name 'a'"),
    ],
)
def test_no_list(tmp_path: Path, rows: str, said: str) -> None:
    suite = write_suite(tmp_path, f"kind = 'commands'\n{rows}", {})
    with pytest.raises(UsageError, match=said):
        kind("commands").units(suite, run_natively)
