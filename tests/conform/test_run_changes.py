"""What counts as better, as worse, and as neither."""

from __future__ import annotations

import pytest

from husk.conform.history.run_changes import changes
from husk.conform.outcomes import CRASH, FAIL, FLAKY, HANG, NOT_NATIVE, PASS, SKIP
from tests.conform.records import a_run, judged

LISTS = ("regressions", "fixes", "appeared", "gone", "shifted")


@pytest.mark.parametrize(("old", "new", "where"), [
    (PASS, PASS, ""), (PASS, FAIL, "regressions"), (PASS, CRASH, "regressions"), (PASS, HANG, "regressions"),
    (FAIL, PASS, "fixes"), (CRASH, PASS, "fixes"), (HANG, PASS, "fixes"),
    (FAIL, CRASH, "shifted"), (PASS, SKIP, "shifted"), (SKIP, FAIL, "shifted"), (SKIP, PASS, "shifted"),
    (PASS, NOT_NATIVE, "shifted"), (NOT_NATIVE, FAIL, "shifted"),
    (PASS, FLAKY, ""), (FLAKY, PASS, ""), (FLAKY, FAIL, ""), (FAIL, FLAKY, ""), (NOT_NATIVE, FLAKY, ""),
    ("", PASS, "appeared"), ("", FAIL, "appeared"), (PASS, "", "gone"), (FAIL, "", "gone"),
])  # fmt: skip
def test_a_case(old: str, new: str, where: str) -> None:
    both = [a_run(number, {"open/A": verdict} if verdict else {}) for number, verdict in enumerate((old, new))]
    found = changes(*both)
    assert [name for name in LISTS if getattr(found, name)] == ([where] if where else [])
    assert found.any == bool(where) and not found.notes


def test_an_expected_miss_is_no_regression() -> None:
    new = a_run(1, [judged("open/A", FAIL, expected="refused")])
    found = changes(a_run(0, {"open/A": PASS}), new)
    assert not found.regressions and found.shifted


@pytest.mark.parametrize("order", [(PASS, FAIL), (FAIL, PASS)])
def test_of_two_with_one_name_the_worse_counts(order: tuple[str, str]) -> None:
    new = a_run(1, [judged("open/A", verdict) for verdict in order])
    assert changes(a_run(0, {"open/A": PASS}), new).regressions


def test_what_was_not_run_is_not_gone() -> None:
    whole, part = a_run(0, {"open/A": PASS, "open/B": PASS}), a_run(1, {"open/A": FAIL}, whole=False)
    found = changes(whole, part)
    assert not found.gone and found.regressions and "not finished" in found.notes[0]
    assert not changes(part, whole).appeared
    filtered = a_run(1, {"open/A": PASS}, case_filter="open/A")
    assert not changes(whole, filtered).any and "only open/A" in changes(whole, filtered).notes[0]


def test_notes_say_what_differs_around_the_cases() -> None:
    old, new = a_run(0, {}), a_run(1, {}, "runsc", user="root", kernel="6.1")
    assert len(changes(old, new).notes) == 3
