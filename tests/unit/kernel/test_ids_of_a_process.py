"""Ids that husk keeps for the processes of a box whose user is root of its image."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from husk.kernel.cred import inherited
from husk.kernel.cred.inherited import Inherited
from husk.kernel.cred.virtual_ids import VirtualIds
from husk.kernel.cred.virtual_roots import VirtualRoots
from husk.vfs.node import Credentials

if TYPE_CHECKING:
    from husk.vfs.node import Dir

BOX_MARK = 1 << 40  # the limit that husk-init has set, which is no tag


@pytest.fixture
def tags(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """By process: what the host would carry."""
    found: dict[int, int] = {}

    def tag_process(pid: int, tag: int, _uid: int, _gid: int) -> None:
        found[pid] = tag

    monkeypatch.setattr(inherited, "tag_process", tag_process)
    monkeypatch.setattr(inherited, "_soft_limit", lambda pid: found[pid])
    monkeypatch.setattr("husk.kernel.cred.virtual_ids.arguments_at", lambda _: 0)
    return found


def test_who_cannot_be_told_has_no_rights(tags: dict[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    root = Credentials(0, 0, over_files=True)
    known = Inherited(lambda: [1], (0, 0))
    ids = VirtualIds(root, known)
    tags |= {1: BOX_MARK, 2: BOX_MARK}
    assert ids.credentials(2) is root
    ids.change(2, ids.of(2).with_uid(1000))
    assert ids.credentials(1) is root and ids.credentials(2).uid == 1000
    known._forget_unused()  # process 2 is not in the list of those that live: it was made meanwhile
    assert ids.credentials(1) is root
    assert ids.credentials(2).uid == 65534 and not ids.credentials(2).over_files
    assert not known.change(2, core_soft=0)  # with a new tag it would count as one that never changed
    assert ids.credentials(2).uid == 65534

    def fail(_: int) -> int:
        raise OSError

    monkeypatch.setattr(inherited, "_soft_limit", fail)
    assert not ids.credentials(1).over_files


def test_whose_root_cannot_be_told_has_no_names(tags: dict[int, int]) -> None:
    known = Inherited(lambda: [1], (0, 0))
    roots, jail = VirtualRoots(known), cast("Dir", object())
    tags |= {1: BOX_MARK, 2: BOX_MARK}
    roots.change(2, jail)
    tags[3] = tags[2]  # a child
    assert roots.of(1) is None and roots.of(2) is roots.of(3) is jail
    known._forget_unused()  # neither of the two is in the list of those that live
    assert roots.of(1) is None
    for pid in (2, 3):
        with pytest.raises(PermissionError):
            roots.of(pid)
