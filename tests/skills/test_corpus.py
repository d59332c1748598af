"""The example skills of this repository, natively and in a box. What needs a program that is not here is skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from husk.skills.open_skill import open_skill
from husk.skills.scan.describe import describe
from tests.skills.calling import husk_skill

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "skills"
SKILLS = sorted(path.parent.name for path in EXAMPLES.glob("*/SKILL.md"))
# Where namespaces are denied there is no loopback, so the one with a web server is left out; these cover the rest.
BARE = ["changelog", "csv-to-json", "log-summary", "markdown-toc", "parallel-primes", "sales-db"]


def run_cases(place: Path, name: str) -> None:
    answer = husk_skill(place, "test", EXAMPLES / name, "--json", "--native")
    verdicts = answer.json
    wrong = [row for row in verdicts if row["status"] not in ("works", "skipped")]
    assert not wrong and answer.code == 0, wrong
    skipped = [row["reason"] for row in verdicts if row["status"] == "skipped"]
    if skipped:
        pytest.skip(skipped[0])


@pytest.mark.parametrize("name", SKILLS)
def test_example(tmp_path: Path, name: str) -> None:
    run_cases(tmp_path, name)


@pytest.mark.parametrize("name", BARE)
def test_example_without_namespaces(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.lib import running

    running.need_bare()
    monkeypatch.setattr(running, "OPTIONS", [running.BARE])
    run_cases(tmp_path, name)


@pytest.mark.parametrize("name", [*SKILLS, "../first-skill"])
def test_examples_are_as_the_specification_wants(name: str) -> None:
    with open_skill(EXAMPLES / name) as skill:
        found = describe(skill)
        assert not skill.head.problems and not found.problems
        assert skill.head.license or name == "../first-skill"
        assert found.scripts


def test_there_are_enough() -> None:
    assert len(SKILLS) >= 12
