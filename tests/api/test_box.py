"""The box's files, refusals as data, hooks, limits, and how boxes end."""

from __future__ import annotations

import errno
import gc
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

import husk
from tests.api.conftest import children, descriptors
from tests.lib.running import need_bare, until


def test_files_both_ways(box: husk.Sandbox) -> None:
    box.write("a/b/c.txt", "text é")
    box.write("/tmp/raw", b"\xff\0")
    box.write("/tmp/raw", b"more", append=True)
    shown = box.run("cat a/b/c.txt; stat -c '%U %a' a/b a/b/c.txt", shell=True, capture_output=True, text=True)
    assert shown.stdout == "text éuser 755\nuser 644\n"
    assert box.read("a/b/c.txt", text=True) == "text é" and box.read("/tmp/raw") == b"\xff\0more"
    assert box.listdir("a") == ["b"] and "usr" in box.listdir("/")
    assert box.exists("a/b") and not box.exists("a/c")
    assert box.read("/proc/version") and box.exists("/usr/bin/env")


def test_files_refused_as_the_guest_would_be(box: husk.Sandbox) -> None:
    box.run("echo x > f; chmod 0 f; mkfifo p; mkdir d; ln -s nowhere l", shell=True, check=True)
    for name, error in (("f", errno.EACCES), ("none", errno.ENOENT), ("d", errno.EISDIR), ("p", errno.EINVAL)):
        with pytest.raises(OSError) as caught:
            box.read(name)
        assert caught.value.errno == error and caught.value.filename == f"/workspace/{name}"
    with pytest.raises(FileNotFoundError):
        box.write("no/such", "", parents=False)
    with pytest.raises(PermissionError):
        box.write("/usr/new", "")
    with pytest.raises(FileNotFoundError):
        box.read("/etc/shadow")
    with pytest.raises(NotADirectoryError):
        box.listdir("f")
    assert not box.exists("l")


def test_the_host_is_not_reached(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("host only")
    with husk.Sandbox(mounts=[f"{tmp_path}:/m:cow"]) as box:
        box.run(["ln", "-s", f"{secret}", "out"], check=True)
        with pytest.raises(FileNotFoundError):
            box.read("out")
        box.write("/m/secret", "changed")
        assert box.read("/m/secret", text=True) == "changed"
    assert secret.read_text() == "host only"


def test_denials_and_explanation() -> None:
    with husk.Sandbox() as box:
        done = box.run(
            "cat /etc/shadow; cat /etc/shadow; cat /etc/gshadow; exit 1", shell=True, capture_output=True
        )
        (first, second) = done.denials
        assert (first.what, first.errno, second.what) == ("/etc/shadow", "ENOENT", "/etc/gshadow")
        assert first.allow == "mounts=['/etc/shadow:/etc/shadow:ro']"
        said = done.explain()
        assert "/etc/shadow, /etc/gshadow: nothing is mounted there (at least" in said
        assert "mounts=['/etc/shadow:/etc/shadow:ro', '/etc/gshadow:/etc/gshadow:ro']" in said  # of each
        fine = box.run(["true"])
        assert fine.denials == [] and "ended well" in fine.explain() and "efused" not in fine.explain()
        wrong = box.run(["false"])
        assert "the failure is the program's own" in wrong.explain()
    assert first.allow.startswith("mounts=")


REFUSALS = {
    "python3 -c 'import socket; socket.getaddrinfo(\"example.org\", 80)'": "- look-up of example.org: the box has",
    "python3 -c 'import socket; socket.socket(2, 3, 1)'": "raw sockets need a capability that no guest has",
    "python3 -c 'import socket; socket.create_connection((\"169.254.169.254\", 80))'": "where clouds keep credentials",
    "mount -t tmpfs x /mnt": (
        'mount("x", "/mnt", "tmpfs", 0, NULL): a box\'s mounts are chosen from outside, with mounts.'
    ),
    "unshare -Ur true": "a new namespace would bring capabilities",
    "nonesuch": "exit code 127 after",
    "head -c 3M /dev/zero > f": "Limit: file-size 2M reached. Calls failed for it. To allow more: limits={'file-size'",
    "echo > /ro/f": "it is mounted read-only. To allow it, mount it with :rw",
}


@pytest.mark.parametrize("namespaces", [True, False])
def test_refusals_as_a_model_reads_them(namespaces: bool, tmp_path: Path) -> None:
    if not namespaces:
        need_bare()
    with husk.Sandbox(namespaces=namespaces, limits={"file-size": "2M"}, mounts=[f"{tmp_path}:/ro"]) as box:
        for command, sentence in REFUSALS.items():
            told = box.run(command, shell=True, capture_output=True, text=True).explain()
            assert sentence in told and "--" not in told and "0x7" not in told, (command, told)
        assert "no such program" in box.run("nonesuch", shell=True, capture_output=True).explain()
    with husk.Sandbox(namespaces=namespaces, limits={"memory": "64M"}) as box:
        # It keeps the memory until husk has measured it: without a control group husk measures now and then.
        grown = box.run(["python3", "-c", "x = b'x' * (1 << 30); import time; time.sleep(60)"], capture_output=True)
        assert "because it met a limit" in grown.explain() and "memory 64M exceeded" in grown.explain()


def test_network_refusals_say_what_would_allow_them() -> None:
    client = "import socket; socket.create_connection(('192.0.2.1', 80))"
    done = husk.run(["python3", "-c", client], capture_output=True)
    (denial,) = done.denials
    assert denial.errno == "ENETUNREACH" and denial.allow == "net=['192.0.2.1:80']"


def test_limits_are_told() -> None:
    with husk.Sandbox(limits={"time": "1s"}) as box:
        slow = box.run(["sleep", "60"])
        assert slow.timed_out and slow.returncode == 124 and [met.name for met in slow.limits] == ["time"]
    with husk.Sandbox(limits={"disk-files": 5}) as box:
        many = box.run("for i in 1 2 3 4 5 6 7 8; do echo > $i; done", shell=True, capture_output=True)
        assert "disk-files" in many.explain() and "limits={'disk-files': ...}" in many.explain()
    with husk.Sandbox(limits={"output": "1K"}) as box:
        loud = box.run(["yes"], capture_output=True)
        assert loud.returncode == 124 and "output" in loud.explain()
    with husk.Sandbox(limits={"disk": "5M"}) as box:
        assert box.run("head -c 3M /dev/urandom > one", shell=True).returncode == 0
        full = box.run("head -c 3M /dev/urandom > two; sleep 60", shell=True)
        assert full.returncode == 124 and [met.name for met in full.limits] == ["disk"]
    with pytest.raises(husk.UsageError, match="memory"):
        husk.Sandbox(limits={"memory": "lots"})


def test_output_is_limited_wherever_it_goes(tmp_path: Path) -> None:
    """Captured, to a file, and through a pipe that the application reads itself: exactly so many bytes."""
    with husk.Sandbox(limits={"output": "1K"}) as box:
        assert box.run(["yes"], capture_output=True).stdout == b"y\n" * 512
        with (tmp_path / "out").open("wb") as file:
            loud = box.run("yes; echo never", shell=True, stdout=file, stderr=husk.STDOUT)
        assert [met.name for met in loud.limits] == ["output"] and (tmp_path / "out").read_bytes() == b"y\n" * 512
        with box.popen(["yes"], stdout=husk.PIPE) as process:
            assert process.stdout is not None and process.stdout.read() == b"y\n" * 512
            assert process.result().returncode == 124
        assert box.run(["sh", "-c", "echo out; echo err >&2"], capture_output=True).stderr == b"err\n"


def test_output_that_is_not_read_holds_nothing_up() -> None:
    with husk.Sandbox(limits={"output": "100M"}) as box:
        process = box.popen(["yes"], stdout=husk.PIPE)
        time.sleep(0.5)  # by now every pipe is full
        process.kill()
        assert process.wait(20) == -9
        process.close_pipes()


def test_events_when_wanted() -> None:
    with husk.Sandbox(events=True) as box:
        first = box.run(["cat", "/etc/hostname"], capture_output=True)
        second = box.run(["true"])
    assert any(event["event"] == "open" and event["path"] == "/etc/hostname" for event in first.events)
    assert not any(event.get("path") == "/etc/hostname" for event in second.events)
    assert husk.run(["true"]).events == []


def test_usage() -> None:
    used = husk.run(["python3", "-c", "sum(range(10**6))"]).usage
    assert used.user_seconds + used.system_seconds > 0 and used.seconds > 0 and used.max_rss > 1 << 20


def test_hooks_observe_refuse_and_rewrite(box: husk.Sandbox) -> None:
    box.write("real", "the real one\n")
    box.write("other", "another\n")
    seen: list[str] = []

    @box.on("openat", "execve", "renameat2", "rename")
    def look(call: husk.Seen) -> str | None:
        seen.append(f"{call.name} {call.path} {call.new_path} {call.flags}".rstrip())
        if call.path == "secret":
            raise PermissionError
        if call.path == "full":
            raise OSError(errno.ENOSPC, "nothing fits")
        if call.path == "broken":
            raise ZeroDivisionError
        return {"real": "other", "/usr/bin/tac": "/usr/bin/cat"}.get(call.path)

    done = box.run("cat real; cat secret; cat full; cat broken; /usr/bin/tac real; mv real moved", shell=True,
                   capture_output=True, text=True)
    assert done.stdout == "another\nanother\n"
    for word in ("secret: Permission denied", "full: No space left on device", "broken: Input/output error"):
        assert word in done.stderr
    assert "openat real  O_RDONLY" in seen and any(one.endswith("real moved") for one in seen)
    assert any("the application refused it (nothing fits)" in denial.reason for denial in done.denials)
    assert "ZeroDivisionError" in done.faults[0] and len(done.faults) == 1


def test_hooks_on_addresses() -> None:
    with husk.Sandbox() as box:
        @box.on("connect")
        def reroute(call: husk.Seen) -> str | None:
            if call.address == "192.0.2.7:80":
                return "127.0.0.1:8000"
            if call.address == "unix:/run/s":
                raise ConnectionRefusedError
            return None

        program = (
            "import socket; s = socket.socket(); s.bind(('127.0.0.1', 8000)); s.listen()\n"
            "c = socket.create_connection(('192.0.2.7', 80)); print(c.getpeername())\n"
            "u = socket.socket(socket.AF_UNIX); print(u.connect_ex('/run/s'))"
        )
        done = box.run(["python3", "-c", program], capture_output=True, text=True)
    assert done.stdout == f"('127.0.0.1', 8000)\n{errno.ECONNREFUSED}\n", done.stderr


def test_hooks_see_what_husk_would_answer_without_python(box: husk.Sandbox) -> None:
    """Look-ups and programs that the name cache knows, and connections within the box's own loopback."""
    box.write("d/f", "text")
    box.run(["ln", "-s", "f", "d/l"], check=True)
    script = (
        "import os, socket, subprocess\n"
        "for _ in range(3):\n"
        "    os.stat('d/f'); os.access('/usr/bin/env', 4); open('/usr/bin/env').close(); os.readlink('d/l')\n"
        "    subprocess.run(['/usr/bin/true'], close_fds=False)\n"
        "    s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()\n"
        "    c = socket.socket(); print(c.connect_ex(s.getsockname()))\n"
        "    u = socket.socket(type=socket.SOCK_DGRAM); u.sendto(b'x', ('127.0.0.1', 9))\n"
    )
    run = ["/usr/bin/python3", "-c", script]
    assert box.run(run, check=True, capture_output=True, text=True).stdout == "0\n" * 3  # what can be learnt is
    seen: list[tuple[str, str]] = []
    wanted = ("stat", "newfstatat", "statx", "access", "faccessat", "faccessat2", "openat", "readlink", "readlinkat")

    @box.on(*wanted, "execve", "connect", "sendto")
    def look(call: husk.Seen) -> None:
        seen.append((call.name, call.path or call.address.rpartition(":")[0]))

    assert box.run(run, check=True, capture_output=True, text=True).stdout == "0\n" * 3
    for path, names in (
        ("d/f", {"stat", "newfstatat", "statx"}),
        ("/usr/bin/env", {"access", "faccessat", "faccessat2"}),
        ("/usr/bin/env", {"openat"}),
        ("d/l", {"readlink", "readlinkat"}),
        ("/usr/bin/true", {"execve"}),
        ("127.0.0.1", {"connect"}),
    ):
        assert len([name for name, shown in seen if shown == path and name in names]) == 3, (path, seen)
    assert len([name for name, _ in seen if name == "sendto"]) == 3


def test_hooks_refuse_a_connection_within_the_box(box: husk.Sandbox) -> None:
    @box.on("connect")
    def refuse(call: husk.Seen) -> None:
        if call.address == "127.0.0.1:8000":
            raise PermissionError(errno.EACCES, "not this port")

    script = "import socket; print(socket.socket().connect_ex(('127.0.0.1', 8000)))"
    done = box.run(["python3", "-c", script], capture_output=True, text=True)
    assert done.stdout == f"{errno.EACCES}\n" and "not this port" in done.denials[0].reason


def test_hooks_on_what_husk_does_not_see() -> None:
    with husk.Sandbox() as box:
        for name in ("read", "no_such_call", "rt_sigaction"):
            with pytest.raises(ValueError, match="husk syscalls"):
                box.on(name)(lambda call: None)


def test_commit_and_keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUSK_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("HUSK_STATE", str(tmp_path / "kept"))
    with husk.Sandbox() as box:
        box.run("echo one > f", shell=True, check=True)
        box.commit("mine")
        box.run("echo two > f", shell=True, check=True)
    with husk.Sandbox("mine") as box:
        assert box.run(["cat", "/workspace/f"], capture_output=True, text=True).stdout == "one\n"
    for number in range(2):
        with husk.Sandbox(keep="lasting") as box:
            box.run("echo x >> f", shell=True, check=True)
            assert box.read("f") == b"x\n" * (number + 1)


# -- how boxes end -----------------------------------------------------------------------------------------------------


def test_a_closed_box_says_so() -> None:
    box = husk.Sandbox()
    running = box.popen(["sleep", "100"])
    box.close()
    box.close()
    assert running.wait() == -signal.SIGKILL and box.closed
    for use in (lambda: box.run(["true"]), lambda: box.read("f"), box.diff):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_a_forgotten_box_warns_and_goes() -> None:
    box = husk.Sandbox()
    box.run(["true"])
    with pytest.warns(ResourceWarning, match="not closed"):
        del box
        gc.collect()


def test_wrong_arguments_leave_nothing() -> None:
    for wrong in ({"mounts": ["/no/such:/m"]}, {"cwd": "/no/such"}, {"net": "internet"}, {"image": "no-such-image"}):
        with pytest.raises(husk.UsageError):
            husk.Sandbox(**wrong)


@pytest.mark.parametrize("mode", ["ro", "rw", "cow"])
def test_a_mount_that_fails_leaves_nothing(tmp_path: Path, mode: str) -> None:
    """There is a file where a directory would have to be."""
    (tmp_path / "m").mkdir()
    for source in ("m", "m/f"):
        if source == "m/f":
            (tmp_path / source).touch()
        with pytest.raises(husk.HuskError):
            husk.Sandbox(mounts=[f"{tmp_path / source}:/proc/version/x:{mode}"])


def _wait_until_not_ready(box: husk.Sandbox) -> None:
    while box.ready:
        time.sleep(0.01)


def test_a_waiting_run_that_dies_is_replaced(box: husk.Sandbox) -> None:
    assert box.ready
    assert box._runs.standby is not None
    os.kill(box._runs.standby.pid, signal.SIGKILL)
    _wait_until_not_ready(box)
    assert box.run(["echo", "still"], capture_output=True).stdout == b"still\n"


def test_a_dozen_boxes_leave_nothing() -> None:
    before = descriptors()
    for number in range(12):
        with husk.Sandbox() as box:
            box.run(["sh", "-c", f"echo {number} > f"])
    assert until(lambda: descriptors().keys() == before.keys()), descriptors()


@pytest.mark.parametrize("namespaces", [True, False], ids=["walled", "bare"])
def test_descriptors_do_not_wait_for_pythons_collector(namespaces: bool, tmp_path: Path) -> None:
    """The traceback of a kept error refers to the call and the listener, and maybe to the error itself."""
    if not namespaces:
        need_bare()
    (tmp_path / "big").write_bytes(bytes(5_000_000))
    work = (
        "ls -l --color=always /usr /none; cd /none; echo x >>/given/big; mkfifo p; cat p & echo x >p; wait; ./p; none;"
        " python3 -c 'import os; os.setxattr(\".\", \"user.x\", b\"\"); os.getxattr(\".\", \"user.y\")'"
    )
    before = descriptors()
    gc.collect()
    gc.disable()
    try:
        with husk.Sandbox(namespaces=namespaces, mounts=[f"{tmp_path}:/given:cow"]) as box:
            box.run(work, shell=True, capture_output=True)
        assert until(lambda: descriptors().keys() == before.keys()), descriptors()
    finally:
        gc.enable()


@pytest.mark.soak
def test_two_hundred_boxes_leave_nothing() -> None:
    before, threads = descriptors(), threading.active_count()
    for number in range(200):
        with husk.Sandbox() as box:
            box.run(["sh", "-c", f"echo {number} > f; ls /proc/self/fd > /dev/null"])
    assert descriptors().keys() == before.keys() and threading.active_count() == threads and children() == []


def in_python(text: str, *, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """A program of its own, because it forks, is interrupted or ends without closing."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", textwrap.dedent(text)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment)


def test_a_program_that_ends_without_closing() -> None:
    done = in_python("""
        import husk
        box = husk.Sandbox()
        sleeping = box.popen(["sleep", "100"])
        pool = husk.Pool(1)
        print(pool.run(["true"]).returncode)
    """)
    assert (done.stdout, done.stderr, done.returncode) == ("0\n", "", 0)


def test_a_forked_child_does_not_harm_its_parent_s_boxes() -> None:
    done = in_python("""
        import os, sys, husk
        box = husk.Sandbox()
        box.write("f", "parent's")
        cat = box.popen(["cat"], stdin=husk.PIPE, stdout=husk.PIPE)
        child = os.fork()
        if child == 0:
            try:
                box.run(["true"])
            except ValueError as error:
                print(error, flush=True)
            with husk.Sandbox() as own:
                print(own.run(["echo", "child's own"], capture_output=True, text=True).stdout, end="", flush=True)
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print(cat.communicate(b"still here")[0].decode())
        print(box.run(["cat", "f"], capture_output=True, text=True).stdout)
        box.close()
    """)
    assert done.stdout == "the sandbox is closed\nchild's own\nstill here\nparent's\n", done.stderr
    assert done.returncode == 0


def test_a_fork_while_a_library_is_searched(tmp_path: Path) -> None:
    """Its lock is the process's. A child that found it taken would wait for ever in its first box."""
    library = next(path for path in ("/lib64/libc.so.6", "/lib/x86_64-linux-gnu/libc.so.6") if os.path.exists(path))
    shutil.copy(library, tmp_path / "library")
    done = in_python(f"""
        import os, signal, threading
        from husk.native._core import search_library
        library = {os.fspath(tmp_path / "library")!r}.encode()
        ended = threading.Event()
        def search():
            while not ended.is_set():
                os.utime(library)  # it has changed: it is searched anew
                search_library(library)
        threading.Thread(target=search).start()
        for _ in range(50):
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                search_library(library)
                os._exit(0)
            status = os.waitpid(child, 0)[1]
            if status:
                break
        ended.set()
        print(status)
    """)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_an_interrupt_ends_the_run() -> None:
    done = in_python("""
        import husk, signal, threading, os, time
        with husk.Sandbox() as box:
            def interrupt():
                while not box.exists("begun"):
                    time.sleep(0.01)
                os.kill(os.getpid(), signal.SIGINT)

            threading.Thread(target=interrupt).start()
            try:
                box.run(": > begun; sleep 100", shell=True)
            except KeyboardInterrupt:
                print("interrupted")
            print(box.run(["echo", "goes on"], capture_output=True, text=True).stdout, end="")
    """)
    assert done.stdout == "interrupted\ngoes on\n", done.stderr


def test_an_interrupt_just_before_the_wait_ends_the_run() -> None:
    """Python has noted the signal, and the host does not wake the thread for it."""
    done = in_python("""
        import _thread, husk, threading
        with husk.Sandbox() as box:
            run = box.popen(["sleep", "300"])
            threading.Timer(0.5, _thread.interrupt_main).start()
            try:
                run.wait()
            except KeyboardInterrupt:
                print("interrupted")
    """)
    assert done.stdout == "interrupted\n", done.stderr


def test_importing_husk_is_cheap() -> None:
    done = in_python("import sys, husk; print(sorted({'asyncio', 'subprocess', 'typing', 'json'} & set(sys.modules)))")
    assert done.stdout == "[]\n"
