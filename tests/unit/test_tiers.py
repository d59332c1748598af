"""The tiers of the tests: each folder says what it proves, and `make test-fast` runs what is marked for it."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
FOLDERS = sorted(path.name for path in TESTS.iterdir() if path.is_dir() and path.name != "__pycache__")


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_folder_says_what_it_proves(folder: str) -> None:
    title, blank, *lines = (TESTS / folder / "README.md").read_text().splitlines()
    assert title.startswith("# ") and not blank and 1 <= len(lines) <= 3


def test_everything_here_is_fast(request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("fast")


def test_make_knows_the_tiers() -> None:
    text = (TESTS.parent / "Makefile").read_text()
    assert "-m fast tests/unit tests/box tests/escape" in text and "echo 'make test-fast " in text
