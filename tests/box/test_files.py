"""The files family: each program prints one line per call, and the lines and the tree it leaves are compared."""

from __future__ import annotations

import os
import tempfile

import pytest

from tests.lib.harness import differential

pytestmark = pytest.mark.both_settings


@pytest.mark.fast
@pytest.mark.parametrize(
    "name",
    ["files_open", "files_names", "files_stat", "files_dirs", "files_data", "files_fault", "files_fifo", "files_edges",
     "files_clock"],
)
def test_transcript(name: str) -> None:
    differential(["{guests}/" + name], case=name)


@pytest.mark.parametrize(
    "name",
    [
        "files_open",
        "files_names",
        "files_stat",
        "files_dirs",
        "files_data",
        "files_fifo",
        "files_edges",
        "files_clock",
        "exec_text",
        "exec_moved",
    ],
)
def test_transcript_in_tmp(name: str) -> None:
    """The same in the private /tmp, where names and modes are husk's own: set-id bits stay, renames are followed."""
    script = (
        'd=$(mktemp -d) && cd "$d" && {guests}/' + name + ' {guests} | sed "s,$d,DIR,g"; cd / && rm -rf "$d" && ls "$d"'
    )
    differential(["/bin/sh", "-c", script + " 2>/dev/null"], case=name + " in tmp", status=2)


def test_access_times() -> None:
    if os.statvfs(tempfile.gettempdir()).f_flag & os.ST_NOATIME:
        pytest.skip("this host's temporary directory keeps no access times, and a box's does")
    script = 'd=$(mktemp -d) && cd "$d" && {guests}/files_atime; rm -r "$d"'
    differential(["/bin/sh", "-c", script], case="files_atime in tmp")
    differential(["{guests}/files_atime"], case="files_atime")


def test_set_id_bits_stay_in_a_layer() -> None:
    """In the box's own layer set-id bits do no harm: chmod keeps them and stat shows them, as natively."""
    script = """
        d=$(mktemp -d); cd "$d"
        for mode in 4755 2755 6711 1644 7777; do
            echo x >f; chmod $mode f; stat -c '%a %A' f; cp -p f g; stat -c %a g; rm f g
        done
        mkdir s; chmod 2775 s; mkdir s/sub; stat -c '%a %n' s s/sub
        cd /; rm -r "$d"
    """
    differential(["/bin/sh", "-c", script])
