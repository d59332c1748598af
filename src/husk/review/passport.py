"""review: the passport of a skill: everything that somebody who approves it has to know, as data.

The page is made of it in passport_page.py.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from husk.compat.verdict.judge import Verdict
from husk.review.measured_runs import Measured, measure_case, measure_command
from husk.review.package_facts import Package, package_facts
from husk.review.runtime_verdicts import runtime_verdicts
from husk.review.version_diff import VersionDiff, compare_versions
from husk.review.wants import Want, wants_of
from husk.skills.open_skill import Skill, open_skill
from husk.skills.permission_file import propose
from husk.skills.running import Request
from husk.skills.scan.describe import describe
from husk.skills.testing.cases import Case

FORMAT = "husk-passport 1"
_AUTHORS, _VERSIONS = ("author", "authors", "maintainer"), ("version",)


@dataclass(frozen=True)
class FileFact:
    path: str
    size: int
    sha256: str
    executable: bool
    script: str = ""  # its language, where it is code


@dataclass
class Passport:
    source: str
    name: str
    description: str
    version: str
    author: str
    licence: str
    compatibility: str
    digest: str
    files: list[FileFact]
    instructions: list[str]  # the lines of SKILL.md
    manifest: list[str]  # the permission manifest that reading proposes
    wants: list[Want]
    problems: list[tuple[str, str]]  # level and text
    measured: list[Measured] = field(default_factory=list)
    packages: list[Package] = field(default_factory=list)
    diff: VersionDiff | None = None
    runtimes: list[Verdict] = field(default_factory=list)
    allowed_hosts: list[str] = field(default_factory=list)  # what the runs might reach
    notes: list[str] = field(default_factory=list)  # what could not be found out

    def as_dict(self) -> dict[str, Any]:
        texts = ("source", "name", "description", "version", "author", "licence", "compatibility", "digest")
        return {
            "format": FORMAT,
            **{name: getattr(self, name) for name in texts},
            "files": [vars(file) for file in self.files],
            "problems": [{"level": level, "text": text} for level, text in self.problems],
            "read_in_code": [want.as_dict() for want in self.wants],
            "measured": [one.as_dict() for one in self.measured],
            "allowed_hosts": self.allowed_hosts,
            "packages": [package.as_dict() for package in self.packages],
            "diff": self.diff.as_dict() if self.diff else None,
            "runtimes": [verdict.as_json() for verdict in self.runtimes],
            "manifest": "\n".join(self.manifest) + "\n",
            "notes": self.notes,
        }


def make_passport(
    source: Path, request: Request, *, cases: Sequence[Case] = (), command: bool = False, old: Path | None = None
) -> Passport:
    """Read the skill; run the cases, and the request's own command if `command`; compare with `old`."""
    with open_skill(source, frozen=True) as skill:
        made = _read(skill, request)
        if old is not None:
            with open_skill(old) as before:
                before.check()
                made.diff = compare_versions(before, skill)
    made.notes += _unreadable(source)
    made.allowed_hosts = list(request.hosts)
    made.measured = [measure_case(case, request) for case in cases]
    if command:
        made.measured.append(measure_command(source, request))
    ran = [case for case, one in zip(cases, made.measured, strict=False) if not one.failed]
    made.runtimes, notes = runtime_verdicts(source, ran, request)
    made.notes += notes
    return made


def _read(skill: Skill, request: Request) -> Passport:
    skill.check()
    found = describe(skill)
    wants = wants_of(found)
    asked, where = propose(found)
    packages, notes = package_facts(found, wants, request)
    head = skill.head
    metadata = {key.lower(): value for key, value in head.metadata.items()}
    languages = {script.path: script.language for script in found.code}
    return Passport(
        source=str(skill.source),
        name=skill.name,
        description=head.description,
        version=_first(metadata, _VERSIONS),
        author=_first(metadata, _AUTHORS),
        licence=head.license,
        compatibility=head.compatibility,
        digest=skill.digest(),
        files=[_file(skill.root, name, languages.get(name, "")) for name in skill.files],
        instructions=skill.text("SKILL.md").splitlines(),
        manifest=asked.text(where).splitlines(),
        wants=wants,
        problems=[(problem.level, problem.text) for problem in head.problems]
        + [("warning", text) for text in found.problems],
        packages=packages,
        notes=notes,
    )


def _unreadable(source: Path) -> list[str]:
    """The copy that is reviewed has only what could be read."""
    errors: list[OSError] = []
    for _ in os.walk(source, onerror=errors.append):
        pass
    return [f"{error.filename} cannot be read ({error.strerror}): it is not in this passport." for error in errors
            if source.is_dir()]  # fmt: skip


def _first(metadata: dict[str, str], names: tuple[str, ...]) -> str:
    return next((metadata[name] for name in names if metadata.get(name)), "")


def _file(root: Path, name: str, language: str) -> FileFact:
    with open(root / name, "rb") as file:
        info = os.fstat(file.fileno())
        return FileFact(
            name, info.st_size, hashlib.file_digest(file, "sha256").hexdigest(), bool(info.st_mode & 0o111), language
        )
