"""The one process of a box's user that has no filter: it hands the listener to husk, and no guest may get hold of it.

Two walls hold. The guest's program does not begin before that process has ended; and it is outside the guest's Landlock
domain. The test takes the first wall away: in its husk-init the process says that it has ended, and lingers. An error
in the order, or a busy host, would have the same effect.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import husk as package
from tests.escape.test_escape import boxed
from tests.lib.harness import NATIVE_ONLY

pytestmark = [
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.both_settings,
]
SOURCES = Path(__file__).resolve().parents[2] / "src" / "husk" / "native" / "init"
LINGERS = "(helper_lives = 0, syscall(SYS_futex, &helper_lives, 1, 1, NULL, NULL, 0), usleep(300000))"


def test_the_process_without_a_filter_cannot_be_had(
    programs: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = place / "husk"
    assert package.__file__
    shutil.copytree(Path(package.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__", "*.c", "*.h"))
    sources = map(str, sorted(SOURCES.glob("*.c")))
    build = ["gcc", "-O2", "-static", f"-I{SOURCES.parent}", f"-DHELPER_LINGERS={LINGERS}", *sources]
    subprocess.run([*build, "-o", str(copy / "native" / "husk-init")], check=True)
    # husk runs in the tests' environment, so the copy has to come first in its path.
    monkeypatch.setenv("HUSK_CMD", f"env PYTHONPATH={place} {sys.executable} -m husk.cli")
    assert boxed(programs, ["no_filter"]).out == "nobody\n"
