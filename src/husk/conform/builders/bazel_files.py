"""conform: read Bazel's BUILD files as data.

A BUILD file is written in a subset of Python, so Python's own parser reads it. Nothing is ever executed: an expression
is either one of the few shapes below or *unknown*, and what is unknown counts as empty. Rules are returned as they are
written, with their names, lists and strings resolved; what a rule means is known in `bazel_graph`.

Files come from a checkout that may be anything, so size, depth and the number of found files are bounded.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

MOST_BYTES = 4 << 20
MOST_DEPTH = 200  # of nested expressions
MOST_FOUND = 20_000  # files one glob may look at

# A value of a BUILD file, as far as it is understood. None is also what could not be understood.
Value = str | int | list["Value"] | dict[str, "Value"] | None

# What a macro of the checkout gives: its keyword arguments come evaluated.
Macro = Callable[[dict[str, Value]], Value]

_NAMES = ("BUILD.bazel", "BUILD")  # Bazel prefers the first where both exist
_DEFAULT = "//conditions:default"


class BuildFileError(Exception):
    """A BUILD file cannot be read. Its text is one sentence."""


@dataclass(frozen=True)
class Rule:
    """One call at the top level: `cc_library(name = "x", srcs = [...])`."""

    kind: str
    name: str
    attributes: dict[str, Value] = field(hash=False, compare=False)

    def words(self, name: str) -> list[str]:
        """A list attribute; what is no string in it was not understood, and is left out."""
        value = self.attributes.get(name)
        return [word for word in value if isinstance(word, str)] if isinstance(value, list) else []

    def text(self, name: str) -> str:
        value = self.attributes.get(name)
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> int:
        value = self.attributes.get(name)
        return value if isinstance(value, int) else 0


@dataclass(frozen=True)
class Reading:
    """How to read: the constants and macros the BUILD files get from elsewhere, and the true conditions of select()."""

    constants: dict[str, Value] = field(default_factory=dict)
    macros: dict[str, Macro] = field(default_factory=dict)
    conditions: frozenset[str] = frozenset()


def build_file(folder: Path) -> Path | None:
    """The BUILD file of a folder, if it has one."""
    return next((folder / name for name in _NAMES if (folder / name).is_file()), None)


def read_build_file(path: Path, reading: Reading) -> list[Rule]:
    """The rules of a BUILD file, in its order. Calls without a name (load, package, ...) are no rules.

    BuildFileError: unreadable, too large, or no such file at all."""
    try:
        with open(path, "rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise BuildFileError(f"{path}: {error.strerror}") from None
    if len(content) > MOST_BYTES:
        raise BuildFileError(f"{path}: larger than {MOST_BYTES >> 20} MiB, which no BUILD file is")
    try:
        tree = ast.parse(content, filename=str(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        where = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise BuildFileError(f"{path}{where}: not in the form of a BUILD file") from None
    return _File(path.parent, reading).rules(tree)


class _File:
    """The evaluation of one file: it knows the folder, for glob(), and the constants set so far."""

    def __init__(self, folder: Path, reading: Reading) -> None:
        self._folder, self._reading = folder, reading
        self._constants = dict(reading.constants)

    def rules(self, tree: ast.Module) -> list[Rule]:
        found = []
        for statement in tree.body:
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                target = statement.targets[0]
                if isinstance(target, ast.Name):
                    self._constants[target.id] = self._value(statement.value, 0)
            elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                rule = self._rule(statement.value)
                if rule is not None:
                    found.append(rule)
        return found

    def _rule(self, call: ast.Call) -> Rule | None:
        if not isinstance(call.func, ast.Name):
            return None
        attributes = self._arguments(call, 0)
        name = attributes.pop("name", None)
        if name is None and "test" in attributes:
            name = attributes["test"]  # rules about a test, which name it instead of themselves
        return Rule(call.func.id, name, attributes) if isinstance(name, str) else None

    def _arguments(self, call: ast.Call, depth: int) -> dict[str, Value]:
        return {word.arg: self._value(word.value, depth + 1) for word in call.keywords if word.arg is not None}

    def _value(self, node: ast.expr, depth: int) -> Value:
        if depth > MOST_DEPTH:
            raise BuildFileError(f"{self._folder}: an expression of its BUILD file is nested too deeply")
        match node:
            case ast.Constant(value=bool() | int() | str() as value):
                return value
            case ast.Name(id=name):
                return self._constants.get(name)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [self._value(item, depth + 1) for item in items]
            case ast.Dict(keys=keys, values=values):
                return self._table(keys, values, depth)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return _joined(self._value(left, depth + 1), self._value(right, depth + 1))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._value(body if self._is_true(test, depth + 1) else orelse, depth + 1)
            case ast.Call(func=ast.Name(id=name)):
                return self._call(name, node, depth)
        return None

    def _table(self, keys: list[ast.expr | None], values: list[ast.expr], depth: int) -> dict[str, Value]:
        table = {}
        for key, value in zip(keys, values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                table[key.value] = self._value(value, depth + 1)
        return table

    def _is_true(self, test: ast.expr, depth: int) -> bool:
        """`x`, `x != None` and `x == None`; any other question is answered with no."""
        match test:
            case ast.Compare(left=left, ops=[op], comparators=[ast.Constant(value=None)]):
                nothing = self._value(left, depth) is None
                return nothing == isinstance(op, ast.Eq | ast.Is)
        return bool(self._value(test, depth))

    def _call(self, name: str, call: ast.Call, depth: int) -> Value:
        if name == "select":
            return self._select(self._value(call.args[0], depth + 1) if call.args else None)
        if name == "glob":
            return self._glob(call, depth)
        macro = self._reading.macros.get(name)
        return macro(self._arguments(call, depth)) if macro else None

    def _select(self, table: Value) -> Value:
        """The branch of a true condition, else the default; which of two true ones is Bazel's business."""
        if not isinstance(table, dict):
            return None
        for condition in self._reading.conditions:
            if condition in table:
                return table[condition]
        return table.get(_DEFAULT)

    def _glob(self, call: ast.Call, depth: int) -> Value:
        given = self._arguments(call, depth)
        include = self._value(call.args[0], depth + 1) if call.args else given.get("include")
        wanted, unwanted = _patterns(include), _patterns(given.get("exclude"))
        return [
            name
            for name in _files_below(self._folder)
            if any(one.fullmatch(name) for one in wanted) and not any(one.fullmatch(name) for one in unwanted)
        ]


def _joined(left: Value, right: Value) -> Value:
    """a + b. What is unknown counts as empty, so that the known half remains."""
    if left is None or right is None:
        return left if right is None else right
    if isinstance(left, list) and isinstance(right, list):
        return left + right
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    if isinstance(left, dict) and isinstance(right, dict):
        return left | right
    return None


def _patterns(value: Value) -> list[re.Pattern[str]]:
    words = value if isinstance(value, list) else []
    return [_pattern(word) for word in words if isinstance(word, str)]


def _pattern(word: str) -> re.Pattern[str]:
    """Bazel's: `*` stays within a folder, `**` is any number of folders."""
    *folders, last = word.split("/")
    parts = ["(?:[^/]+/)*" if part == "**" else _part(part) + "/" for part in folders]
    return re.compile("".join(parts) + (".*" if last == "**" else _part(last)))


def _part(word: str) -> str:
    return "[^/]*".join(re.escape(piece) for piece in word.split("*"))


def _files_below(folder: Path) -> list[str]:
    found: list[str] = []
    for place, folders, files in os.walk(folder):
        folders.sort()
        # A folder with a BUILD file is a package of its own: a glob does not look into it.
        if place != str(folder) and any(name in files for name in _NAMES):
            folders.clear()
            continue
        found += (os.path.relpath(os.path.join(place, name), folder) for name in sorted(files))
        if len(found) > MOST_FOUND:
            raise BuildFileError(f"{folder}: a glob would look at more than {MOST_FOUND} files")
    return found
