"""A name changed by a second thread while husk looks at it (flip.c), for every call that takes one.

The wall: husk copies a name once, judges the copy and acts on the copy; no such call is ever continued in the host. The
victim is a host file that is mounted nowhere, and one below a read-only mount.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.escape.test_escape import boxed, unprotected
from tests.lib.harness import NATIVE_ONLY, guest_ids

pytestmark = pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for")

READING = ["open", "stat", "lstat", "readlink", "execve", "connect", "sendto", "inotify"]
CHANGING = ["openat", "rename", "link", "unlink", "truncate", "chmod", "utime", "bind", "mkdir", "symlink"]
CONTENT = b"ORIGINAL, and so it stays\n".ljust(4321, b".")


class Victims:
    """A host directory with a victim for each call: a file, a link, a program, two servers, room for a new name."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.directory = directory
        directory.mkdir()
        (directory / "file").write_bytes(CONTENT)
        (directory / "link").symlink_to("original")
        (directory / "program").write_text("#!/bin/sh\nexit 77\n")
        (directory / "program").chmod(0o755)
        self.servers: dict[str, socket.socket] = {}
        for name, kind in (("stream", socket.SOCK_STREAM), ("datagram", socket.SOCK_DGRAM)):
            server = stack.enter_context(socket.socket(socket.AF_UNIX, kind | socket.SOCK_NONBLOCK))
            self.servers[name] = server
            server.bind(str(directory / name))
            (directory / name).chmod(0o777)
        self.servers["stream"].listen(64)
        for path in (directory, *directory.iterdir()):
            if os.getuid() == 0:
                os.lchown(path, *guest_ids())

    def condition(self) -> list[tuple[object, ...]]:
        found: list[tuple[object, ...]] = []
        for path in (self.directory, *sorted(self.directory.iterdir())):
            facts = path.lstat()
            content = path.read_bytes() if path.is_file() else b""
            found.append((path.name, content, facts.st_mode, facts.st_nlink, facts.st_mtime_ns, facts.st_ctime_ns))
        return found

    def heard(self) -> bool:
        try:
            self.servers["datagram"].recv(10)
            return True
        except BlockingIOError:
            pass
        try:
            self.servers["stream"].accept()[0].close()
            return True
        except BlockingIOError:
            return False


@pytest.fixture
def victims(place: Path) -> Iterator[Victims]:
    with ExitStack() as stack:
        yield Victims(place / "victims", stack)


def safe(calls: list[str]) -> str:
    return "".join(f"{call}: safe\n" for call in calls)


@pytest.mark.both_settings
def test_a_flipped_name_reaches_nothing(programs: Path, place: Path, victims: Victims) -> None:
    own = place / "own"
    own.mkdir()
    before = victims.condition()
    # The victim's host path: a host kernel that read the name again would find it.
    calls = [*READING, *CHANGING]
    done = boxed(programs, ["flip", ",".join(calls), "/own/mine", str(victims.directory), "0.2"], f"{own}:/own:rw")
    assert done.out == safe(calls)
    # And a victim that the guest may read, but not change.
    mounts = [f"{own}:/own:rw", f"{victims.directory}:/given:ro"]
    done = boxed(programs, ["flip", ",".join(CHANGING), "/own/mine", "/given", "0.15"], *mounts)
    assert done.out == safe(CHANGING)
    assert victims.condition() == before
    assert not victims.heard()


@pytest.mark.parametrize("call", [*READING, *CHANGING])
def test_it_reaches_the_victim_without_husk(programs: Path, place: Path, victims: Victims, call: str) -> None:
    own = place / "own"
    own.mkdir(mode=0o777)
    own.chmod(0o777)
    done = unprotected(programs, ["flip", call, str(own / "mine"), str(victims.directory), "50"], own)
    assert done.out == f"{call}: reached\n"
