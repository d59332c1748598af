"""The place each snapshot test works in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lib.running import scratch
from tests.snapshots.place import Place


@pytest.fixture
def place() -> Iterator[Place]:
    with scratch() as top:
        yield Place(top)
