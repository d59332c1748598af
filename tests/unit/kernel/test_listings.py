"""When a listing may be kept: not while the directory's times could hide the next change."""

from __future__ import annotations

import pytest

from husk.kernel.listings import NEVER_CHANGES, _too_fresh


def test_what_changed_just_now_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_700_000_000_000_000_007
    monkeypatch.setattr("husk.kernel.listings.time.time_ns", lambda: now)
    assert _too_fresh((1, 2, 5, now)) and _too_fresh((1, 2, now + 50_000_000, 5))
    assert not _too_fresh((1, 2, now - 10**9, now - 10**9)) and not _too_fresh(NEVER_CHANGES)


def test_times_in_seconds_are_recent_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """FAT keeps times in steps of two seconds: a change within the same step would not be seen."""
    now = 1_700_000_000_000_000_007
    monkeypatch.setattr("husk.kernel.listings.time.time_ns", lambda: now)
    then = 1_699_999_998_000_000_000
    assert _too_fresh((1, 2, then, then)) and not _too_fresh((1, 2, then, then + 1))
    assert not _too_fresh((1, 2, then - 2 * 10**9, then - 2 * 10**9))
