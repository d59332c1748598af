"""Sandbox.run and popen have subprocess's habits, and what one run wrote the next one finds."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

import husk
from tests.lib.running import scratch


def test_output_status_and_input(box: husk.Sandbox) -> None:
    done = box.run(["sh", "-c", "cat; echo err >&2; exit 3"], input="in\n", capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == ("in\n", "err\n", 3)
    assert isinstance(done, subprocess.CompletedProcess) and done.args[0] == "sh"
    assert box.run(["cat"], input=b"\xff\0", capture_output=True).stdout == b"\xff\0"
    assert box.run("echo $0 $A", shell=True, env={"A": "b"}, capture_output=True, text=True).stdout == "/bin/sh b\n"
    assert box.run(["sh", "-c", "echo one; echo two >&2"], stdout=husk.PIPE, stderr=husk.STDOUT, text=True).stdout == (
        "one\ntwo\n"
    )


def test_large_input_and_output_at_once(box: husk.Sandbox) -> None:
    data = bytes(range(256)) * 4096
    assert box.run(["cat"], input=data, capture_output=True).stdout == data


def test_nobody_reads_the_input(box: husk.Sandbox) -> None:
    assert box.run(["true"], input=b"x" * 1_000_000).returncode == 0


def test_no_input_unless_given(box: husk.Sandbox) -> None:
    assert box.run(["cat"], capture_output=True).stdout == b""


def test_state_lasts_from_run_to_run(box: husk.Sandbox) -> None:
    box.run("mkdir -p d; echo one > d/f; ln -s f d/l", shell=True, check=True)
    done = box.run("cat d/l; rm d/l", shell=True, capture_output=True, text=True)
    assert done.stdout == "one\n" and done.returncode == 0
    assert box.diff() == [husk.Change("added", "/workspace/d"), husk.Change("added", "/workspace/d/f")]
    assert done.changes == [husk.Change("deleted", "/workspace/d/l")]


def test_a_run_tells_its_own_changes(box: husk.Sandbox) -> None:
    """Not those of the runs before it, nor what was opened for writing and not written."""
    box.run("mkdir d; echo one > d/f; echo two > kept; echo three > opened", shell=True, check=True)
    box.write("given", b"by the caller")
    assert box.run(["cat", "kept", "given"], capture_output=True).changes == []
    done = box.run("mv d e; echo more >> kept; : >> opened; chmod 600 given", shell=True, check=True)
    assert {change.path: change.kind for change in done.changes} == {
        "/workspace/d": "deleted", "/workspace/e": "added", "/workspace/e/f": "added", "/workspace/given": "changed",
        "/workspace/kept": "changed",
    }  # fmt: skip


def test_changes_on_the_host() -> None:
    with scratch() as out, husk.Sandbox(mounts=[f"{out}:/out:rw"]) as box:
        for name in ("gone", "old"):
            (out / name).write_text(name)
        done = box.run("rm /out/gone; mv /out/old /out/new", shell=True, check=True)
    assert {change.path: change.kind for change in done.host_changes} == {
        "/out/gone": "deleted", "/out/new": "added", "/out/old": "deleted",
    }  # fmt: skip
    assert done.changes == []


def test_working_directory(box: husk.Sandbox) -> None:
    box.run(["mkdir", "sub"], check=True)
    for cwd, where in ((None, "/workspace"), ("sub", "/workspace/sub"), ("/tmp", "/tmp")):
        assert box.run(["pwd"], cwd=cwd, capture_output=True, text=True).stdout == where + "\n"
    with pytest.raises(husk.UsageError, match="No such file"):
        box.run(["pwd"], cwd="nowhere")
    assert box.run(["true"]).returncode == 0


def test_check_and_its_message(box: husk.Sandbox) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        box.run("echo out; exit 5", shell=True, check=True, capture_output=True, text=True)
    assert caught.value.returncode == 5 and caught.value.output == "out\n"
    assert isinstance(caught.value, husk.CalledProcessError)
    assert "the failure is the program's own" in str(caught.value)


def test_a_timeout_ends_the_run_and_not_the_box(box: husk.Sandbox) -> None:
    for seconds in (1, 10, 60):  # until there is time enough to begin, however busy the machine
        with pytest.raises(husk.TimeoutExpired) as caught:
            box.run("echo begun; : > begun; sleep 100 & sleep 100", shell=True, timeout=seconds, capture_output=True)
        if box.exists("begun"):
            break
    assert caught.value.output == b"begun\n" and caught.value.result.timed_out
    assert isinstance(caught.value, subprocess.TimeoutExpired)
    assert "larger timeout" in caught.value.result.explain()
    assert box.run(["true"]).returncode == 0


def test_programs_that_cannot_be_run(box: husk.Sandbox) -> None:
    with pytest.raises(FileNotFoundError):
        box.run(["no-such-program"])
    with pytest.raises(husk.NotFound):
        box.popen(["no-such-program"])
    with pytest.raises(PermissionError):
        box.run(["/etc/passwd"])
    box.write("script", "#!/no/such/interpreter\n")
    box.run(["chmod", "+x", "script"], check=True)
    with pytest.raises(FileNotFoundError, match="interpreter"):
        box.run(["./script"])
    for nonsense in ([], [""], ["a\0b"]):
        with pytest.raises(ValueError):
            box.run(nonsense)


def test_signals_are_negative_return_codes(box: husk.Sandbox) -> None:
    assert box.run("kill -SEGV $$", shell=True).returncode == -signal.SIGSEGV


def test_what_a_run_left_behind_ends_with_it(box: husk.Sandbox) -> None:
    """Or this would take longer than any test may."""
    assert box.run("sleep 10000 & setsid sleep 10000 &", shell=True, capture_output=True).returncode == 0


def test_streams_of_a_running_program(box: husk.Sandbox) -> None:
    with box.popen(["cat"], stdin=husk.PIPE, stdout=husk.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        for word in ("one", "two"):
            process.stdin.write(word + "\n")
            assert process.stdout.readline() == word + "\n"
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.stdin.close()
        assert process.wait() == 0 == process.poll() == process.returncode


def test_signalling_a_running_program(box: husk.Sandbox) -> None:
    process = box.popen("trap 'echo caught; exit 7' TERM; echo set; while :; do sleep 0.01; done", shell=True,
                        stdout=husk.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"set\n"
    process.terminate()
    assert process.communicate() == (b"caught\n", None)
    assert process.returncode == 7
    process.terminate()  # the process has ended already
    other = box.popen(["sleep", "100"])
    other.kill()
    assert other.wait() == -signal.SIGKILL


def test_communicate_goes_on_after_a_timeout(box: husk.Sandbox) -> None:
    process = box.popen("echo one; read x; echo $x", shell=True, stdin=husk.PIPE, stdout=husk.PIPE, text=True)
    assert process.stdin is not None
    with pytest.raises(subprocess.TimeoutExpired):
        # With nothing to write communicate would close the input.
        process.wait(0.2)
    assert process.communicate("two\n") == ("one\ntwo\n", None)


def test_runs_side_by_side_share_files_and_see_only_their_own_processes(box: husk.Sandbox) -> None:
    waiting = box.popen("echo there > flag; while [ -e flag ]; do sleep 0.02; done; echo gone", shell=True,
                        stdout=husk.PIPE, text=True)
    while not box.exists("flag"):
        time.sleep(0.01)
    listing = box.run("for p in /proc/[0-9]*; do cat $p/cmdline; done | tr '\\0' ' '", shell=True, capture_output=True,
                      text=True).stdout
    assert "flag" not in listing
    assert "for p in" in listing
    box.run(["rm", "flag"], check=True)
    assert waiting.communicate() == ("gone\n", None)


def test_a_change_in_one_run_is_seen_at_once_in_another(box: husk.Sandbox) -> None:
    """What the first has looked up, and husk remembers, must not outlive the change."""
    process = box.popen("while read x; do cat $x 2>/dev/null || echo none; echo done; done", shell=True,
                        stdin=husk.PIPE, stdout=husk.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None

    def asked(name: str) -> str:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(name + "\n")
        answer = process.stdout.readline()
        # cat reads once more at the end, and must have done so before the file is replaced.
        assert process.stdout.readline() == "done\n"
        return str(answer)

    for round_ in range(3):
        assert asked("new") == "none\n"
        box.run(["sh", "-c", f"echo {round_} > new"], check=True)
        assert asked("new") == f"{round_}\n"
        box.write("new", "by hand\n")
        assert asked("new") == "by hand\n"
        box.run(["rm", "new"], check=True)
    process.communicate()


def test_many_threads(box: husk.Sandbox) -> None:
    found: list[str] = []

    def work(number: int) -> None:
        done = box.run(["sh", "-c", f"echo {number} > f{number}; cat f{number}"], capture_output=True, text=True)
        found.append(done.stdout)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [f"{number}\n" for number in range(6)]
    assert box.listdir() == [f"f{number}" for number in range(6)]


def test_loopback_is_the_box_s(tmp_path: Path) -> None:
    server = (
        "import socket; s = socket.socket(); s.bind(('127.0.0.1', 8000)); s.listen(); print('up', flush=True)\n"
        "s.accept()[0].sendall(b'hello')"
    )
    client = "import socket; print(socket.create_connection(('127.0.0.1', 8000)).recv(9).decode())"
    with husk.Sandbox() as box, husk.Sandbox() as other:
        serving = box.popen(["python3", "-c", server], stdout=husk.PIPE)
        assert serving.stdout is not None and serving.stdout.readline() == b"up\n"
        assert other.run(["python3", "-c", client], capture_output=True).returncode == 1
        assert box.run(["python3", "-c", client], capture_output=True, text=True).stdout == "hello\n"
        serving.communicate()


def test_one_liner(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("mounted")
    done = husk.run(["cat", "/m/f"], mounts=[f"{tmp_path}:/m:ro"], capture_output=True, text=True)
    assert done.stdout == "mounted"
