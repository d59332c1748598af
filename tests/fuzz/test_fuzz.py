"""Random system calls, a few thousand from one fixed seed. The long run is `make fuzz SEED=… CALLS=…`."""

from __future__ import annotations

import pytest

from tests.fuzz.harness import MOST_DESCRIPTORS, fuzz, show
from tests.lib.harness import NATIVE_ONLY

pytestmark = [
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.both_settings,
]


def test_a_few_thousand_random_calls() -> None:
    report = fuzz(20261, 2001, rounds=3)
    assert report.exit_code == 1, "the supervisor inside ends by itself, when nobody asks for another round"
    assert not report.faults, report.said
    assert report.calls > 2000, show(report)
    assert max(report.descriptors) <= MOST_DESCRIPTORS, show(report)
    # Calls that wait, at most one for each thread of the last round's workers, may still be on their way out.
    assert report.threads[-1] < report.threads[0] + 8, show(report)
