"""`husk doctor` and `husk run` on hosts that give less: behind Docker's profile, without Landlock, without tracing.

host.c makes such a host out of this one. On each the doctor must find what is missing, and `husk run` must either work
or refuse with the doctor's own sentence.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from husk.sandbox.doctor.rows import BY_NAME, FULL, MINIMUM, ROWS
from tests.lib.harness import NATIVE_ONLY
from tests.lib.ordinary_user import NOBODY, as_ordinary_user
from tests.lib.running import Result, bare_stands, husk, need_bare, scratch

pytestmark = pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for")

NAMESPACES = {row.name for row in ROWS if row.name.endswith("-namespace")}


@pytest.fixture(scope="module")
def host() -> Iterator[Path]:
    with scratch() as place:
        source = Path(__file__).with_name("host.c")
        subprocess.run(["gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", place / "host", source], check=True)
        yield place / "host"


class Host:
    """husk on such a host, started by root or by the user `nobody`."""

    def __init__(self, host: Path, kinds: str, *, root: bool, state: Path) -> None:
        user = [] if root else as_ordinary_user()
        self._wrapper = [*user, str(host), *kinds.split(), "--"]
        self._env = {"HUSK_STATE": str(state)}

    def husk(self, *arguments: str) -> Result:
        return husk(arguments, wrapper=self._wrapper, env=self._env)

    def doctor(self) -> tuple[int, dict[str, str]]:
        """Its exit code, and what husk wants and it found missing, with the detail."""
        result = self.husk("doctor", "--json")
        told = json.loads(result.out)
        assert told["exit_code"] == result.status and result.err == ""
        return result.status, {
            finding["name"]: finding["detail"]
            for finding in told["findings"]
            if not finding["stands"] and finding["need"] != "better"
        }


@pytest.fixture
def state() -> Iterator[Path]:
    with scratch() as place:
        (place / "state").mkdir(mode=0o700)
        yield place / "state"
        assert list((place / "state").iterdir()) == [], "state left behind"


@pytest.fixture(params=["root", "nobody"])
def who(request: pytest.FixtureRequest, state: Path) -> bool:
    """Is husk started by root?"""
    root: bool = request.param == "root"
    if os.getuid() != 0:
        pytest.skip(f"only root can try both users: {request.param}")
    if not root:
        os.chown(state, NOBODY, NOBODY)
    return root


# kind of host -> what the doctor misses there, if the kernel itself lacks nothing
LACKS: dict[str, set[str]] = {
    "no-namespaces": NAMESPACES,
    "no-landlock": {"landlock", "landlock-scopes", "box"},
    "no-landlock no-namespaces": {"landlock", "landlock-scopes", "signals", "box"} | NAMESPACES,
    "no-ptrace": {"ptrace", "box"},
    "no-wait-killable": {"seccomp-killable", "seccomp-addfd", "box"},
    "listener": {"seccomp-alone", "seccomp-addfd", "box"},
    "no-thread-pidfd": {"pidfd-thread"},
    "no-new-code": {"new-code", "box"},
    "docker": {"pidfd-getfd", "pidfd-thread"} | NAMESPACES,
}
# ... and the row whose sentence `husk run` refuses with
REFUSES = {
    "no-landlock": "landlock",
    "no-landlock no-namespaces": "landlock",
    "no-ptrace": "ptrace",
    "no-wait-killable": "seccomp-killable",
    "listener": "seccomp-alone",
    "no-new-code": "new-code",
}


BOTH = ("no-namespaces", "docker")  # where the user who starts husk makes a difference


@pytest.mark.parametrize("kinds", BOTH)
def test_what_each_user_misses_is_found(host: Path, state: Path, who: bool, kinds: str) -> None:
    _found(Host(host, kinds, root=who, state=state), LACKS[kinds] | ({"user"} if who and kinds == "docker" else set()))


@pytest.mark.parametrize("kinds", [kinds for kinds in LACKS if kinds not in BOTH])
def test_what_is_missing_is_found(host: Path, state: Path, kinds: str) -> None:
    _found(Host(host, kinds, root=True, state=state), LACKS[kinds])


def _found(there: Host, expected: set[str]) -> None:
    if not bare_stands():
        expected = expected | {"landlock-scopes"} | ({"signals"} if expected >= NAMESPACES else set())
    if _before_thread_pidfds():
        expected = expected | {"pidfd-thread"}
    status, missing = there.doctor()
    assert missing.keys() == expected, missing
    assert status == (125 if any(BY_NAME[name].need == MINIMUM for name in expected) else 1)


@pytest.mark.parametrize("kinds", REFUSES)
def test_run_refuses_in_the_doctors_words(host: Path, state: Path, kinds: str) -> None:
    result = Host(host, kinds, root=True, state=state).husk("run", "--", "true")
    assert (result.status, result.out) == (125, "")
    (line,) = result.err.splitlines()
    assert line.startswith("husk: " + BY_NAME[REFUSES[kinds]].sentence()) and "husk doctor" in line


@pytest.mark.parametrize(
    ("wrapper", "blamed"),
    [
        (["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "-"], "proc"),
        (["setarch", "--uname-2.6"], "kernel"),
    ],
    ids=["no /proc", "an old kernel"],
)
def test_one_fault_is_told_once(state: Path, wrapper: list[str], blamed: str) -> None:
    """Many rows depend on these. A newcomer must not be told to fix a mere consequence."""
    if os.getuid() != 0 and "unshare" in wrapper:
        pytest.skip("only root can take /proc away")
    result = husk(["doctor"], wrapper=wrapper, env={"HUSK_STATE": str(state)})
    assert result.status == 125 and result.err == ""
    text = " ".join(result.out.split())
    assert BY_NAME[blamed].remedy in text
    assert text.endswith(f"Missing: {BY_NAME[blamed].what}. What to do is above.")
    if blamed == "proc":
        refused = husk(["run", "--", "true"], wrapper=wrapper, env={"HUSK_STATE": str(state)})
        assert refused.status == 125 and BY_NAME[blamed].sentence() in refused.err


SMOKE = "echo $(($(ls /bin/ | wc -l) > 10)); sh -c 'exit 3' || echo $?; sleep 60 & kill $! && wait; echo $? >f; cat f"


@pytest.mark.parametrize("kinds", BOTH)
def test_husk_runs_where_namespaces_are_denied(host: Path, state: Path, who: bool, kinds: str) -> None:
    need_bare()
    weaken = ["--weaken", "user"] if who and kinds == "docker" else []
    there = Host(host, kinds, root=who, state=state)
    result = there.husk("run", "--json", *weaken, "--", "sh", "-c", SMOKE)
    told: dict[str, Any] = json.loads(result.out)
    assert (result.status, told["stdout"], told["stderr"]) == (0, "1\n3\n0\n", ""), told
    assert not told["walls"]["pid"] and told["walls"]["landlock"] >= 6
    assert told["weakened"] == weaken[1:]


def test_a_container_whose_root_may_not_trace(host: Path, state: Path) -> None:
    """Docker's root has no CAP_SYS_PTRACE, so it cannot trace a guest with another uid. husk says so and runs only when
    told to do without that wall. The guest then has uid 0 and no capabilities."""
    if os.getuid() != 0:
        pytest.skip("only root can be a container's root")
    need_bare()
    there = Host(host, "docker", root=True, state=state)
    refused = there.husk("run", "--", "true")
    assert refused.status == 125 and BY_NAME["user"].sentence() in refused.err and "CAP_SYS_PTRACE" in refused.err
    script = "id -u; grep CapEff /proc/self/status; kill -0 1 2>&- || echo apart; cat /etc/shadow 2>&- || echo no"
    weakened = there.husk("run", "--summary", "--weaken", "user", "--", "sh", "-c", script)
    assert weakened.out.split() == ["0", "CapEff:", "0" * 16, "apart", "no"]
    assert "\n  weakened: user\n" in weakened.err


# A thread with a table of its own has other files under the same numbers; then the first thread ends.
OWN_TABLE = r"""
import ctypes, errno, os, socket, threading
libc = ctypes.CDLL(None)
UNIX, FOLDER = 50, 51
os.makedirs("threads/inside")
os.mkdir("leaders")

def outcome(do):
    try:
        return do()
    except OSError as error:
        return errno.errorcode[error.errno]

def put(folder):
    end = socket.socket(socket.AF_UNIX)
    os.dup2(end.detach(), UNIX)
    os.dup2(os.open(folder, os.O_RDONLY), FOLDER)
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, UNIX)

def apart():
    assert libc.unshare(0x400) == 0  # CLONE_FILES
    print("bind", outcome(lambda: put("threads").bind("name")), os.path.exists("name"))
    print("list", outcome(lambda: os.listdir(FOLDER)))

def alone():
    while os.path.exists("/proc/self/task/%d/fd/%d" % (os.getpid(), UNIX)):
        pass
    print("alone", outcome(lambda: ours.bind("other")), os.listdir("threads"), flush=True)
    os._exit(3)

ours = put("leaders")
thread = threading.Thread(target=apart)
thread.start(), thread.join()
print("leader's", repr(ours.getsockname()), os.listdir(FOLDER), flush=True)
threading.Thread(target=alone).start()
libc.syscall(60, 0)  # exit: this thread alone
"""


@pytest.mark.parametrize(("kinds", "bound"), [("", "None"), ("no-thread-pidfd", "EPERM")])
def test_a_descriptor_is_the_threads_own(host: Path, state: Path, kinds: str, bound: str) -> None:
    """Before Linux 6.9 husk can take descriptors of a process's first thread only. For other threads it refuses: in the
    first thread's table the number means another file."""
    if not kinds and _before_thread_pidfds():
        pytest.skip("a thread's own descriptors can be had since Linux 6.9 (pidfd_open with PIDFD_THREAD)")
    there = Host(host, kinds, root=True, state=state)
    result = there.husk("run", "--summary", "--", "python3", "-c", OWN_TABLE)
    lines = [f"bind {bound} {bound == 'None'}", "list ['inside']", "leader's '' []", f"alone {bound} ['inside']"]
    assert (result.status, result.out.splitlines()) == (3, lines), result.err
    assert ("pidfd_getfd; before Linux 6.9" in result.err) == (bound != "None")


def _before_thread_pidfds() -> bool:
    try:
        os.close(os.pidfd_open(os.getpid(), os.O_EXCL))  # PIDFD_THREAD
    except OSError as error:
        return error.errno == errno.EINVAL
    return False


def test_a_wall_that_stands_is_not_named_as_weakened() -> None:
    told = json.loads(husk(["run", "--json", "--weaken", "signals", "--", "true"]).out)
    assert told["weakened"] == []


def test_a_wall_that_is_done_without_is_named_as_weakened() -> None:
    need_bare()
    told = json.loads(husk(["run", "--json", "--weaken", "namespaces", "--", "true"]).out)
    assert told["weakened"] == ["namespaces"] and not told["walls"]["pid"]


def test_landlock_cannot_be_weakened() -> None:
    result = husk(["run", "--weaken", "landlock", "--", "true"])
    assert result.status == 2 and "not possible" in result.err
    assert husk(["run", "--weaken", "nonsense", "--", "true"]).status == 2


def test_the_table_says_what_the_json_says() -> None:
    plain, told = husk(["doctor"]), json.loads(husk(["doctor", "--json"]).out)
    assert [finding["name"] for finding in told["findings"]] == [row.name for row in ROWS]
    text = " ".join(plain.out.split())
    for finding in told["findings"]:
        mark = "ok" if finding["stands"] else "no" if finding["because"] is None else "--"
        assert f"{mark} {finding['what']}: " in text
        if not finding["stands"] and finding["because"] is None:
            assert finding["without"] in text and finding["remedy"] in text
    assert plain.status == told["exit_code"] and plain.out.rstrip().endswith(told["verdict"])
    assert (told["exit_code"] == 0) == all(f["stands"] for f in told["findings"] if f["need"] in (MINIMUM, FULL))
