"""Programs whose native output is what they must print elsewhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from husk.conform.suites import kind
from husk.conform.units import Ended, Unit
from husk.sandbox.errors import UsageError
from tests.conform.small_suites import outcomes, run_natively, write_suite

STEPS = '#!/bin/sh\necho "open = 3"\necho "cwd $PWD"\necho "pid $$"\necho "close = 0"\n'
TWO = """/* build: two_plain
   build: two_loud -DLOUD */
#include <stdio.h>
int main(void)
{
#ifdef LOUD
    puts("LOUD");
#endif
    puts("two");
    return 7;
}
"""
HEAD = "kind = 'transcripts'\n[settings]\nfind = ['*.sh', '*.c']\nnormalise = ['pid']\n"


def test_scripts_and_c(tmp_path: Path) -> None:
    files = {
        "steps.sh": STEPS,
        "two.c": TWO,
        "one.c": TWO.split("*/")[1],
        "no.sh": "#!/bin/sh\n",
        "by.py": "print(1)\n",
    }
    head = HEAD.replace("'*.c'", "'*.c', '*.py'") + "interpreters = { '.py' = 'python3' }\n"
    assert outcomes(write_suite(tmp_path, head, files)) == {
        "by.py/transcript": "pass",
        "no.sh/transcript": "skip",
        "one.c/transcript": "pass",
        "steps.sh/transcript": "pass",
        "two.c/two_loud transcript": "pass",
        "two.c/two_plain transcript": "pass",
    }


def unit_of(tmp_path: Path, more: str = "") -> Unit:
    (unit,) = kind("transcripts").units(write_suite(tmp_path, HEAD + more, {"steps.sh": STEPS}), run_natively)
    return unit


GOOD = b"/else\nopen = 3\ncwd /else\npid 4\nclose = 0\n"
SHORT = "stdout ends after line 1, natively there follows 'cwd {work}'"
REFUSED = GOOD.replace(b"open = 3", b"open = -1 EACCES")


@pytest.mark.parametrize(
    ("ended", "outcome", "why"),
    [
        (Ended(0, False, 0.1, GOOD, b""), "pass", ""),
        (Ended(0, False, 0.1, REFUSED, b""), "fail", "stdout, line 1: 'open = -1 EACCES', natively 'open = 3'"),
        (Ended(0, False, 0.1, GOOD[:15], b""), "fail", SHORT),
        (Ended(0, False, 0.1, GOOD + b"more\n", b""), "fail", "stdout goes on after line 4 with 'more'"),
        (Ended(0, False, 0.1, GOOD, b"oops\n"), "fail", "stderr goes on after line 0 with 'oops'"),
        (Ended(2, False, 0.1, GOOD, b""), "fail", "exit code 2, natively 0"),
        (Ended(-11, False, 0.1, GOOD[:15], b""), "crash", f"SIGSEGV; {SHORT}"),
        (Ended(-9, True, 60.0, GOOD, b""), "hang", "it did not end within 60 s"),
        (Ended(1, False, 0.1, b"\xff\0g", b"\xfe"), "fail", SHORT.replace("1", "0").replace("cwd {work}", "open = 3")),
    ],
)
def test_differences(tmp_path: Path, ended: Ended, outcome: str, why: str) -> None:
    (read,) = kind("transcripts").read(unit_of(tmp_path), ended).results
    assert (read.outcome, read.why) == (outcome, why)
    assert bool(read.output) == ("line" in why)


def test_an_accepted_difference_is_none(tmp_path: Path) -> None:
    row = "[[settings.accepted]]\nfile = 'steps.sh'\nnative = 'open = 3'\nhere = 'open = -1 E.*'\nreason = 'walls'\n"
    ended = Ended(0, False, 0.1, REFUSED, b"")
    unit = unit_of(tmp_path, row)
    assert kind("transcripts").read(unit, ended).results[0].outcome == "pass"
    worse = replace(ended, stdout=ended.stdout.replace(b"close = 0", b"close = 1"))
    assert kind("transcripts").read(unit, worse).results[0].outcome == "fail"


@pytest.mark.parametrize(
    ("more", "files", "said"),
    [
        ("", {}, r"no tests: no file in .* fits \*\.sh or \*\.c"),
        ("", {"a.sh": "#!/bin/sh\nexit 3\n"}, "no tests: a.sh and 0 others: no transcript natively: it prints nothing"),
        (
            "[[files]]\npath = 'a.sh'\n",
            {"a.sh": "#!/bin/sh\nexit 3\n"},
            "prints nothing and ends with exit code 3; take",
        ),
        ("", {"a.sh": "#!/bin/sh\necho 1; kill -ABRT $$\n"}, "no transcript natively: SIGABRT"),
        ("", {"a.sh": "#!/bin/sh\nyes | head -c 3000000\n"}, "prints more than"),
        ("", {"a.c": "int main( {"}, "a.c: cannot be compiled: .*error"),
        ("compiler = ['no-such-compiler']\n", {"a.c": "int main(void) {}"}, "cannot be compiled"),
        ("replace = { '(' = '' }\n", {"a.sh": STEPS}, "no regular expression"),
        ("accepted = [{ file = 'a.sh' }]\n", {"a.sh": STEPS}, "accepted difference 1 needs"),
    ],
)
def test_no_suite(tmp_path: Path, more: str, files: dict[str, str], said: str) -> None:
    suite = write_suite(tmp_path, HEAD + more, files)
    with pytest.raises(UsageError, match=said):
        kind("transcripts").units(suite, run_natively)


def test_an_unknown_normaliser(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, HEAD.replace("'pid'", "'colour'"), {"a.sh": STEPS})
    with pytest.raises(UsageError, match="no normaliser is called 'colour'"):
        kind("transcripts").units(suite, run_natively)


def test_never_natively_as_root(tmp_path: Path) -> None:
    """Some guest programs may do harm with root's rights."""
    suite = write_suite(tmp_path, HEAD + "as_root = false\n", {"steps.sh": STEPS})

    def as_root(unit: Unit) -> Ended:
        assert unit.argv == ("id", "-u"), "a program was started"
        return Ended(0, False, 0.1, b"0\n", b"")

    with pytest.raises(UsageError, match="must not run natively as root"):
        kind("transcripts").units(suite, as_root)
