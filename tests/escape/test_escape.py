"""Tries to get out of the box, or to stop husk from within, and must fail.

Each C program beside this file is one attempt; its head says what would happen on an unprotected host. Where that is
cheap the test shows it: the same program then succeeds natively. A race proves nothing by its number of rounds: the
tests check the host's files afterwards, and that the box ended by itself.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.lib.harness import BASE_ENV, NATIVE_ONLY, guest_ids, native
from tests.lib.running import PIPE, Result, husk, husk_process, setting

pytestmark = [
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.both_settings,
]

ESCAPE = "/escape"
TIMEOUT = 100.0  # a box that takes so long hangs: the slowest one needs four seconds on two busy cores
ORIGINAL = b"ORIGINAL, and so it stays\n"


def boxed(programs: Path, arguments: Sequence[str], *mounts: str) -> Result:
    """Run one of the programs in husk. It has to end by itself."""
    options = [text for mount in (f"{programs}:{ESCAPE}:ro", *mounts) for text in ("--mount", mount)]
    result = husk(["run", *options, "--", f"{ESCAPE}/{arguments[0]}", *arguments[1:]], timeout=TIMEOUT)
    assert result.status == 0, f"exit code {result.status}\n{result.out}\n{result.err}"
    return result


def unprotected(programs: Path, arguments: Sequence[str], work: Path) -> Result:
    """Run the same program on the host, with the uid the guest would have."""
    result = native([str(programs / arguments[0]), *arguments[1:]], work, env={"PATH": BASE_ENV["PATH"]})
    assert result.status == 0, f"natively: exit code {result.status}\n{result.out}\n{result.err}"
    return result


# ---- what a descriptor shows changes between look and use ---------------------------------------------------------


def _condition(path: Path) -> tuple[object, ...]:
    """Everything a guest could have changed. The change time betrays every change, even one taken back."""
    found = path.stat()
    return path.read_bytes(), found.st_mode, found.st_nlink, found.st_uid, found.st_mtime_ns, found.st_ctime_ns


@pytest.mark.parametrize("what", ["open", "truncate", "utime", "chmod", "link"])
def test_a_swapped_descriptor_changes_no_read_only_file(programs: Path, place: Path, what: str) -> None:
    given, own = place / "given", place / "own"
    for directory in (given, own):
        directory.mkdir()
    victim = given / "victim"
    victim.write_bytes(ORIGINAL)
    before = _condition(victim)
    # The link is tried where it could be made: beside the guest's own file, on a mount of the same host file system.
    done = boxed(
        programs,
        ["swap", what, "/given/victim", "/own/file", "1.5", "/own/link"],
        f"{given}:/given:ro",
        f"{own}:/own:rw",
    )
    assert _condition(victim) == before, done.out
    assert f"{what}: unchanged\n" in done.out
    assert not list(own.iterdir()), "the victim has got a second name"

    if os.getuid() == 0:
        for path in (place, victim):
            os.chown(path, *guest_ids())
    natively = unprotected(programs, ["swap", what, str(victim), str(place / "file"), "50", str(place / "link")], place)
    assert f"{what}: changed\n" in natively.out
    assert _condition(victim) != before


@pytest.mark.fast
def test_a_swapped_descriptor_changes_no_read_only_file_from_the_layer(programs: Path, place: Path) -> None:
    """As above, but the guest's own file lies in the box's private layer."""
    victim = place / "victim"
    victim.write_bytes(ORIGINAL)
    before = _condition(victim)
    for what in ("open", "truncate"):
        done = boxed(programs, ["swap", what, "/given/victim", "/tmp/file", "1"], f"{place}:/given:ro")
        assert _condition(victim) == before, done.out
        assert f"{what}: unchanged\n" in done.out


# ---- the supervisor's own files -----------------------------------------------------------------------------------


def _with_state(place: Path) -> tuple[Path, dict[str, str]]:
    """A directory to mount, with husk's state and a secret in it."""
    state = place / "home" / "state"
    state.mkdir(parents=True)
    state.chmod(0o700)
    (place / "home" / "mine").write_text("visible\n")
    secret = place / "secret"
    secret.write_bytes(ORIGINAL)
    secret.chmod(0o600)
    return place / "home", {"HUSK_STATE": str(state)}


@pytest.mark.parametrize("below", ["", "state"])
def test_no_mount_lets_the_guest_write_husks_state(programs: Path, place: Path, below: str) -> None:
    home, env = _with_state(place)
    program = [f"{ESCAPE}/own_state", "/h/state", str(place / "secret")]
    done = husk(
        ["run", "--mount", f"{programs}:{ESCAPE}:ro", "--mount", f"{home / below}:/h:rw", "--", *program], env=env
    )
    assert done.status == 2, done.out + done.err
    assert done.out == ""
    assert done.err.count("\n") == 1 and done.err.endswith(".\n") and "HUSK_STATE" in done.err, done.err
    assert not list((home / "state").iterdir())
    assert (place / "secret").read_bytes() == ORIGINAL


@pytest.mark.parametrize("mode", ["ro", "cow"])
def test_husks_state_looks_empty_below_a_mount(programs: Path, place: Path, mode: str) -> None:
    home, env = _with_state(place)
    program = [f"{ESCAPE}/own_state", "/h/state", str(place / "secret")]
    mounts = ["--mount", f"{programs}:{ESCAPE}:ro", "--mount", f"{home}:/h:{mode}"]
    done = husk(["run", *mounts, "--", *program], env=env)
    assert (done.status, done.out) == (0, "state: a directory, entries 0\n"), done.err
    assert husk(["run", *mounts, "--", "/bin/cat", "/h/mine"], env=env).out == "visible\n"
    assert not list((home / "state").iterdir())
    assert (place / "secret").read_bytes() == ORIGINAL


# ---- death at the wrong moment ------------------------------------------------------------------------------------


def test_threads_that_execute_against_each_other(programs: Path) -> None:
    assert "rounds 300\n" in boxed(programs, ["exec_race", "300"]).out


def test_the_thread_that_executes_gets_its_program(programs: Path, place: Path) -> None:
    assert unprotected(programs, ["exec_race", "100"], place).out == "rounds 100\nexecuted 100\n"
    assert boxed(programs, ["exec_race", "100"]).out == "rounds 100\nexecuted 100\n"


def test_children_killed_while_husk_acts_in_them(programs: Path) -> None:
    assert boxed(programs, ["kill_race", "200"]).out == "200 of 200 reaped\n"


@pytest.mark.parametrize("call", ["13", "81"])
def test_a_filter_that_kills_the_thread_husk_acts_in(programs: Path, place: Path, call: str) -> None:
    expected = unprotected(programs, ["kill_thread", call], place).out
    assert "stat" in expected
    assert boxed(programs, ["kill_thread", call]).out == expected


# ---- one start disturbs another -----------------------------------------------------------------------------------


def test_executions_in_vain_do_not_crowd_out_starts(programs: Path) -> None:
    assert boxed(programs, ["crowd_out", "100"]).out == "0 of 100 starts failed\n"


def test_a_failed_execution_does_not_decide_the_next(programs: Path, place: Path) -> None:
    expected = unprotected(programs, ["wrong_program"], place).out
    assert "the right program\n" in expected
    assert boxed(programs, ["wrong_program"]).out == expected


def test_a_program_that_the_host_keeps_opening_for_writing(programs: Path, place: Path) -> None:
    program = place / "program"
    shutil.copy("/bin/true", program)
    ended = threading.Event()
    opened = 0

    def write() -> None:
        nonlocal opened
        while not ended.is_set():
            try:  # O_NONBLOCK: breaks a lease too, but the open does not wait for it
                os.close(os.open(program, os.O_WRONLY | os.O_NONBLOCK))
                opened += 1
            except BlockingIOError:
                pass
            time.sleep(0)  # the test's other thread has to read what husk prints

    writer = threading.Thread(target=write)
    writer.start()
    try:
        done = boxed(programs, ["busy_program", "/host/program", "3"], f"{place}:/host:rw")
    finally:
        ended.set()
        writer.join()
    assert done.out == "survived, program found\n"
    assert opened


# ---- what husk keeps ----------------------------------------------------------------------------------------------


def test_names_too_long_to_follow_leave_no_descriptors(programs: Path, place: Path) -> None:
    shutil.copy("/bin/true", place / "program")
    (place / "p").symlink_to("program")
    detour = "d" * 250  # few and long parts: the walk is not what is tested
    (place / detour).mkdir()
    mounts = ["--mount", f"{programs}:{ESCAPE}:ro", "--mount", f"{place}:/host:cow"]
    counts = []
    with husk_process(
        ["run", *mounts, "--", f"{ESCAPE}/long_name", "/host", "p", detour, "300"], stdin=PIPE, stdout=PIPE
    ) as running:
        stdin, stdout = running.process.stdin, running.process.stdout
        assert stdin is not None and stdout is not None
        for _ in range(3):
            assert stdout.readline() == b"ready\n"
            counts.append(len(os.listdir(f"/proc/{running.process.pid}/fd")))
            stdin.write(b"x")
            stdin.flush()
        # The first three hundred warm up what husk opens once; three hundred leaks would still be seen there. A look
        # may meet a descriptor that is open for a moment.
        assert abs(counts[2] - counts[1]) < 10 and counts[1] < counts[0] + 50, counts
        assert stdout.readline() == b"length 4095, wrong 0\n"
        assert running.process.wait(timeout=TIMEOUT) == 0


def test_who_knows_the_cookie_executes_nothing_of_the_host(programs: Path, place: Path) -> None:
    program = place / "program"
    shutil.copy("/bin/true", program)
    # A directory of the guest is a host directory, so `..` leads to the host's root.
    names = [text for name in ("/bin/true", "/usr/bin/env", str(program)) for text in (name, "../" * 20 + name[1:])]
    lines = boxed(programs, ["cookie", *names], f"{place}:/host:ro").out.splitlines()
    assert lines[0] == "number: learned", "the attempt itself no longer works, so this test says nothing"
    assert len(lines) == 1 + 2 * len(names)
    # 127: the loader has the names of programs that ran before, in the box's empty root; with nothing to load it ends.
    held = (": EACCES", ": ENOENT", *([": ended with 127"] if setting() == "walled" else []))
    assert [line for line in lines[1:] if not line.endswith(held)] == []

    natively = unprotected(programs, ["cookie", *names], place).out.splitlines()
    assert [line for line in natively[1:] if not line.endswith(": ended with 0")] == []


def test_a_program_cannot_lose_its_own_landlock_rules(programs: Path, place: Path) -> None:
    (place / "file").write_text("ORIGINAL")
    lines = boxed(programs, ["lose_rules", "/host/file"], f"{place}:/host:ro").out.splitlines()
    assert lines[:2] == ["before: read", "code that changes: held"]
    assert len(lines) == 8
    assert [line for line in lines[2:] if not line.endswith(": EACCES")] == []


# ---- other processes ----------------------------------------------------------------------------------------------


def test_no_foreign_process_can_be_reached(programs: Path, place: Path) -> None:
    """ptrace, process_vm_readv and similar calls are native. They reach nothing outside the box: no reaper, no husk, no
    process of the same user on the host."""
    user = [] if os.geteuid() else ["setpriv", "--reuid", str(guest_ids()[0]), "--clear-groups"]
    stranger = subprocess.Popen([*user, "sleep", "1000"])
    try:
        strangers = [str(stranger.pid), str(os.getpid())]
        result = boxed(programs, ["reach", *strangers])
        lines = dict(line.rsplit(": ", 1) for line in result.out.splitlines()[:-1])
        own = {way: lines.pop(f"{way} own") for way in ("read", "write", "compare", "take", "seize", "attach", "peek")}
        assert own == dict.fromkeys(own, "done") | {"read": "EFAULT", "write": "EFAULT", "peek": "ESRCH"}
        assert lines.pop("reached by number") == "0", result.out
        # If the reaper traced it, it would have stopped for ever at the signal.
        assert (lines.pop("traced by the parent"), result.out.splitlines()[-1]) == ("done", "went on")
        assert set(lines.values()) <= {"EPERM", "ESRCH"}, result.out
    finally:
        stranger.kill()
        stranger.wait()


def test_no_foreign_process_gets_a_signal(programs: Path, place: Path) -> None:
    """The stranger, alone in its group, waits for the signal; natively it gets it."""
    user = [] if os.geteuid() else ["setpriv", "--reuid", str(guest_ids()[0]), "--clear-groups"]
    command = [*user, str(programs / "signal_out"), "wait"]
    stranger = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert stranger.stdout is not None
        assert stranger.stdout.readline() == b"waits\n"
        result = boxed(programs, ["signal_out", str(stranger.pid), "all"])
        lines = dict(line.replace(" = ", ": ").rsplit(": ", 1) for line in result.out.splitlines())
        assert set(lines.values()) <= {"EPERM", "ESRCH", "EINVAL", "EBADF", "tried"}, result.out
        assert len(lines) == 13
        assert stranger.poll() is None, "it got the signal"
        unprotected(programs, ["signal_out", str(stranger.pid)], place)
        assert stranger.stdout.readline() == b"got it\n"
    finally:
        stranger.kill()
        stranger.communicate()
