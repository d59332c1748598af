"""`ro` and `cow` mounts: what a guest could do to the host although it changes no file."""

from __future__ import annotations

import os
import select
from pathlib import Path

import pytest

from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import husk

pytestmark = [
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.both_settings,
]

OPEN = """
import os
for flags in ("O_WRONLY", "O_WRONLY | os.O_NONBLOCK", "O_RDWR", "O_RDWR | os.O_NONBLOCK", "O_WRONLY | os.O_TRUNC"):
    try:
        fd = os.open("/m/fifo", eval("os." + flags))
        os.write(fd, b"escaped")
        print("written")
    except OSError as error:
        print(error.strerror)
"""


@pytest.mark.parametrize("mode", ["ro", "cow", "rw"])
def test_no_fifo_of_the_host_is_written_to(place: Path, mode: str) -> None:
    """A host process reads from it. On an `rw` mount the guest may write, which proves that there is a reader."""
    fifo = place / "fifo"
    os.mkfifo(fifo)
    fifo.chmod(0o666)
    reader = os.open(fifo, os.O_RDWR)  # so that no open waits
    try:
        # In a cow box the FIFO is the box's own, without a reader: opening it for writing alone would wait for ever.
        script = OPEN.replace('"O_WRONLY", ', "").replace(', "O_WRONLY | os.O_TRUNC"', "") if mode == "cow" else OPEN
        done = husk(["run", "--mount", f"{place}:/m:{mode}", "--", "python3", "-c", script])
        heard = os.read(reader, 100) if select.select([reader], [], [], 0)[0] else b""
    finally:
        os.close(reader)
    if mode == "rw":
        assert done.out == "written\n" * 5 and heard == b"escaped" * 5
    else:
        assert heard == b""
    if mode == "ro":
        assert done.out == "Read-only file system\n" * 5, done
