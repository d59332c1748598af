"""conform/nightly: the TOML file that says what runs every night: reading and checking. docs/formats/nightly.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from husk.sandbox.toml_reader import read_toml

if TYPE_CHECKING:
    from husk.sandbox.toml_reader import Table

FORMAT = 1
USED, ALL = "used", "all"
SETTINGS = ("walled", "bare")
# What git takes for a branch or a remote, less what is odd; it begins with no dash, or git would read an option.
_NAME = re.compile(r"(?!.*(?:\.\.|//|@\{|\.lock$))[A-Za-z0-9_][A-Za-z0-9._/-]*")
_KEYS = (
    "format", "suites", "skills", "choose", "files_per_call", "out", "expected", "jobs", "timeout", "repeat", "cluster",
    "runs", "publish",
)  # fmt: skip
_RUN_KEYS = ("under", "setting", "user")
_PUBLISH_KEYS = ("repository", "remote", "base", "branch", "title", "files")


@dataclass(frozen=True)
class WantedRun:
    """As the options of `husk conform run`."""

    under: str = "husk"
    setting: str = "walled"
    user: str = ""


@dataclass(frozen=True)
class Publishing:
    """`branch` and `title` are prefixes: by that of the branch an open pull request is found again."""

    repository: Path
    remote: str = "origin"
    base: str = "main"
    branch: str = "conformance/"
    title: str = "Conformance"
    files: tuple[str, ...] = ("*.md", "*.html")  # patterns of the documents that are committed


@dataclass(frozen=True)
class NightlyConfig:
    path: Path
    suites: tuple[Path, ...]
    out: Path
    runs: tuple[WantedRun, ...]
    skills: tuple[Path, ...] = ()
    choose: str = USED
    files_per_call: int = 10
    expected: tuple[Path, ...] = ()  # empty: those beside the suites
    jobs: int = 0
    timeout: float = 0.0
    repeat: int = 2
    cluster: str = ""  # the address of a Dask scheduler
    publish: Publishing | None = None


def read_nightly(path: Path) -> NightlyConfig:
    """Paths start from the directory of the file. UsageError: what is wrong, and where."""
    table = read_toml(path, advice="`husk conform nightly` needs a configuration, see docs/formats/nightly.md")
    table.only(_KEYS)
    if table.value("format", int, 0) != FORMAT:
        raise table.wrong(f"`format = {FORMAT}` must stand at its top.")
    here = path.absolute().parent
    suites, out = table.words("suites"), table.text("out")
    if not suites:
        raise table.wrong("suites must name one suite at least: a suite file, or a directory that holds suite.toml.")
    if not out:
        raise table.wrong("out must name the directory for the documents.")
    choose = table.text("choose") or USED
    if choose not in (USED, ALL):
        raise table.wrong(f'choose must be "{USED}" or "{ALL}", not {choose!r}.')
    skills = tuple(here / one for one in table.words("skills"))
    for one in skills:
        if not one.is_dir():
            raise table.wrong(f"skills: there is no directory {one}.")
    if choose == USED and not skills:
        raise table.wrong(f'choose = "{USED}" needs skills: directories with skills whose calls matter.')
    several = "expected" in table and isinstance(table.raw("expected"), list)
    expected = table.words("expected") if several else [table.text("expected")]
    return NightlyConfig(
        path, tuple(here / one for one in suites), here / out, _runs(table), skills, choose,
        table.count("files_per_call", 10), tuple(here / one for one in expected if one), _number(table, "jobs", 256),
        float(_number(table, "timeout", 86_400)), table.count("repeat", 2),
        table.text("cluster"), _publishing(table.table("publish"), here) if "publish" in table else None,
    )  # fmt: skip


def _number(table: Table, key: str, most: int) -> int:
    """0 where it is not given."""
    number = table.count(key, 1) if key in table else 0
    if number > most:
        raise table.wrong(f"{table.name_of(key)} must be at most {most}, not {number}.")
    return number


def _runs(table: Table) -> tuple[WantedRun, ...]:
    found = []
    for row in table.tables("runs"):
        row.only(_RUN_KEYS)
        setting = row.text("setting") or "walled"
        if setting not in SETTINGS:
            raise row.wrong(f"runs.setting must be one of {', '.join(SETTINGS)}, not {setting!r}.")
        found.append(WantedRun(row.text("under") or "husk", setting, row.text("user")))
    if len(set(found)) < len(found):
        raise table.wrong("two of the [[runs]] are the same.")
    return tuple(found) or (WantedRun(),)


def _publishing(table: Table, here: Path) -> Publishing:
    table.only(_PUBLISH_KEYS)
    usual = Publishing(here)
    names = {key: table.text(key) or getattr(usual, key) for key in ("remote", "base", "branch")}
    for key, name in names.items():
        if not _NAME.fullmatch(name):
            raise table.wrong(f"publish.{key} must be a name that git takes, not {name!r}.")
    title = " ".join((table.text("title") or usual.title).split())
    files = tuple(table.words("files")) or usual.files
    return Publishing(here / (table.text("repository") or "."), title=title, files=files, **names)
