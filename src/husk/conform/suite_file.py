"""conform: the TOML file that describes a suite: its kind, its files, how they are run. docs/formats/suite.md.

Here: the values, reading and checking. What the settings of a kind mean is that kind's business (suites/).
"""

from __future__ import annotations

import fnmatch
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from husk.compat.bounded_file import read_bounded
from husk.sandbox.errors import UsageError

FORMAT = 1
KINDS = ("googletest", "transcripts", "tap", "ltp", "python", "skills", "commands")
LARGEST_FILE = 16 << 20
_TOP_KEYS = (
    "format",
    "name",
    "kind",
    "title",
    "source",
    "timeout",
    "environment",
    "shown",
    "families",
    "settings",
    "files",
)
_FILE_KEYS = ("path", "args", "environment", "timeout", "family", "skip")
OTHER_FAMILY = "other"


@dataclass(frozen=True)
class SuiteFile:
    """One program or test file. `path` is relative to the directory of the suite's file."""

    path: str
    args: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    timeout: float = 0.0  # 0: the suite's
    family: str = ""
    skip: str = ""  # a reason not to run it


@dataclass(frozen=True)
class Suite:
    name: str
    kind: str
    place: Path  # the directory that its paths start from
    title: str = ""
    source: str = ""  # where the tests come from, with a version: for reports
    timeout: float = 60.0
    environment: tuple[tuple[str, str], ...] = ()
    shown: tuple[str, ...] = ()  # host directories that its programs need, besides `place`
    families: tuple[tuple[str, str], ...] = ()  # (pattern of a file's path, family), the first that fits
    files: tuple[SuiteFile, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)  # what its kind needs

    def family(self, file: str) -> str:
        for one in self.files:
            if one.path == file and one.family:
                return one.family
        for pattern, family in self.families:
            if fnmatch.fnmatchcase(file, pattern):
                return family
        return OTHER_FAMILY


def read_suite(path: Path) -> Suite:
    """A suite file, or a directory with a `suite.toml`. A directory without one that holds programs is a suite of
    GoogleTest programs, named after it."""
    if path.is_dir():
        if not (path / "suite.toml").exists() and _holds_programs(path):
            return Suite(path.resolve().name, "googletest", path.resolve())
        path = path / "suite.toml"
    content = read_bounded(path, LARGEST_FILE, "name a suite file, or a directory that holds suite.toml.", ".")
    try:
        table = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not a suite file: {error}.") from None
    return _suite(path, table)


def _holds_programs(path: Path) -> bool:
    return any(entry.is_file() and os.access(entry, os.X_OK) for entry in path.iterdir())


def _suite(path: Path, table: dict[str, Any]) -> Suite:
    reader = Reader(str(path), table, _TOP_KEYS)
    if table.get("format") != FORMAT:
        raise UsageError(f"{path}: `format = {FORMAT}` is missing, or it is a file of another husk.")
    kind = reader.text("kind")
    if kind not in KINDS:
        raise UsageError(f"{path}: kind = {kind!r}; a suite is one of {', '.join(KINDS)}.")
    name = reader.text("name")
    if not name or "/" in name:
        raise UsageError(f"{path}: a suite needs a `name` without a slash.")
    files = []
    for number, row in enumerate(reader.rows("files"), 1):
        one = Reader(f"{path}: file {number}", row, _FILE_KEYS)
        files.append(
            SuiteFile(
                one.text("path"), one.texts("args"), one.pairs("environment"), one.seconds("timeout", 0.0),
                one.text("family"), one.text("skip"),
            )
        )  # fmt: skip
        if not files[-1].path:
            raise UsageError(f"{path}: file {number} has no `path`.")
    return Suite(
        name, kind, path.parent.resolve(), reader.text("title"), reader.text("source"), reader.seconds("timeout", 60.0),
        reader.pairs("environment"), reader.texts("shown"), reader.pairs("families"), tuple(files),
        reader.table("settings"),
    )  # fmt: skip


class Reader:
    """Typed look-ups in a table, with sentences for what is wrong. Kinds read their settings with it."""

    def __init__(self, where: str, table: dict[str, Any], keys: tuple[str, ...]) -> None:
        self._where, self._table = where, table
        for key in table:
            if key not in keys:
                raise UsageError(f"{where}: there is no key {key!r}; there are {', '.join(keys)}.")

    def _get(self, key: str, kind: type | tuple[type, ...], default: Any, wanted: str) -> Any:
        value = self._table.get(key, default)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise UsageError(f"{self._where}: `{key}` must be {wanted}.")
        return value

    def text(self, key: str) -> str:
        return str(self._get(key, str, "", "a text"))

    def texts(self, key: str) -> tuple[str, ...]:
        values = self._get(key, list, [], "a list of texts")
        if not all(isinstance(value, str) for value in values):
            raise UsageError(f"{self._where}: `{key}` must be a list of texts.")
        return tuple(values)

    def number(self, key: str, default: int) -> int:
        return int(self._get(key, int, default, "a whole number"))

    def pairs(self, key: str) -> tuple[tuple[str, str], ...]:
        values = self.table(key)
        if not all(isinstance(value, str) for value in values.values()):
            raise UsageError(f"{self._where}: the values of `{key}` must be texts.")
        return tuple(values.items())

    def table(self, key: str) -> dict[str, Any]:
        return dict(self._get(key, dict, {}, "a table"))

    def rows(self, key: str) -> list[dict[str, Any]]:
        rows = self._get(key, list, [], "a list of tables")
        if not all(isinstance(row, dict) for row in rows):
            raise UsageError(f"{self._where}: `{key}` must be a list of tables.")
        return list(rows)

    def seconds(self, key: str, default: float) -> float:
        value = float(self._get(key, (int, float), default, "a number of seconds"))
        if not 0 <= value <= 86_400:
            raise UsageError(f"{self._where}: `{key}` must be between 0 and 86400 seconds.")
        return value
