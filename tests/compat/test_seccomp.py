"""`husk seccomp from`: profiles that let what was seen pass and nothing else, applied by libseccomp and by runc."""

from __future__ import annotations

import ctypes.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from husk.cli import main
from husk.compat.census import Asked, Census, write_census
from husk.compat.runtimes.seccomp_import import import_seccomp
from husk.compat.seccomp_profile import LIBC, as_surface, docker_json, oci_json, profile_from, systemd_lines
from husk.compat.surface import FULL, MISSING, read_surface, rows_by_name

APPLY = Path(__file__).parent / "apply_seccomp.py"
needs_libseccomp = pytest.mark.skipif(not ctypes.util.find_library("seccomp"), reason="there is no libseccomp here")

# What a program did that made TCP sockets, threads and children, asked for its personality, and tried io_uring.
CALLS = [
    Asked("socket", "native", {0: 2, 1: 1, 2: 0}, count=3),
    Asked("socket", "virtual", {0: 1, 1: 1, 2: 0}, count=1),
    Asked("clone", "native", {0: 0x3D0F00}),
    Asked("clone", "native", {0: 0x1200011}),
    Asked("personality", "native", {0: 0xFFFFFFFF}),
    Asked("io_uring_setup", "refused", errors={"ENOSYS": 2}),
    Asked("mount", "judged", {3: 0}, errors={"EPERM": 1}),
    Asked("kill", "native"),
    Asked("kill", "refused", errors={"EPERM": 1}),
]


def census(*calls: Asked) -> Census:
    return Census(["some", "program"], calls=list(calls))


def test_what_is_in_a_profile() -> None:
    profile = profile_from([census(*CALLS[:4]), census(*CALLS[4:])])
    allowed = {one.call: one for one in profile.allowed}
    assert allowed["socket"].values == (1, 2) and allowed["personality"].values == (0xFFFFFFFF,)
    assert allowed["clone"].without == 0x7E020000
    assert "kill" in allowed, "it passed once"
    assert profile.refused == {"io_uring_setup": 38, "mount": 1}
    assert set(allowed) == {"socket", "clone", "personality", "kill"} | {c for v in LIBC.values() for c in v.split()}
    assert "socket" not in profile.added and "exit_group" in profile.added
    assert set(allowed) <= set(rows_by_name())


def test_namespaces_that_were_used_pass() -> None:
    profile = profile_from([census(Asked("unshare", "native", {0: 0x10000000}), Asked("clone", "native", {}))])
    allowed = {one.call: one for one in profile.allowed}
    assert allowed["unshare"].without == 0x6E020000 and allowed["clone"].without == 0, "flags not seen: no rule"


@pytest.mark.parametrize("form", [docker_json, oci_json])
def test_the_json_means_what_the_profile_says(form: Any, tmp_path: Path) -> None:
    """Read again by the importer, which is held against libseccomp's meaning."""
    path = tmp_path / "p.json"
    path.write_text(json.dumps(form(profile_from([census(*CALLS)]))))
    found = import_seccomp(path).surface
    for args, support in (([1], FULL), ([2], FULL), ([10], MISSING), ([40], MISSING)):
        assert found.answer("socket", [*args, 1, 0])[0] == support
    assert found.answer("clone", [0x1200011])[0] == FULL and found.answer("clone", [0x10000011])[0] == MISSING
    assert found.answer("mount", [0] * 6)[:2] == (MISSING, 1) and found.answer("bpf", [0] * 6)[:2] == (MISSING, 38)
    assert found.answer("read", [0] * 6)[0] == FULL


def test_systemd() -> None:
    lines = systemd_lines(profile_from([census(*CALLS)]))
    assert "RestrictAddressFamilies=AF_INET AF_UNIX" in lines and "RestrictNamespaces=yes" in lines
    assert "LockPersonality=yes" not in lines and max(map(len, lines)) < 120
    words = [word for line in lines if line.startswith("SystemCallFilter=") for word in line[17:].split()]
    assert "socket" in words and "mount" not in words and len(words) == len(set(words))
    alone = systemd_lines(profile_from([census()]))
    assert "RestrictAddressFamilies=none" in alone and "LockPersonality=yes" in alone


def test_a_runtime_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, out = tmp_path / "t.json", tmp_path / "mine.toml"
    trace.write_text(write_census(census(*CALLS)))
    assert main(["seccomp", "from", str(trace), "--format", "husk", "--out", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["refused"] == {"io_uring_setup": "ENOSYS", "mount": "EPERM"} and told["profile"] == out.read_text()
    found = read_surface(out)
    assert found.answer("socket", [10, 1, 0])[:2] == (MISSING, 38) and found.answer("socket", [2, 1, 0])[0] == FULL
    assert as_surface(profile_from([census()]), "x", "").claim("execve").support == FULL
    assert main(["seccomp", "from", str(trace), str(trace), "--out", str(tmp_path / "d.json")]) == 0
    assert "these fail: io_uring_setup, mount" in capsys.readouterr().out


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": "other"}', "\0" * 100])
def test_what_is_no_trace(content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t").write_text(content)
    assert main(["seccomp", "from", str(tmp_path / "t")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


# -- applied -----------------------------------------------------------------------------------------------------------
PROGRAM = """
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/mman.h>
static const char *told(long result) { return result < 0 ? strerrorname_np(errno) : "ok"; }
int main(void) {
    printf("inet %s\\n", told(socket(AF_INET, SOCK_STREAM, 0)));
    printf("unix %s\\n", told(socket(AF_UNIX, SOCK_STREAM, 0)));
    printf("inet6 %s\\n", told(socket(AF_INET6, SOCK_STREAM, 0)));
    printf("memfd %s\\n", told(memfd_create("x", 0)));
    return 0;
}
"""
ALLOWED = "inet ok\nunix ENOSYS\ninet6 ENOSYS\nmemfd ENOSYS\n"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("seccomp")
    (place / "p.c").write_text("#define _GNU_SOURCE\n" + PROGRAM)
    subprocess.run(["cc", "-static", "-o", "p", "p.c"], cwd=place, check=True)
    return place / "p"


@needs_libseccomp
def test_libseccomp_lets_just_that_pass(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps(docker_json(profile_from([census(CALLS[0])]))))
    done = subprocess.run([sys.executable, APPLY, path, program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == (ALLOWED, 0), done.stderr


@pytest.mark.needs("runc")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may use runc as it is used here")
@pytest.mark.parametrize("privileges", [True, False], ids=["no new privileges", "others"])
def test_runc_lets_just_that_pass(program: Path, tmp_path: Path, privileges: bool) -> None:
    """The real thing: what the runtime needs between filter and program is in the profile too."""
    root = tmp_path / "rootfs"
    root.mkdir()
    shutil.copy(program, root / "p")
    subprocess.run(["runc", "spec"], cwd=tmp_path, check=True)
    config = json.loads((tmp_path / "config.json").read_text())
    config["process"] |= {"args": ["/p"], "terminal": False, "noNewPrivileges": privileges}
    config["process"]["user"] = {"uid": 1000, "gid": 1000, "additionalGids": [5]}
    config["linux"]["seccomp"] = oci_json(profile_from([census(CALLS[0])]))
    (tmp_path / "config.json").write_text(json.dumps(config))
    words = ["runc", "--root", str(tmp_path / "state"), "run", f"husk-test-{os.getpid()}-{int(privileges)}"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    if "cgroup" in done.stderr:
        pytest.skip("runc cannot make cgroups here")
    assert (done.stdout, done.returncode) == (ALLOWED, 0), done.stderr


# -- from a real trace -------------------------------------------------------------------------------------------------
HUSK = Path(sys.executable).parent / "husk"
TRACED = """
import socket, subprocess, threading
thread = threading.Thread(target=print, args=("thread",), daemon=True)
thread.start(); thread.join()
print(subprocess.run(["/bin/echo", "child"], capture_output=True, text=True).stdout, end="")
server = socket.create_server(("127.0.0.1", 0))
print(socket.create_connection(server.getsockname()).getpeername() == server.getsockname())
"""
OTHERS = {
    "another family": "import socket; socket.socket(socket.AF_INET6)",
    "another call": "import os; os.memfd_create('x')",
    "a namespace": "import ctypes; assert ctypes.CDLL(None, use_errno=True).unshare(0x10000000) == 0",
}


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    words = [str(HUSK), "trace", "--json", "-o", str(path), "--", "/usr/bin/python3", "-c", TRACED]
    subprocess.run(words, capture_output=True, check=True)
    return path


def run(words: list[str | Path], program: str) -> subprocess.CompletedProcess[str]:
    command = [*words, "/usr/bin/python3", "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@needs_libseccomp
@pytest.mark.needs("python3")
def test_the_traced_program_works_and_others_do_not(trace: Path, tmp_path: Path) -> None:
    """In Docker's format, loaded by libseccomp on the host, where husk is not involved any more."""
    profile = tmp_path / "profile.json"
    assert main(["seccomp", "from", str(trace), "--out", str(profile)]) == 0
    done = run([sys.executable, APPLY, profile], TRACED)
    assert (done.stdout, done.returncode) == ("thread\nchild\nTrue\n", 0), done.stderr
    for name, program in OTHERS.items():
        assert run([], program).returncode == 0 or name == "a namespace"
        refused = run([sys.executable, APPLY, profile], program)
        assert refused.returncode == 1 and ("Errno 38" in refused.stderr or name == "a namespace"), name


@pytest.mark.needs("python3")
def test_husk_holds_to_its_own_format(trace: Path, tmp_path: Path) -> None:
    profile = tmp_path / "profile.toml"
    assert main(["seccomp", "from", str(trace), "--format", "husk", "--out", str(profile)]) == 0
    prefix: list[str | Path] = [HUSK, "run", "--as", profile, "--"]
    done = run(prefix, TRACED)
    assert (done.stdout, done.returncode) == ("thread\nchild\nTrue\n", 0), done.stderr
    assert all(run(prefix, program).returncode == 1 for program in OTHERS.values())


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze here")
def test_systemd_understands_every_line(trace: Path, tmp_path: Path) -> None:
    unit = tmp_path / "husk-test.service"
    assert main(["seccomp", "from", str(trace), "--format", "systemd", "--out", str(unit)]) == 0
    unit.write_text(f"[Unit]\nDescription=test\n{unit.read_text()}ExecStart=/bin/true\n")
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False)
    if "Failed to parse" not in done.stderr and done.returncode:
        pytest.skip(f"systemd-analyze cannot verify here: {done.stderr[:200]}")
    assert (done.stderr, done.returncode) == ("", 0)
