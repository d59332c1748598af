"""The resident husk: who is served, that a run is the same, that nothing of one reaches another, and every sudden end.

Each test has a runtime directory of its own. Who is served shows in the client: it stays the small program `husk`, and
becomes Python otherwise.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from husk.cli.resident.zygote import MOST_WAITING
from tests.lib.ordinary_user import NOBODY, as_ordinary_user
from tests.lib.running import husk_command, until

HUSK = husk_command()
PIPE = subprocess.PIPE


class Place:
    """A runtime directory, and runs that see it."""

    def __init__(self, folder: Path) -> None:
        self.runtime = folder / "runtime"
        self.runtime.mkdir(0o700)
        (folder / "state").mkdir()
        self.start_of_command: list[str] = []
        self.resident = 0  # the process
        self.husk = HUSK
        self.env = {
            "PATH": os.environ["PATH"], "HOME": str(folder), "HUSK_STATE": str(folder / "state"),
            "XDG_RUNTIME_DIR": str(self.runtime), "HUSK_RESIDENT": "1",
        }  # fmt: skip

    def run(self, *words: str, env: Mapping[str, str] | None = None, **more: Any) -> subprocess.CompletedProcess[str]:
        command = [*self.start_of_command, *self.husk, *words]
        given = more if "input" in more else {"stdin": subprocess.DEVNULL, **more}
        return subprocess.run(
            command, env={**self.env, **(env or {})}, capture_output=True, text=True, timeout=60, **given
        )

    def begin(self, *words: str, env: Mapping[str, str] | None = None, **more: Any) -> subprocess.Popen[str]:
        """A run that waits until its input ends."""
        return subprocess.Popen(
            [*self.start_of_command, *self.husk, *words],
            env={**self.env, **(env or {})}, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True, **more,
        )  # fmt: skip

    def residents(self) -> list[int]:
        words = self.run("resident", "status").stdout.split("process ")
        return [int(word.strip(" .\n")) for word in words[1].split(",")] if len(words) > 1 else []

    def start(self) -> int:
        """The first run finds none, and leaves one."""
        assert self.run("run", "--", "true").returncode == 0
        assert until(self.residents)
        (self.resident,) = self.residents()
        return self.resident

    def prepared(self) -> set[int]:
        """The guests that wait for a run: children of the reapers of workers that do none."""
        found: set[int] = set()
        try:
            for worker in children(self.resident):
                if os.path.samefile(f"/proc/{worker}/fd/0", "/dev/null"):
                    found.update(guest for reaper in children(worker) for guest in children(reaper))
        except OSError:
            return set()  # one ended meanwhile
        return found

    def ready(self) -> set[int]:
        """Wait until a box is ready for the next run. (To ask for the resident's status would take it away.)"""
        assert until(self.prepared)
        time.sleep(0.05)  # it may have been half ready
        return self.prepared()

    def serves(self, **more: Any) -> bool:
        """Is a run served?"""
        process = self.begin("run", "--", "sh", "-c", "echo begun; read _ || exit 0", **more)
        assert process.stdin is not None and process.stdout is not None
        try:
            assert process.stdout.readline() == "begun\n", process.communicate()
            return served(process.pid)
        finally:
            process.communicate()


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def served(client: int) -> bool:
    return os.path.basename(os.readlink(f"/proc/{client}/exe")) == "husk"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    if os.path.basename(HUSK[0]) != "husk":
        pytest.skip("HUSK_CMD is not the installed command")
    found = Place(tmp_path)
    yield found
    found.run("resident", "stop")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """With a resident, which tests leave as it was."""
    found = Place(tmp_path_factory.mktemp("resident"))
    pid = found.start()
    yield found
    assert found.residents() == [pid]
    found.run("resident", "stop")


# What a process has from the one that started it: credentials, signals, processors, session and group (relative to its
# own number), terminal, priority, limits, control group, what a core file holds, personality, timer slack.
INHERITED = """
grep -E '^(Umask|.id|Groups|Sig|Shd|Cap|NoNew|Seccomp|Spec|Cpus|Mems|THP|Tracer|x86)' /proc/self/status
set -- $(sed 's/.*) //' /proc/$$/stat); echo group $(($3 - $$)) session $(($4 - $$)) tty $5 nice ${17} policy ${39}
cat /proc/self/limits /proc/self/cgroup /proc/self/coredump_filter /proc/self/personality /proc/self/timerslack_ns
ulimit -H -a; ulimit -S -a; trap; set
"""

# -- the same run ------------------------------------------------------------------------------------------------------
SAME = [
    ["--", "sh", "-c", "echo out; echo err >&2; exit 7"],
    ["--", "sh", "-c", "kill -9 $$"],
    ["--", "sh", "-c", "umask; pwd; ulimit -a; cat /proc/self/status | grep -i '^cap\\|^seccomp\\|^nonew\\|^groups'"],
    ["--", "sh", "-c", "env | sort; ls -l /proc/self/fd | wc -l; cat /proc/self/oom_score_adj"],
    ["--", "sh", "-c", INHERITED],
    ["--", "sh", "-c", "ls -lanR --time-style=+ / 2>/dev/null --ignore usr --ignore proc --ignore sys --ignore etc"],
    ["--", "sh", "-c", "cat /proc/mounts /proc/self/mountinfo /etc/passwd /etc/group /etc/hosts; hostname; ls /etc"],
    ["--env", "SEEN", "--", "printenv", "SEEN"],
    ["--env", "NOT_SET", "--", "true"],
    ["--mount", ".:/work:ro", "--workdir", "/work", "--", "sh", "-c", "ls; touch new"],
    ["--no-such-option", "--", "true"],
    ["--json", "--", "sh", "-c", "exit 3"],
    ["--", "no-such-program"],
    ["--", "cat"],
    ["--timeout", "0.2", "--", "sleep", "60"],
    ["--no-namespaces", "--", "sh", "-c", "hostname; id -u >/dev/null"],
    ["--mount", ".:/workspace:cow", "--hide", "file", "--", "sh", "-c", "ls -a; echo x > new; cat /proc/mounts"],
    ["--mount", ".:/workspace:rw", "--", "sh", "-c", "echo x >> written; cat written | wc -l | grep -c ."],
    ["--mount", "no-such-folder:/x", "--", "true"],
    ["--workdir", "/no/such", "--", "true"],
    ["--limit", "disk-files=3", "--quiet", "--", "sh", "-c", "for n in 1 2 3 4 5; do touch /tmp/$n; done; ls /tmp"],
]


@pytest.mark.parametrize("words", SAME, ids=lambda words: " ".join(words)[:40])
def test_a_run_is_the_same(shared: Place, tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "file").touch()

    def done(resident: str) -> tuple[int, str, str]:
        if resident == "1":
            shared.ready()
        ended = shared.run("run", *words, env={"HUSK_RESIDENT": resident, "SEEN": "a b"}, cwd=tmp_path, umask=0o027)
        out = "".join(line for line in ended.stdout.splitlines(True) if "seconds" not in line and "max_rss" not in line)
        return ended.returncode, out, ended.stderr

    assert done("1") == done("0")


def _guest_of(place: Place, *words: str, **more: Any) -> int:
    """The host's number of the program that a run starts."""
    process = place.begin("run", *words, "--", "sh", "-c", "echo begun; read _ || exit 0", **more)
    assert process.stdin is not None and process.stdout is not None
    try:
        assert process.stdout.readline() == "begun\n", process.communicate()
        assert served(process.pid)
        (reaper, *_) = children(_worker(place.resident))
        (guest,) = children(reaper)
        return guest
    finally:
        process.communicate()


FITS = [[], ["--env", "A=b"], ["--workdir", "/tmp"], ["--mount", ".:/x:rw"], ["--timeout", "50"], ["--quiet"]]
NEEDS_ANOTHER = [["--limit", "files=50"], ["--no-namespaces"], ["--net", "host"], ["--summary"], ["--verbose"]]


@pytest.mark.parametrize("words", FITS, ids=" ".join)
def test_a_run_takes_the_box_that_is_ready(shared: Place, words: list[str]) -> None:
    ready = shared.ready()
    assert _guest_of(shared, *words) in ready


@pytest.mark.parametrize("words", NEEDS_ANOTHER, ids=" ".join)
def test_a_run_that_needs_another_box_gets_one(shared: Place, words: list[str]) -> None:
    ready = shared.ready()
    assert _guest_of(shared, *words) not in ready
    assert until(lambda: any(map(_is_gone, ready)))  # that of the worker which did the run


def test_a_box_in_another_place_is_not_used(shared: Place, tmp_path: Path) -> None:
    """The caller says where boxes are to be; and it may have removed what is there."""
    ready = shared.ready()
    (tmp_path / "other").mkdir(0o700)
    assert _guest_of(shared, env={"HUSK_STATE": str(tmp_path / "other")}) not in ready
    ready = shared.ready()
    for box in Path(shared.env["HUSK_STATE"]).glob("box-*"):
        shutil.rmtree(box)
    assert _guest_of(shared) not in ready
    assert _guest_of(shared, env={"HUSK_GATE": "0"}) not in shared.ready()


def test_it_serves(shared: Place) -> None:
    assert shared.serves()
    assert not shared.serves(env={"HUSK_RESIDENT": "0"})
    assert not shared.serves(env={"HUSK_RESIDENT": "", "CI": "true"})


def test_nothing_of_a_run_is_left_for_the_next(shared: Place, tmp_path: Path) -> None:
    secret = {"SECRET": "kept-by-one-run"}
    program = "umask 0; echo $SECRET > /tmp/left"
    shared.run("run", "--env", "SECRET", "--", "sh", "-c", program, env=secret, cwd=tmp_path)
    after = shared.run("run", "--", "sh", "-c", "env; ls /tmp; cat /proc/self/environ")
    assert after.returncode == 0 and "kept-by-one-run" not in after.stdout and "left" not in after.stdout
    (pid,) = shared.residents()
    family = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    for each in family:
        try:
            environment, directory = Path(f"/proc/{each}/environ").read_bytes(), os.readlink(f"/proc/{each}/cwd")
        except (FileNotFoundError, ProcessLookupError):
            assert each != pid
            continue  # a worker that ends just now
        assert b"SECRET" not in environment and directory == "/"


# -- who is served -----------------------------------------------------------------------------------------------------
def _fewer_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))


def _no_new_privileges() -> None:
    import ctypes

    ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)


def _no_writable_code() -> None:
    import ctypes

    ctypes.CDLL(None).prctl(65, 1, 0, 0, 0)  # PR_SET_MDWE


DIFFERENT: dict[str, Callable[[], object]] = {
    "limits": _fewer_files,
    "niceness": lambda: os.nice(1),
    "no_new_privs": _no_new_privileges,
    "session": os.setsid,
    "affinity": lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
    "blocked signals": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]),
    "oom_score_adj": lambda: Path("/proc/self/oom_score_adj").write_text("7"),
}


@pytest.mark.parametrize("change", DIFFERENT)
def test_a_caller_that_differs_is_not_served(shared: Place, change: str) -> None:
    if change == "affinity" and len(os.sched_getaffinity(0)) == 1:
        pytest.skip("there is one processor")
    assert not shared.serves(preexec_fn=DIFFERENT[change])
    assert shared.serves()


def test_no_caller_sheds_its_ban_on_writable_code(shared: Place) -> None:
    """Whatever becomes of a guest under it: with a resident the same."""
    codes = [
        shared.run("run", "--", "true", env={"HUSK_RESIDENT": resident}, preexec_fn=_no_writable_code).returncode
        for resident in "01"
    ]
    assert codes[0] == codes[1]
    assert shared.serves()


@pytest.mark.parametrize("name", ["PYTHONPATH", "LD_LIBRARY_PATH", "LC_ALL", "TZ"])
def test_variables_that_are_read_at_the_start(shared: Place, name: str) -> None:
    assert not shared.serves(env={name: "C"})


def test_standard_input_by_its_name(shared: Place) -> None:
    """In a worker it would be another file: it reads the options before it has the caller's streams."""
    for resident in "01":
        ended = shared.run(
            "run", "--env-file", "/dev/stdin", "--", "printenv", "SEEN",
            env={"HUSK_RESIDENT": resident}, input="SEEN=here\n",
        )  # fmt: skip
        assert (ended.returncode, ended.stdout) == (0, "here\n"), ended.stderr


def test_a_caller_that_ignores_the_ends_of_its_children(place: Place) -> None:
    """It leaves a resident like any other; that waits for a child that the host has forgotten already."""
    ended = place.run("run", "--", "true", preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    assert ended.returncode == 0, ended.stderr
    assert until(place.residents)


def test_a_caller_in_python_is_served(shared: Place) -> None:
    """Where no locale is set, Python sets this one for itself and its children."""
    assert shared.serves(env={"LC_CTYPE": "C.UTF-8"})


def test_a_terminal_is_left_to_the_ordinary_start(shared: Place) -> None:
    import pty

    master, slave = pty.openpty()
    try:
        process = subprocess.Popen([*HUSK, "run", "--", "cat"], env=shared.env, stdin=PIPE, stdout=slave, stderr=PIPE)
        assert until(lambda: not served(process.pid))
        process.communicate(b"")
    finally:
        os.close(master)
        os.close(slave)


def test_no_other_program_is_served(shared: Place) -> None:
    """One that speaks the protocol itself, with the same credentials: a husk would, that connects for its guest."""
    name = next(path.name for path in (shared.runtime / "husk").iterdir() if path.suffix != ".lock")
    words = [b"--", b"true", b"PATH=/bin:/usr/bin"]
    body = b"".join(word + b"\0" for word in words)
    head = struct.pack("<8sIIII", b"HUSKRES1", len(body), 2, 1, 0o022)
    place = os.open("/", os.O_PATH)
    with socket.socket(socket.AF_UNIX) as asks:
        asks.connect(str(shared.runtime / "husk" / name))
        try:
            socket.send_fds(asks, [head + body], [place, 0, 1, 2])
            answer = asks.recv(1)
        except (BrokenPipeError, ConnectionResetError):
            answer = b""
    os.close(place)
    assert answer == b""


def become_ordinary(place: Place) -> None:
    """Its runs, and the directories, are an ordinary user's."""
    if os.geteuid():
        return
    place.start_of_command = as_ordinary_user()
    if "unshare" in place.start_of_command:
        pytest.skip("each command would be in a mount namespace of its own")
    way = [place.runtime, *place.runtime.parents]
    for folder in way[: way.index(Path("/tmp"))] if Path("/tmp") in way else way[:4]:
        folder.chmod(folder.stat().st_mode | 0o011)
    place.runtime.chmod(0o700)
    for folder in (place.runtime, place.runtime.parent / "state"):
        os.chown(folder, NOBODY, NOBODY)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_is_served(place: Place) -> None:
    """Without capabilities less of another process can be read, though it is the same user's."""
    become_ordinary(place)
    place.start()
    assert until(place.serves)


# -- the place ---------------------------------------------------------------------------------------------------------
def test_a_place_that_others_can_enter_is_none(place: Place) -> None:
    place.runtime.chmod(0o755)
    assert not place.serves() and not (place.runtime / "husk").exists()
    place.runtime.chmod(0o700)
    (place.runtime / "elsewhere").mkdir(0o700)
    (place.runtime / "husk").symlink_to("elsewhere")
    assert not place.serves() and list((place.runtime / "elsewhere").iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_users_place_is_none(shared: Place) -> None:
    own = {"HUSK_STATE": "", "HOME": "/"}
    result = shared.run("run", "--", "true", user=65534, group=65534, extra_groups=[], env=own)
    assert result.returncode in (0, 125)  # who may start husk there at all
    assert shared.serves()


@pytest.mark.needs("python3")
@pytest.mark.parametrize("mode", ["ro", "rw"])
def test_a_guest_cannot_reach_it(shared: Place, mode: str) -> None:
    """Not even where what lies above it is mounted. (An rw mount shows the host's other sockets.)"""
    name = next(path.name for path in (shared.runtime / "husk").iterdir() if path.suffix != ".lock")
    code = f"import socket; socket.socket(socket.AF_UNIX).connect('/x/husk/{name}')"
    result = shared.run("run", "--mount", f"{shared.runtime}:/x:{mode}", "--", "python3", "-c", code)
    assert result.returncode == 1 and "Error" in result.stderr
    result = shared.run("run", "--mount", f"{shared.runtime}/husk:/x:{mode}", "--", "true")
    assert result.returncode == 2 and "resident husk listens there" in result.stderr


POSE = """
import os, socket
name = next(name for name in os.listdir("/x/husk") if not name.endswith(".lock"))
os.unlink("/x/husk/" + name)
listener = socket.socket(socket.AF_UNIX)
listener.bind("/x/husk/" + name)
listener.listen(1)
print("listens", flush=True)
said = listener.accept()[0].recv(1 << 16)
print("heard", len(said), b"hunter2" in said, flush=True)
"""


@pytest.mark.needs("python3")
@pytest.mark.parametrize("setting", [[], ["--no-namespaces"]], ids=["walled", "bare"])
def test_a_guest_cannot_pose_as_one(place: Place, setting: list[str]) -> None:
    """One that may write to the runtime directory, in a run that does not know it for one, takes the socket's place.
    Where root starts husk, its guests are another user, whom no client trusts."""
    become_ordinary(place)
    place.start()
    unknown = {"XDG_RUNTIME_DIR": "", "HUSK_RESIDENT": "0"}
    words = ["run", *setting, "--mount", f"{place.runtime}:/x:rw", "--", "python3", "-c", POSE]
    with place.begin(*words, env=unknown) as guest:
        assert guest.stdout is not None
        assert guest.stdout.readline() == "listens\n"
        result = place.run("run", "--", "echo", "done", env={"SECRET": "hunter2"})
        assert (result.returncode, result.stdout) == (0, "done\n"), result.stderr
        assert guest.stdout.readline() == "heard 0 False\n"


@pytest.mark.parametrize("way", ["stop", "kill", "kill the worker"])
def test_the_box_that_is_ready_ends_with_the_resident(place: Place, way: str) -> None:
    pid = place.start()
    guests = place.ready()
    if way == "stop":
        place.run("resident", "stop")
    else:
        for process in [pid] if way == "kill" else children(pid):
            os.kill(process, signal.SIGKILL)
    assert until(lambda: all(map(_is_gone, guests)))
    if way != "kill the worker":
        assert until(lambda: not list(Path(place.env["HUSK_STATE"]).glob("box-*")))
        return
    place.ready()  # it has another
    assert place.serves()


def test_runs_leave_nothing(place: Place) -> None:
    """Neither in the resident nor on the host."""
    pid = place.start()
    assert until(lambda: len(children(pid)) > 1)
    assert until(lambda: len(children(pid)) == 1)
    place.ready()

    def held() -> tuple[int, list[str]]:
        return len(os.listdir(f"/proc/{pid}/fd")), [p.name for p in Path(place.env["HUSK_STATE"]).iterdir()]

    before = held()
    for _ in range(10):
        assert place.run("run", "--", "true").returncode == 0
    assert until(lambda: len(children(pid)) == MOST_WAITING)  # as runs followed each other
    assert until(lambda: len(children(pid)) == 1)
    assert held()[0] == before[0] and len(held()[1]) == len(before[1])


def test_two_at_once_start_one(place: Place) -> None:
    first, second = place.begin("run", "--", "cat"), place.begin("run", "--", "cat")
    first.communicate("")
    second.communicate("")
    assert until(place.residents) and len(place.residents()) == 1


def test_a_stale_socket_is_replaced(place: Place) -> None:
    pid = place.start()
    os.kill(pid, signal.SIGKILL)
    assert until(lambda: not place.residents())
    assert place.start() != pid and place.serves()


# -- ends --------------------------------------------------------------------------------------------------------------
def _begun(place: Place, *words: str) -> subprocess.Popen[str]:
    process = place.begin("run", "--", *words)
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    assert served(process.pid)
    return process


def _worker(resident: int) -> int:
    """The one that does a run: it has the client's streams."""
    (found,) = [each for each in children(resident) if not os.path.samefile(f"/proc/{each}/fd/0", "/dev/null")]
    return found


def _is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_are_passed_on(shared: Place, number: signal.Signals) -> None:
    process = _begun(shared, "sh", "-c", "trap 'exit 9' INT; echo begun; while :; do sleep 0.05; done")
    process.send_signal(number)
    process.communicate()
    assert process.returncode == (9 if number == signal.SIGINT else 128 + number)


def test_the_box_ends_with_its_client(shared: Place) -> None:
    process = _begun(shared, "sh", "-c", "echo begun; sleep 600")
    worker = _worker(shared.resident)
    process.kill()
    process.communicate()
    assert until(lambda: _is_gone(worker))


def test_the_client_says_that_its_worker_was_killed(shared: Place) -> None:
    process = _begun(shared, "sh", "-c", "echo begun; sleep 600")
    os.kill(_worker(shared.resident), signal.SIGKILL)
    _, err = process.communicate()
    assert process.returncode == 125 and "was killed" in err


def test_a_run_goes_on_without_the_resident(place: Place) -> None:
    pid = place.start()
    process = _begun(place, "sh", "-c", "echo begun; read word; echo $word")
    os.kill(pid, signal.SIGKILL)
    assert until(lambda: _is_gone(pid))
    assert process.communicate("on\n")[0] == "on\n" and process.returncode == 0


def test_an_interpreter_with_options(place: Place, tmp_path: Path) -> None:
    """As in the Debian package: `husk-python` begins with #!/usr/bin/python3 -I."""
    client, script = tmp_path / "bin" / "husk", tmp_path / "bin" / "husk-python"
    client.parent.mkdir()
    shutil.copy(HUSK[0], client)
    first, rest = Path(f"{HUSK[0]}-python").read_text().split("\n", 1)
    script.write_text(f"{first} -I\n{rest}")
    script.chmod(0o755)
    place.husk = [str(client)]
    place.start()
    assert place.serves()


@pytest.mark.parametrize("resident", "01")
def test_a_stop_by_a_key(shared: Place, resident: str) -> None:
    """Without a terminal ^Z stops husk and nothing else; then it goes on."""
    shared.ready()
    words = ["run", "--", "sh", "-c", "echo begun; read word; exit $word"]
    # In a group of its own, beside its parent's: Linux does not stop orphaned groups by SIGTSTP.
    with shared.begin(*words, env={"HUSK_RESIDENT": resident}, process_group=0) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "begun\n" and served(process.pid) == (resident == "1")
        husks = [process.pid, _worker(shared.resident)] if resident == "1" else [process.pid]
        process.send_signal(signal.SIGTSTP)
        assert until(lambda: all(_state(pid) == "T" for pid in husks))
        process.send_signal(signal.SIGCONT)
        assert until(lambda: all(_state(pid) != "T" for pid in husks))
        process.communicate("5\n")
        assert process.returncode == 5


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_stop(place: Place) -> None:
    pid = place.start()
    assert f"process {pid}" in place.run("resident", "stop").stdout
    assert until(lambda: _is_gone(pid)) and place.residents() == []


def test_it_ends_when_idle(place: Place) -> None:
    """As the client starts it: descriptor 3 is a lock, 4 its place."""
    folder = place.runtime / "husk"
    folder.mkdir(0o700)
    lock, directory = os.open(folder / "x.lock", os.O_RDWR | os.O_CREAT), os.open(folder, os.O_RDONLY)

    def given() -> None:
        high = os.dup(directory), os.dup(lock)
        os.dup2(high[1], 3)
        os.dup2(high[0], 4)

    started = subprocess.Popen(
        [f"{HUSK[0]}-python", "resident", "serve", "--idle", "0.5", "resident-x"],
        env=place.env, preexec_fn=given, close_fds=False,
    )  # fmt: skip
    os.close(lock)
    os.close(directory)
    assert until((folder / "resident-x").exists)
    assert started.wait(60) == 0 and not (folder / "resident-x").exists()
