"""husk finds everything that a box's processes hold open, also below a process that cannot be inspected."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from husk.kernel import fd_tables as holding

# A process, and its child, which has a directory open.
TWO = """
import os, sys
if os.fork():
    os.wait()
    os._exit(0)
os.open(sys.argv[1], os.O_RDONLY)
print("open", flush=True)
sys.stdin.read()
"""


def test_below_a_process_that_cannot_be_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look = holding._descriptors
    with subprocess.Popen([sys.executable, "-c", TWO, tmp_path], stdin=-1, stdout=-1) as parent:
        assert parent.stdout is not None and parent.stdin is not None
        assert parent.stdout.readline() == b"open\n"

        def descriptors(folder: bytes, show: Any) -> list[Any]:
            if folder == b"/proc/%d/fd/" % parent.pid:
                raise PermissionError
            return look(folder, show)

        monkeypatch.setattr(holding, "_descriptors", descriptors)
        assert os.fsencode(tmp_path) in holding.links_held([parent.pid])
        there = tmp_path.stat()
        assert (os.fsencode(tmp_path), there.st_dev, there.st_ino) in holding.files_held([parent.pid])
        parent.stdin.close()
