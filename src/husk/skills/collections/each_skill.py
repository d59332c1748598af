"""skills/collections: do something with each skill of a collection, and go on where one cannot be used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from husk.sandbox.errors import HuskError, host_failure
from husk.skills.collections.junit_file import ERROR, FAILURE, JunitCase, JunitSuite, junit_file
from husk.skills.open_skill import Skill, open_skill
from husk.skills.syntax.syntax_parser import kept_worker

T = TypeVar("T")


@dataclass
class Each(Generic[T]):
    """One skill of many. `result` is None where `error` says why there is none."""

    path: Path
    name: str
    result: T | None = None
    error: str = ""
    problems: list[str] = field(default_factory=list)  # what is wrong though there is a result

    @property
    def good(self) -> bool:
        return not self.error and not self.problems


def each_skill(paths: Iterable[Path], work: Callable[[Skill], T]) -> Iterator[Each[T]]:
    with kept_worker():
        for path in paths:
            yield _one(path, work)


def _one(path: Path, work: Callable[[Skill], T]) -> Each[T]:
    one = Each[T](path, path.name)
    try:
        with open_skill(path) as skill:
            one.name = skill.name
            one.result = work(skill)
    except HuskError as error:
        one.error = str(error)
    except OSError as error:  # of the skill's own files: a directory that cannot be read
        one.error = host_failure(error)
    return one


def repeated_names(rows: Iterable[Each[T]]) -> dict[str, list[Path]]:
    """Names that several skills have: an agent that loads the collection sees only one of them."""
    paths: dict[str, list[Path]] = {}
    for one in rows:
        if not one.error:
            paths.setdefault(one.name, []).append(one.path)
    return {name: found for name, found in paths.items() if len(found) > 1}


def junit_of_skills(title: str, rows: Iterable[Each[T]]) -> bytes:
    """A case for each skill: a problem is a failure; one that cannot be read is an error."""
    cases = []
    for one in rows:
        kind = ERROR if one.error else FAILURE if one.problems else ""
        text = one.error or "; ".join(one.problems)
        cases.append(JunitCase(one.name, str(one.path.parent), 0.0, kind, text, "format"))
    return junit_file(title, [JunitSuite(title, cases)])
