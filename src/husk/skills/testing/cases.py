"""skills/testing: test cases (JSON or TOML): each says how a skill is called and what the result must be.

Here: reading cases and checking one run. `compare_cases` runs them.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from husk.sandbox.errors import UsageError
from husk.skills.collections.find_skills import find_skills, is_skill, skills_in
from husk.skills.collections.find_skills import named as names_of
from husk.skills.frontmatter import MOST_HEAD, read_head

FILES = ("cases.toml", "cases.json")
FIELDS = {
    "name",
    "skill",
    "script",
    "argv",
    "stdin",
    "input",
    "exit",
    "stdout",
    "stdout_has",
    "files",
    "needs",
    "modules",
}
PLACES = ("{in}", "{out}", "{skill}")


@dataclass
class Case:
    """`argv` may hold {in}, {out} and {skill}. `files` maps a produced file to what it must be: a text, or
    {same = FILE} for the bytes of a file next to the cases, {has = TEXT}, {starts = TEXT}, or {} for being there."""

    name: str
    skill: Path
    script: str = ""
    argv: list[str] = field(default_factory=list)
    stdin: str = ""
    input: Path | None = None
    exit: int = 0
    stdout: str | None = None
    stdout_has: list[str] = field(default_factory=list)
    files: dict[str, Any] = field(default_factory=dict)
    needs: list[str] = field(default_factory=list)  # programs, without which the case is skipped
    modules: list[str] = field(default_factory=list)  # Python modules, likewise
    base: Path = Path()
    fault: str = ""  # why there is no case here to run: its file cannot be read


@dataclass
class Run:
    """The result of a case, natively or in a box. Its texts name directories as the case does: {in}, {out}, {skill}."""

    exit: int
    stdout: str
    stderr: str
    files: dict[str, bytes]


def find_cases(paths: list[Path], cases: Path | None) -> list[Case]:
    """The cases of the given skills and folders of skills; or those of one file, all or only for the given skills."""
    if cases is not None:
        skills = skills_in(paths)[0] if paths else None
        wanted = [path.resolve() for path in paths]
        found = _read(cases, skills)
        chosen = [case for case in found if not wanted or any(case.skill.is_relative_to(path) for path in wanted)]
    else:
        chosen = [case for path in paths for case in _cases_of(path)]
    if not chosen:
        raise UsageError("there are no cases for that.")
    return chosen


def skills_without_cases(paths: list[Path], cases: list[Case]) -> list[Path]:
    have = {case.skill for case in cases}
    return [path for path in skills_in(paths)[0] if path.resolve() not in have]


def _cases_of(path: Path) -> list[Case]:
    """The cases of a skill, or of a folder of skills: those in a file of its own, else those of each skill."""
    if path.is_file():
        raise UsageError(f"{path}: cases inside an archive are not read; give --cases FILE, with `skill` in each case.")
    if not path.is_dir():
        raise UsageError(f"{path}: there is no such directory.")
    if file := _file_in(path):
        return [_check_paths(case, file) for case in _read(file)]
    chosen = []
    for skill in [] if is_skill(path) else find_skills(path).skills:
        if file := _file_in(skill):
            try:
                chosen += [_check_paths(case, file) for case in _read(file)]
            except UsageError as error:  # of one skill among many
                chosen.append(Case("(cases)", skill.resolve(), fault=str(error)))
    if not chosen:
        raise UsageError(f"{path}: there are no cases in it; write a {FILES[0]}, or name one with --cases.")
    return chosen


def _file_in(folder: Path) -> Path | None:
    return next((folder / name for name in FILES if (folder / name).is_file()), None)


def _check_paths(case: Case, file: Path) -> Case:
    """A case that came with a skill is as untrusted as the skill: it may not name other files of the host. To allow
    that, the user names the file (--cases)."""
    folder = file.parent.resolve()
    for what, path in (("skill", case.skill), ("input", case.input)):
        if path is not None and not path.resolve().is_relative_to(folder):
            raise UsageError(
                f"{file}: `{what}` of the case {case.name!r} leads out of the folder; if you wrote it yourself, say so "
                f"with --cases {file}."
            )
    for name, wanted in case.files.items():
        same = wanted.get("same", ".") if isinstance(wanted, dict) else "."
        if not isinstance(same, str) or not (case.base / same).resolve().is_relative_to(folder):
            raise UsageError(f"{file}: what {name!r} of the case {case.name!r} is compared with is not in the folder.")
    return case


def _read(path: Path, skills: list[Path] | None = None) -> list[Case]:
    """`skills`: those that a case may name; None: those in the folder of the file."""
    try:
        text = path.read_text("utf-8")
        data = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
        if path.suffix == ".json":
            json.dumps(data, ensure_ascii=False).encode()  # a lone surrogate ("\\ud800") cannot be passed to a program
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: cannot be read: {error}.") from None
    rows = data if isinstance(data, list) else data.get("case") if isinstance(data, dict) else None
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise UsageError(f"{path}: write each case as a table: [[case]].")
    candidates = _Candidates(path.resolve().parent, skills)
    return [_case(path, number, row, candidates) for number, row in enumerate(rows, 1)]


class _Candidates:
    """The skills that the cases of a file may name, by path from the file's folder or by name."""

    def __init__(self, base: Path, skills: list[Path] | None) -> None:
        self._base, self._given = base, skills
        self._by_name: dict[str, list[Path]] | None = None

    def find(self, text: str, where: str) -> Path:
        """`text` is empty where a case names none: then it is about the only skill there is."""
        path = (self._base / (text or ".")).resolve()
        if is_skill(path) and path.exists():
            return path
        if not text and self._given and len(self._given) == 1:
            return self._given[0].resolve()
        named = self._names().get(text, [])
        if len(named) == 1:
            return named[0]
        if not text:
            raise UsageError(f"{where}: say which skill it is about: `skill`, a path or a name.")
        if named:
            paths = ", ".join(map(str, named))
            raise UsageError(f"{where}: several skills are called {text!r}: {paths}; write a path.")
        place = f"among those given ({names_of(self._given)})" if self._given else f"in {self._base}"
        raise UsageError(
            f"{where}: there is no SKILL.md in {text!r}, and no skill of that name {place}; write its path, or give the"
            " folder it is in."
        )

    def _names(self) -> dict[str, list[Path]]:
        if self._by_name is None:
            self._by_name = {}
            own = [self._base] if is_skill(self._base) else find_skills(self._base).skills
            for path in own if self._given is None else self._given:
                for name in {path.stem if path.is_file() else path.name, _name_in(path)} - {""}:
                    self._by_name.setdefault(name, []).append(path.resolve())
        return self._by_name


def _name_in(skill: Path) -> str:
    """The name in a skill's front matter."""
    try:
        with open(skill / "SKILL.md", encoding="utf-8") as file:
            return read_head(file.read(MOST_HEAD)).name
    except (OSError, ValueError):
        return ""


def _case(path: Path, number: int, row: dict[str, Any], skills: _Candidates) -> Case:
    where = f"{path}: case {number}"
    unknown = sorted(set(row) - FIELDS)
    if unknown:
        raise UsageError(f"{where}: there is no field {unknown[0]!r}; there are {', '.join(sorted(FIELDS))}.")
    for name in ("skill", "input"):
        if not isinstance(row.get(name, ""), str) or "\0" in row.get(name, ""):
            what = "a path or the name of a skill" if name == "skill" else "the path of a directory"
            raise UsageError(f"{where}: `{name}` must be {what}.")
    base = path.resolve().parent
    case = Case(str(row.get("name", f"case {number}")), base, base=base)
    for name, kind in (("script", str), ("stdin", str), ("exit", int), ("stdout", str), ("files", dict)):
        if name in row:
            if not isinstance(row[name], kind):
                what = "a number" if kind is int else "a text" if kind is str else "a table"
                raise UsageError(f"{where}: `{name}` must be {what}.")
            setattr(case, name, row[name])
    for name in ("argv", "needs", "modules", "stdout_has"):
        value = row.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise UsageError(f"{where}: `{name}` must be a list of texts.")
        setattr(case, name, value)
    if "input" in row:
        case.input = base / str(row["input"])
        if not case.input.is_dir():
            raise UsageError(f"{where}: the input directory {case.input} does not exist.")
    case.skill = skills.find(row.get("skill", ""), where)
    return case


def check_run(case: Case, run: Run) -> str:
    """The first difference from what the case wants; empty: there is none."""
    if run.exit != case.exit:
        return f"exit code {run.exit}, not {case.exit}{_said(run.stderr)}"
    if case.stdout is not None and run.stdout != case.stdout:
        return f"stdout is {_short(run.stdout)}, not {_short(case.stdout)}"
    for text in case.stdout_has:
        if text not in run.stdout:
            return f"stdout has no {_short(text)}"
    for name, wanted in case.files.items():
        if name not in run.files:
            return f"{name} was not made{_said(run.stderr)}"
        if fault := _check_file(case, name, wanted, run.files[name]):
            return fault
    return ""


def _check_file(case: Case, name: str, wanted: Any, data: bytes) -> str:
    if isinstance(wanted, str):
        return (
            ""
            if data == wanted.encode()
            else f"{name} is {_short(data.decode('utf-8', 'replace'))}, not {_short(wanted)}"
        )
    if "same" in wanted:
        return "" if data == (case.base / wanted["same"]).read_bytes() else f"{name} is not as {wanted['same']}"
    if "has" in wanted:
        return "" if wanted["has"].encode() in data else f"{name} has no {_short(wanted['has'])}"
    if "starts" in wanted:
        return (
            ""
            if data.startswith(wanted["starts"].encode())
            else f"{name} does not start with {_short(wanted['starts'])}"
        )
    return ""


def _said(stderr: str) -> str:
    lines = [line for line in stderr.splitlines() if line.strip()]
    return f": {_short(lines[-1])}" if lines else ""


def _short(text: str) -> str:
    return repr(text if len(text) <= 160 else f"{text[:160]}…")
