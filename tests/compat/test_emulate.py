"""`husk run --as` and `husk skill test --as`: a runtime's file becomes the surface of a box."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from husk.abi.registry import ROWS, number
from husk.compat.emulate import NEVER_REFUSED, Take, emulation, taken_away
from husk.compat.runtimes import find, names
from husk.compat.surface import read_surface
from tests.lib.build_guests import guest_programs
from tests.lib.running import husk

HEAD = """format = 1
title = "A runtime"
version = "1"
date = "2026-01-01"
source = "made up"
measured = false
"""


def written(tmp_path: Path, text: str, default: str = '{ support = "full" }') -> Path:
    path = tmp_path / "made-up.toml"
    path.write_text(f"{HEAD}default = {default}\n{text}")
    return path


def gs(*options: str) -> tuple[int, str, str]:
    mount = f"{guest_programs()}:/guests:ro"
    result = husk(["run", *options, "--mount", mount, "--", "/guests/touch_gs"])
    return result.status, result.out, result.err


@pytest.mark.both_settings
def test_the_gs_crash_of_gvisor() -> None:
    assert gs()[:2] == (0, "gs holds 42\n")
    status, out, err = gs("--as", "gvisor-20240729", "--summary")
    assert (status, out) == (139, "")
    assert "arch_prctl(ARCH_SET_GS, " in err and "gvisor-20240729 has no arch_prctl" in err


def test_husk_as_itself_changes_nothing() -> None:
    assert gs("--as", "husk")[:2] == (0, "gs holds 42\n")
    assert husk(["run", "--as", "husk", "--", "python3", "-c", "import os; print(len(os.listdir('/')) > 3)"]).out == (
        "True\n"
    )


@pytest.mark.parametrize("name", names())
def test_every_runtime_can_be_emulated(name: str) -> None:
    """A program that asks for three ordinary calls starts and ends under each, or fails as the file says."""
    made = emulation(find(name))
    assert not {number(call) for call in NEVER_REFUSED} & set(made.rules)
    status, _, err = gs("--as", name)
    assert status in (0, 139), err


def test_errnos_argument_values_and_exceptions(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
[calls]
getppid = { support = "missing", errno = "EPERM" }
[calls.socket]
support = "missing"
errno = "EAFNOSUPPORT"
[[calls.socket.when]]
family = "AF_UNIX"
support = "full"
[calls.prctl]
support = "full"
[[calls.prctl.when]]
option = "PR_SET_NAME"
support = "missing"
errno = "EINVAL"
""",
    )
    script = """
import ctypes, errno, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def said(result):
    return errno.errorcode[ctypes.get_errno()] if result < 0 else "ok"
socket.socket(socket.AF_UNIX).close()
try:
    socket.socket(socket.AF_INET)
except OSError as error:
    print(errno.errorcode[error.errno])
print(said(libc.syscall(110)), said(libc.prctl(15, b"name", 0, 0, 0)), said(libc.prctl(3, 0, 0, 0, 0)))
"""
    result = husk(["run", "--as", str(path), "--", "python3", "-c", script])
    assert (result.status, result.out) == (0, "EAFNOSUPPORT\nEPERM EINVAL ok\n"), result.err


def test_missing_paths(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
[[paths]]
path = "/proc/self/status"
support = "missing"
[[paths]]
path = "/proc/sys/*/pid_max"
support = "missing"
errno = "EACCES"
""",
    )
    script = """
import os
for name in ("/proc/self/status", f"/proc/{os.getpid()}/status", "/proc//self/./status", "/proc/self/stat",
             "/proc/sys/kernel/pid_max"):
    try:
        os.close(os.open(name, os.O_RDONLY))
        print("there")
    except OSError as error:
        print(error.strerror)
"""
    result = husk(["run", "--as", str(path), "--", "python3", "-c", script])
    absent = "No such file or directory\n"
    assert result.out == absent * 3 + "there\nPermission denied\n", result.err


def test_default_missing_refuses_what_is_not_listed(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        '[calls]\nwrite = "full"\nexecve = "full"\n',
        default='{ support = "missing", errno = "EPERM" }',
    )
    made = emulation(read_surface(path))
    assert set(made.rules) == {row.nr for row in ROWS.values()} - {number("write"), number("execve")} - {
        number(call) for call in NEVER_REFUSED
    }
    rule = made.verdict(number("getpid"), (0,) * 6)
    assert rule is not None and rule.errno == errno.EPERM
    assert gs("--as", str(path))[0] == 139


def test_stubs_and_fakes() -> None:
    made = taken_away([Take("getppid", (), errno.ENOSYS), Take("sync", (), 0)])
    stub, fake = (made.verdict(number(call), (0,) * 6) for call in ("getppid", "sync"))
    assert stub is not None and fake is not None
    assert (stub.errno, fake.errno) == (errno.ENOSYS, 0)
    assert made.lifted().verdict(number("getppid"), (0,) * 6) is None
    with pytest.raises(ValueError, match="no system call"):
        taken_away([Take("nonsense", (), 0)])


def test_bad_names() -> None:
    result = husk(["run", "--as", "gvisr", "--", "true"])
    assert result.status == 2 and "no runtime 'gvisr'" in result.err and "Traceback" not in result.err


def test_skills(tmp_path: Path) -> None:
    """The skill's script is held to the surface."""
    skill = tmp_path / "a-skill"
    (skill / "scripts").mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: a-skill\ndescription: asks for its parent\n---\nRun scripts/ask.py\n")
    (skill / "scripts" / "ask.py").write_text("import os\nprint(os.getppid() >= 0)\n")
    path = written(tmp_path, "[calls]\ngetppid = { support = \"missing\", errno = \"ENOSYS\" }\n")
    plain = husk(["skill", "run", str(skill)])
    assert "True" in plain.out, plain.err
    held = husk(["skill", "run", "--as", str(path), str(skill)])
    assert "False" in held.out, held.err
