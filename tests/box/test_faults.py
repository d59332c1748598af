"""Husk under fault: stopped, killed at any moment, on a full disk, out of descriptors. The guest gets an errno or
ends; nothing is left behind, and nothing is granted.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from husk.sandbox.limits import cgroups
from tests.lib.build_guests import guest_programs
from tests.lib.harness import GUESTS, NATIVE_ONLY
from tests.lib.running import PATIENCE, PIPE, husk, husk_process, leftovers, scratch, until

pytestmark = [
    pytest.mark.both_settings,
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
]

# `make faults`: everything, which takes hours; else a little of it.
ALL = os.environ.get("HUSK_FAULTS") == "all"

# Names, programs, directories, pipes and a daemon, over and over, on the box's own files and on a mount.
BUSY = f"""
{GUESTS}/daemon /work/beat
n=0
while :; do
    n=$((n + 1)); mkdir d$n && cd d$n && echo x >a && mv a b && ln -s b c && cat c >/dev/null && cd .. && rm -r d$n
    echo $n >/work/out.new && mv /work/out.new /work/out; /bin/true | /bin/true; (exit 3)
done
"""


@pytest.fixture
def work() -> Iterator[Path]:
    with scratch() as place:
        (place / "work").mkdir()
        (place / "beside").write_text("untouched")
        yield place / "work"
        assert (place / "beside").read_text() == "untouched"
        assert sorted(path.name for path in place.iterdir()) == ["beside", "work"]


def busy(work: Path, *options: str) -> list[str]:
    mounts = ["--mount", f"{work}:/work:rw", "--mount", f"{guest_programs()}:{GUESTS}:ro"]
    return ["run", *mounts, *options, "--", "sh", "-c", BUSY]


def groups(pid: int) -> list[Path]:
    """The control groups of one husk. (Others may run husk on this machine at the same time, and be killed.)"""
    found = cgroups.delegation()
    return list(Path(found[0]).glob(f"{cgroups.PREFIX}{pid}-*")) if found else []


def is_empty(group: Path) -> bool:
    """A group cannot be removed before its last process has ended."""
    try:
        return "populated 0" in (group / "cgroup.events").read_text().splitlines()
    except FileNotFoundError:
        return True


@pytest.mark.parametrize("seed", range(100 if ALL else 10))
def test_killed_at_any_moment(work: Path, seed: int) -> None:
    """From before the guest exists to the middle of its work. With a control group on every second run."""
    pause = random.Random(seed).uniform(0, 0.12) * (1 + seed % 3)
    options = ("--limit", "cpu=60") if seed % 2 else ()
    with husk_process(busy(work, *options)) as running:
        time.sleep(pause)
        running.process.kill()
        running.process.wait()
        assert until(lambda: not leftovers(running.mark, 0)), "a guest outlived husk"
        assert until(lambda: all(map(is_empty, groups(running.process.pid)))), "a guest outlived husk in its group"
        # No process owns the files in the state directory any more. The next husk removes them, and the group.
        after = husk(["run", *options, "--", "true"], env={"HUSK_STATE": str(running.state)})
        assert (after.status, after.err) == (0, "")
        assert list(running.state.iterdir()) == [] and groups(running.process.pid) == []
    size = (work / "beat").stat().st_size if (work / "beat").exists() else 0
    time.sleep(0.1)
    assert not size or (work / "beat").stat().st_size == size, "the daemon still beats"


def test_killed_reaper(work: Path) -> None:
    """A host process kills husk-init's last process: husk says so and ends everything."""
    with husk_process(busy(work), stderr=PIPE) as running:
        assert until(lambda: (work / "out").exists())
        (reaper,) = Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children").read_text().split()
        assert Path(f"/proc/{reaper}/comm").read_text() == "husk-reaper\n"
        os.kill(int(reaper), signal.SIGKILL)
        _, err = running.process.communicate(timeout=PATIENCE)
        assert (running.process.returncode, err) == (125, b"husk: husk-init died; the box is gone.\n")


@pytest.mark.parametrize("seed", range(50 if ALL else 4))
def test_killed_init_at_any_moment(work: Path, seed: int) -> None:
    """The process between husk and the guests, killed while it builds the box, hands over to the reaper, or reaps."""
    pause = random.Random(seed).uniform(0, 0.1) * (1 + seed % 3)
    with husk_process(busy(work), stderr=PIPE) as running:
        below = Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children")
        assert until(lambda: bool(below.read_text())), "husk started nothing"
        time.sleep(pause)
        for pid in below.read_text().split():
            with contextlib.suppress(ProcessLookupError):  # the builder ends by itself when there is a reaper
                os.kill(int(pid), signal.SIGKILL)
        # It may have been the builder, at its end: then the box exists and must still be ended.
        with contextlib.suppress(ProcessLookupError):
            if not until(lambda: running.process.poll() is not None, 3):
                running.process.terminate()
        _, err = running.process.communicate(timeout=PATIENCE)
        assert b"Traceback" not in err, err
        assert running.process.returncode in (125, 143), (running.process.returncode, err)
        assert running.process.returncode == 143 or err.startswith(b"husk: "), err
    # husk_process has seen that no process and no state was left


def test_stopped_for_a_while(work: Path) -> None:
    """Guests wait, for names and for programs, and go on where they were."""
    script = (
        "echo up; n=0; while [ $n -lt 100 ]; do n=$((n + 1)); "
        "[ -e /usr/bin/env ] || echo lost; /bin/true || echo failed; done; echo done"
    )
    with husk_process(["run", "--", "sh", "-c", script], stdout=PIPE, stderr=PIPE) as running:
        assert running.process.stdout is not None
        running.process.stdout.readline()
        running.process.send_signal(signal.SIGSTOP)
        time.sleep(1.5)
        running.process.send_signal(signal.SIGCONT)
        out, err = running.process.communicate(timeout=PATIENCE)
        assert (running.process.returncode, out, err) == (0, b"done\n", b"")


def test_killed_while_stopped(work: Path) -> None:
    with husk_process(busy(work)) as running:
        assert until(lambda: (work / "out").exists())
        running.process.send_signal(signal.SIGSTOP)
        time.sleep(0.2)
        running.process.kill()
        running.process.wait()
        assert until(lambda: not leftovers(running.mark, 0))


FILL = r"""
import errno, json, os
told = {}
def attempt(name, do):
    try:
        do(); told[name] = "ok"
    except OSError as error:
        told[name] = errno.errorcode[error.errno]
def fill():
    with open("big", "wb", 0) as file:
        while file.write(bytes(1 << 16)) == 1 << 16: pass
        raise OSError(errno.ENOSPC, "short write")
attempt("fill", fill)
attempt("append", lambda: open("more", "wb", 0).write(bytes(1 << 16)))
os.unlink("big")
attempt("after", lambda: open("again", "wb", 0).write(bytes(1 << 16)))
def many():
    for n in range(10000): os.close(os.open(f"f{n}", os.O_CREAT))
attempt("many", many)
attempt("mkdir", lambda: os.mkdir("dir"))
attempt("chdir", lambda: os.chdir("dir"))
attempt("read", lambda: open("/etc/passwd").read())
for name in os.listdir("/workspace"):
    if name.startswith("f"): os.unlink("/workspace/" + name)
attempt("chdir again", lambda: os.chdir("/workspace/dir"))
attempt("one", lambda: open("one", "w").close())
print(json.dumps(told))
"""


@pytest.mark.needs("python3")
def test_full_disk(work: Path) -> None:
    """The state directory on a file system of 2 MiB with few inodes."""
    if os.getuid() != 0:
        pytest.skip("only root can mount a small file system")
    state = work / "state"
    state.mkdir()
    mount = 'mount -t tmpfs -o size=2M,nr_inodes=120,mode=700 none "$HUSK_STATE" && exec "$@"'
    result = husk(["run", "--", "python3", "-c", FILL], wrapper=["unshare", "-m", "sh", "-c", mount, "sh"],
                  env={"HUSK_STATE": str(state)})
    assert (result.status, result.err) == (0, "")
    assert json.loads(result.out) == {
        "fill": "ENOSPC", "append": "ENOSPC", "after": "ok", "many": "ENOSPC", "mkdir": "ok", "chdir": "ENOSPC",
        "read": "ok", "chdir again": "ok", "one": "ok",
    }


@pytest.mark.needs("python3")
def test_out_of_descriptors(work: Path) -> None:
    """husk itself may open few descriptors: guests see EMFILE or success, never anything else, and husk lives on."""
    script = r"""
import errno, os, sys, threading
seen = set()
def work(n):
    for _ in range(60):
        try:
            fd = os.open(f"/workspace/{n}", os.O_RDWR | os.O_CREAT); os.write(fd, b"x"); os.close(fd)
            os.listdir("/usr/bin"); os.stat("/etc/passwd"); os.rename(f"/workspace/{n}", f"/workspace/{n}.new")
        except OSError as error:
            seen.add(errno.errorcode[error.errno])
threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
while True:
    try:
        made = [name for name in os.listdir("/workspace") if name.endswith(".new")]
        break
    except OSError as error:  # husk may still have to close what it handed out last
        if error.errno not in (errno.EMFILE, errno.ENFILE): raise
print(sorted(seen - {"EMFILE", "ENFILE", "ENOENT"}), len(made) > 0)
"""
    for limit in (8, 40):
        result = husk(["run", "--", "python3", "-c", script], wrapper=["prlimit", f"--nofile={limit}:{limit}"])
        assert "Traceback" not in result.err, result.err
        if result.status != 125:  # so few that no box can be built, and husk says so
            assert (result.status, result.out) == (0, "[] True\n"), result.err
    assert result.status == 0


def test_state_directory_that_vanishes(work: Path) -> None:
    """A host process removes the box's files while husk runs: guests get errors, and husk ends in order."""
    state = work / "state"
    state.mkdir()
    script = "echo up; read line; echo x >new || echo refused; cat /etc/hostname >/dev/null; exit 7"
    with husk_process(["run", "--", "sh", "-c", script], env={"HUSK_STATE": str(state)}, stdin=PIPE, stdout=PIPE,
                      stderr=PIPE) as running:
        assert running.process.stdout is not None
        assert running.process.stdout.readline() == b"up\n"
        subprocess.run(["rm", "-rf", *state.iterdir()], check=True)
        out, err = running.process.communicate(b"\n", timeout=PATIENCE)
        assert (running.process.returncode, out) == (7, b"refused\n"), err
        assert b"Traceback" not in err
