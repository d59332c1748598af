"""Routing netlink: husk owns the box's user namespace, or is root, and so may configure networks. A guest may not.

A guest's own thread sends its messages wherever names are confined. Elsewhere husk sends them, questions only, and
without its capabilities (husk.kernel.net.netlink).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.escape.test_escape import ESCAPE, boxed, unprotected
from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import husk_command, setting

pytestmark = [
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.both_settings,
]

ATTEMPTS = 30  # three messages by ten calls
# SIOCGIFMTU, asked beside the box in the same network.
LOOK = """
import fcntl, socket, struct
asked = fcntl.ioctl(socket.socket(), 0x8921, struct.pack("16si12x", b"lo", 0))
print("outside lo has MTU", struct.unpack("16si12x", asked)[1])
"""


def results(out: str) -> list[str]:
    return [line.rsplit(": ", 1)[1] for line in out.splitlines() if " by " in line]


def test_no_message_changes_the_box_s_network(programs: Path, place: Path) -> None:
    assert results(boxed(programs, ["netlink_admin"]).out) == ["EPERM"] * ATTEMPTS
    assert results(unprotected(programs, ["netlink_admin"], place).out) == ["EPERM"] * ATTEMPTS


def test_no_message_changes_the_network_of_a_box_with_rules(programs: Path) -> None:
    """With rules the box's names are not confined: husk sends."""
    mount = f"{programs}:{ESCAPE}:ro"
    options = ["run", "--allow-net", "192.0.2.1:9", "--mount", mount, "--", f"{ESCAPE}/netlink_admin"]
    done = subprocess.run([*husk_command(), *bare(options)], capture_output=True, text=True, timeout=100, check=False)
    assert results(done.stdout) == ["EPERM"] * ATTEMPTS, done


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a network namespace to play the host's")
@pytest.mark.parametrize("who", ["guest", "root"])
def test_no_message_changes_the_host_s_network(programs: Path, who: str) -> None:
    """The host's network is a namespace made for this test. Root can change it, so the test can fail."""
    inner = [str(programs / "netlink_admin")]
    if who == "guest":
        options = ["run", "--net", "host", "--mount", f"{programs}:{ESCAPE}:ro", "--", f"{ESCAPE}/netlink_admin"]
        inner = [*husk_command(), *bare(options)]
    both = ["unshare", "--net", "sh", "-c", '"$@"; exec "$0" -c "$LOOK"', sys.executable, *inner]
    environment = {**os.environ, "LOOK": LOOK}
    done = subprocess.run(both, capture_output=True, text=True, timeout=100, check=False, env=environment)
    found = results(done.stdout)
    assert len(found) == ATTEMPTS, done
    if who == "guest":
        assert set(found) == {"EPERM"}, done.stdout
        assert "outside lo has MTU 65536\n" in done.stdout
    else:
        assert "EPERM" not in found
        assert "outside lo has MTU 1400\n" in done.stdout


def bare(options: list[str]) -> list[str]:
    return [options[0], "--no-namespaces", *options[1:]] if setting() == "bare" else options
