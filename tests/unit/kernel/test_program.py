"""What execve makes of a file: broken ELF headers, missing and broken interpreters, chains of scripts.

Files that Linux refuses are compared with Linux: each is executed natively, too. None of them runs in husk, where
execve stops at the loader.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from husk.kernel.exec.program import ELF_HEADER, ELF_PHDR, ape_elf_header, check_interpreter, elf_interpreter
from husk.kernel.syscalls.execve import EXEC_INFO, names_in
from tests.unit.kernel.fakes import Guest, new_descriptors, open_descriptors
from tests.unit.kernel.natives import at_root, execute, execute_in_husk

PT_LOAD, PT_INTERP = 1, 3
BASE = 0x400000
EXIT = b"\x31\xff\xb8\x3c\x00\x00\x00\x0f\x05"  # exit(0)
KEEP = -1


def elf(*, interp: bytes | None = None, interp_offset: int = KEEP, interp_size: int = KEEP, kind: int = 2,
        machine: int = 62, phentsize: int = 56, phnum: int = KEEP, phoff: int = 64, magic: bytes = b"\x7fELF",
        elf_class: int = 2, twice: bytes | None = None, tail: bytes = b"") -> bytes:
    """A whole program that exits with 0, with some fields of one's own."""
    names = [name for name in (interp, twice) if name is not None]
    count = 1 + len(names)
    text = 64 + 56 * count
    headers = [ELF_PHDR.pack(PT_LOAD, 5, 0, BASE, BASE, text + 64, text + 64, 4096)]
    strings = b""
    for name in names:
        at = text + 64 + len(strings) if interp_offset == KEEP else interp_offset
        size = len(name) if interp_size == KEEP else interp_size
        headers.insert(-1, ELF_PHDR.pack(PT_INTERP, 4, at, 0, 0, size, 0, 1))
        strings += name
    ident = (magic + bytes([elf_class, 1, 1])).ljust(16, b"\0")
    header = ELF_HEADER.pack(ident, kind, machine, 1, BASE + text, phoff, 0, 0, 64, phentsize,
                             count if phnum == KEEP else phnum, 0, 0, 0)
    return header + b"".join(headers) + EXIT.ljust(64, b"\x90") + strings + tail


def broken(place: bytes) -> dict[str, bytes]:
    """`place` is the folder of the interpreters."""
    return {
        "good": elf(),
        "empty file": b"",
        "one byte": b"\x7f",
        "text": b"echo hello\n",
        "magic only": b"\x7fELF",
        "cut inside the header": elf()[:63],
        "cut after the header": elf()[:64],
        "cut inside the program headers": elf()[:100],
        "other magic": elf(magic=b"\x7fELG"),
        "relocatable": elf(kind=1),
        "core": elf(kind=4),
        "no type": elf(kind=0),
        "i386": elf(machine=3),
        "aarch64": elf(machine=183),
        "class of 32 bits": elf(elf_class=1),
        "program headers of 32 bytes": elf(phentsize=32),
        "program headers of 0 bytes": elf(phentsize=0),
        "no program headers": elf(phnum=0),
        "program headers of 64 KiB and more": elf(phnum=1171, tail=bytes(70000)),
        "65535 program headers": elf(phnum=65535, tail=bytes(70000)),
        "program headers behind the end": elf(phoff=1 << 20),
        "program headers at 2^63": elf(phoff=1 << 63),
        "program headers at the end of the address space": elf(phoff=(1 << 64) - 8),
        "interpreter's name of 0 bytes": elf(interp=b"", interp_size=0),
        "interpreter's name of 1 byte": elf(interp=b"\0"),
        "interpreter's name is empty": elf(interp=b"\0\0"),
        "interpreter's name too long": elf(interp=b"/" * 4096 + b"\0"),
        "interpreter's name long": elf(interp=b"/" * 4094 + b"x\0"),
        "interpreter's name as long as memory": elf(interp=b"/x\0", interp_size=(1 << 64) - 1),
        "interpreter's name does not end": elf(interp=b"/lib/x"),
        "interpreter's name ends early": elf(interp=b"/nowhere\0/bin/sh\0"),
        "interpreter's name behind the end": elf(interp=b"/lib/x\0", interp_offset=1 << 20),
        "interpreter's name half behind the end": elf(interp=b"/lib/x\0", interp_size=100),
        "interpreter's name at 2^63": elf(interp=b"/lib/x\0", interp_offset=1 << 63),
        "interpreter's name at 2^64-1": elf(interp=b"/lib/x\0", interp_offset=(1 << 64) - 1),
        "interpreter missing": elf(interp=b"/nowhere\0"),
        "interpreter is a directory": elf(interp=b"/usr\0"),
        "interpreter is not executable": elf(interp=place + b"/plain\0"),
        "interpreter is empty": elf(interp=place + b"/empty\0"),
        "interpreter is short": elf(interp=place + b"/short\0"),
        "interpreter is text": elf(interp=place + b"/text\0"),
        "interpreter is a script": elf(interp=place + b"/script\0"),
        "interpreter for i386": elf(interp=place + b"/i386\0"),
        "interpreter without program headers": elf(interp=place + b"/headless\0"),
        "interpreter with program headers behind its end": elf(interp=place + b"/cut\0"),
        "interpreter with program headers at 2^63": elf(interp=place + b"/far\0"),
        "two interpreters, the first missing": elf(interp=b"/nowhere\0", twice=place + b"/text\0"),
        "two interpreters, the second missing": elf(interp=place + b"/text\0", twice=b"/nowhere\0"),
        "script of a missing interpreter": b"#!/nowhere\n",
        "script of a directory": b"#!/usr\n",
        "script of a broken program": b"#!" + place + b"/i386\n",
        "script of a text": b"#!" + place + b"/text\n",
    }


INTERPRETERS = {
    "empty": b"", "short": b"\x7fELF\2", "text": b"no program, but longer than a header is" * 4,
    "script": b"#!/bin/sh\n" * 8, "i386": elf(machine=3), "headless": elf(phnum=0), "cut": elf(phoff=1 << 20),
    "far": elf(phoff=1 << 63),
}


class Stage:
    def __init__(self, place: Path) -> None:
        self.place = place
        self.program = place / "program"
        (place / "state").mkdir()
        (place / "plain").write_bytes(elf())
        for name, content in INTERPRETERS.items():
            (place / name).write_bytes(content)
            (place / name).chmod(0o755)
        self.guest = Guest(os.fsencode(place / "state"), b"/")
        self.guest.faults_expected = True  # compared with Linux's answer, which EIO is not

    def write(self, content: bytes) -> None:
        self.program.write_bytes(content)
        self.program.chmod(0o755)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    yield from at_root(lambda: Stage(tmp_path_factory.mktemp("p")))


def verdict(result: list[bytes] | str) -> str:
    return result if isinstance(result, str) else "runs"


@pytest.mark.parametrize("name", broken(b""))
def test_same_verdict(stage: Stage, name: str) -> None:
    stage.write(broken(bytes(stage.place))[name])
    before = open_descriptors()
    husk, linux = verdict(execute_in_husk(stage.guest, stage.program)), verdict(execute(stage.program))
    assert not new_descriptors(before)
    assert husk == linux


@pytest.mark.parametrize("depth", range(1, 9))
def test_depth_of_scripts(stage: Stage, depth: int) -> None:
    (stage.place / "chain0").write_bytes(elf())
    for level in range(1, depth + 1):
        line = b"#!" + bytes(stage.place / f"chain{level - 1}") + b" a%d\n" % level
        (stage.place / f"chain{level}").write_bytes(line)
    for level in range(depth + 1):
        (stage.place / f"chain{level}").chmod(0o755)
    top = stage.place / f"chain{depth}"
    before = open_descriptors()
    assert verdict(execute_in_husk(stage.guest, top)) == verdict(execute(top))
    assert not new_descriptors(before)


def test_script_that_runs_itself(stage: Stage) -> None:
    stage.write(b"#!" + bytes(stage.program) + b"\n")
    assert verdict(execute_in_husk(stage.guest, stage.program)) == verdict(execute(stage.program)) == "ELOOP"


def test_chain_of_arguments(stage: Stage) -> None:
    """Each level puts its interpreter and argument before what the level above put there."""
    (stage.place / "inner").write_bytes(b"#!/usr/bin/env -i\n")
    (stage.place / "inner").chmod(0o755)
    inner = bytes(stage.place / "inner")
    stage.write(b"#!" + inner + b" outer argument\n")
    assert execute_in_husk(stage.guest, stage.program) == [
        b"/usr/bin/env", b"-i", inner, b"outer argument", bytes(stage.program), b"last"
    ]


def test_what_waits_for_the_loader(stage: Stage) -> None:
    stage.write(b"#!/bin/sh\n")
    guest = stage.guest
    name = guest.text(bytes(stage.program))
    call = guest.make("execve", name, 7, 8)
    guest.answer(call)
    waiting = call.waiting
    assert waiting is not None
    assert call.executed == (guest.kernel.loader_fd, name + len(bytes(stage.program)), 7, 8)
    assert guest.memory.read(name + len(bytes(stage.program)), 1) == b"\0"
    assert b"\0" + bytes(stage.program) + b"\0" in waiting.info
    assert names_in(waiting.info) == (os.path.realpath(b"/bin/sh"), b"program", [b"/bin/sh", bytes(stage.program)])
    assert os.path.samestat(os.fstat(waiting.program_fd), os.stat("/bin/sh"))
    assert waiting.interpreter_fd >= 0 and not EXEC_INFO.unpack_from(waiting.info)[4]
    waiting.close()


def test_not_executable(stage: Stage) -> None:
    stage.write(elf())
    stage.program.chmod(0o644)
    assert verdict(execute_in_husk(stage.guest, stage.program)) == verdict(execute(stage.program)) == "EACCES"


# -- headers that no compiler wrote ------------------------------------------------------------------------------------

@settings(max_examples=300, deadline=None)
@given(some.binary(max_size=64), some.dictionaries(some.integers(0, 200), some.integers(0, 255), max_size=12),
       some.booleans())
def test_any_header_ends_in_an_errno(garbage: bytes, changed: dict[int, int], from_garbage: bool) -> None:
    content = bytearray(garbage if from_garbage else elf(interp=b"/lib64/ld\0"))
    for at, value in changed.items():
        if at < len(content):
            content[at] = value
    _errno_or_name(bytes(content))


EDGES = some.sampled_from([0, 64, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
OFFSETS = some.one_of(some.integers(0, (1 << 64) - 1), EDGES)


@settings(max_examples=200, deadline=None)
@given(phoff=OFFSETS, phnum=some.integers(0, 5), offset=OFFSETS, size=some.one_of(some.integers(0, 5000), OFFSETS))
def test_any_offset_ends_in_an_errno(phoff: int, phnum: int, offset: int, size: int) -> None:
    """Offsets and sizes beyond what the host's calls take."""
    _errno_or_name(elf(interp=b"/lib64/ld\0", phoff=phoff, phnum=phnum))
    _errno_or_name(elf(interp=b"/lib64/ld\0", interp_offset=offset, interp_size=size))


def _errno_or_name(content: bytes) -> None:
    def judge_program() -> None:
        name = elf_interpreter(fd, content[:64])
        assert name is None or isinstance(name, bytes)

    def judge_interpreter() -> None:
        check_interpreter(fd)

    fd = os.memfd_create("program")
    try:
        os.write(fd, content)
        for judge in (judge_program, judge_interpreter):
            try:
                judge()
            except OSError as error:
                # EACCES: the interpreter's name is empty, and Linux takes that for the working directory.
                assert error.errno in (errno.ENOEXEC, errno.EIO, errno.ELIBBAD, errno.EINVAL, errno.EACCES), error
    finally:
        os.close(fd)


# -- Actually Portable Executables -------------------------------------------------------------------------------------

HEADER = elf(kind=2)[:64]


def ape(header: bytes) -> bytes:
    return b"MZqFpD='\nprintf '" + b"".join(b"\\%o" % byte for byte in header) + b"' >&7\n"


def test_ape_header() -> None:
    assert ape_elf_header(ape(HEADER)) == HEADER


def test_ape_header_for_another_machine_is_passed_over() -> None:
    other = HEADER[:18] + struct.pack("<H", 183) + HEADER[20:]
    assert ape_elf_header(ape(other) + ape(HEADER)) == HEADER


@pytest.mark.parametrize("text", [
    b"MZqFpD='\n",
    ape(HEADER[:63]),
    ape(b"\x7fELG" + HEADER[4:]),
    ape(HEADER[:18] + b"\3\0" + HEADER[20:]),
    b"printf '\\x7fELF'",
    b"printf '" + b"\\",
    b"printf '\\9'",
], ids=["none", "short", "magic", "machine", "hexadecimal", "ends in a backslash", "no octal digit"])
def test_ape_without_a_header(text: bytes) -> None:
    with pytest.raises(OSError) as refused:
        ape_elf_header(text)
    assert refused.value.errno == errno.ENOEXEC


@settings(max_examples=200, deadline=None)
@given(some.lists(some.sampled_from([b"printf '", b"\\", b"177", b"E", b"LF", b"'", b"\\177ELF", b"\\0" * 70, b"\n"]),
                  max_size=20))
def test_any_ape_ends_in_an_errno(pieces: list[bytes]) -> None:
    try:
        assert len(ape_elf_header(b"".join(pieces))) == 64
    except OSError as error:
        assert error.errno == errno.ENOEXEC


def test_ape_is_given_to_the_loader(stage: Stage) -> None:
    """Linux says ENOEXEC and leaves it to the shell; husk loads it, with the header it found."""
    stage.write(ape(HEADER).ljust(8192, b"#"))
    assert verdict(execute(stage.program)) == "ENOEXEC"
    call = stage.guest.make("execve", stage.guest.text(bytes(stage.program)), 0, 0)
    assert stage.guest.answer(call) == ("executed", 0)
    assert call.waiting is not None
    assert EXEC_INFO.unpack_from(call.waiting.info)[11] == HEADER
    call.waiting.close()
