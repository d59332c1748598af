"""The static look finds what programs with known answers ask for, says what it cannot see, and survives any bytes."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from husk.compat.look import look_cache, reach
from husk.compat.look.elf_file import Unreadable, read_elf
from husk.compat.look.facts import LIBRARY, OWN, POINTER, START
from husk.compat.look.look_at import look_at
from husk.compat.trace import run_traced
from husk.sandbox.errors import UsageError
from tests.compat.known_programs import folder, own_cache, program


@pytest.fixture(scope="module", autouse=True)
def _one_cache() -> Iterator[None]:
    with own_cache():
        yield


@pytest.mark.parametrize("name", ["exact", "exact-stripped", "exact-pie"])
def test_a_program_that_makes_three_calls(name: str) -> None:
    found = look_at(program(name))
    assert found.form == "ELF" and found.machine == "x86-64" and found.static and not found.libraries
    assert found.kind == ("pie" if name == "exact-pie" else "executable")
    assert found.calls() == {"exit_group": OWN, "getpid": START, "write": OWN}
    assert not found.blind and not found.segments


def test_numbers_come_through_stubs_in_registers_and_on_the_stack() -> None:
    found = look_at(program("raw-stub"))
    assert set(found.calls()) == {"getppid", "umask", "prctl", "exit_group"}
    assert "prctl(PR_GET_DUMPABLE, …)" in {use.text for use in found.uses}
    assert not found.blind


def test_a_computed_number_is_said_to_be_unseen() -> None:
    found = look_at(program("computed"))
    assert set(found.calls()) == {"exit_group"} and found.blind
    assert any("number is computed" in text for text in found.unseen)


def test_gs_and_its_base() -> None:
    found = look_at(program("touches-gs"))
    assert set(found.calls()) == {"arch_prctl", "exit_group"} and found.gs_displacement == 4
    assert [use.text for use in found.uses if use.call == "arch_prctl"] == ["arch_prctl(ARCH_SET_GS, 0x66ae00)"]
    assert [use.sure for use in found.uses if use.call == "arch_prctl"] == [START]
    assert "gs:[4]" in found.segments["gs"][0]


def test_what_libc_functions_ask_for_comes_from_libc_itself() -> None:
    found = look_at(program("through-libc"))
    assert found.interpreter.startswith("/lib64/ld-linux") and "libc.so.6" in {one.name for one in found.libraries}
    assert all(one.path for one in found.libraries)
    own = {use.text for use in found.uses if use.sure == OWN}
    assert {
        "ioctl(…, TIOCGWINSZ, …)",
        "prctl(PR_GET_NAME, …)",
        "socket(AF_UNIX, SOCK_DGRAM|SOCK_CLOEXEC, 0)",
        "socket(AF_INET6, SOCK_DGRAM|SOCK_CLOEXEC, 0)",
    } <= own
    calls = found.calls()
    assert calls["getrandom"] == OWN and calls["openat"] in (START, OWN) and calls["write"] in (LIBRARY, OWN, POINTER)
    assert not {"ptrace", "mount", "bpf", "reboot"} & calls.keys()


@pytest.mark.needs("strace")
@pytest.mark.parametrize("line", ["through-libc", "through-static-libc", "raw-stub", "/bin/ls /", "/bin/sh -c echo"])
def test_nothing_that_strace_sees_is_missed(line: str, tmp_path: Path) -> None:
    command = line.split()
    path = command[0] if command[0].startswith("/") else program(command[0])
    log = tmp_path / "log"
    subprocess.run(["strace", "-f", "-o", log, path, *command[1:]], capture_output=True, check=False)
    made = set(re.findall(r"^\d+ +(\w+)\(", log.read_text(), re.MULTILINE)) - {"execve"}  # strace's own
    seen = set(look_at(path).calls())
    print(f"{command[0]}: recall {len(made & seen)}/{len(made)}, precision {len(made & seen)}/{len(seen)}")
    assert made and made <= seen


@pytest.mark.parametrize("line", ["through-libc", "raw-stub", "/bin/ls -l /"])
def test_argument_values_of_a_trace_are_among_those_seen(line: str) -> None:
    command = line.split()
    path = command[0] if command[0].startswith("/") else program(command[0])
    inside = [path if path == command[0] else f"/known/{command[0]}", *command[1:]]
    census = run_traced(inside, mounts=[f"{folder()}:/known"], stdin=b"", keep=1 << 20)
    seen: dict[str, list[dict[int, int]]] = {}
    for use in look_at(path).uses:
        seen.setdefault(use.call, []).append(dict(use.values))
    asked = [one for one in census.calls if one.call != "execve"]  # what started it
    assert asked and census.status == 0
    for one in asked:
        # A value that is not known may be any.
        values = one.values.items()
        assert any(all(known.get(n, value) == value for n, value in values) for known in seen[one.call]), one.example


def test_the_second_look_comes_from_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(reach, "MOST_RECENT", 0)  # nothing is kept in memory
    reach._recent.clear()
    path = program("through-static-libc")
    first = look_at(path).as_json()
    (kept,) = os.listdir(look_cache.cache_folder())
    assert look_at(path).as_json() == first
    for damage in ('{"functions": [[1, 2]]}', "[]", "{"):  # passed over, and written anew
        Path(look_cache.cache_folder(), kept).write_text(damage)
        assert look_cache.load(kept) is None


def test_a_script_leads_to_its_interpreter(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/usr/bin/env -S sh -e\ngrep -c x | sort\n")
    found = look_at(str(script))
    assert found.form == "script" and not found.blind and found.language == "sh"
    assert {"grep", "sort"} <= set(found.programs)
    assert {os.path.basename(part.path) for part in found.parts} >= {"sh", "grep", "sort"}
    script.write_text("#!/no/such/interpreter\n")
    lost = look_at(str(script))
    assert lost.blind and "there is no such file" in lost.problems[0]
    script.write_text(f"#!/bin/sh\n{script}\n")  # it starts itself
    assert look_at(str(script)).parts


def test_native_parts_of_a_python_environment(tmp_path: Path) -> None:
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (tmp_path / "bin").mkdir()
    shutil.copy(program("exact"), tmp_path / "bin" / "python")
    packages = tmp_path / "lib" / "python3" / "site-packages" / "one"
    packages.mkdir(parents=True)
    shutil.copy(program("touches-gs"), packages / "_native.cpython-311-x86_64-linux-gnu.so")
    (packages / "plain.py").write_text("")
    (packages / "broken.so").write_bytes(b"\x7fELF\2\1")
    found = look_at(str(tmp_path))
    assert found.kind == "Python environment" and "arch_prctl" in found.calls()
    assert any("broken.so" in text and "cut off" in text for text in found.problems)


def ape(tmp_path: Path) -> Path:
    """An Actually Portable Executable in its smallest form: the ELF header in a printf statement, the rest as it is."""
    content = Path(program("exact")).read_bytes()
    header = bytearray(content[:64])
    text = b"MZqFpD='\n'\nprintf '" + b"".join(b"\\%03o" % byte for byte in header) + b"'\n"
    # The program headers move behind the text: nothing but their place changes.
    (phoff,) = struct.unpack_from("<Q", header, 32)
    count = struct.unpack_from("<H", header, 56)[0]
    headers = content[phoff : phoff + 56 * count]
    struct.pack_into("<QQ", header, 32, 2048, 0)
    struct.pack_into("<HHH", header, 58, 0, 0, 0)
    text = b"MZqFpD='\n'\nprintf '" + b"".join(b"\\%03o" % byte for byte in header) + b"'\n"
    path = tmp_path / "portable"
    path.write_bytes(text.ljust(2048, b"\n") + headers + content[2048 + len(headers) :])
    return path


def test_an_actually_portable_executable(tmp_path: Path) -> None:
    found = look_at(str(ape(tmp_path)))
    assert found.form == "APE" and set(found.calls()) == {"getpid", "write", "exit_group"}


def write(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def test_bad_input_gets_one_sentence(tmp_path: Path) -> None:
    whole = Path(program("exact")).read_bytes()
    cases = {
        "the ELF header is cut off": whole[:40],
        "cut off": whole[:100],
        "is empty": b"",
        "neither an ELF file nor a script": b"hello\n",
        "another system": b"MZ\x90\0" + bytes(100),
        "no interpreter is named": b"#! \n",
        "program headers": whole[:56] + b"\xff\xff" + whole[58:],
        "damaged": whole[:4] + b"\x07" + whole[5:],
    }
    for wanted, content in cases.items():
        with pytest.raises(Unreadable, match=wanted):
            look_at(write(tmp_path / "bad", content))
    with pytest.raises(Unreadable, match="no program and no native extension"):
        (tmp_path / "empty").mkdir()
        look_at(str(tmp_path / "empty"))
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(Unreadable, match="not a regular file"):
        look_at(str(tmp_path / "fifo"))
    with pytest.raises(Unreadable, match="no such file"):
        look_at(str(tmp_path / "nothing"))
    with open(tmp_path / "huge", "wb") as file:
        file.write(whole)
        file.truncate(1 << 40)
    with pytest.raises(Unreadable, match="MiB"):
        look_at(str(tmp_path / "huge"))


def test_other_machines_are_named_and_not_looked_at(tmp_path: Path) -> None:
    whole = bytearray(Path(program("exact")).read_bytes())
    struct.pack_into("<H", whole, 18, 183)
    found = look_at(write(tmp_path / "arm", bytes(whole)))
    assert found.machine == "AArch64" and found.blind and not found.uses
    old = b"\x7fELF\1\1\1" + bytes(9) + struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, 0x8048054, 52, 0, 0, 52, 32, 1, 0, 0, 0)
    old += struct.pack("<IIIIIIII", 1, 0, 0x8048000, 0x8048000, 84, 84, 5, 4096)
    found = look_at(write(tmp_path / "i386", old))
    assert (found.machine, found.bits, found.blind) == ("i386", 32, True)


def test_without_the_libraries_it_says_which_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "capstone", None)
    with pytest.raises(UsageError, match=re.escape("pip install 'huskbox[compat]'")):
        look_at(program("exact"))


def test_exports_that_lie_outside_the_code(tmp_path: Path) -> None:
    """Found by fuzzing: a symbol that is imported and called, and also exported at an address without code."""
    path = program("through-libc")
    content = bytearray(Path(path).read_bytes())
    file = read_elf(path, bytes(content))
    first, last = file.symbol_table
    (segment,) = [one for one in file.segments if one.holds(first)]
    for at in range(first - segment.address + segment.offset, last - segment.address + segment.offset, 24):
        struct.pack_into("<BBHQ", content, at + 4, 0x12, 0, 1, 0xFFFFFFFFFFFF)
    assert look_at(write(tmp_path / "lies", bytes(content))).form == "ELF"


FUZZED = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=12)


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(changes=FUZZED, where=st.sampled_from(["header", "program headers", "anywhere"]), end=st.floats(0.05, 1))
def test_no_bytes_end_in_a_traceback_or_in_a_long_run(
    changes: list[tuple[float, int]], where: str, end: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = bytearray(Path(program("through-libc")).read_bytes())
    reach = {"header": 64, "program headers": 64 + 13 * 56, "anywhere": len(content)}[where]
    for at, value in changes:
        content[int(at * reach)] = value
    if where == "anywhere":
        del content[int(len(content) * end) :]
    path = tmp_path_factory.getbasetemp() / "fuzzed"
    began = time.process_time()
    try:
        look_at(write(path, bytes(content)), seconds=10)
    except Unreadable as error:
        assert "\n" not in str(error)
    assert time.process_time() - began < 30
