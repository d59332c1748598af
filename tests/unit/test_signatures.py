"""The signatures in the registry: compared with Linux's own metadata, and spelled as a person reads them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from husk.abi.numbers import HUSK_CALL
from husk.abi.registry import ROWS, by_name, handled_rows, row
from husk.abi.registry.flags import FLAGS
from husk.abi.registry.rules import COOKIE, INSTRUCTION, Row
from husk.abi.registry.signatures import address, arguments, is_known, positions, spell
from tests.lib.call_table import write_call_table

FACTS = Path(__file__).with_name("linux_arguments.txt")
READ_FROM = "6.18."  # the kernel that most of the facts were read from
TRACEFS = Path("/sys/kernel/tracing")
# Linux's name in its definition, where asm/unistd_64.h has another.
UNISTD_NAMES = {
    "newfstat": "fstat",
    "newlstat": "lstat",
    "newstat": "stat",
    "newuname": "uname",
    "sendfile64": "sendfile",
    "umount": "umount2",
}


def named(name: str) -> Row:
    found = by_name(name)
    assert found is not None, name
    return found


def names_of(entry: Row) -> list[str]:
    return [name for name, _ in arguments(entry)]


def facts() -> dict[str, list[str]]:
    lines = [line.split() for line in FACTS.read_text().splitlines() if line and line[0] != "#"]
    return {name: rest for name, *rest in lines}


def tracing() -> dict[str, list[str]]:
    """What the running kernel says of its calls. Empty if it says nothing, or nothing to this user."""
    script = 'cd "$0/events/syscalls" && grep -H "field:" sys_enter_*/format'
    if os.path.isdir(TRACEFS / "events" / "syscalls"):
        command = ["sh", "-c", script, str(TRACEFS)]
    elif os.geteuid() == 0:  # mounted for this command alone, in a mount namespace of its own
        command = ["unshare", "-m", "sh", "-c", f'mount -t tracefs none "$0" && {script}', "/mnt"]
    else:
        return {}
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found: dict[str, list[str]] = {}
    for name, field in re.findall(r"^sys_enter_(\w+)/format:\s*field:.*?(\w+)(?:\[\d*\])?;", said, re.MULTILINE):
        known = found.setdefault(UNISTD_NAMES.get(name, name), [])
        if field == "__syscall_nr":
            known.clear()  # before it come the fields that every event has
        elif not field.startswith("common_"):
            known.append(field)
    return found


def test_every_signature_is_linuxs() -> None:
    """Counts and names, for every call."""
    known = facts()
    assert known.keys() == {entry.name for entry in ROWS.values()}
    wrong = {entry.name: names_of(entry) for entry in ROWS.values() if names_of(entry) != known[entry.name]}
    assert not wrong


def test_the_running_kernel_agrees() -> None:
    said = tracing()
    if not said:
        pytest.skip("this kernel shows no metadata of its calls to this user (tracefs)")
    same = os.uname().release.startswith(READ_FROM)
    assert len(said) > 300
    for name, listed in said.items():
        entry = by_name(name)
        if entry is None:
            assert not same, f"{name} has no row"
        elif same:
            assert names_of(entry) == listed, name
        else:  # names of arguments change with the kernel's source, their number does not
            assert len(names_of(entry)) == len(listed), name


def test_signatures_are_well_formed() -> None:
    for entry in [*ROWS.values(), row(HUSK_CALL)]:
        assert entry is not None
        assert re.fullmatch(r"\w+\((\w+: [\w*]+(, \w+: [\w*]+)*)?\)", entry.signature), entry.signature
        assert len(arguments(entry)) <= 6
        assert len(set(names_of(entry))) == len(arguments(entry))
        for name, kind in arguments(entry):
            assert is_known(kind), f"{entry.name}: {name} has the unknown kind {kind}"
    assert not is_known("*") and not is_known("") and not is_known("O_")


def test_every_table_of_flags_is_used() -> None:
    assert FLAGS.keys() <= {kind for entry in ROWS.values() for _, kind in arguments(entry)}


def test_rules_look_at_arguments_that_exist() -> None:
    for entry in ROWS.values():
        for rule in entry.rules:
            for test in rule.tests:
                if COOKIE in test.values:  # husk's own calls carry it where Linux reads nothing
                    assert test.index >= len(arguments(entry)), entry.name
                elif test.index != INSTRUCTION:
                    assert test.index < len(arguments(entry)), entry.name


def test_calls_with_names_are_virtual() -> None:
    """The host must never resolve a guest path."""
    for entry in ROWS.values():
        if positions(entry, "path", "dirfd"):
            assert entry.way in ("virtual", "judged", "refused"), entry.name


def test_where_hooks_look() -> None:
    for name in ("setxattrat", "getxattrat", "listxattrat", "removexattrat", "openat", "statx", "mkdirat"):
        assert positions(named(name), "path") == (1,), name
    assert positions(named("mount"), "path") == (1,)
    assert positions(named("renameat2"), "path") == (1, 3) and positions(named("symlinkat"), "path") == (0, 2)
    brought = {entry.name: address(entry) for entry in handled_rows() if address(entry)}
    assert brought == {"bind": (1, 2), "connect": (1, 2), "sendto": (4, 5)}


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("fd", 0xFFFFFFFF, "-1"),
        ("dirfd", 0xFFFFFF9C, "AT_FDCWD"),
        ("dirfd", 0xFFFFFFFFFFFFFF9C, "AT_FDCWD"),
        ("fd", 0xFFFFFF9C, "-100"),
        ("int", 0xDEAD00000005, "5"),
        ("offset", 0xFFFFFFFFFFFFFFFF, "-1"),
        ("size", 0xFFFFFFFFFFFFFFFF, "18446744073709551615"),
        ("mode", 0o100755, "0100755"),
        ("mode", 0, "0"),
        ("path", 0, "NULL"),
        ("path", 0x7F00, "0x7f00"),
        ("*stat", 0x7F00, "0x7f00"),
        ("dev", 0x103, "0x103"),
        ("access", 0, "F_OK"),
        ("access", 5, "R_OK|X_OK"),
        ("PROT_*", 0, "PROT_NONE"),
        ("O_*", 0o20200002, "O_RDWR|O_TMPFILE"),
        ("O_*", 0o4010001, "O_WRONLY|O_SYNC"),
        ("O_*", 0x40000000, "O_RDONLY|0x40000000"),
        ("MAP_*", 0x22, "MAP_PRIVATE|MAP_ANONYMOUS"),
        ("AF_*", 99, "99"),
        ("signal", 64, "64"),
        ("STATX_*", 0xFFF, "STATX_BASIC_STATS|STATX_BTIME"),
        ("CLONE_*", 0x20000, "CLONE_NEWNS"),
        ("CLONE_*", 0x80, "CLONE_NEWTIME"),
        ("AT_*", 0, "0"),
    ],
)
def test_values_as_a_person_reads_them(kind: str, value: int, text: str) -> None:
    assert spell(kind, value) == text


@pytest.mark.parametrize(
    "prefix", ["O", "AF", "SOCK", "MSG", "SIG", "RLIMIT", "PRIO", "SEEK", "F", "MAP", "PROT", "CLOCK"]
)
def test_flag_values_are_those_of_the_c_library(prefix: str) -> None:
    """Python's own modules have them from the headers."""
    import fcntl
    import mmap
    import resource
    import signal
    import socket
    import time

    outside: dict[str, int] = {}
    for module in (os, socket, signal, resource, mmap, time, fcntl):
        outside |= {name: int(value) for name, value in vars(module).items() if isinstance(value, int)}
    table = FLAGS["signal" if prefix == "SIG" else f"{prefix}_*"]
    ours = {name: value for value, name in table.choices.items()} | table.bits
    shared = ours.keys() & outside.keys() - {"O_LARGEFILE"}  # 0 there: 64-bit programs need not ask
    assert len(shared) > 1
    for name in shared:
        assert ours[name] == outside[name], name


# -- the C side --------------------------------------------------------------------------------------------------------


def test_the_header_for_c_has_the_places_of_arguments(tmp_path: Path) -> None:
    header = (write_call_table(tmp_path) / "call_table.h").read_text()
    assert f"#define HUSK_CALL {HUSK_CALL:#x} " in header
    assert f"#define CALL_NUMBERS {max(ROWS) + 1} " in header
    assert "enum { ARG_openat_dfd, ARG_openat_filename, ARG_openat_flags, ARG_openat_mode };" in header
    assert header.count("enum {") == sum(bool(arguments(entry)) for entry in handled_rows())


def test_the_private_number_is_written_once() -> None:
    sources = Path(__file__).parents[2] / "src" / "husk"
    spelled = [path.name for path in sources.rglob("*.[pch]*") if "0x4855" in path.read_text(errors="replace").lower()]
    assert spelled == ["numbers.py"]


def test_c_takes_arguments_by_their_names() -> None:
    """An index written out in the fast path would be a second place that knows a call."""
    native = Path(__file__).parents[2] / "src" / "husk" / "native"
    for name in ("fastpath/fastpath.c", "fastpath/messages.c", "fastpath/programs.c", "remote/pending_exec.c"):
        assert not re.search(r"\b(args|a)\[\d\]", (native / name).read_text()), name
