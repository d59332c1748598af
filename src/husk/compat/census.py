"""compat: what a program asked for: calls with their telling argument values, files, addresses and programs.

Here: the model, and reading and writing it as JSON (docs/formats/trace.md). Not here: how a census is taken (`trace`),
and what it means for a runtime (`verdict`).
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from husk.abi.registry import by_name
from husk.abi.registry.flags import FLAGS
from husk.abi.registry.rules import WAYS
from husk.abi.registry.signatures import arguments
from husk.compat.bounded_file import read_bounded
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Build = TypeVar("Build")

FORMAT = "husk-trace 1"
SETTINGS = ("walled", "bare")  # with namespaces around the program, and without
LARGEST_FILE = 256 << 20  # bytes; no trace of husk's is as large, and the reader keeps all of it in memory


@dataclass
class Asked:
    """One call with one set of telling argument values.

    `values` has the raw value of each telling argument by its place: those whose kind has a table in
    husk.abi.registry.flags. `arguments` has the same by name, in words. `errors` counts results that were seen: a
    native call runs in the host, and husk does not see how it ended.
    """

    call: str
    way: str
    values: dict[int, int] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    count: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    reasons: list[str] = field(default_factory=list)
    example: str = ""


@dataclass
class FileUse:
    """How often a file was opened for reading, for writing, listed and executed, and what failed by its name."""

    path: str
    read: int = 0
    written: int = 0
    listed: int = 0
    executed: int = 0
    errors: dict[str, int] = field(default_factory=dict)


@dataclass
class AddressUse:
    """A socket address that was named in a call. `outcome` is "" for success, an errno, or "not seen"."""

    call: str
    address: str
    outcome: str = ""
    count: int = 1


@dataclass
class ProgramRun:
    """A process, from one start of a program to the next or to its end. Times are in seconds since the start of the
    trace; `ended` is that of its last call where the end itself was not seen. `status` is what it gave to exit, -1
    where that was not seen. `calls` are counted for each slot of the run's time, `Census.slots` of them."""

    pid: int
    parent: int
    argv: list[str]
    began: float = 0.0
    ended: float = 0.0
    status: int = -1
    program: str = ""
    count: int = 0
    activity: list[int] = field(default_factory=list)


@dataclass
class Census:
    """Everything one traced run asked for. `crash` says in words which signal ended the program, "" if none did.
    `lost` counts what happened and was not written down, by kind."""

    command: list[str]
    husk: str = ""
    started: str = ""
    seconds: float = 0.0
    status: int = 0
    setting: str = "walled"
    calls: list[Asked] = field(default_factory=list)
    files: list[FileUse] = field(default_factory=list)
    addresses: list[AddressUse] = field(default_factory=list)
    programs: list[ProgramRun] = field(default_factory=list)
    crash: str = ""
    lost: dict[str, int] = field(default_factory=dict)

    def counts(self) -> dict[str, int]:
        """How often each call was made, whatever its arguments."""
        total: dict[str, int] = {}
        for asked in self.calls:
            total[asked.call] = total.get(asked.call, 0) + asked.count
        return total


def telling(call: str) -> tuple[tuple[int, str, str], ...]:
    """(place, name, kind) of a call's telling arguments: those whose values have names."""
    row = by_name(call)
    if row is None:
        return ()
    return tuple((n, name, kind) for n, (name, kind) in enumerate(arguments(row)) if kind in FLAGS)


def spelled(call: str, values: Mapping[int, int]) -> dict[str, str]:
    """Telling values by argument name, in words."""
    return {name: FLAGS[kind].spell(values[n]) for n, name, kind in telling(call) if n in values}


# -- writing ---------------------------------------------------------------------------------------------------
def as_dict(census: Census) -> dict[str, object]:
    shown: dict[str, object] = {"format": FORMAT}
    for each in fields(census):
        value = getattr(census, each.name)
        shown[each.name] = [_plain(item) for item in value] if each.name in _LISTS else value
    return shown


def _plain(item: object) -> object:
    """A dataclass as a dictionary, without what says nothing."""
    if isinstance(item, Asked | FileUse | AddressUse | ProgramRun):
        pairs = {each.name: getattr(item, each.name) for each in fields(item)}
        return {
            name: {str(key): number for key, number in value.items()} if name == "values" else value
            for name, value in pairs.items()
            if value not in ({}, [], "") or name in ("call", "path", "address", "argv", "way")
        }
    return item


def write_census(census: Census) -> str:
    """JSON text, one census, with a newline at the end. The same census always gives the same text."""
    return json.dumps(as_dict(census), indent=1, ensure_ascii=True, allow_nan=False) + "\n"


# -- reading ---------------------------------------------------------------------------------------------------
def read_census(path: str | Path) -> Census:
    """UsageError names the file, the place in it and what to do, in one sentence."""
    wanted = "name a file that `husk trace --json` wrote."
    data = read_bounded(path, LARGEST_FILE, wanted, ", which no trace of husk's is.")
    try:
        document = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no trace: it is not JSON, or not all of it; {_AGAIN}") from error
    try:
        return parse_census(document)
    except _Wrong as wrong:
        raise UsageError(f"{path} is no trace that this husk reads: {wrong}; {_AGAIN}") from wrong


_AGAIN = "write it again with `husk trace --json -o FILE -- PROGRAM`."


class _Wrong(ValueError):
    """What is wrong, and where."""


def parse_census(document: object) -> Census:
    """A census from decoded JSON. ValueError says what is wrong with it and where. Unknown keys are passed over, so
    that a later husk may add some."""
    top = _object(document, "the file")
    if top.get("format") != FORMAT:
        raise _Wrong(f'its format is {str(top.get("format"))[:40]!r}, not "{FORMAT}"')
    census: Census = _build(Census, top, "")
    if census.setting not in SETTINGS:
        raise _Wrong(f"setting is {census.setting[:40]!r}, not one of {', '.join(SETTINGS)}")
    for n, asked in enumerate(census.calls):
        if asked.way not in WAYS:
            raise _Wrong(f"calls[{n}].way is {asked.way[:40]!r}, not one of {', '.join(WAYS)}")
    return census


def _build(kind: Callable[..., Build], found: Mapping[str, Any], place: str) -> Build:
    given = {}
    for each in fields(kind):  # type: ignore[arg-type]
        here = f"{place}{each.name}"
        if each.name in found:
            given[each.name] = _READERS[str(each.type)](found[each.name], here)
        elif each.name in _NEEDED:
            raise _Wrong(f"{here} is missing")
    return kind(**given)


def _object(value: object, here: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Wrong(f"{here} is no object")
    return value


def _text(value: object, here: str) -> str:
    if not isinstance(value, str):
        raise _Wrong(f"{here} is no text")
    return value


def _whole(value: object, here: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -(1 << 63) <= value < 1 << 64:
        raise _Wrong(f"{here} is no whole number of 64 bits")
    return value


def _number(value: object, here: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise _Wrong(f"{here} is no number")
    return float(value)


def _list(read: Callable[[Any, str], Build]) -> Callable[[object, str], list[Build]]:
    def items(value: object, here: str) -> list[Build]:
        if not isinstance(value, list):
            raise _Wrong(f"{here} is no list")
        return [read(item, f"{here}[{n}]") for n, item in enumerate(value)]

    return items


def _table(read: Callable[[Any, str], Build]) -> Callable[[object, str], dict[str, Build]]:
    return lambda value, here: {key: read(item, f"{here}.{key}") for key, item in _object(value, here).items()}


def _places(value: object, here: str) -> dict[int, int]:
    numbers = _table(_whole)(value, here)
    if not all(key in "012345" and len(key) == 1 for key in numbers):
        raise _Wrong(f"{here} has a key that is no place of an argument, 0 to 5")
    return {int(key): number for key, number in numbers.items()}


def _parts(kind: Callable[..., Build]) -> Callable[[object, str], list[Build]]:
    return _list(lambda item, here: _build(kind, _object(item, here), f"{here}."))


_LISTS = ("calls", "files", "addresses", "programs")
_NEEDED = {"command", "calls", "call", "way", "path", "address", "pid", "parent", "argv"}
_READERS: dict[str, Callable[[Any, str], Any]] = {
    "str": _text,
    "int": _whole,
    "float": _number,
    "list[str]": _list(_text),
    "list[int]": _list(_whole),
    "dict[int, int]": _places,
    "dict[str, str]": _table(_text),
    "dict[str, int]": _table(_whole),
    "list[Asked]": _parts(Asked),
    "list[FileUse]": _parts(FileUse),
    "list[AddressUse]": _parts(AddressUse),
    "list[ProgramRun]": _parts(ProgramRun),
}
