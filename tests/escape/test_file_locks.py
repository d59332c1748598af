"""Locks on files that a box shares with the host: they hold up no host program, tell other boxes nothing, and yet work
inside the box as on Linux (docs/design/016-locks.md)."""

from __future__ import annotations

import fcntl
import os
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.escape.test_escape import ESCAPE
from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import PIPE, Running, husk, husk_process

pytestmark = [
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.both_settings,
]

HOLD = """
import fcntl, os, sys
held = []
for path in sys.argv[1:]:
    held.append(os.open(path, os.O_RDONLY))
    fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.lockf(held[-1], fcntl.LOCK_SH | fcntl.LOCK_NB)
    fcntl.fcntl(held[-1], 37, b"\\0" * 32)  # F_OFD_SETLK, F_RDLCK of the whole file
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def holding(options: list[str], *paths: str) -> Iterator[Running]:
    """A box whose guest holds every kind of lock that a descriptor for reading admits."""
    command = ["run", *options, "--", "python3", "-c", HOLD, *paths]
    with husk_process(command, stdin=PIPE, stdout=PIPE, stderr=PIPE) as running:
        assert running.process.stdout and running.process.stdin and running.process.stderr
        assert running.process.stdout.readline() == b"held\n", running.process.stderr.read()
        yield running
        running.process.stdin.close()
        assert running.process.wait(60) == 0


def locked(path: str | Path) -> list[str]:
    """Which locks a host program cannot have."""
    fd, found = os.open(path, os.O_RDWR if os.access(path, os.W_OK) else os.O_RDONLY), []
    try:
        for name, lock in {"flock": fcntl.flock, "lockf": fcntl.lockf}.items():
            try:
                lock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                found.append(name)
            except OSError:
                assert name == "lockf"  # a file that may only be read
    finally:
        os.close(fd)
    return found


@pytest.fixture
def shared(place: Path) -> Path:
    file = place / "file"
    file.write_bytes(b"0123456789")
    return file


@pytest.mark.parametrize("mode", ["ro", "cow", "rw"])
def test_a_guest_s_lock_holds_up_no_host_program(shared: Path, mode: str) -> None:
    """Below an `rw` mount it does: there guests and host programs work on the same files."""
    with holding(["--mount", f"{shared.parent}:/m:{mode}"], "/m/file"):
        assert locked(shared) == (["flock", "lockf"] if mode == "rw" else [])


def test_programs_and_devices_of_the_host_are_not_locked() -> None:
    with holding([], "/usr/bin/env", "/dev/null"):
        assert locked(os.path.realpath("/usr/bin/env")) == []
        assert locked("/dev/null") == []


def test_a_host_program_s_lock_is_not_seen(shared: Path) -> None:
    script = HOLD + "\nprint(fcntl.fcntl(held[0], fcntl.F_GETLK, b'\\1' + b'\\0' * 31)[0] == fcntl.F_UNLCK)"
    with shared.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        fcntl.lockf(file, fcntl.LOCK_EX)
        done = husk(["run", "--mount", f"{shared.parent}:/m:ro", "--", "python3", "-c", script, "/m/file"])
    assert done.out == "held\nTrue\n", done


@pytest.mark.parametrize("mode", ["ro", "cow"])
def test_two_boxes_do_not_meet_in_a_lock(shared: Path, mode: str) -> None:
    with ExitStack() as stack:
        for _ in range(2):
            options = ["--mount", f"{shared.parent}:/m:{mode}"]
            stack.enter_context(holding(options, "/m/file", "/usr/bin/env", "/dev/null", "/dev/zero"))


INSIDE = """
import errno, fcntl, os, signal, socket, sys, threading, time
SH, EX, NB, UN = fcntl.LOCK_SH, fcntl.LOCK_EX, fcntl.LOCK_NB, fcntl.LOCK_UN
path = sys.argv[1]
def lock(what, fd, operation, call=fcntl.flock):
    try:
        call(fd, operation)
        print(what, "done", flush=True)
    except OSError as error:
        print(what, errno.errorcode[error.errno], flush=True)
def child(act):
    pid = os.fork()
    if pid == 0:
        act()
        os._exit(0)
    os.waitpid(pid, 0)
def opened():
    return os.open(path, os.O_RDONLY)
a, b = opened(), opened()
lock("first", a, EX | NB)
lock("again", a, EX | NB)
lock("second", b, SH | NB)
lock("weaker", a, SH | NB)
lock("both", b, SH | NB)
lock("upgrade", b, EX | NB)
lock("lost by it", a, EX | NB)
lock("unlocked", a, UN)
lock("unlocked twice", a, UN)
lock("nonsense", a, 0)
lock("second alone", b, EX | NB)
child(lambda: (lock("in a child", opened(), SH | NB), lock("inherited", b, UN), lock("then", opened(), EX | NB)))
lock("ended with the child", a, EX | NB)
copy = os.dup(a)
os.close(a)
lock("kept by a copy", b, EX | NB)
child(lambda: None)
lock("and by no child", b, EX | NB)
os.close(copy)
lock("closed", b, EX | NB)
left, right = socket.socketpair()
socket.send_fds(left, [b"x"], [b])
passed = socket.recv_fds(right, 1, 1)[1][0]
os.close(b)
c = opened()
lock("passed", c, EX | NB)
threading.Timer(0.1, os.close, [passed]).start()
lock("waited", c, EX)
holder = os.fork()
if holder == 0:
    signal.pause()
os.close(c)
d = opened()
lock("held by a child", d, EX | NB)
threading.Timer(0.1, os.kill, [holder, signal.SIGKILL]).start()
lock("waited for its death", d, EX)
os.waitpid(holder, 0)
def handler(*_):
    raise InterruptedError(errno.EINTR, "")
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.1)
e = opened()
lock("interrupted", e, EX)
os.close(d)
lock("not harmed by it", e, EX | NB)
lock("range to read", e, SH | NB, fcntl.lockf)
lock("range to write", e, EX | NB, fcntl.lockf)
lock("range unlocked", e, UN, fcntl.lockf)
child(lambda: lock("another's range", opened(), SH, fcntl.lockf))
for command in (5, 6, 36, 37):
    for what in (b"\\0" * 32, b"\\7" + b"\\0" * 31, b"\\0\\0\\7" + b"\\0" * 29, b"\\0" * 24 + b"\\1" * 8):
        lock("command %d" % command, e, what, lambda fd, what: fcntl.fcntl(fd, command, what))
os.lseek(e, 5, 0)
from_here = b"\\0\\0\\1" + b"\\0" * 5 + (-6 & (1 << 64) - 1).to_bytes(8, "little") + b"\\0" * 16
lock("before the beginning", e, from_here, lambda fd, what: fcntl.fcntl(fd, fcntl.F_SETLK, what))
"""


@pytest.mark.parametrize("mode", ["ro", "cow", "rw"])
def test_locks_work_inside_as_on_linux(shared: Path, mode: str) -> None:
    native = subprocess.run([sys.executable, "-c", INSIDE, shared], capture_output=True, text=True, check=True)
    assert native.stdout.count("EAGAIN") >= 7
    done = husk(["run", "--mount", f"{shared.parent}:/m:{mode}", "--", "python3", "-c", INSIDE, "/m/file"])
    assert (done.out, done.status) == (native.stdout, 0), done.err


DATABASE = """
import os, sqlite3
def say(what, at=None):
    try:
        db = at or sqlite3.connect("/m/db", timeout=0)
        print(db.execute(what).fetchall(), flush=True)
        return db
    except sqlite3.OperationalError as error:
        print(error, flush=True)
held = say("begin exclusive")
if os.fork() == 0:
    say("begin exclusive")
    say("select * from t")
    os._exit(0)
os.wait()
say("insert into t values (2)", held)
say("commit", held)
say("select * from t")
"""


def test_a_database_below_a_cow_mount(place: Path) -> None:
    db = place / "db"
    with sqlite3.connect(db) as made:
        made.executescript("create table t (n); insert into t values (1)")
    made.close()
    db.chmod(0o666)
    place.chmod(0o777)
    done = husk(["run", "--mount", f"{place}:/m:cow", "--", "python3", "-c", DATABASE])
    assert done.out == "[]\ndatabase is locked\ndatabase is locked\n[]\n[]\n[(1,), (2,)]\n", done


def test_a_record_lock_by_an_exchanged_descriptor_ends_its_process(programs: Path, shared: Path) -> None:
    """husk judges the descriptor, and the host uses it: a second thread can win that race, by chance, in one of a few
    rounds. Then it loses its life with the lock."""
    command = [f"{ESCAPE}/record_race", "/tmp/own", "/m/file", "60"]
    mounts = ["--mount", f"{programs}:{ESCAPE}:ro", "--mount", f"{shared.parent}:/m:ro"]
    script = f"echo own >/tmp/own; {shlex.join(command)}; echo $?"
    done = husk(["run", "--summary", *mounts, "--", "sh", "-c", script])
    *rounds, status = done.out.splitlines()
    assert status == "137" or (status, len(rounds)) == ("0", 60), done
    assert (status == "137") == ("record lock on a file of the host" in done.err), done.err
    assert locked(shared) == []


def test_locks_of_a_program_with_threads_stay(place: Path) -> None:
    """It holds files of the host, too, and locks its own for longer than husk looks."""
    script = """
import fcntl, threading, time
held = [open(name, "rb") for name in ("/usr/bin/env", "/etc/passwd")]
def work(number):
    with open(f"/tmp/{number}", "w+b") as file:
        for kind in (fcntl.LOCK_SH, fcntl.LOCK_EX) * 20:
            fcntl.lockf(file, kind)
            time.sleep(0.005)
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
[one.start() for one in threads], [one.join() for one in threads]
print("done")
"""
    assert husk(["run", "--", "python3", "-c", script]).out == "done\n"
