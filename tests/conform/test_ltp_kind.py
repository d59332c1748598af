"""Programs that report as those of the Linux Test Project do, by the old interface of its library and by the new."""

from __future__ import annotations

from pathlib import Path

import pytest

from husk.conform.suites import kind
from husk.sandbox.errors import UsageError
from tests.conform.small_suites import run_all, run_natively, write_suite

SH = "#!/bin/sh\n"
PROGRAMS = {
    "new_pass": "echo 'a.c:9: TPASS: opened' >&2; printf '\\nSummary:\\npassed   1\\n' >&2",
    "old_pass": "echo 'old01       1  TPASS  :  opened'; echo 'old01       0  TINFO  :  hm'",
    "colours": "printf 'a.c:9: \\033[1;32mTPASS: \\033[0mopened\\n' >&2",
    "new_fail": "echo 'a.c:9: TPASS: opened' >&2; echo 'a.c:12: TFAIL: close() failed: EIO (5)' >&2; exit 1",
    "old_fail": "echo 'old01       2  TFAIL  :  old.c:3: no'; exit 1",
    "broken": "echo 'a.c:7: TBROK: mkdir() failed: EACCES (13)' >&2; exit 2",
    "warns": "echo 'a.c:9: TPASS: x' >&2; echo 'a.c:7: TWARN: cannot clean up' >&2; exit 4",
    "conf": "echo 'a.c:7: TCONF: no such call' >&2; exit 32",
    "partly": "echo 'a.c:9: TPASS: x' >&2; echo 'a.c:7: TCONF: no IPv6' >&2",
    "dies": "kill -SEGV $$",
    "child_dies": "echo 'tst_test.c:9: TBROK: Test killed by SIGBUS!' >&2; exit 2",
    "hangs": "sleep 60",
    "own_limit": "echo 'Test timeouted, sending SIGKILL!' >&2; echo 'a.c:9: TBROK: Test killed!' >&2; exit 2",
    "garbage": "head -c 2000 /dev/urandom; exit 64",
    "silent": "exit 0",
    "told": 'echo "a.c:1: TPASS: $1 $2 $LTPROOT" >&2; test "$1" = -x',
}  # fmt: skip
SCENARIO = "#DESCRIPTION: some\n\n" + "".join(f"{name} {name}\n" for name in PROGRAMS if name not in ("told", "hangs"))
SCENARIO += "told01 told -x 'a b'\ntold02 told -y\ntold03 cd / && told -x\nlater01 later01 -i 5\nonly_a_name\n"
HEAD = "kind = 'ltp'\ntimeout = 30\n[settings]\nscenarios = ['runtest/some']\n"
HANGS = "[[files]]\npath = 'hangs'\ntimeout = 0.5\n"


def files() -> dict[str, str]:
    return {"runtest/some": SCENARIO} | {
        f"testcases/bin/{name}": f"{SH}{text}\n" for name, text in PROGRAMS.items()
    }  # fmt: skip


def test_every_ending(tmp_path: Path) -> None:
    found = run_all(write_suite(tmp_path, HEAD + HANGS, files()))
    assert {name: (one.outcome, one.why) for name, one in found.items()} == {
        "new_pass/new_pass": ("pass", ""),
        "old_pass/old_pass": ("pass", ""),
        "colours/colours": ("pass", ""),
        "new_fail/new_fail": ("fail", "TFAIL: close() failed: EIO (5)"),
        "old_fail/old_fail": ("fail", "TFAIL: old.c:3: no"),
        "broken/broken": ("fail", "TBROK: mkdir() failed: EACCES (13)"),
        "warns/warns": ("fail", "TWARN: cannot clean up"),
        "conf/conf": ("skip", "no such call"),
        "partly/partly": ("pass", "1 parts of it were left out: no IPv6"),
        "dies/dies": ("crash", "SIGSEGV"),
        "child_dies/child_dies": ("crash", "SIGBUS"),
        "hangs/hangs": ("hang", "it did not end within 0.5 s"),
        "own_limit/own_limit": ("hang", "LTP's own limit of time ended it"),
        "garbage/garbage": ("fail", "exit code 64, and no line is a result of LTP"),
        "silent/silent": ("fail", "no line is a result of LTP"),
        "told/told01": ("pass", ""),
        "told/told02": ("fail", "TFAIL by its exit code 1"),
        "cd/told03": ("pass", ""),
        "later01/later01": ("skip", "the program is not built"),
    }


def test_programs_by_name(tmp_path: Path) -> None:
    head = "kind = 'ltp'\n[[files]]\npath = 'told'\nargs = ['-x']\n[[files]]\npath = 'dies'\nskip = 'it dies'\n"
    found = run_all(write_suite(tmp_path, head, files()))
    assert {name: one.outcome for name, one in found.items()} == {"told/told": "pass", "dies/dies": "skip"}


@pytest.mark.parametrize(
    ("head", "some", "said"),
    [
        ("", files(), "has no tests: write `scenarios"),
        ("", {}, "testcases/bin is no directory"),
        ("[settings]\nscenarios = ['runtest/none']\n", files(), "runtest/none.*name a scenario"),
        (HEAD.partition("\n")[2], {"runtest/some": "a01 a01\n", "testcases/bin/b01": SH}, "none of its 1 programs"),
        (HEAD.partition("\n")[2], {"runtest/some": "# only this\n", "testcases/bin/b01": SH}, "has no tests"),
    ],
)
def test_no_suite(tmp_path: Path, head: str, some: dict[str, str], said: str) -> None:
    suite = write_suite(tmp_path, f"kind = 'ltp'\n{head}", some)
    with pytest.raises(UsageError, match=said):
        kind("ltp").units(suite, run_natively)
