"""Every kind of suite in a box: what it shows of files, directories and results is what a native run shows."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from husk.conform.execute.where import in_husk
from tests.conform import test_command_kind, test_ltp_kind, test_python_kind, test_skill_kind, test_tap_kind
from tests.conform.small_suites import outcomes, run_all, write_suite
from tests.lib import running

STEPS = '#!/bin/sh\necho "cwd $PWD"\nmkdir d && echo mkdir 0\necho here > d/f && cat d/f\nexit 3\n'


def commands() -> str:
    """Some of them: each is a box of its own."""
    head, *rows = test_command_kind.LIST.split("[[settings.commands]]")
    chosen = ("'says more'", "'is to die'", "'dies'", "'its variable'")
    return "[[settings.commands]]".join([head, *(row for row in rows if any(name in row for name in chosen))])


def cases() -> str:
    rows = test_skill_kind.CASES.split("[[case]]")
    return "[[case]]".join([rows[0], *(row for row in rows if '"upper"' in row or '"stdin"' in row)])


def suites(place: Path) -> dict[str, tuple[str, dict[str, str]]]:
    tap = {name: test_tap_kind.FILES[f"t/{name}.t"] for name in ("fine", "dies")}
    python = "[[files]]\npath = 'test_small'\n"
    skills = {name: text for name, text in test_skill_kind.FILES.items() if not name.startswith("slow/")}
    skills["one/cases.toml"] = cases()
    programs = ("new_pass", "new_fail", "told")
    ltp = {name: text for name, text in test_ltp_kind.files().items() if name.split("/")[-1] in programs}
    ltp["runtest/some"] = "".join(f"{name} {name} -x\n" for name in programs)
    return {
        "commands": (commands(), {"sub/empty": ""}),
        "tap": (test_tap_kind.HEAD, {f"t/{name}.t": text for name, text in tap.items()}),
        "ltp": (test_ltp_kind.HEAD, ltp),
        # The Python of the tests may be where no box shows it.
        "python": (test_python_kind.head(place).replace(sys.executable, "python3") + python, test_python_kind.FILES),
        "skills": ("kind = 'skills'\n", skills),
        "transcripts": ("kind = 'transcripts'\n[settings]\nfind = ['*.sh']\n", {"a.sh": STEPS}),
    }


@pytest.mark.parametrize("kind", ["commands", "tap", "ltp", "python", "skills", "transcripts"])
def test_the_same_in_a_box(kind: str) -> None:
    with running.scratch() as place:
        place.chmod(0o755)
        suite = write_suite(place, *suites(place)[kind])
        boxed = {name: one.outcome for name, one in run_all(suite, in_husk()).items()}
        assert boxed and boxed == outcomes(suite)
