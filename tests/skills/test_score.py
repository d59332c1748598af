"""Precision and recall of `husk skill inspect` on the labelled skills stay what they are: a floor for each kind."""

from __future__ import annotations

import pytest

from skill_score import KINDS, Count, labelled, score

# kind: the least precision and recall. What reading cannot find (data files, names that are put together) is labelled
# too, so recall is below 1.
FLOOR = {
    "hosts": (1.0, 0.95),
    "programs": (1.0, 0.98),
    "pip": (1.0, 1.0),
    "npm": (1.0, 1.0),
    "env": (1.0, 1.0),
}


@pytest.fixture(scope="module")
def counts() -> dict[str, Count]:
    return score()


def test_there_are_enough_to_say_something() -> None:
    rows = labelled()
    assert 25 <= len(rows) == len({str(row["name"]) for row in rows})


@pytest.mark.parametrize("kind", KINDS)
def test_the_floor(counts: dict[str, Count], kind: str) -> None:
    count, (precision, recall) = counts[kind], FLOOR[kind]
    assert count.precision >= precision, count.wrong
    assert count.recall >= recall, count.missed


def test_the_count_itself() -> None:
    assert Count().precision == Count().recall == 1.0
    assert Count(3, ["x"], []).precision == 0.75 and Count(3, [], ["x"]).recall == 0.75
