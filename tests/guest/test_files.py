"""The files family: each program prints one line per call, and the lines and the tree it leaves are compared."""

from __future__ import annotations

import pytest

from tests.guest.harness import differential


@pytest.mark.parametrize(
    "name",
    ["files_open", "files_names", "files_stat", "files_dirs", "files_data", "files_fault", "files_fifo"],
)
def test_transcript(name: str) -> None:
    differential(["{guests}/" + name], case=name)


@pytest.mark.parametrize("name", ["files_names", "files_dirs", "files_data", "files_fifo"])
def test_transcript_in_tmp(name: str) -> None:
    """The same in the private /tmp, which is not backed by a host tree."""
    script = 'd=$(mktemp -d) && cd "$d" && {guests}/' + name + ' | sed "s,$d,DIR,g"; cd / && rm -rf "$d" && ls "$d"'
    differential(["/bin/sh", "-c", script + " 2>/dev/null"], case=name + " in tmp", status=2)
