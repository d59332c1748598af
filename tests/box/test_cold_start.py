"""A cold `husk run` has husk-init build while it imports: what that takes comes first, the run is the same as without,
and whatever goes wrong in between leaves nothing and ends as it would have."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from husk.cli import cmd_run
from husk.cli.run_policy import RunOptions
from husk.cli.start import begin_run
from husk.sandbox import plan, runner
from husk.sandbox.errors import HuskError, NoNamespaces
from husk.sandbox.launch import Guest, Launch
from husk.sandbox.policy import Policy
from husk.sandbox.runner import Events, Prepared, Runner
from husk.sandbox.start import launch_ahead
from husk.sandbox.start.launch_ahead import Ahead
from husk.walls import namespaces
from tests.lib import start_places
from tests.lib.running import husk_command, need_bare, until
from tests.lib.start_places import children

LOOK = "pwd; umask; touch new; ls -lan --time-style=+ / /tmp /workspace; cat /proc/mounts /proc/self/limits; exit 3"
OWN_USER = re.compile(rb"\b(?:19|20|21)\d{8}\b")  # without namespaces husk run as root gives each box another


here = start_places.here


def begin(*words: str) -> Ahead:
    ahead = Ahead.begin(RunOptions([*words, "--", "true"]).policy)
    assert ahead is not None
    return ahead


def run(words: list[str], prepared: Prepared | None) -> tuple[int, bytes, bytes | None, list[tuple[str, str]]]:
    result = Runner(RunOptions(words).policy, Events(None, None), keep=1 << 20, prepared=prepared).run()
    assert not result.faults
    return result.exit_code, OWN_USER.sub(b"user", result.stdout or b""), result.stderr, result.changes


# -- the order of a start ----------------------------------------------------------------------------------------------
def test_what_begins_a_box_needs_neither_kernel_nor_file_system() -> None:
    code = "import sys, husk.cli.start.begin_run; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name for name in done.stdout.split() if name.startswith("husk.")}
    assert {"husk.sandbox.launch", "husk.sandbox.plan"} <= loaded
    assert {name for name in loaded if name.startswith(("husk.kernel", "husk.vfs"))} <= {
        "husk.vfs", "husk.vfs.state", "husk.vfs.fd_reserve", "husk.vfs.invalidation",
    }  # fmt: skip
    assert "husk.sandbox.box" not in loaded and "husk.sandbox.filesystem" not in loaded


def test_what_a_run_imports_is_imported_in_order(tmp_path: Path) -> None:
    """Each module of the lists alone: those that it imports came before. And nothing is missing in them."""
    code = (
        "import os, sys\n"
        "from husk.cli.start.module_finder import find_quickly, load\n"
        "find_quickly()\n"
        "from husk import cli\n"
        "from husk.cli.start import run_modules\n"
        "def loaded():\n"
        "    return {name for name in sys.modules if name.startswith('husk.')} - {'husk.native._core'}\n"
        "known = loaded()\n"
        "for names in (run_modules.FIRST, run_modules.REST, run_modules.FOR_MOUNTS):\n"
        "    for name in names:\n"
        "        load([name])\n"
        "        new = loaded() - known\n"
        "        assert name in new and all((one + '.').startswith(name + '.') for one in new), (name, new)\n"
        "        known = loaded()\n"
        "assert cli.main(sys.argv[1:]) == 0\n"
        "assert loaded() == known, loaded() - known\n"
    )
    (tmp_path / "shown").mkdir()
    mounts = [f"--mount={tmp_path}/shown:/workspace/{mode}:{mode}" for mode in ("ro", "cow")]
    environment = os.environ | {"HUSK_STATE": str(tmp_path / "state")}
    command = [sys.executable, "-c", code, "run", *mounts, "--", "true"]
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("fault", ["missing", "old"])
def test_a_module_that_is_not_as_expected_is_left_to_python(fault: str, tmp_path: Path) -> None:
    for name in ("husk/__init__.py", "husk/one.py", "husk/two.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("import sys; before = __name__ in sys.modules\n")
    assert subprocess.run([sys.executable, "-m", "compileall", "-q", str(tmp_path)]).returncode == 0
    for compiled in (tmp_path / "husk" / "__pycache__").glob("two.*.pyc"):
        compiled.unlink() if fault == "missing" else compiled.write_bytes(bytes(16) + compiled.read_bytes()[16:])
    code = (
        f"import sys; from husk.cli.start.module_finder import find_quickly, load; find_quickly()\n"
        f"import husk; husk.__path__ = [{str(tmp_path / 'husk')!r}]\n"
        "load(['husk.none', 'husk.one', 'husk.two', 'husk.no.deeper'])\n"
        "assert husk.one.before and husk.one.__spec__.origin == husk.one.__file__, husk.one\n"
        "assert 'husk.two' not in sys.modules\n"
        "import husk.two\n"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0



def test_husk_init_begins_before_the_rest_is_imported(tmp_path: Path) -> None:
    """In the command itself."""
    watch = tmp_path / "sitecustomize.py"
    watch.write_text(
        "import os, sys\n"
        "def note(event, words):\n"
        "    if event == 'os.posix_spawn':\n"
        "        os.write(2, b'%d' % ('husk.sandbox.box' in sys.modules))\n"
        "sys.addaudithook(note)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "HUSK_STATE": str(tmp_path / "state")}
    for words, late in (([], "0"), (["--limit", "processes=100"], "1"), (["--summary"], "1"), (["--net", "host"], "1")):
        command = [sys.executable, "-m", "husk.cli", "run", *words, "--", "true"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 0 and done.stderr[0] == late, (words, done.stderr)


# -- the same run ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("mode", ["", "ro", "rw", "cow"])
def test_the_same_run(here: Path, mode: str) -> None:
    (here / "shown").mkdir()
    words = ["--mount", f"{here}/shown:/workspace/deep:{mode}", "--workdir", "/workspace/deep"] if mode else []
    prepared = Prepared(begin(*words))
    words += ["--", "sh", "-c", LOOK]
    try:
        waited = prepared.standby.pid
        found = run(words, prepared)
        assert prepared.standby.pid == waited
        assert prepared.box.state is None, "such a box is closed with its run"
    finally:
        prepared.close()
    (here / "shown" / "new").unlink(missing_ok=True)
    assert found == run(words, None)


def test_the_place_that_a_guest_waits_in_is_nobodys(here: Path) -> None:
    """Until it is told what to run, no directory of the box has its number."""
    prepared = Prepared(begin())
    try:
        state = prepared.box.files.vfs.state
        waits = os.readlink(f"/proc/{prepared.standby.pid}/cwd")
        number = state.placeholder_number(os.fsencode(waits))
        assert number is not None and number not in state.dirs
        out = run(["--", "sh", "-c", "readlink /proc/self/cwd /proc/$$/cwd; pwd -P"], prepared)[1]
        assert set(out.split()) == {b"/workspace"}
    finally:
        prepared.close()


def test_a_mount_over_usr_is_known_before_the_walls_are(here: Path) -> None:
    (here / "file").write_text("mounted")
    words = ["--mount", f"{here}/file:/usr/lib/new"]
    ahead = begin(*words)
    assert not ahead.plan.walls.direct
    prepared = Prepared(ahead)
    try:
        waited = prepared.standby.pid
        assert run([*words, "--", "cat", "/usr/lib/new"], prepared)[1] == b"mounted"
        assert prepared.standby.pid == waited
    finally:
        prepared.close()


@pytest.mark.parametrize(
    "words", [["--allow-net", "example.com:443"], ["--limit", "memory=1G"], ["--net", "host"], ["--no-namespaces"]]
)
def test_who_needs_another_box(words: list[str]) -> None:
    assert Ahead.begin(RunOptions([*words, "--", "true"]).policy) is None


# -- what goes wrong ---------------------------------------------------------------------------------------------------
def test_nobody_takes_it(here: Path) -> None:
    ahead = begin()
    assert children()
    ahead.close()
    ahead.close()


def test_its_guest_is_killed_before_the_run(here: Path) -> None:
    prepared = Prepared(begin())
    try:
        os.kill(prepared.standby.pid, signal.SIGKILL)
        assert until(lambda: not prepared.standby.waits())
        assert run(["--", "echo", "on"], prepared)[1] == b"on\n"
    finally:
        prepared.close()


@pytest.mark.parametrize("fault", [OSError(24, "none left"), NoNamespaces("not here"), HuskError("no"), MemoryError()])
def test_a_start_that_fails_is_made_again_the_ordinary_way(
    here: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise fault

    options, ordinary = RunOptions(["--", "true"]), []

    def run_ordinarily(*words: object) -> int:
        ordinary.append(words)
        return 4

    monkeypatch.setattr(cmd_run, "run", run_ordinarily)
    for module, name in ((launch_ahead, "Launch"), (launch_ahead, "StateDir"), (launch_ahead, "waiting_place")):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, fail)
            assert Ahead.begin(options.policy) is None
    for name in ("Box", "Standby"):
        ahead = begin()
        with monkeypatch.context() as patch:
            patch.setattr(runner, name, fail)
            assert cmd_run.go_on(options, [], ahead, [15]) == 4
        denied = "not here" if isinstance(fault, NoNamespaces) else ""
        assert ordinary.pop() == (options, [], None, [15], denied)
        assert not children() and list((here / "state").iterdir()) == []


def test_namespaces_that_are_denied_are_not_tried_again(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    need_bare()
    monkeypatch.setattr(cmd_run, "with_signals", lambda runner, _: runner.run())  # this process keeps its handlers
    guest, tried = Launch.guest, []

    def deny(launch: Launch) -> Guest:
        tried.append(launch.walls.pid)
        if launch.walls.pid:
            raise NoNamespaces("making namespaces: Operation not permitted")
        return guest(launch)

    monkeypatch.setattr(Launch, "guest", deny)
    expected = [True, False] if namespaces_stand() else [False]
    assert begin_run.main(["--", "echo", "on"]) == 0 and capfd.readouterr().out == "on\n"
    assert tried == expected
    monkeypatch.setattr(namespaces, "landlock_abi", lambda: 5)
    assert begin_run.main(["--", "true"]) == 125
    if namespaces_stand():
        assert "making namespaces: Operation not permitted; Landlock ABI 5" in capfd.readouterr().err


def namespaces_stand() -> bool:
    """In the fixture's setting."""
    return bool(vars(plan)["walls_here"](namespaces=True).pid)


def test_mistakes_are_the_same(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cmd_run, "with_signals", lambda runner, _: runner.run())  # this process keeps its handlers
    for words in (["--", "no-such-program"], ["--workdir", "/no", "--", "true"], ["--mount", "/no", "--", "true"]):
        said = []
        for main in (begin_run.main, cmd_run.main):
            said.append((main(words), capfd.readouterr()))
        assert said[0] == said[1] and said[0][0]


@pytest.mark.parametrize("options", [[], ["--net", "host"]], ids=["ahead", "ordinary"])
def test_a_signal_that_comes_while_the_rest_is_imported(tmp_path: Path, options: list[str]) -> None:
    """Ends the run, and what was begun with it."""
    code = (
        "import os, sys\n"
        "from husk.cli.start import begin_run\n"
        "begin = begin_run._begin\n"
        "def begun(*words):\n"
        "    ahead = begin(*words)\n"
        "    os.kill(os.getpid(), 15)\n"
        "    return ahead\n"
        "begin_run._begin = begun\n"
        "os._exit(begin_run.main(sys.argv[1:]))\n"
    )
    environment = os.environ | {"HUSK_STATE": str(tmp_path)}
    command = [sys.executable, "-c", code, *options, "--", "sleep", "60"]
    assert subprocess.run(command, env=environment, timeout=50).returncode == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_while_the_rest_is_imported(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("_signal.signal", lambda *_: None)  # this process keeps its handlers

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cmd_run, "go_on", interrupted)
    with pytest.raises(KeyboardInterrupt):
        begin_run.main(["--", "true"])


def test_a_husk_that_is_killed_while_it_imports(tmp_path: Path) -> None:
    """Its box ends with it, and the next husk removes what it left."""
    state = tmp_path / "state"
    code = (
        "import os, sys\n"
        "from husk.cli.run_policy import RunOptions\n"
        "from husk.sandbox.start.launch_ahead import Ahead\n"
        "ahead = Ahead.begin(RunOptions(['--', 'true']).policy)\n"
        "print('begun', flush=True); sys.stdin.read()\n"
    )
    environment = os.environ | {"HUSK_STATE": str(state)}
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    assert len(list(state.iterdir())) == 1
    mine = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    assert until(lambda: mine.read_text().split())
    begun = [int(word) for word in mine.read_text().split()]
    process.kill()
    process.communicate()
    assert until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in begun))
    done = subprocess.run([*husk_command(), "run", "--", "true"], env=environment | {"HUSK_RESIDENT": "0"})
    assert done.returncode == 0 and list(state.iterdir()) == []


def test_a_policy_is_not_changed_by_what_is_begun(here: Path) -> None:
    policy = RunOptions(["--", "true"]).policy
    before = {name: repr(getattr(policy, name)) for name in Policy.__slots__ if name != "limits"}
    ahead = Ahead.begin(policy)
    assert ahead is not None
    ahead.close()
    assert before == {name: repr(getattr(policy, name)) for name in Policy.__slots__ if name != "limits"}
