"""compat: what one runtime in one version offers of Linux, call by call, and the TOML file that says so.

Here: the values, reading and checking. Argument names and their words are those of the registry's rows, never a copy.
Not here: writing the file (surface_writer.py), which runtimes there are (runtimes/), and what a program asks for
(census.py).

docs/formats/runtime.md describes the file.
"""

from __future__ import annotations

import errno as errno_module
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from typing import Any

from husk.abi.registry import ROWS
from husk.abi.registry.flags import FLAGS
from husk.abi.registry.rules import ArgTest, Row
from husk.abi.registry.signatures import NUMBERS, arguments
from husk.compat.bounded_file import read_bounded
from husk.sandbox.errors import UsageError

FORMAT = 1
FULL, PARTIAL, MISSING, UNKNOWN = "full", "partial", "missing", "unknown"
SUPPORT = (FULL, PARTIAL, MISSING, UNKNOWN)

LARGEST_FILE = 4 << 20  # bytes; the largest file of ours has 100 thousand
ALL_32 = 0xFFFFFFFF

# Two names share a number; Linux's manual pages use this one for calls that are not offered.
ERRNO_NAMES = {**errno_module.errorcode, 95: "EOPNOTSUPP"}
ERRNO_NUMBERS = {name: getattr(errno_module, name) for name in dir(errno_module) if name.startswith("E")}

_TOP_KEYS = ("format", "title", "version", "date", "source", "measured", "default", "calls", "paths")
_CALL_KEYS = ("support", "errno", "text", "source", "when")
_NOTE_KEYS = ("support", "errno", "text", "source", "about")
_TEST_KEYS = ("is", "has", "within", "mask", "wide")
VERBS = {"is": "in", "has": "any", "within": "within"}  # the file's word -> the kind of an ArgTest


@dataclass(frozen=True)
class Note:
    """What a runtime does with some argument values of a call. Without `tests` it is a remark in words, about what lies
    behind a pointer for one, and decides nothing."""

    tests: tuple[ArgTest, ...]
    support: str
    errno: int = 0  # what a missing one gives; 0: unknown, or no error
    text: str = ""
    source: str = ""

    def holds(self, args: Sequence[int]) -> bool:
        return bool(self.tests) and all(test.holds(args, None) for test in self.tests)

    @property
    def condition(self) -> str:
        return " and ".join(test.text for test in self.tests)


@dataclass(frozen=True)
class Claim:
    """One call. `support` holds for every argument that no note speaks of."""

    call: str
    support: str
    errno: int = 0
    text: str = ""
    source: str = ""
    notes: tuple[Note, ...] = ()

    @property
    def level(self) -> str:
        """The call as a whole, in one word: partial where its notes differ from the rest."""
        levels = {note.support for note in self.notes if note.tests and note.support != UNKNOWN} | {self.support}
        return self.support if len(levels) == 1 else PARTIAL


@dataclass(frozen=True)
class PathClaim:
    """A path of /proc, /sys or /dev; `*` stands for one component."""

    path: str
    support: str
    errno: int = 0
    text: str = ""


@dataclass(frozen=True)
class Surface:
    """One runtime in one version. `name` is what `--as` and `--against` take."""

    name: str
    title: str
    version: str
    date: str
    source: str
    measured: bool
    default: str  # for calls that are not listed
    default_errno: int
    claims: Mapping[str, Claim]
    paths: tuple[PathClaim, ...] = field(default=())

    def claim(self, call: str) -> Claim:
        return self.claims.get(call) or Claim(call, self.default, self.default_errno)

    def answer(self, call: str, args: Sequence[int]) -> tuple[str, int, str]:
        """Support, errno and text for one call with these arguments: the first note that holds, else the claim."""
        claim = self.claim(call)
        for note in claim.notes:
            if note.holds(args):
                return note.support, note.errno, note.text or claim.text
        return claim.support, claim.errno, claim.text


@cache
def rows_by_name() -> dict[str, Row]:
    return {row.name: row for row in ROWS.values()}


# -- reading -----------------------------------------------------------------------------------------------------------
def read_surface(path: str | os.PathLike[str]) -> Surface:
    """A runtime file, checked. UsageError: one sentence that names the file, the place and what to write."""
    import tomllib

    name = os.fspath(path)
    wanted = "name a runtime file or one of `husk runtimes ls`."
    content = read_bounded(name, LARGEST_FILE, wanted, "; a runtime file is a list of calls.")
    try:
        data = tomllib.loads(content.decode("utf-8"))
    except RecursionError:
        raise UsageError(f"{name}: not TOML: it is nested too deeply.") from None
    except ValueError as error:  # no TOML, no UTF-8, or a number with too many digits
        raise UsageError(f"{name}: not TOML: {error}.") from None
    return surface_from(data, os.path.basename(name).removesuffix(".toml"), name)


def surface_from(data: dict[str, Any], name: str, file: str) -> Surface:
    """A surface from what a TOML file holds. `file` begins every complaint."""
    reader = _Reader(file)
    reader.only(data, _TOP_KEYS, "")
    if data.get("format") != FORMAT or isinstance(data["format"], bool):
        raise reader.wrong("", f"`format = {FORMAT}` must stand at its top.")
    for key in ("title", "version", "source"):
        if not reader.text(data, key, ""):
            raise reader.wrong(key, "it must be given, as a text.")
    default = reader.table(data.get("default", {"support": UNKNOWN}), "default")
    reader.only(default, ("support", "errno"), "default")
    calls = reader.table(data.get("calls", {}), "calls")
    paths = data.get("paths", [])
    if not isinstance(paths, list):
        raise reader.wrong("paths", "write [[paths]], once for each path.")
    measured = data.get("measured", False)
    if not isinstance(measured, bool):
        raise reader.wrong("measured", "write true or false.")
    return Surface(
        name,
        data["title"],
        data["version"],
        reader.text(data, "date", ""),
        data["source"],
        measured,
        reader.support(default, "default"),
        reader.errno(default, "default"),
        {call: reader.claim(call, what) for call, what in calls.items()},
        tuple(reader.path_claim(one, f"paths[{number}]") for number, one in enumerate(paths)),
    )


class _Reader:
    """Turns tables into values. Every complaint is one sentence with the file, the place and what to write there."""

    def __init__(self, file: str) -> None:
        self.file = file

    def wrong(self, place: str, why: str) -> UsageError:
        return UsageError(f"{self.file}: {place}{': ' if place else ''}{why}")

    def only(self, table: Mapping[str, Any], known: Sequence[str], place: str) -> None:
        for key in table:
            if key not in known:
                where = f"{place}.{key}" if place else str(key)
                raise self.wrong(where, f"there is no such key{_near(key, known)}; there are {', '.join(known)}.")

    def table(self, value: Any, place: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.wrong(place, f"it must be a table, not {_shown(value)}.")
        return value

    def text(self, table: Mapping[str, Any], key: str, place: str) -> str:
        value = table.get(key, "")
        if not isinstance(value, str):
            raise self.wrong(f"{place}.{key}" if place else key, f"it must be a text, not {_shown(value)}.")
        return value

    def support(self, table: Mapping[str, Any], place: str) -> str:
        value = table.get("support")
        if value not in SUPPORT:
            raise self.wrong(f"{place}.support", f"it is one of {', '.join(SUPPORT)}, not {_shown(value)}.")
        return str(value)

    def errno(self, table: Mapping[str, Any], place: str) -> int:
        value = table.get("errno")
        if value is None:
            return 0
        if not isinstance(value, str) or value not in ERRNO_NUMBERS:
            near = _near(str(value), list(ERRNO_NUMBERS))
            raise self.wrong(f"{place}.errno", f"{_shown(value)} is no errno{near}; write a name such as \"ENOSYS\".")
        number: int = ERRNO_NUMBERS[value]
        return number

    def claim(self, call: str, what: Any) -> Claim:
        place = f"calls.{call}"
        row = rows_by_name().get(call)
        if row is None:
            near = _near(call, list(rows_by_name()))
            raise self.wrong(place, f"Linux on x86-64 has no such call{near}; `husk syscalls` lists them all.")
        if isinstance(what, str):
            what = {"support": what}
        table = self.table(what, place)
        self.only(table, _CALL_KEYS, place)
        notes = table.get("when", [])
        if not isinstance(notes, list):
            raise self.wrong(f"{place}.when", f"write [[{place}.when]], once for each.")
        return Claim(
            call,
            self.support(table, place),
            self.errno(table, place),
            self.text(table, "text", place),
            self.text(table, "source", place),
            tuple(self.note(row, one, f"{place}.when[{number}]") for number, one in enumerate(notes)),
        )

    def note(self, row: Row, what: Any, place: str) -> Note:
        table = self.table(what, place)
        kinds = arguments(row)
        names = [name for name, _ in kinds]
        self.only(table, [*names, *_NOTE_KEYS], place)
        tests = tuple(
            test
            for index, (name, kind) in enumerate(kinds)
            if name in table
            for test in self.tests(index, name, kind, table[name], f"{place}.{name}")
        )
        about = self.text(table, "about", place)
        if bool(tests) == bool(about):
            shown = ", ".join(names) or "none"
            raise self.wrong(place, f"give values of arguments ({row.name} has {shown}), or a remark with `about`.")
        text = self.text(table, "text", place)
        if about and text:
            raise self.wrong(f"{place}.text", "`about` is the text already; leave this out.")
        source = self.text(table, "source", place)
        return Note(tests, self.support(table, place), self.errno(table, place), about or text, source)

    def tests(self, index: int, name: str, kind: str, what: Any, place: str) -> list[ArgTest]:
        """The conditions on one argument, all of which must hold: a value, a list of values, or a table (or list of
        tables) with is, has or within, perhaps mask or wide."""
        many = what if isinstance(what, list) and what and isinstance(what[0], dict) else [what]
        return [self.test(index, name, kind, one if isinstance(one, dict) else {"is": one}, place) for one in many]

    def test(self, index: int, name: str, kind: str, table: dict[str, Any], place: str) -> ArgTest:
        self.only(table, _TEST_KEYS, place)
        verbs = [key for key in ("is", "has", "within") if key in table]
        if len(verbs) != 1:
            raise self.wrong(place, "say one of: is, has (any of these bits), within (no other bits).")
        verb, wide, mask = verbs[0], table.get("wide", False), table.get("mask")
        if not isinstance(wide, bool):
            raise self.wrong(f"{place}.wide", "write true or false.")
        if mask is not None and (not _is_number(mask) or not 0 < mask <= ALL_32):
            raise self.wrong(f"{place}.mask", "write a number of 32 bits that is not 0.")
        if wide and (mask is not None or verb != "is"):
            raise self.wrong(f"{place}.wide", "all 64 bits can only be compared with `is`, without a mask.")
        values = table[verb] if isinstance(table[verb], list) else [table[verb]]
        if not values:
            raise self.wrong(f"{place}.{verb}", "name at least one value.")
        words = dict(self.value(kind, one, f"{place}.{verb}", wide) for one in values)
        choice = choice_mask(kind, values) if verb == "is" and not wide else ALL_32
        return ArgTest(index, name, VERBS[verb], words, mask or choice, wide)

    def value(self, kind: str, value: Any, place: str, wide: bool) -> tuple[str, int]:
        """One value as its name and number."""
        if _is_number(value):
            if not -(1 << 31) <= value < (1 << 64 if wide else 1 << 32):
                raise self.wrong(place, f"{value} does not fit into {64 if wide else 32} bits.")
            number = value & (0xFFFFFFFFFFFFFFFF if wide else ALL_32)
            return spelled(kind, number), number
        known = words_of(kind)
        if not isinstance(value, str) or value not in known:
            near = _near(str(value), list(known))
            raise self.wrong(place, f"{_shown(value)} is no value that husk has a name for{near}; write its number.")
        return value, known[value]

    def path_claim(self, what: Any, place: str) -> PathClaim:
        table = self.table(what, place)
        self.only(table, ("path", "support", "errno", "text"), place)
        path = self.text(table, "path", place)
        if not path.startswith("/"):
            raise self.wrong(f"{place}.path", "write an absolute path, such as \"/proc/self/pagemap\".")
        return PathClaim(path, self.support(table, place), self.errno(table, place), self.text(table, "text", place))


@cache
def words_of(kind: str) -> dict[str, int]:
    """The names husk knows for values of an argument of this kind."""
    flags = FLAGS.get(kind)
    if flags is None:
        return {}
    zero = {flags.zero: 0} if flags.zero != "0" else {}
    return {**zero, **flags.bits, **{name: value for value, name in flags.choices.items()}}


def choice_mask(kind: str, values: Sequence[Any]) -> int:
    """Where an argument is a choice and flags in one (SOCK_STREAM|SOCK_CLOEXEC), names of choices are compared with the
    bits of the choice alone."""
    flags = FLAGS.get(kind)
    mask = mask_of(kind)
    return mask if flags and all(value in flags.choices.values() for value in values) else ALL_32


def mask_of(kind: str) -> int:
    """The bits of the choice, where an argument is a choice and flags in one."""
    flags = FLAGS.get(kind)
    return flags.mask if flags and flags.choices and flags.bits else ALL_32


def spelled(kind: str, number: int) -> str:
    """A number by its name, if one name says it all; else as a number."""
    for name, value in words_of(kind).items():
        if value == number:
            return name
    if kind in NUMBERS and NUMBERS[kind][1] and number >> 31 == 1:
        return str(number - (1 << 32))
    return str(number) if number < 4096 else hex(number)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _near(word: str, known: Sequence[str]) -> str:
    near = get_close_matches(word, known, 1, 0.7)
    return f" (do you mean {near[0]}?)" if near else ""


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    text = json.dumps(value) if isinstance(value, str | int | float | type(None)) else str(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
