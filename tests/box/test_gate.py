"""Questions that come through a gate (native/gate) get the answers that they get by notification.

HUSK_GATE=eager opens gates early and polls on a busy machine too, which is slow, and what these tests want. How often a
gate was used is asked of husk itself: a test that never went through one would prove nothing.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.lib import running
from tests.lib.build_guests import guest_programs
from tests.lib.harness import NATIVE_ONLY, differential
from tests.lib.running import husk, scratch

pytestmark = [
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.both_settings,
]

# The `husk` command, which says at its end what went through gates.
COUNTING = """
import sys
from husk.cli import main
from husk.sandbox import box
made, make = [], box.Listener
box.Listener = lambda *args, **kwargs: made.append(make(*args, **kwargs)) or made[-1]
status = main()
sys.stdout.flush()
print("through gates:", sum(each.gate_use()[0] for each in made), file=sys.stderr)
sys.exit(status)
"""


def counted(arguments: list[str], work: Path, gate: str, monkeypatch: pytest.MonkeyPatch) -> tuple[str, int]:
    """What a guest program wrote, and how many of its questions came through a gate."""
    monkeypatch.setenv("HUSK_GATE", gate)
    mounts = ["--mount", f"{guest_programs()}:/guests:ro", "--mount", f"{work}:/workspace:rw"]
    command = [sys.executable, "-c", COUNTING]
    monkeypatch.setattr(running, "husk_command", lambda: command)
    found = husk(["run", *mounts, "--workdir", "/workspace", "--", *arguments])
    assert found.status == 0, found.err
    return found.out, int(re.findall(r"through gates: (\d+)", found.err)[0])


@pytest.mark.parametrize("gate", ["eager", "0"])
@pytest.mark.parametrize("name", ["gate_torture", "gate_closes"])
def test_transcript(name: str, gate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUSK_GATE", gate)
    differential(["{guests}/" + name], case=name)


@pytest.mark.parametrize("gate", ["eager", "0"])
def test_gates_are_used_and_can_be_switched_off(gate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with scratch() as place:
        place.chmod(0o777)
        _, through = counted(["/guests/gate_torture"], place, gate, monkeypatch)
    assert (through > 500) == (gate == "eager")


def test_a_guest_with_a_full_table_gets_no_new_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening a gate needs a descriptor for a moment."""
    script = """
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (10, 10))
try:
    while True:
        os.dup(0)
except OSError:
    pass
for _ in range(300):
    os.stat("/usr/bin")
os.write(1, b"all right")
"""
    with scratch() as place:
        place.chmod(0o777)
        out, _ = counted(["/usr/bin/python3", "-c", script], place, "eager", monkeypatch)
    assert out == "all right"
