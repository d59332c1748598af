"""compat/probe: what husk-probe prints, read: one result for each check, and the argument values a check is about.

Here: values and parsing. Not here: running the program (run_probe.py), and what results mean for a profile
(measured.py). run_checks.c describes the lines, probe.h the texts of cases.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from husk.abi.registry.flags import FLAGS
from husk.abi.registry.rules import ArgTest
from husk.abi.registry.signatures import arguments
from husk.compat.surface import rows_by_name, spelled, words_of

WORKS, ERRNO, NO_EFFECT, CRASH, HANG, SKIPPED = "works", "errno", "no-effect", "crash", "hang", "skipped"
RESULTS = (WORKS, ERRNO, NO_EFFECT, CRASH, HANG, SKIPPED)


@dataclass(frozen=True)
class Check:
    """One check of the program: the call or the path it is about, and its case."""

    call: str
    case: str

    @property
    def is_path(self) -> bool:
        return self.call.startswith("/")

    @property
    def tests(self) -> tuple[ArgTest, ...]:
        """The argument values the case names: "option=ARCH_SET_GS: and more words". Empty: it names none."""
        row = rows_by_name().get(self.call)
        if row is None:
            return ()
        kinds = {name: (index, kind) for index, (name, kind) in enumerate(arguments(row))}
        return tuple(_test(name, word, *kinds[name]) for name, word in self._values())

    def _values(self) -> Iterator[tuple[str, str]]:
        for word in self.case.split(" "):
            name, equals, value = word.partition("=")
            if not equals or not name.isidentifier():
                return
            yield name, value.rstrip(":")
            if value.endswith(":"):
                return


def _test(name: str, word: str, index: int, kind: str) -> ArgTest:
    value = words_of(kind)[word] if word in words_of(kind) else int(word, 0) & 0xFFFFFFFF
    words = {spelled(kind, value) if word[0].isdigit() else word: value}
    flags = FLAGS.get(kind)
    if flags is None or not value or not flags.bits or word not in words_of(kind):
        return ArgTest(index, name, "in", words)
    if value not in flags.bits.values() or value & flags.mask:
        return ArgTest(index, name, "in", words, flags.mask or 0xFFFFFFFF)
    if value & (value - 1):  # a name for several bits: all of them
        return ArgTest(index, name, "in", words, value)
    return ArgTest(index, name, "any", words)


@dataclass(frozen=True)
class Result:
    """What one check found. `registers` are those of the last call under test; none if it made none."""

    check: Check
    registers: tuple[int, ...]
    result: str
    detail: str

    @property
    def errno(self) -> str:
        """The errno that the call gave, as a failure or as the right answer; empty if it gave none."""
        return self.detail if self.result in (WORKS, ERRNO) and self.detail[:1] == "E" else ""

    @property
    def text(self) -> str:
        return f"{self.result} {self.detail}".rstrip()


@dataclass(frozen=True)
class Head:
    """The first line: how many checks the program has, and where it stood."""

    checks: int
    system: str
    uid: int


def read_head(line: str) -> Head | None:
    words = line.split()
    if words[:3] != ["#", "husk-probe", "1:"] or len(words) < 9 or not words[3].isdecimal():
        return None
    return Head(int(words[3]), " ".join(words[5:-2]).rstrip(","), int(words[-1]))


def read_check(line: str) -> Check | None:
    fields = line.split("\t")
    return Check(fields[0], fields[1]) if len(fields) == 2 and fields[0] else None


def read_result(line: str) -> Result | None:
    """None for a line that is none of ours: sandboxes print things too."""
    fields = line.split("\t")
    if len(fields) != 5 or fields[3] not in RESULTS:
        return None
    try:
        registers = tuple(int(word, 16) for word in fields[2].split(",")) if fields[2] else ()
    except ValueError:
        return None
    return Result(Check(fields[0], fields[1]), registers, fields[3], fields[4])
