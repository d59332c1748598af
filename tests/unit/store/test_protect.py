"""The immutable flag, where the file system has it."""

from __future__ import annotations

import os

import pytest

from husk.store.collect import collect
from husk.store.protect import protect, release
from husk.store.store import Store


def test_protect_and_collect(store: Store) -> None:
    path = store.blob_path(store.put_blob(b"x"))
    result = protect([path])
    if result.failed:
        assert result.reason and (result.protected, result.already) == (0, 0)
        pytest.skip(f"no flag to be had here: {result.reason}")
    try:
        assert protect([path]).already == 1
        with pytest.raises(PermissionError):
            os.unlink(path)
        assert collect(store, delete=True).blobs == 1
        assert not os.path.exists(path)
    finally:
        if os.path.exists(path):
            release(path)


def test_where_it_cannot_be_had() -> None:
    """On a file system without the flag it says so, and nothing is changed."""
    result = protect(["/proc/self/status"])
    assert (result.protected, result.failed) == (0, 1)
    assert result.reason == "this file system has no immutable flag"
