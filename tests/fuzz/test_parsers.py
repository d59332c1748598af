"""Bytes from a guest, a file or the wire, read by husk's Python: any bytes give an answer, or the error promised.

Any other exception would be husk's own error (EIO for the guest), or end a thread that serves other guests.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from husk.kernel.exec.program import ape_elf_header, check_interpreter, elf_interpreter, script_line
from husk.kernel.loopback import routes
from husk.kernel.net import network_rules, resolver

FEW = settings(max_examples=80, deadline=None, derandomize=True)
EXEC_ERRORS = {errno.ENOEXEC, errno.EACCES, errno.EIO, errno.ELIBBAD, errno.EINVAL}
APE_PIECES = [b"printf '", b"'", b"\\177", b"\\", b"ELF", b"8", b"\\9", b"x" * 64, b"\0"]
blanks = st.text(alphabet=" \t\0\n#!/ax", max_size=300).map(str.encode)
numbers = st.one_of(st.integers(0, 70000), st.integers(0, 2**64 - 1), st.sampled_from([2**63 - 1, 2**63, 2**64 - 1]))


@FEW
@given(blanks | st.binary(max_size=300))
def test_script_lines(rest: bytes) -> None:
    try:
        interpreter, argument = script_line((b"#!" + rest)[:256])
    except OSError as error:
        assert error.errno in EXEC_ERRORS
    else:
        assert interpreter and b"\0" not in interpreter and b"\0" not in (argument or b"")


@FEW
@given(numbers, st.integers(0, 65535), st.integers(0, 5), numbers, numbers, st.binary(max_size=200))
@example(64, 1, 3, 2**64 - 1, 4096, b"")
@example(2**64 - 8, 1, 3, 0, 2, b"")
def test_elf_headers(phoff: int, phnum: int, kind: int, offset: int, size: int, rest: bytes) -> None:
    """A program with all numbers chosen by an attacker, above all the place of its interpreter."""
    ident = b"\x7fELF\2\1\1".ljust(16, b"\0")
    header = struct.pack("<16sHHIQQQIHHHHHH", ident, 3, 62, 1, 0, phoff, 0, 0, 64, 56, phnum, 0, 0, 0)
    table = struct.pack("<IIQQQQQQ", kind, 4, offset, 0, 0, size, size, 1)
    fd = os.memfd_create("elf")
    try:
        os.write(fd, header + table + rest)
        reads: list[Callable[[], object]] = [lambda: elf_interpreter(fd, header), lambda: check_interpreter(fd)]
        for read in reads:
            try:
                read()
            except OSError as error:
                assert error.errno in EXEC_ERRORS
    finally:
        os.close(fd)


@FEW
@given(st.lists(st.sampled_from(APE_PIECES)).map(b"".join))
def test_portable_executables(head: bytes) -> None:
    try:
        assert len(ape_elf_header(head)) == 64
    except OSError as error:
        assert error.errno == errno.ENOEXEC


class Nobody:
    """An outside in which no name exists."""

    def resolve(self, name: str) -> list[bytes]:
        assert len(name) <= 253
        return []


@FEW
@given(st.binary(max_size=12), st.binary(max_size=300))
@example(b"\0\1\1\0\0\1\0\0\0\0\0\0", b"\xc0\x0c\0\1\0\1")
@example(b"\0\1\1\0\0\1\0\0\0\0\0\0", b"\1.\0\0\1\0\1")
def test_questions_to_the_resolver(head: bytes, rest: bytes) -> None:
    serving = resolver.Resolver.__new__(resolver.Resolver)
    serving._egress = Nobody()  # type: ignore[assignment]
    try:
        answer = serving.answer(head + rest)
    except ValueError:
        return
    assert answer[:2] == (head + rest)[:2] and answer[2] & 0x80


@FEW
@given(st.binary(max_size=64))
def test_questions_to_netlink(question: bytes) -> None:
    for answer in routes.answers(question):
        assert len(answer) % 4 == 0 and len(answer) >= 16


@FEW
@given(st.text(max_size=40) | st.text(alphabet="0123456789.:/[]*-abx", max_size=30))
def test_rules(text: str) -> None:
    try:
        rule = network_rules.parse(text)
    except network_rules.RuleError:
        return
    made = network_rules.Rules([rule], [])
    # No mistake in a rule opens the clouds' credential servers: only a rule that names the address does.
    if rule.net is None or rule.net.bits < 16:
        assert not made.address(bytes((169, 254, 169, 254)), 80, [rule.name]).allowed


@pytest.mark.parametrize("name", ["169.254.169.254", "0xa9fea9fe", "2852039166", "0251.0376.0251.0376", "169.254.1"])
def test_an_address_written_as_a_name(name: str) -> None:
    """C libraries read all of these as addresses. No rule takes them for a domain, so none opens one by accident."""
    try:
        rule = network_rules.parse(name)
    except network_rules.RuleError:
        return
    assert rule.net is not None or not rule.fits(bytes((169, 254, 169, 254)), 80, [])
