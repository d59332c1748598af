"""The same smoke in four settings: with namespaces and without, started by root and by an ordinary user.

A process of the guest's own host user sleeps outside: Linux alone would let the guest signal it, so what keeps them
apart is husk's walls.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.lib.harness import NATIVE_ONLY
from tests.lib.ordinary_user import NOBODY, as_ordinary_user
from tests.lib.running import MARK, husk, need_bare, scratch

pytestmark = [
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.needs("python3"),
]

NICE = os.getpriority(os.PRIO_PROCESS, 0)  # inherited by all that the tests start
ROOTS_GUESTS = 1_900_000_000  # husk.walls.ids: for husk run as root the guest's host id is this plus husk's pid

# What the guest sees and may do, as one JSON object. The argument is the pid of the process outside.
SMOKE = r"""
import errno, json, os, resource, socket, subprocess, sys, threading

def outcome(do):
    try:
        return "ok " + repr(do())
    except OSError as error:
        return errno.errorcode[error.errno]

foreign = int(sys.argv[1])
told = {"ids": os.getresuid() + os.getresgid(), "groups": os.getgroups(), "pid": os.getpid(), "ppid": os.getppid()}
told["listed"] = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
child = subprocess.Popen(["sleep", "60"])
told["child"] = child.pid
told["listed with child"] = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
told["kill child"] = outcome(lambda: os.kill(child.pid, 9))
told["child ended"] = child.wait()
told["outside"] = {
    "kill 9": outcome(lambda: os.kill(foreign, 9)),
    "kill 0": outcome(lambda: os.kill(foreign, 0)),
    "killpg": outcome(lambda: os.killpg(foreign, 9)),
    "getpgid": outcome(lambda: os.getpgid(foreign)),
    "getsid": outcome(lambda: os.getsid(foreign)),
    "affinity": outcome(lambda: os.sched_getaffinity(foreign)),
    "scheduler": outcome(lambda: os.sched_getscheduler(foreign)),
    "priority": outcome(lambda: os.getpriority(os.PRIO_PROCESS, foreign)),
    "renice": outcome(lambda: os.setpriority(os.PRIO_PROCESS, foreign, 19)),
    "prlimit": outcome(lambda: resource.prlimit(foreign, resource.RLIMIT_NOFILE)),
    "pidfd": outcome(lambda: os.pidfd_open(foreign)),
    "proc": outcome(lambda: os.listdir("/proc/%d" % foreign)),
    "environ": outcome(lambda: open("/proc/%d/environ" % foreign).read()),
}
told["init"] = [outcome(lambda: os.kill(1, 0)), outcome(lambda: os.kill(1, 9))]
told["own"] = {
    "kill 0": outcome(lambda: os.kill(os.getpid(), 0)),
    "getpgid": os.getpgid(0) == os.getpgid(os.getpid()),
    "affinity": os.sched_getaffinity(0) == os.sched_getaffinity(os.getpid()),
    "priority": outcome(lambda: os.getpriority(os.PRIO_PROCESS, os.getpid())),
}
os.umask(0o027)
with open("made", "w") as file:
    file.write("content")
found = os.stat("made")
told["file"] = [found.st_uid, found.st_gid, oct(found.st_mode), found.st_size, open("made").read()]
os.mkdir("/tmp/folder")
os.rename("made", "/tmp/folder/made")
told["moved"] = os.listdir("/tmp/folder")
told["system"] = outcome(lambda: open("/usr/new", "w"))
told["python"] = subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True).stdout
told["shell"] = subprocess.run("echo $((1 + 2)) | cat", shell=True, capture_output=True, text=True).stdout
seen = []
threads = [threading.Thread(target=lambda: seen.append(os.stat("/usr").st_mode)) for _ in range(8)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
told["threads"] = len(seen)
told["network"] = outcome(lambda: socket.create_connection(("127.0.0.1", 9), timeout=60))
told["unix"] = [one.close() for one in socket.socketpair()]
told["cwd"] = os.getcwd()
print(json.dumps(told))
"""


@dataclass
class Setting:
    root: bool
    namespaces: bool

    def wrapper(self) -> list[str]:
        return [] if self.root else as_ordinary_user()

    def is_guest_id(self, number: int) -> bool:
        if not self.root:
            return number == NOBODY
        return number == 1000 if self.namespaces else ROOTS_GUESTS < number < ROOTS_GUESTS + (1 << 22)

    def with_a_neighbour(self) -> list[str]:
        """A command that starts a sleeping process of the guest's own host user, tells its number, and then becomes
        the command that follows, with that number as last argument. The guest's id depends on husk's pid, which is the
        shell's."""
        ids = f'n=$(({ROOTS_GUESTS} + $$)); i="--reuid=$n --regid=$n --clear-groups"' if self.root else "i="
        start = f"env -u {MARK} setsid setpriv $i -- sleep 300 </dev/null >/dev/null 2>&1 &"
        return [*self.wrapper(), "sh", "-c", f'{ids}; {start} echo $!; exec "$@" $!', "sh"]


SETTINGS = {
    "root with namespaces": Setting(root=True, namespaces=True),
    "root without namespaces": Setting(root=True, namespaces=False),
    "nobody with namespaces": Setting(root=False, namespaces=True),
    "nobody without namespaces": Setting(root=False, namespaces=False),
}


@pytest.fixture(params=SETTINGS)
def setting(request: pytest.FixtureRequest) -> Setting:
    chosen = SETTINGS[request.param]
    if not chosen.namespaces:
        need_bare()
    if os.getuid() != 0:
        pytest.skip(f"only root can try the setting: {request.param}")
    return chosen


@pytest.fixture
def state(setting: Setting) -> Iterator[Path]:
    """A directory of the user who starts husk; empty again at the end."""
    with scratch() as place:
        folder = place / "state"
        folder.mkdir(mode=0o700)
        if not setting.root:
            os.chown(folder, NOBODY, NOBODY)
        yield folder
        assert list(folder.iterdir()) == [], "state left behind"


def run(setting: Setting, state: Path, *command: str) -> dict[str, Any]:
    options = [] if setting.namespaces else ["--no-namespaces"]
    result = husk(["run", *options, "--", *command], wrapper=setting.wrapper(), env={"HUSK_STATE": str(state)})
    assert (result.status, result.err) == (0, ""), result
    told = json.loads(result.out)
    assert isinstance(told, dict)
    return told


def smoke(setting: Setting, state: Path) -> tuple[dict[str, Any], int]:
    """What the guest printed, and the pid of the process outside, which must still be alive."""
    options = [] if setting.namespaces else ["--no-namespaces"]
    result = husk(
        ["run", *options, "--", "python3", "-c", SMOKE],
        wrapper=setting.with_a_neighbour(),
        env={"HUSK_STATE": str(state)},
    )
    neighbour, _, told = result.out.partition("\n")
    try:
        assert (result.status, result.err) == (0, "")
        assert Path(f"/proc/{neighbour}/comm").read_text() == "sleep\n", "the guest ended a process of the host"
        assert os.getpriority(os.PRIO_PROCESS, int(neighbour)) == NICE
    finally:
        os.kill(int(neighbour), signal.SIGKILL)
    return dict(json.loads(told)), int(neighbour)


def test_smoke(setting: Setting, state: Path) -> None:
    told, _ = smoke(setting, state)
    (me,) = set(told["ids"])
    assert setting.is_guest_id(me)
    assert told["groups"] in ([], [me])
    assert told["listed"] == [told["pid"]]
    assert told["listed with child"] == sorted([told["pid"], told["child"]])
    assert (told["kill child"], told["child ended"]) == ("ok None", -9)
    assert told["own"] == {"kill 0": "ok None", "getpgid": True, "affinity": True, "priority": f"ok {NICE}"}
    assert told["file"] == [me, me, "0o100640", 7, "content"]
    assert told["moved"] == ["made"]
    assert told["system"] == "EACCES"
    assert (told["python"], told["shell"], told["threads"]) == ("42\n", "3\n", 8)
    assert told["network"] in ("ECONNREFUSED", "EACCES", "EPERM", "EAFNOSUPPORT"), "an answer or a hang"
    assert told["cwd"] == "/workspace"


def test_the_outside_is_out_of_reach(setting: Setting, state: Path) -> None:
    told, neighbour = smoke(setting, state)
    answers = {what for what, answer in told["outside"].items() if answer not in ("ESRCH", "EPERM", "ENOENT")}
    # Without a pid namespace the guest can get a pidfd. The registry says why it can do nothing to the process with it.
    assert answers <= (set() if setting.namespaces else {"pidfd"}), f"pid {neighbour} of the host answers"
    assert told["outside"]["proc"] == told["outside"]["environ"] == "ENOENT"
    assert told["init"] in (["EPERM", "EPERM"], ["ESRCH", "ESRCH"], ["ok None", "ok None"])


def test_the_walls_are_those_that_were_asked_for(setting: Setting, state: Path) -> None:
    options = [] if setting.namespaces else ["--no-namespaces"]
    result = husk(
        ["run", "--json", *options, "--", "/bin/sh", "-c", "echo $$"],
        wrapper=setting.wrapper(),
        env={"HUSK_STATE": str(state)},
    )
    told = json.loads(result.out)
    assert [told["walls"][name] for name in ("user", "mount", "pid", "net", "ipc")] == [setting.namespaces] * 5
    assert told["walls"]["landlock"] >= 1
    assert (int(told["stdout"]) < 100) == setting.namespaces, "small numbers only in a namespace of its own"


def test_the_hosts_name(setting: Setting, state: Path) -> None:
    """Neither files nor uname show it."""
    script = (
        "import json, os; print(json.dumps({'names': [os.uname().nodename,"
        " open('/etc/hostname').read().strip(), open('/proc/sys/kernel/hostname').read().strip()]}))"
    )
    assert run(setting, state, "python3", "-c", script)["names"] == ["husk", "husk", "husk"]


@pytest.mark.parametrize("inner_first", [True, False])
def test_a_mount_within_what_another_shows(inner_first: bool) -> None:
    """A descriptor belongs to the nearer of two mounts that show its file, in whichever order they were given."""
    with scratch() as place:
        (place / "inner").mkdir()
        for name in ("inner/file", "outer_file"):
            (place / name).write_text("x")
            (place / name).chmod(0o644)
        mounts = [["--mount", f"{place}:/outer:ro"], ["--mount", f"{place}/inner:/inner:rw"]]
        if inner_first:
            mounts.reverse()
        script = (
            "import os; fd = os.open('/inner/file', os.O_RDWR); os.fchmod(fd, 0o600);"
            "print(os.readlink(f'/proc/self/fd/{fd}'))"
        )
        result = husk(["run", *mounts[0], *mounts[1], "--", "/usr/bin/python3", "-c", script])
        assert (result.status, result.out) == (0, "/inner/file\n"), result.err
        assert (place / "inner/file").stat().st_mode & 0o777 == 0o600
        refused = husk(["run", *mounts[0], *mounts[1], "--", "chmod", "600", "/outer/outer_file"])
        assert refused.status == 1 and "Read-only" in refused.err


@pytest.mark.both_settings
def test_a_test_of_both_settings_runs_in_both(request: pytest.FixtureRequest) -> None:
    """A test with this mark must not run twice in the same setting."""
    told = json.loads(husk(["run", "--json", "--", "true"]).out)
    assert told["walls"]["pid"] == ("[walled]" in request.node.name)
