"""native/host/guard.c by itself: the owner's credentials, opens that take long, and files without a name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

OWNER = 12345

AS_OWNER = """
import os, sys
from husk.native._core import guard_root, open_beneath

os.setgroups([0, 4])
top = os.open(sys.argv[1], os.O_PATH | os.O_DIRECTORY)
guard_root(top, [], [], sys.argv[2] == "walk", (12345, 12345))
for name in (b"own/file", b"root/file"):
    try:
        os.close(open_beneath(top, name, os.O_RDONLY))
        print("opened")
    except PermissionError:
        print("refused")
assert os.getgroups() == [0, 4]
os.close(os.open(sys.argv[1] + "/root/file", os.O_RDONLY))
"""

SLOW_OPEN = """
import os, sys, threading, time
from husk.native._core import guard_root, open_beneath

top = os.open(sys.argv[1], os.O_PATH | os.O_DIRECTORY)
guard_root(top, [], [], False, None)
reader = threading.Thread(target=open_beneath, args=(top, b"fifo", os.O_RDONLY))
reader.start()
time.sleep(0.2)  # now it waits in open
if sys.argv[2] == "fork" and os.fork() == 0:
    guard_root(top, [], [], False, None)
    os.write(1, b"set in the child\\n")
    os._exit(0)
writer = threading.Timer(0.2, os.open, (sys.argv[1] + "/fifo", os.O_WRONLY))
writer.start()
guard_root(os.dup(top), [], [], False, None)
os.write(1, b"set\\n")
"""


HUNG_OPEN = """
import os, sys, threading, time
from husk.native._core import guard_root, open_beneath, unguard_root

before = len(os.listdir("/proc/self/fd"))
top, other = (os.open(sys.argv[1], os.O_PATH | os.O_DIRECTORY) for _ in range(2))
guard_root(top, [], [], sys.argv[2] == "walk", None)
opened = []
reader = threading.Thread(target=lambda: opened.append(open_beneath(top, b"fifo", os.O_RDONLY)))
reader.start()
time.sleep(0.2)  # now it waits in open
guard_root(other, [], [], False, None)
unguard_root(other)
unguard_root(top)
os.close(top)
print("built and closed", flush=True)
os.close(os.open(sys.argv[1] + "/fifo", os.O_WRONLY))
reader.join()
os.close(*opened)
os.close(other)
print("opened", len(os.listdir("/proc/self/fd")) - before)
"""

NAMELESS = """
import os, sys
from husk.native._core import guard_root, open_beneath

top = os.open(sys.argv[1], os.O_PATH | os.O_DIRECTORY)
closed = os.stat(sys.argv[1] + "/closed")
guard_root(top, [(closed.st_dev, closed.st_ino)], [], True, None)
for name in (b"", b".", b"open", b"closed", b"closed/below", b"file", b"link", b"none"):
    try:
        fd = open_beneath(top, name, os.O_TMPFILE | os.O_RDWR, 0o600)
        print(name.decode() or "the root", os.readlink("/proc/self/fd/%d" % fd).startswith(sys.argv[1]))
    except OSError as error:
        print(name.decode(), error.strerror)
"""


def ran(program: str, *args: str) -> list[str]:
    command = [sys.executable, "-c", program, *args]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=20, check=True).stdout.split("\n")[:-1]


@pytest.mark.skipif(os.getuid() != 0, reason="husk run by an ordinary user has no other credentials")
@pytest.mark.parametrize("way", ["at once", "walk"])
def test_groups_of_root_are_not_the_owner_s(tmp_path: Path, way: str) -> None:
    os.chown(tmp_path, OWNER, OWNER)
    for name, owner in (("own", OWNER), ("root", 0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
        os.chown(tmp_path / name, owner, owner)
        (tmp_path / name).chmod(0o750)
    assert ran(AS_OWNER, str(tmp_path), way) == ["opened", "refused"]


def test_setting_a_guard_during_a_slow_open_stops_no_other_thread(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert ran(SLOW_OPEN, str(tmp_path), "alone") == ["set"]


def test_a_forked_child_does_not_wait_for_threads_it_lacks(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert sorted(ran(SLOW_OPEN, str(tmp_path), "fork")) == ["set", "set in the child"]


@pytest.mark.parametrize("way", ["at once", "walk"])
def test_a_hung_open_delays_no_other_box(tmp_path: Path, way: str) -> None:
    """The open goes on beneath the directory it began in, although its descriptor was closed meanwhile."""
    os.mkfifo(tmp_path / "fifo")
    assert ran(HUNG_OPEN, str(tmp_path), way) == ["built and closed", "opened 0"]


def test_a_file_without_a_name_in_a_closed_directory(tmp_path: Path) -> None:
    for name in ("open", "closed/below"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("open")
    assert ran(NAMELESS, str(tmp_path)) == [
        "the root True",
        ". True",
        "open True",
        "closed No such file or directory",
        "closed/below No such file or directory",
        "file Not a directory",
        "link Not a directory",
        "none No such file or directory",
    ]
