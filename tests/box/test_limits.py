"""Guests that take too much: each is held to its limit, husk says which, and nothing of them is left.

Every bomb here is small and stands behind a limit and a time-out: what is tested is that husk stops it, not how big
it can get. That no process, state or control group is left is checked for every run (`running.husk_process`).
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import husk as husk_api
from husk.sandbox.limits import cgroups
from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import PATIENCE, PIPE, Result, finish, husk, husk_process, scratch, setting

pytestmark = [
    pytest.mark.both_settings,
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.needs("python3"),
]

LIMIT_MET = 124
TIMEOUT = ["--timeout", "90"]  # nothing here may get that far


def run(*words: str, limits: tuple[str, ...], options: tuple[str, ...] = ()) -> Result:
    chosen = [word for limit in limits for word in ("--limit", limit)]
    command = ["run", *TIMEOUT, *chosen, *options, "--", *words]
    with husk_process(command, stdin=PIPE, stdout=PIPE, stderr=PIPE) as running:
        result = finish(running.process, f"husk {words}", b"", 110)
    assert "Traceback" not in result.err
    assert not groups(running.process.pid), "a control group is left behind"
    return result


def groups(pid: int) -> list[str]:
    """Those of one husk: others may run on this machine at the same time, and be killed."""
    found = cgroups.delegation()
    return [name for name in os.listdir(found[0]) if name.startswith(f"{cgroups.PREFIX}{pid}-")] if found else []


def python(script: str, *limits: str) -> Result:
    return run("python3", "-c", script, limits=limits)


def told(result: Result, name: str) -> None:
    assert result.status == LIMIT_MET, result.err
    assert f"husk: limit: {name} " in result.err and "exceeded" in result.err and "the box was ended" in result.err


LET_GO = """
from mmap import *
m = mmap(-1, 200 << 20)
for i in range(200):
    m[i << 20 : i + 1 << 20] = bytes(1 << 20)
    m.madvise(MADV_DONTNEED, i << 20, 1 << 20)
"""
SEGMENTS = """
import ctypes
c = ctypes.CDLL(None)
c.shmat.restype, c.shmdt.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
for _ in range(20):
    at = c.shmat(c.shmget(0, 10 << 20, 0o600), None, 0)
    ctypes.memset(at, 1, 10 << 20)
    assert c.shmdt(at) == 0
"""


@pytest.mark.parametrize(
    "script",
    [
        "kept = [bytearray(b'x') * (1 << 20) for _ in range(1000)]",
        "import os; fd = os.memfd_create('m'); [os.write(fd, bytes(1 << 20)) for _ in range(500)]",
        "import os, time\n[os.fork() or (bytearray(b'x') * (12 << 20), time.sleep(600)) for _ in range(8)]",
        LET_GO,
        SEGMENTS,
    ],
    ids=["heap", "memfd", "many small ones", "let go", "segments that nobody has attached"],
)
def test_memory_bomb(script: str) -> None:
    told(python(script + "\nimport time; time.sleep(600)", "memory=64M", "processes=64"), "memory")


def test_memory_below_the_limit() -> None:
    result = python("import threading; x = bytearray(b'x') * (30 << 20); print(len(x))", "memory=200M")
    assert (result.status, result.out, result.err) == (0, f"{30 << 20}\n", "")


def test_processor_time_of_children() -> None:
    """None of them lives long enough to reach a limit alone. (One that runs alone: test_the_verdict_as_json.)"""
    script = "import os\nwhile True:\n if os.fork() == 0: sum(range(300000)); os._exit(0)\n os.wait()"
    told(python(script, "cpu=1s", "processes=64"), "cpu")


def test_sleeping_is_free() -> None:
    assert python("import time; time.sleep(1.2); print('up')", "cpu=1s").out == "up\n"


# The shell itself starts one process and no more: any other could be the one too many. It waits for the first refusal,
# and then for two seconds: where no control group counts, husk has to see the crowd.
BOMB = """
mkfifo idle; exec 4<>idle 3>&2 2>refused
b() { b | b & }; (b) &
while [ ! -s refused ]; do read -t 0.1 -u 4; done
read -t 2 -u 4; read -r line <refused; echo "$line" >&3; echo survived
"""


@pytest.mark.needs("bash")
def test_fork_bomb() -> None:
    """fork fails as under any limit of Linux, the box goes on, and its end takes the bomb along."""
    result = run("bash", "-c", BOMB, limits=("processes=40",))
    assert (result.status, result.out) == (0, "survived\n"), result.err
    assert "Resource temporarily unavailable" in result.err
    assert "husk: limit: processes 40 reached." in result.err


@pytest.mark.needs("bash")
def test_husk_answers_while_a_bomb_goes_off() -> None:
    """A second box of the same user starts and ends meanwhile."""
    bomb = ["run", *TIMEOUT, "--limit", "processes=40", "--", "bash", "-c", f"{BOMB}exec sleep 600"]
    with husk_process(bomb, stdout=PIPE, stderr=PIPE) as running:
        assert running.process.stdout is not None
        assert running.process.stdout.readline() == b"survived\n"
        assert husk(["run", "--", "sh", "-c", "ls /usr >/dev/null && (echo fine)"]).out == "fine\n"
        running.process.terminate()
        running.process.communicate(timeout=PATIENCE)


def test_threads() -> None:
    script = (
        "import threading, time\nn = 0\ntry:\n for n in range(10000):\n"
        "  threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "except RuntimeError as error: print(n, error, flush=True)\nopen('made', 'w'); import os; os._exit(3)"
    )
    result = python(script, "processes=100")
    assert (result.status, result.out) == (3, "99 can't start new thread\n"), result.err


def test_open_files() -> None:
    script = (
        "kept = []\ntry:\n while True: kept.append(open('/etc/passwd'))\n"
        "except OSError as e: print(e.errno)\nprint(kept[-1].fileno())"
    )
    result = python(script, "files=20")
    assert (result.status, result.out) == (0, "24\n19\n"), result.err
    assert "husk: limit: files 20 reached." in result.err
    assert python(script.replace("True", "len(kept) < 9"), "files=20").err == ""



def test_file_size() -> None:
    script = (
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "f = open('big', 'wb', 0)\ntry:\n while True: f.write(bytes(1 << 16))\n"
        "except OSError as e: print(e.errno, f.tell())"
    )
    result = python(script, "file-size=1M")
    assert (result.status, result.out) == (0, f"27 {1 << 20}\n")
    assert "husk: limit: file-size 1M reached." in result.err


WATCH = "import ctypes; c = ctypes.CDLL(None)\nassert c.inotify_add_watch(c.inotify_init(), b'.', 0x100) == 1\n"


@pytest.mark.parametrize(
    "script",
    [
        "for n in range(60): open(f'f{n}', 'wb').write(bytes(1 << 20))",
        "import os; k = []\nfor n in range(60): k.append(open('f', 'wb', 0)); os.unlink('f'); k[n].write(bytes(2**20))",
        WATCH + "for n in range(60): open(f'f{n}', 'wb').write(bytes(1 << 20))",
    ],
    ids=["named", "removed but open", "in a watched directory"],
)
def test_disk_bomb(script: str) -> None:
    told(python(script + "\nimport time; time.sleep(600)", "disk=16M"), "disk")


def test_space_cannot_be_taken_at_one_stroke() -> None:
    """By the time husk looks, it would have taken everything."""
    script = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open("f", os.O_RDWR | os.O_CREAT)
def allocate(mode, fd=fd):
    done = libc.fallocate(fd, mode, ctypes.c_long(0), ctypes.c_long(1 << 22))
    return ctypes.get_errno() if done else 0
print(*(allocate(mode) for mode in (0, 1, 0x10, 0x11, 0x40)), allocate(3), allocate(0, 99), os.fstat(fd).st_blocks)
os.posix_fallocate(fd, 0, 1 << 16)  # what a C library does instead: it writes
print(os.fstat(fd).st_blocks * 512 >= 1 << 16)
"""
    result = python(script, "disk=1M")
    assert (result.status, result.out) == (0, "95 95 95 95 95 0 9 0\nTrue\n"), result.err
    assert python(script, "file-size=1G").out.startswith("0 0 0 ")


def test_one_file_as_large_as_the_disk() -> None:
    """It stops there, so the sum is never too large: the program dies of SIGXFSZ, and husk names the limit."""
    result = run("dd", "if=/dev/zero", "of=x", "bs=1M", "count=8", limits=("disk=1M",))
    assert result.status == 128 + signal.SIGXFSZ and "husk: limit: disk 1M reached." in result.err


def test_many_files() -> None:
    script = (
        "import errno, os\nmade = 0\ntry:\n for made in range(10**6): os.close(os.open(f'f{made}', os.O_CREAT))\n"
        "except OSError as e: print(errno.errorcode[e.errno], made)\n"
        "def one(do):\n try: do(); return 'ok'\n except OSError as e: return errno.errorcode[e.errno]\n"
        "print(one(lambda: os.mkdir('d')), one(lambda: os.symlink('t', 's')), one(lambda: os.link('f1', 'l')),\n"
        "      one(lambda: os.mkfifo('p')), one(lambda: os.rename('f1', 'g')))\n"
        "os.unlink('f2'); print(one(lambda: os.mkdir('d')), one(lambda: os.mkdir('e')))\n"
        "os.rmdir('d'); print(one(lambda: os.symlink('t' * 1024, 's')), one(lambda: os.symlink('t', 's')))\n"
        "os.unlink('s'); print(one(lambda: os.link('g', 'l')), one(lambda: os.unlink('g')), one(lambda: os.mkdir('e')))"
    )
    result = python(script, "disk-files=1k")
    lines = ["ENOSPC 1000", "ENOSPC ENOSPC ENOSPC ENOSPC ok", "ok ENOSPC", "ENOSPC ok", "ok ok ok"]
    assert (result.status, result.out.splitlines()) == (0, lines), result.err
    assert "husk: limit: disk-files 1000 reached." in result.err


def test_links_do_not_fill_husks_memory() -> None:
    """Ten thousand symbolic links of 4,000 bytes, attributes of 32 KiB: what husk must remember is counted by size."""
    script = (
        "import os\nn = 0\ntry:\n for n in range(10**5): os.symlink('t' * 4000, f's{n}')\n"
        "except OSError as e: print(n, e.errno)\n"
        "[os.unlink(f's{i}') for i in range(n)]\nn = 0\n"
        "try:\n for n in range(10**5): os.mkdir(f'd{n}'); os.setxattr(f'd{n}', 'user.x', bytes(32 << 10))\n"
        "except OSError as e: print(n, e.errno)"
    )
    result = python(script, "disk-files=4k")
    assert (result.status, result.out) == (0, "1000 28\n121 28\n"), result.err


def test_output_bomb() -> None:
    result = run("sh", "-c", "yes | head -c 10G", limits=("output=100K",))
    told(result, "output")
    assert len(result.out) == 100 << 10


def test_output_of_both_streams_within_the_limit() -> None:
    result = run("sh", "-c", "echo out; echo err >&2; exit 3", limits=("output=8",))
    assert (result.status, result.out, result.err) == (3, "out\n", "err\n")


def test_much_output_passes_by_husk() -> None:
    """Without a limit the guest writes to the caller's own pipe: husk's memory has nothing to do with it."""
    with husk_process(["run", *TIMEOUT, "--", "sh", "-c", "yes | head -c 300M; sleep 600"], stdout=PIPE) as running:
        assert running.process.stdout is not None
        left = 300 << 20
        while left:
            got = len(running.process.stdout.read(min(left, 1 << 20)))
            assert got, "it ended"
            left -= got
        status = Path(f"/proc/{running.process.pid}/status").read_text()
        resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
        assert resident < 100_000, f"{resident} kB"
        running.process.terminate()
        running.process.wait(timeout=PATIENCE)


def as_json(*words: str, limits: tuple[str, ...], options: tuple[str, ...] = ()) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*words, limits=limits, options=("--json", *options)).out)
    return found


def test_the_verdict_as_json() -> None:
    result = as_json("sh", "-c", "while :; do :; done", limits=("cpu=1",))
    (limit,) = result["limits"]
    assert limit["name"] == "cpu" and limit["allowed"] == 1 and limit["seen"] > 1 and limit["ended"]
    assert limit["text"].startswith("limit: cpu 1s exceeded")
    assert (result["exit_code"], result["timed_out"]) == (LIMIT_MET, False)


def test_time_is_a_limit() -> None:
    for option in (["--limit", "time=1"], ["--timeout", "1"]):
        begin = time.monotonic()
        result = json.loads(husk(["run", "--json", *option, "--", "sleep", "60"]).out)
        assert (result["exit_code"], result["timed_out"]) == (LIMIT_MET, True)
        assert [limit["text"] for limit in result["limits"]] == ["limit: time 1s exceeded"]
        assert time.monotonic() - begin < 60
    said = husk(["run", "--limit", "time=1", "--", "sleep", "60"]).err
    assert said == "husk: limit: time 1s exceeded; the box was ended.\n"


def test_what_was_lost_is_counted() -> None:
    with scratch() as place:
        events = place / "events"
        script = "for n in 1 2 3 4 5 6 7 8 9; do cat /etc/passwd >/dev/null; done"
        result = as_json("sh", "-c", script, limits=("events=2K",), options=("--events", str(events)))
        lines = events.read_text().splitlines()
        assert 0 < events.stat().st_size <= 2048 and all(json.loads(line)["event"] for line in lines)
        assert result["lost"]["events"] > 0 and result["lost"]["refusals"] == 0
        assert [limit["name"] for limit in result["limits"]] == ["events"] and not result["limits"][0]["ended"]
        summary = run("sh", "-c", script, limits=("events=2K",), options=("--events", str(events), "--summary"))
        # Not the same number: the length of a line depends on the process's id.
        assert re.search(r"^  not written down: [1-9]\d* events$", summary.err, re.MULTILINE)


def test_kept_output_that_was_cut_is_told() -> None:
    result = as_json("sh", "-c", "yes | head -c 17M", limits=())
    assert (len(result["stdout"]), result["lost"]["stdout"]) == (16 << 20, 1 << 20)


def test_a_crash_shows_nothing_to_the_host() -> None:
    """If the caller's own hard limit is 0, husk can set no other. With 0 the host still runs a core handler: it must
    get nothing."""

    def of(file: Path) -> str:
        try:
            return file.read_text()
        except (FileNotFoundError, ProcessLookupError):  # a process that helped to build the box and has ended
            return ""

    script = "echo 0x33 >/proc/self/coredump_filter && echo ready; read word"  # which is allowed, and does nothing
    command = ["run", *TIMEOUT, "--", "sh", "-c", script]
    with husk_process(command, stdin=PIPE, stdout=PIPE, stderr=PIPE) as running:
        assert running.process.stdout is not None and running.process.stdout.readline() == b"ready\n"
        found, todo = [], [running.process.pid]
        while todo:
            for children in Path(f"/proc/{todo.pop()}/task").glob("*/children"):
                found += (born := [int(word) for word in of(children).split()])
                todo += born
        guests = [pid for pid in found if of(Path(f"/proc/{pid}/comm")) == "sh\n"]
        assert guests and all(int(Path(f"/proc/{pid}/coredump_filter").read_text(), 16) == 0 for pid in guests)
        finish(running.process, "husk", b"", 110)


def test_no_core_file_leaves_the_box() -> None:
    """Not 0: with 0 a host that pipes core files to a program would still feed it the guest's memory."""
    def of(what: str) -> str:
        return python(f"import resource as r\n{what}\nprint(r.getrlimit(r.RLIMIT_CORE))").out

    caller = resource.getrlimit(resource.RLIMIT_CORE)[1]
    expected = "(0, 0)\n" if caller == 0 else "(1, 1)\n"
    assert of("") == expected
    # It is shown what it set; what the host goes by stays as it is. A guest that crashes on purpose would set it to 0.
    assert of("r.setrlimit(r.RLIMIT_CORE, (0, 0))") == "(0, 0)\n"
    assert of("r.prlimit(0, r.RLIMIT_CORE, (0, 0))") == "(0, 0)\n"
    assert of("import os; print(r.prlimit(os.getpid(), r.RLIMIT_CORE, (0, 0)))") == f"{expected}(0, 0)\n", "the old one"
    assert of("import os; print(r.prlimit(os.getpid(), r.RLIMIT_CORE))") == expected * 2
    for call in ("setrlimit(r.RLIMIT_CORE", "prlimit(0, r.RLIMIT_CORE"):
        code = f"import resource as r, sys; r.{call}, (0, 0)); print('set', flush=True); sys.stdin.read()"
        with husk_api.Sandbox(namespaces=setting() == "walled") as box:
            process = box.popen(["python3", "-c", code], stdin=husk_api.PIPE, stdout=husk_api.PIPE, text=True)
            assert process.stdout is not None and process.stdout.readline() == "set\n"
            on_host = Path(f"/proc/{process.pid}/limits").read_text().partition("Max core file size")[2].split()[:2]
            process.communicate()
        assert on_host == ["0" if caller == 0 else "1"] * 2
