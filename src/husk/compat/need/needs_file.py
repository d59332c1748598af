"""compat/need: what is known of a program's needs, and the file that keeps it while the runs go on.

Here: the model, reading and writing. The file is JSON lines (docs/formats/needs.md): a head, then a line for each
attempt, added as it ends, so that a run that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from husk.compat.bounded_file import read_bounded
from husk.sandbox.errors import UsageError

FORMAT = "husk-needs 1"
WORKS = "works"
STUB, FAKE = "stub", "fake"
MANNERS = (STUB, FAKE)  # the call fails with ENOSYS; the call succeeds and does nothing
REQUIRED, STUBBABLE, FAKEABLE, EITHER, UNTRIED = "required", "stubbable", "fakeable", "either", "untried"
LARGEST_FILE = 64 << 20


@dataclass(frozen=True)
class Target:
    """What an attempt takes away: a call, or a call with one value of one argument."""

    call: str
    argument: str = ""
    value: str = ""

    def __str__(self) -> str:
        return f"{self.call}({self.argument} = {self.value})" if self.argument else self.call


@dataclass
class Need:
    """One call, or one value of it, and what happened without it: "works", or how the program failed."""

    target: Target
    count: int = 0
    outcomes: dict[str, str] = field(default_factory=dict)  # manner -> outcome

    @property
    def verdict(self) -> str:
        if any(manner not in self.outcomes for manner in MANNERS):
            return UNTRIED
        works = [manner for manner in MANNERS if self.outcomes[manner] == WORKS]
        return {(): REQUIRED, (STUB,): STUBBABLE, (FAKE,): FAKEABLE}.get(tuple(works), EITHER)


@dataclass
class Needs:
    """A program with a check of its work, and every call it makes."""

    command: list[str]
    check: str = ""
    name: str = ""
    needs: list[Need] = field(default_factory=list)
    together: str = ""  # the outcome with everything left out that can be left out one by one; "": not tried

    def of(self, verdict: str) -> list[Need]:
        return [need for need in self.needs if need.verdict == verdict]


def head_line(needs: Needs) -> str:
    calls = [{"call": need.target.call, "count": need.count, **_argument(need.target)} for need in needs.needs]
    return _line({"format": FORMAT, "name": needs.name, "command": needs.command, "check": needs.check, "calls": calls})


def attempt_line(target: Target, manner: str, outcome: str) -> str:
    return _line({"call": target.call, **_argument(target), "manner": manner, "outcome": outcome})


def together_line(outcome: str) -> str:
    return _line({"together": outcome})


def _argument(target: Target) -> dict[str, str]:
    return {"argument": target.argument, "value": target.value} if target.argument else {}


def _line(data: Mapping[str, object]) -> str:
    return json.dumps(data) + "\n"


def is_needs_file(path: str | os.PathLike[str]) -> bool:
    try:
        with open(path, "rb") as file:
            return FORMAT.encode() in file.readline(4096)
    except OSError:
        return False


def read_needs(path: str | os.PathLike[str]) -> Needs:
    """What a file holds, also of runs that were interrupted: a last line that was cut off is left out."""
    wanted = "name a file that `husk need --out` wrote."
    content = read_bounded(path, LARGEST_FILE, wanted, "; that is no file of `husk need`.")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not text; {wanted}") from None
    lines = _lines(str(path), text)
    head = next(lines, {})
    if head.get("format") != FORMAT:
        raise UsageError(f"{path}: not a file of `husk need`: its first line says no format {FORMAT!r}.")
    try:
        needs = Needs([str(word) for word in head["command"]], str(head["check"]), str(head["name"]))
        needs.needs = [Need(_target(each), int(each["count"])) for each in head["calls"]]
        by_target = {need.target: need for need in needs.needs}
        for line in lines:
            if "together" in line:
                needs.together = str(line["together"])
            elif line["manner"] in MANNERS:
                by_target[_target(line)].outcomes[line["manner"]] = str(line["outcome"])
    except (KeyError, TypeError, ValueError):
        raise UsageError(f"{path}: a line of it makes no sense; write it anew with `husk need --out`.") from None
    return needs


def _target(line: Mapping[str, Any]) -> Target:
    return Target(str(line["call"]), str(line.get("argument", "")), str(line.get("value", "")))


def _lines(path: str, text: str) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        try:
            data = json.loads(line)
        except (ValueError, RecursionError):
            if not line.endswith("\n"):
                return  # it was cut off while it was written
            raise UsageError(f"{path}: line {number} is no JSON; write it anew with `husk need --out`.") from None
        if not isinstance(data, dict):
            raise UsageError(f"{path}: line {number} is no JSON object; write it anew with `husk need --out`.")
        yield data
