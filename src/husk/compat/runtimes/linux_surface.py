"""compat/runtimes: plain Linux in one version, from linux_versions.txt: what came later is not there yet.

What a version has is taken for full: distributions leave out features, and privileges decide too, which a version does
not tell.
"""

from __future__ import annotations

import errno as errno_module
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from husk.abi.registry import NEWEST_LINUX
from husk.abi.registry.rules import ArgTest
from husk.abi.registry.signatures import arguments
from husk.compat.surface import FULL, MISSING, PARTIAL, Claim, Note, Surface, rows_by_name, words_of

Version = tuple[int, int]

# Long-term versions, and the newest at the time of writing; any other from 4.0 on can be asked for by name too.
LISTED = ("5.10", "5.15", "6.1", "6.6", "6.12", "6.18")
OLDEST: Version = (4, 0)
NAME = re.compile(r"linux-(\d{1,2})\.(\d{1,3})")
SOURCE = "https://man7.org/linux/man-pages/man2/syscalls.2.html and the page of each call"
DATE = "2026-11-16"  # when the table was written


@dataclass(frozen=True)
class Since:
    """One line of the table. `value`: of an argument; `flag`: as one of its bits."""

    call: str
    since: Version | None  # None: never
    until: Version | None = None
    argument: str = ""
    value: str = ""
    flag: bool = False
    errno: int = errno_module.ENOSYS  # before it; 0: ignored


def version_of(name: str) -> Version | None:
    """The version that a name such as linux-6.1 asks for, if the table can tell about it."""
    found = NAME.fullmatch(name)
    version = (int(found[1]), int(found[2])) if found else None
    return version if version and OLDEST <= version <= _version(NEWEST_LINUX) else None


def linux_surface(version: Version) -> Surface:
    absent = [line for line in table() if not _is_there(line, version)]
    whole = {line.call: line for line in absent if not line.argument}
    claims = {}
    for call in rows_by_name():
        if call in whole:
            claims[call] = Claim(call, MISSING, errno_module.ENOSYS, _told(whole[call]))
        else:
            notes = tuple(_note(line) for line in absent if line.call == call)
            claims[call] = Claim(call, FULL, 0, "", "", notes)
    name = f"{version[0]}.{version[1]}"
    return Surface(f"linux-{name}", f"Linux {name}", name, DATE, SOURCE, False, FULL, 0, claims)


def _is_there(line: Since, version: Version) -> bool:
    return line.since is not None and line.since <= version and (line.until is None or version < line.until)


def _told(line: Since) -> str:
    if line.since is None:
        return "it has a number only"
    return f"since Linux {_text(line.since)}" + (f", and until {_text(line.until)}" if line.until else "")


def _note(line: Since) -> Note:
    row = rows_by_name()[line.call]
    index, kind = next((n, kind) for n, (name, kind) in enumerate(arguments(row)) if name == line.argument)
    number = words_of(kind)[line.value]
    test = ArgTest(index, line.argument, "any" if line.flag else "in", {line.value: number}, _mask(kind, line.flag))
    if not line.errno:
        return Note((test,), PARTIAL, 0, f"{_told(line)}; before, the flag is ignored")
    return Note((test,), MISSING, line.errno, _told(line))


def _mask(kind: str, flag: bool) -> int:
    from husk.abi.registry.flags import FLAGS

    table = FLAGS[kind]
    return table.mask if table.choices and table.bits and not flag else 0xFFFFFFFF


@cache
def table() -> tuple[Since, ...]:
    text = (Path(__file__).parent / "linux_versions.txt").read_text()
    return tuple(_line(line.split()) for line in text.splitlines() if line and not line.startswith("#"))


def _line(words: list[str]) -> Since:
    what, when, *rest = words
    since, _, until = when.partition("-")
    span = (None if since == "never" else _version(since), _version(until) if until else None)
    found = re.fullmatch(r"(\w+)\.(\w+)([=&])(\w+)", what)
    if not found:
        return Since(what, *span)
    errno = 0 if rest == ["ignored"] else getattr(errno_module, rest[0])
    return Since(found[1], *span, found[2], found[4], found[3] == "&", errno)


def _version(text: str) -> Version:
    major, _, minor = text.partition(".")
    return int(major), int(minor)


def _text(version: Version) -> str:
    return f"{version[0]}.{version[1]}"
