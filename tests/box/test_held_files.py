"""What husk says of open files and of the working directory is the same with the name cache off.

One guest program asks again and again with every kind of change in between (tests/guests/held_files.c). husk does not
use the cache when it writes events, since each call must be seen.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from husk.kernel.events import Events
from husk.kernel.kernel import Kernel
from husk.sandbox.policy import Mount, Policy
from husk.sandbox.runner import Runner
from tests.lib.build_guests import guest_programs
from tests.lib.harness import GUESTS, NATIVE_ONLY, differential
from tests.lib.ordinary_user import as_ordinary_user
from tests.lib.running import PATIENCE, PIPE, finish, husk, husk_process, scratch

pytestmark = pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for")

OFF = ["--events", "/dev/null"]


def transcript(mode: str, options: list[str], *, unnamed: bool = False, user: bool = False) -> list[str]:
    """`unnamed`: standard input is a file that has lost its name. `user`: an ordinary user starts husk."""
    with scratch() as root:
        (root / "input").write_text("from the host")
        for name in (mode, "state"):
            (root / name).mkdir()
            if user:
                shutil.chown(root / name, "nobody")
        mounts = ["--mount", f"{guest_programs()}:{GUESTS}:ro", "--mount", f"{root / mode}:/work:{mode}"]
        command = ["run", *options, *mounts, "--", f"{GUESTS}/held_files", "/work"]
        with open(root / "input", "rb") as given:
            if unnamed:
                (root / "input").unlink()
            wrapper = as_ordinary_user() if user else []
            env = {"HUSK_STATE": str(root / "state")}
            with husk_process(
                command, env=env, wrapper=wrapper, stdin=given.fileno(), stdout=PIPE, stderr=PIPE
            ) as running:
                result = finish(running.process, "held_files", b"", PATIENCE)
    assert result.status == 0 and result.err == "", result
    return result.out.splitlines()


@pytest.mark.both_settings
@pytest.mark.parametrize("mode", ["cow", "rw"])
@pytest.mark.parametrize("gate", ["1", "0", "eager"])
def test_same_answers(mode: str, gate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    off = transcript(mode, OFF)
    assert sum("size=text" in line for line in off) > 150 and sum("ino=other" in line for line in off) < 60
    assert sum(" = ENOENT" in line for line in off) > 50 and "  getcwd = /work/moved/two" in off
    assert any("hidden = " in line and " root:root " in line for line in off)
    monkeypatch.setenv("HUSK_GATE", gate)
    assert transcript(mode, []) == off


@pytest.mark.parametrize("unnamed", [False, True])
def test_same_answers_for_an_ordinary_user(unnamed: bool) -> None:
    """The only one for whom C answers for a file that husk was started with."""
    on, off = (transcript("rw", options, unnamed=unnamed, user=True) for options in ([], OFF))
    assert on == off


@pytest.mark.both_settings
@pytest.mark.parametrize("manner", ["cow", "rw"])
@pytest.mark.parametrize("gate", ["1", "0", "eager"])
def test_descriptors_from_before_a_change(manner: str, gate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUSK_GATE", gate)

    def prepare(side: Path) -> None:
        subprocess.run([guest_programs() / "files_old_handles", "prepare"], cwd=side, check=True)

    command = ["{guests}/files_old_handles", "prepared"]
    differential(command, case="files_old_handles", manner=manner, prepare=prepare)
    differential(["{guests}/files_old_handles"], case="files_old_handles of its own files", manner=manner)


@pytest.mark.both_settings
def test_descriptors_of_what_an_earlier_run_made() -> None:
    """There the content of a kept box is that of a layer, which is copied before it is written to."""
    program, mount = f"{GUESTS}/files_old_handles", f"{guest_programs()}:{GUESTS}:ro"
    own = differential(["{guests}/files_old_handles"], case="files_old_handles of its own files", manner="cow")
    with scratch() as state:
        env = {"HUSK_STATE": str(state)}
        for word in ("prepare", "prepared"):
            found = husk(["run", "--keep", "box", "--mount", mount, "--", program, word], env=env)
    assert (found.status, found.err, found.out) == (0, "", own.out)


FIFO = """
import os
os.mkfifo("fifo")
held = os.open("fifo", os.O_PATH)
os.unlink("fifo")
child = os.fork()
if not child:
    os.write(os.open(f"/proc/self/fd/{held}", os.O_WRONLY), b"text")
    os._exit(0)
print(os.read(os.open(f"/proc/self/fd/{held}", os.O_RDONLY), 10))
print(os.waitpid(child, 0)[1])
"""


@pytest.mark.both_settings
@pytest.mark.parametrize("manner", ["cow", "rw"])
def test_a_fifo_without_a_name_lets_only_guests_wait(manner: str) -> None:
    """husk, which opens it for them, must go on: another guest opens the other end."""
    differential(["/usr/bin/python3", "-c", FIFO], manner=manner, timeout=60)


WAITING = """
import os, time
def look():
    for _ in range(3):
        print(os.fstat(0).st_dev == os.stat('/work').st_dev, os.fstat(0).st_size, flush=True)
look()
while not os.path.exists('/work/go'):
    time.sleep(0.01)
look()
"""


@pytest.mark.parametrize("options", [[], OFF], ids=["on", "off"])
def test_the_host_moves_standard_input_into_a_mount(options: list[str]) -> None:
    with scratch() as root:
        (root / "rw").mkdir()
        (root / "state").mkdir()
        (root / "input").write_text("from the host")
        for made in root.iterdir():
            shutil.chown(made, "nobody")
        command = ["run", *options, "--mount", f"{root / 'rw'}:/work:rw", "--", "/usr/bin/python3", "-c", WAITING]
        env, wrapper = {"HUSK_STATE": str(root / "state")}, as_ordinary_user()
        with open(root / "input", "rb") as given, husk_process(
            command, env=env, wrapper=wrapper, stdin=given.fileno(), stdout=PIPE
        ) as running:
            stdout = running.process.stdout
            assert stdout is not None
            assert [stdout.readline() for _ in range(3)] == [b"False 13\n"] * 3
            (root / "input").rename(root / "rw/input")
            (root / "rw/go").touch()
            assert [stdout.readline() for _ in range(3)] == [b"True 13\n"] * 3
            assert running.process.wait(PATIENCE) == 0


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of each call that Python answers."""
    asked: list[int] = []
    answer = Kernel.answer

    def noted(kernel: Kernel, raw: object) -> None:
        asked.append(raw.nr)  # type: ignore[attr-defined]
        answer(kernel, raw)  # type: ignore[arg-type]

    monkeypatch.setattr(Kernel, "answer", noted)
    monkeypatch.setenv("HUSK_STATE", str(tmp_path / "state"))
    return asked


@pytest.mark.parametrize("cached", [True, False], ids=["on", "off"])
def test_the_cache_answers(tmp_path: Path, asked: list[int], cached: bool) -> None:
    """Else the test above proves nothing."""
    fstat, newfstatat, getcwd, openat = 5, 262, 79, 257
    program = "import os\nfor _ in range(200):\n os.fstat(0), os.getcwd()\n fd = os.open('/proc/self/maps', 0)\n"
    program += " os.fstat(fd), os.close(fd)\n fd = os.open('/proc/meminfo', 0)\n os.fstat(fd), os.close(fd)\n"
    program += " try: os.open('/sys/fs/cgroup/none', 0)\n except FileNotFoundError: pass\n"
    (tmp_path / "cow").mkdir()
    policy = Policy(["/usr/bin/python3", "-c", program])
    policy.mounts.append(Mount(str(tmp_path / "cow"), "/work", "cow"))
    policy.workdir = "/work"
    (tmp_path / "input").write_text("from the host")
    with open(tmp_path / "input", "rb") as given, open(os.devnull, "r+b") as null:
        # Two ids of the host are shown as one where root starts husk: that C cannot do.
        streams = (null.fileno() if os.geteuid() == 0 else given.fileno(), null.fileno(), null.fileno())
        result = Runner(policy, Events(None, None, collect=not cached), streams).run()
    assert result.exit_code == 0 and not result.faults
    opened = asked.count(openat)
    assert (opened < 480) if cached else (opened >= 600), opened
    for call, most in ((fstat, 600), (getcwd, 200)):
        count = asked.count(call) + (asked.count(newfstatat) if call == fstat else 0)
        assert (count < most // 10) if cached else (count >= most), (call, count)
