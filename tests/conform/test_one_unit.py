"""A unit's process is bounded in time and output, and nothing of it is left, whatever it does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from husk.conform.execute.one_unit import HEAD, TAIL, Stopped, Stopping, account, run_unit
from husk.conform.execute.where import Where, behind, in_husk, native
from husk.conform.units import Ended, Unit
from husk.sandbox.errors import UsageError
from tests.conform.mini_suite import processes_named
from tests.lib.running import until


def unit(*argv: str, timeout: float = 60.0) -> Unit:
    return Unit("s", "commands", "f", argv, environment=(("PATH", "/usr/bin:/bin"), ("COLOUR", "red")), timeout=timeout)


def shell(script: str, where: Where | None = None, timeout: float = 60.0) -> Ended:
    return run_unit(unit("/bin/sh", "-c", script, timeout=timeout), where or native())


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


WHERE = [native(), in_husk("walled"), in_husk("bare"), behind("env SEEN=1")]


@pytest.mark.parametrize("where", WHERE, ids=lambda where: where.runtime)
def test_what_a_program_gets_and_leaves(where: Where, tmp_path: Path) -> None:
    script = "echo $COLOUR; echo bad >&2; echo x > here; cp here $0/; echo $TMPDIR > $TMPDIR/y; cat $TMPDIR/y; exit 3"
    ended = run_unit(unit("/bin/sh", "-c", script, "{results}"), where)
    assert (ended.code, ended.timed_out, ended.stderr) == (3, False, b"bad\n")
    colour, temporary = ended.stdout.decode().split()
    assert colour == "red" and (temporary == "/tmp") == where.is_husk
    assert ended.files == {"here": b"x\n"} and not ended.cut
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("where", WHERE[:3], ids=lambda where: where.runtime)
def test_signals_and_processes_left_behind(where: Where) -> None:
    name = f"hc-left{os.getpid()}"
    script = (
        "import os, signal, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        f"        open('/proc/self/comm', 'w').write('{name}')\n"
        "        signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "        time.sleep(600)\n"
        "    os._exit(0)\n"
        "os.wait(); time.sleep(0.2); os.kill(os.getpid(), signal.SIGSEGV)\n"
    )
    ended = run_unit(unit("/usr/bin/python3", "-c", script), where)
    assert ended.code == -11 and not ended.timed_out, ended
    assert processes_named(name) == []


@pytest.mark.parametrize("where", WHERE[:3], ids=lambda where: where.runtime)
def test_the_time_is_bounded(where: Where) -> None:
    ended = shell("echo begun; sleep 600 & sleep 600", where, timeout=2.0)
    assert ended.timed_out and ended.code < 0 and ended.stdout == b"begun\n" and 2 <= ended.seconds < 60


def test_signals_that_the_caller_ignores_or_blocks_are_not_handed_on() -> None:
    before = signal.signal(signal.SIGQUIT, signal.SIG_IGN), signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    try:
        assert shell("kill -QUIT $$; kill -USR1 $$; exit 3").code == -signal.SIGQUIT
        assert shell("kill -USR1 $$; exit 3").code == -signal.SIGUSR1
    finally:
        signal.signal(signal.SIGQUIT, before[0])
        signal.pthread_sigmask(signal.SIG_SETMASK, before[1])


def test_garbage_and_a_closed_output() -> None:
    assert shell("printf '\\377\\000\\033'; exec >&- 2>&-; sleep 0.1; exit 4").stdout == b"\xff\0\x1b"
    assert shell("exec >&- 2>&-; sleep 0.1; exit 4").code == 4


def test_endless_output_is_cut_and_ended() -> None:
    ended = shell("echo first; yes")
    assert ended.cut and ended.timed_out and ended.stdout.startswith(b"first\ny\n") and ended.stdout.endswith(b"y\n")
    assert len(ended.stdout) < HEAD + TAIL + 100


def test_what_is_no_program(tmp_path: Path) -> None:
    assert run_unit(unit("/no/such"), native()).code == 127
    (tmp_path / "text").write_text("text")
    assert run_unit(unit(str(tmp_path / "text")), native()).code == 126
    with pytest.raises(UsageError, match="cannot be started"):
        run_unit(unit("true"), behind("/no/such/runtime --flag"))


def test_result_files_are_plain_files_alone() -> None:
    script = "cd $0; ln -s /etc/passwd a; mkfifo b; mkdir c; chmod 0 c; echo > d"
    ended = run_unit(unit("/bin/sh", "-c", script, "{results}"), native())
    assert ended.files == {"d": b"\n"}


def test_the_end_can_be_wanted() -> None:
    stopping = Stopping()
    threading.Timer(0.5, stopping.stop).start()
    began = time.monotonic()
    with pytest.raises(Stopped):
        run_unit(unit("sleep", "600"), native(), stopping)
    assert time.monotonic() - began < 60


KILLED = """
import os, signal, sys
from husk.conform.execute import one_unit
from husk.conform.execute.where import native
from husk.conform.units import Unit
setattr(one_unit, sys.argv[1], lambda *_: os.kill(os.getpid(), signal.SIGKILL))
one_unit.run_unit(Unit("s", "commands", "f", ("/bin/true",), environment=(), timeout=60.0), native())
"""


@pytest.mark.parametrize("moment", ["_filled", "_follow", "_read_files"], ids=["before", "while", "after"])
def test_a_killed_caller_leaves_no_directory(moment: str, tmp_path: Path) -> None:
    """Before its program is started, while that runs or ends, and when it has ended."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, moment], env={**os.environ, "TMPDIR": str(tmp_path)}, check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert until(lambda: not list(tmp_path.iterdir()))


def test_users(monkeypatch: pytest.MonkeyPatch) -> None:
    assert account("").groups is None
    with pytest.raises(UsageError, match="there is no such user"):
        account("no such user")
    if os.geteuid() == 0:
        monkeypatch.setattr(tempfile, "tempdir", "/tmp")  # another user cannot search the test's own
        assert shell("id -u; id -g; id -G; touch x", native("12345:23456")).stdout == b"12345\n23456\n23456\n"
    else:
        with pytest.raises(UsageError, match="only root"):
            account("12345")
