"""The disk that holds a box's changes is full: the guest gets ENOSPC, nothing is corrupt, and the box goes on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.lib.build_guests import guest_programs
from tests.lib.harness import GUESTS, NATIVE_ONLY
from tests.lib.running import Result, husk, scratch

pytestmark = [
    pytest.mark.both_settings,
    pytest.mark.needs("python3"),
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.skipif(os.getuid() != 0, reason="needs root, to mount a small file system in a namespace of its own"),
]

# The end of both tests; `{}` is the file that filled the disk, if it still exists.
END = """write to a host file: ENOSPC
it reads: b'lower'
truncate a host file: ENOSPC
its size: 3000000
rename: ok
link: ok
symlink: ok
chmod: ok
reads: b'preciouspr'
mkdir: ok
list: ['after', 'again', 'directory', {}'link', 'new directory']
after room was made: ok
write to a host file: ok
it reads: b'chang'
its size: 3000000
list the new directory: []
precious: True
"""
BLOCKS = """fill: ENOSPC
write to another page: ENOSPC
""" + END.format("'filler', ")
INODES = """many: ENOSPC
create: ENOSPC
is it there: False
create in a directory: ENOSPC
mkfifo: ENOSPC
is it there: False
""" + END.format("")


def run(place: Path, what: str, limits: str) -> Result:
    lower, small = place / "lower", place / "small"
    lower.mkdir()
    small.mkdir()
    (lower / "file").write_bytes(b"lower" * 600_000)
    mount = 'mount -t tmpfs -o "$0" none "$1" && chmod 755 "$1" && shift && exec "$@"'
    mounts = ["--mount", f"{lower}:/lower:cow", "--mount", f"{guest_programs()}:{GUESTS}:ro"]
    result = husk(
        ["run", *mounts, "--", "python3", f"{GUESTS}/full_disk.py", what, "/tmp", "/lower/file"],
        env={"HUSK_STATE": str(small)},
        wrapper=["unshare", "--mount", "sh", "-c", mount, limits, str(small)],
    )
    assert (lower / "file").read_bytes() == b"lower" * 600_000, "the host's file was written to"
    return result


@pytest.mark.parametrize(
    ("what", "limits", "expected"), [("blocks", "size=4m", BLOCKS), ("inodes", "size=40m,nr_inodes=300", INODES)]
)
def test_no_space_left(what: str, limits: str, expected: str) -> None:
    with scratch() as place:
        result = run(place, what, limits)
    assert (result.status, result.out, result.err) == (0, expected, "")
