"""Whole families of file calls, argument by argument, on every kind of mount: thousands of lines, one by one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.lib.build_guests import guest_programs
from tests.lib.harness import differential

_VERSION = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
pytestmark = pytest.mark.skipif(_VERSION < (6, 13), reason="the transcripts hold calls of Linux 6.13, and its order")

PROGRAMS = [
    "calls_privileged",
    "files_dirfds",
    "files_listing",
    "files_locks",
    "files_matrix",
    "files_moves",
    "files_opath",
    "files_resolve",
    "files_statx",
    "files_xattrs",
    "landlock_rules",
]


@pytest.mark.parametrize("name", PROGRAMS)
def test_on_a_host_tree(name: str) -> None:
    differential(["{guests}/" + name], case=name)


@pytest.mark.parametrize("name", PROGRAMS)
def test_on_a_copy(name: str) -> None:
    """Copy-on-write: the same answers, and afterwards nothing has changed on the host."""
    differential(["{guests}/" + name], case=name + " on a copy", manner="cow")


def test_acls_on_a_copy() -> None:
    """A host tree has none inside: its ids would be the host's."""
    differential(["{guests}/files_acl"], case="files_acl on a copy", manner="cow")


IN_TMP = 'd=$(mktemp -d) && cd "$d" && {guests}/PROGRAM | sed "s,$d,DIR,g"'


# The matrix takes seconds, and a copy-on-write mount is the same kind of tree.
@pytest.mark.parametrize("name", ["files_acl", *(name for name in PROGRAMS if name != "files_matrix")])
def test_in_tmp_without_namespaces(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.lib import running

    running.need_bare()
    monkeypatch.setattr(running, "OPTIONS", [running.BARE])
    differential(["/bin/sh", "-c", IN_TMP.replace("PROGRAM", name)], case=name + " in tmp")


def test_on_a_read_only_mount() -> None:
    """EROFS has a place of its own in the order of errors."""

    def prepare(side: Path) -> None:
        subprocess.run([guest_programs() / "files_matrix", "prepare"], cwd=side, check=True)

    differential(
        ["{guests}/files_matrix", "prepared"], case="files_matrix read-only", manner="ro", prepare=prepare
    )
