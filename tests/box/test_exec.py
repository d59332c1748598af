"""execve(2) and its relatives: the transcript of each program is the same natively and in husk."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.lib.build_guests import guest_programs
from tests.lib.harness import GUESTS, NATIVE_ONLY, differential
from tests.lib.running import husk, scratch

pytestmark = pytest.mark.both_settings

# These make executable copies of programs. Their bytes depend on the compiler, so only the transcript is compared.
COPIES = ("show", "*/inner", "*/show", "program", "self", "*moved")


@pytest.mark.fast
@pytest.mark.parametrize(
    "name", ["exec_errors", "exec_script", "exec_state", "exec_fd", "exec_path", "exec_text", "exec_moved"]
)
def test_transcript(name: str) -> None:
    differential(["{guests}/" + name, "{guests}"], case=name, ignore=COPIES)


def test_moment_of_execution() -> None:
    """/proc shows the program even while husk's loader is at work: for one the C core starts, and for a script."""
    differential(["{guests}/exec_moment"], case="exec_moment")


def test_hardly_a_descriptor_is_free() -> None:
    differential(["{guests}/exec_full"], case="exec_full")


def test_the_same_program_again() -> None:
    differential(["{guests}/exec_again"], case="exec_again")


def test_threads_that_execute_at_once() -> None:
    differential(["{guests}/exec_threads"], case="exec_threads")


@pytest.mark.parametrize("kind", ["", "_nopie", "_static", "_static_pie"])
def test_kinds_of_programs(kind: str) -> None:
    result = differential(["{guests}/exec_show" + kind, "one", ""], case="exec_show" + kind, env={"SHOW": "nxdspw"})
    assert "bad" not in result.out


def test_missing_interpreter() -> None:
    # The shell turns ENOENT into 127 although the file is there; this is what people see.
    differential(["/bin/sh", "-c", "{guests}/exec_show_nointerp"], status=127)


@pytest.mark.parametrize(("name", "status"), [("exec_stack", 139), ("exec_stack_x", 0)])
def test_executable_stack(name: str, status: int) -> None:
    differential(["{guests}/" + name], status=status)


def test_ape_through_a_shell() -> None:
    differential(["/bin/sh", "{guests}/hello.ape", "one", "two three"], status=7)


def test_ape_directly() -> None:
    """Linux itself has no loader for these files, husk has: execve works, and no shell is involved."""
    shell = ["sh", str(guest_programs() / "hello.ape"), "one"]
    expected = subprocess.run(shell, capture_output=True, text=True, check=False)
    assert (expected.returncode, expected.stdout) == (7, "ape: one\n")
    if NATIVE_ONLY:
        return
    program = [
        "/usr/bin/python3",
        "-c",
        "import os, sys; os.execv(sys.argv[1], sys.argv[1:])",
        f"{GUESTS}/hello.ape",
        "one",
    ]
    result = husk(["run", "--mount", f"{guest_programs()}:{GUESTS}:ro", "--", *program])
    assert (result.status, result.out, result.err) == (7, "ape: one\n", "")


def test_set_user_id_gains_nothing() -> None:
    """A set-user-id program of root, if the host has one, runs as the guest's user."""
    su = next((path for path in ("/usr/bin/su", "/usr/bin/passwd", "/usr/bin/mount") if Path(path).exists()), None)
    if su is None or not os.stat(su).st_mode & 0o4000:
        pytest.skip("no set-user-id program of root on this machine")
    script = f"test -u {su} && echo has the bit; awk '/^(Uid|NoNewPrivs)/ {{print $1, $2 == $3}}' /proc/self/status"
    differential(["/bin/sh", "-c", script])


def test_exec_of_something_just_written() -> None:
    """Compilers and installers do this all the time: write, close, chmod, execute, replace, execute again."""
    script = (
        "for i in 1 2 3; do printf '#!/bin/sh\\necho %s\\n' $i >t; chmod +x t; ./t; cp /bin/echo e; ./e $i; rm e; done"
    )
    differential(["/bin/sh", "-c", script])


def test_relative_program_of_husk_run() -> None:
    with scratch() as place:
        (place / "tool").write_text("#!/bin/sh\necho tool $0\n")
        (place / "tool").chmod(0o755)
        if NATIVE_ONLY:
            return
        result = husk(["run", "--mount", f"{place}:/workspace:rw", "--", "./tool"])
        assert (result.status, result.out) == (0, "tool ./tool\n"), result.err
