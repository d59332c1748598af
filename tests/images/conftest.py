"""A store for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from husk.store.store import Store
from tests.lib.killing import in_memory


@pytest.fixture
def store() -> Iterator[Store]:
    with in_memory() as place:
        yield Store.create(str(place / "store"))
