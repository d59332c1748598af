"""The bombs, small: each is held, husk answers and says which limit it was, and its own memory stays within a bound
that grows with what the guest keeps. `make bombs` has them at full size."""

from __future__ import annotations

import pytest

from tests.bombs.bombs import BOMBS, Bomb
from tests.bombs.harness import explode
from tests.lib.harness import NATIVE_ONLY

pytestmark = [
    pytest.mark.both_settings,
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.needs("python3"),
]


@pytest.mark.parametrize("bomb", [bomb for bomb in BOMBS if bomb.small], ids=lambda bomb: bomb.name)
def test_bomb(bomb: Bomb) -> None:
    assert explode(bomb, bomb.small).wrong == []
