"""When a listing may be kept: not while the directory's times could hide the next change."""

from __future__ import annotations

import pytest

from husk.kernel.listings import NEVER_CHANGES, _too_fresh


def test_what_changed_just_now_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_700_000_000_000_000_000
    monkeypatch.setattr("husk.kernel.listings.time.time_ns", lambda: now)
    assert _too_fresh((1, 2, 5, now)) and _too_fresh((1, 2, now + 50_000_000, 5))
    assert not _too_fresh((1, 2, now - 10**9, now - 10**9)) and not _too_fresh(NEVER_CHANGES)
