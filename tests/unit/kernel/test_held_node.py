"""From a guest's descriptor to the node of its file: by a link that is read before the vfs is locked."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any, cast

import pytest

from husk.kernel import call as module
from husk.vfs.node import Node
from husk.vfs.pinned import Orphan

HOST = os.stat("/")


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        ([b"/state/old", b"/state/new"], "node"),  # its mirror was renamed in between
        ([b"/state/gone (deleted)", b"/state/gone (deleted)"], "orphan"),  # it has no name any more
        ([b"/state/new"], "node"),
        ([b"pipe:[1]"], "none"),
    ],
)
def test_a_link_that_was_read_too_early(
    monkeypatch: pytest.MonkeyPatch, links: list[bytes], expected: str
) -> None:
    node, orphan = cast(Node, object()), Orphan.__new__(Orphan)
    left = list(links)
    monkeypatch.setattr(module, "identify", lambda via: (left.pop(0), HOST))
    vfs = SimpleNamespace(node_of_link=lambda link, *_: node if link == b"/state/new" else orphan)
    call: Any = SimpleNamespace(tid=1, raw=SimpleNamespace(valid=lambda: True), vfs=vfs)
    found = module.held_node(call, 3)
    assert found is {"node": node, "orphan": orphan, "none": None}[expected] and left == []
