"""conform/report: what the HTML report is made from: a column for each runtime, and the cases for the page's script.

Everything here may be a stranger's text. It is made harmless for a person to read; the template escapes it, and the
script only ever sets it as text. Not here: the page (html_report.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from husk.abi.registry import by_name
from husk.abi.registry.row_text import rule_texts, way_text
from husk.abi.text import harmless
from husk.conform.history.run_changes import Changes, worst_by_name
from husk.conform.matrix.coverage import REFUSED, Row
from husk.conform.outcomes import (
    CRASH,
    FAIL,
    FLAKY,
    HANG,
    MISSES,
    NOT_NATIVE,
    PASS,
    SKIP,
    CaseName,
    Judged,
    RunInfo,
    RunRecord,
    Score,
    score,
)  # fmt: skip

LETTERS = {PASS: "p", FAIL: "f", CRASH: "c", HANG: "h", SKIP: "s", NOT_NATIVE: "n", FLAKY: "k"}
NOT_RUN = "-"
# A page is for reading: results.json has every output whole. Characters.
MOST_OUTPUTS = 3 << 20  # of all outputs together
MOST_OF_ONE = 12 << 10
MOST_TRACES = 1 << 20
MOST_OF_A_LINE = 400
MOST_CALLS_OF_A_FILE = 12  # that a case shows, the most telling first


@dataclass(frozen=True)
class Column:
    """A runtime: the latest that its runs said about each case."""

    label: str
    infos: tuple[RunInfo, ...]
    cases: dict[CaseName, Judged]

    @cached_property
    def score(self) -> Score:
        return score(list(self.cases.values()))

    @cached_property
    def families(self) -> dict[str, Score]:
        groups: dict[str, list[Judged]] = {}
        for one in self.cases.values():
            groups.setdefault(one.family, []).append(one)
        return {name: score(cases) for name, cases in groups.items()}

    @property
    def unexpected(self) -> int:
        return self.score.missed - self.score.expected

    @cached_property
    def seconds(self) -> float:
        return sum(one.seconds for one in self.cases.values())


def columns(records: Sequence[RunRecord]) -> list[Column]:
    """One for each runtime, in the order of the records; one for each user too where a runtime ran as several."""
    users: dict[str, set[str]] = {}
    for record in records:
        users.setdefault(record.info.runtime, set()).add(record.info.user)
    groups: dict[str, list[RunRecord]] = {}
    for record in records:
        info = record.info
        several = len(users[info.runtime]) > 1
        groups.setdefault(f"{info.runtime} as {user_text(info.user)}" if several else info.runtime, []).append(record)
    return [_column(label, group) for label, group in groups.items()]


def user_text(user: str) -> str:
    """A user's name, or their number."""
    return f"uid {user}" if user.isdecimal() else user or "?"


def _column(label: str, records: list[RunRecord]) -> Column:
    cases: dict[CaseName, Judged] = {}
    for record in sorted(records, key=lambda record: record.info.started):
        cases |= worst_by_name(record)
    return Column(label, tuple(record.info for record in records), dict(sorted(cases.items())))


@dataclass(frozen=True)
class Reason:
    """A row of the list of expected failures, with the number of misses that it explains in each column."""

    text: str
    by_design: bool
    counts: tuple[int, ...]


def reasons(found: Sequence[Column]) -> list[Reason]:
    """What is refused by design first; in each half the reason for most misses first."""
    counts: dict[tuple[str, bool], list[int]] = {}
    for number, column in enumerate(found):
        for one in column.cases.values():
            if one.expected:
                row = counts.setdefault((one.expected, one.by_design), [0] * len(found))
                row[number] += one.verdict in MISSES
    made = [Reason(text, by_design, tuple(row)) for (text, by_design), row in counts.items()]
    return sorted(made, key=lambda one: (not one.by_design, -max(one.counts), one.text))


class _Texts:
    """Each text once; a place in the page holds its number."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        if not text:
            return -1
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]


@dataclass(frozen=True)
class Embedded:
    """The cases for the page's script, and what had to be left out."""

    document: dict[str, Any]
    names: tuple[CaseName, ...]
    outputs: int  # different outputs of cases that do not pass
    cut: int  # of them, shortened
    longest: int  # characters that are left of one that was shortened

    def json(self) -> str:
        """Nothing in it can end the element that holds it."""
        text = json.dumps(self.document, ensure_ascii=False, separators=(",", ":"))
        return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def embedded(
    found: Sequence[Column],
    why_missed: Sequence[Reason],
    rows: Sequence[Row],
    changed: Mapping[int, Changes],
    traces: Mapping[CaseName, str],
) -> Embedded:
    names = tuple(sorted({name for column in found for name in column.cases}))
    suites, families, whys, outputs = _Texts(), _Texts(), _Texts(), _Texts()
    files = {file: number for number, file in enumerate(sorted({(name.suite, name.file) for name in names}))}
    numbers = {(one.text, one.by_design): number for number, one in enumerate(why_missed)}
    cases: list[list[Any]] = []
    details: dict[int, list[list[Any]]] = {}
    for number, name in enumerate(names):
        ran = [column.cases.get(name) for column in found]
        first = next(one for one in ran if one is not None)
        times = [round(1000 * one.seconds) if one is not None else 0 for one in ran]
        verdicts = "".join(LETTERS[one.verdict] if one is not None else NOT_RUN for one in ran)
        family = families.number(_short(first.family))
        cases.append(
            [files[name.suite, name.file], family, _short(name.case), verdicts, times if any(times) else 0]
        )
        for place, one in enumerate(ran):
            if one is not None and (one.verdict != PASS or one.expected):
                output = _lines(one.output) if one.verdict in (*MISSES, FLAKY) else ""
                reason = numbers.get((one.expected, one.by_design), -1)
                details.setdefault(number, []).append(
                    [place, whys.number(_short(one.why)), outputs.number(output), reason, LETTERS[one.outcome]]
                )
    kept, longest = fitted(outputs.texts, MOST_OUTPUTS, MOST_OF_ONE)
    known = {name: number for number, name in enumerate(names)}
    own_traces = {known[name]: _lines(text) for name, text in sorted(traces.items()) if name in known and text}
    kept_traces, _ = fitted(list(own_traces.values()), MOST_TRACES, MOST_OF_ONE)
    calls, file_calls = _calls(rows, files)
    document = {
        "columns": [harmless(column.label) for column in found],
        "files": [[suites.number(_short(suite)), _short(file)] for suite, file in files],
        "suites": suites.texts,
        "families": families.texts,
        "reasons": [[_short(one.text), int(one.by_design)] for one in why_missed],
        "whys": whys.texts,
        "outputs": kept,
        "cases": cases,
        "details": details,
        "traces": dict(zip(own_traces, kept_traces, strict=True)),
        "calls": calls,
        "fileCalls": file_calls,
        "changes": {column: _changed(one, known) for column, one in changed.items()},
    }
    cut = sum(short != whole for short, whole in zip(kept, outputs.texts, strict=True))
    return Embedded(document, names, len(outputs.texts), cut, longest)


def _changed(one: Changes, known: Mapping[CaseName, int]) -> dict[str, list[int]]:
    kinds = {"regressions": one.regressions, "fixes": one.fixes, "appeared": one.appeared, "shifted": one.shifted}
    return {kind: [known[change.name] for change in found if change.name in known] for kind, found in kinds.items()}


def fitted(texts: Sequence[str], budget: int, most: int) -> tuple[list[str], int]:
    """The texts, the long ones shortened alike so that all fit into the budget; and the length that was left to them.
    The ends stay: a program says first what it does, and last what went wrong."""
    cap, left = most, budget
    for rank, length in enumerate(sorted(map(len, texts))):
        share = left // (len(texts) - rank)
        if min(length, most) > share:
            cap = share
            break
        left -= min(length, most)
    return [_cut(text, cap) for text in texts], cap


def _cut(text: str, cap: int) -> str:
    if len(text) <= cap:
        return text
    head, tail = cap // 3, cap - cap // 3
    left_out = f"\n[… {len(text) - cap:,} characters are left out here …]\n"
    return text[:head] + left_out + text[len(text) - tail :]


def _short(text: str) -> str:
    """One line."""
    text = harmless(text)
    return text if len(text) <= MOST_OF_A_LINE else f"{text[: MOST_OF_A_LINE - 1]}…"


def _lines(text: str) -> str:
    return "\n".join(harmless(line.replace("\t", "    ")) for line in text.replace("\r\n", "\n").split("\n")).strip(
        "\n"
    )


# -- calls -------------------------------------------------------------------------------------------------------
def _calls(rows: Sequence[Row], files: Mapping[tuple[str, str], int]) -> tuple[list[list[Any]], dict[int, list[int]]]:
    """The registry's row of every call that a file exercises, and for each file those calls, the most telling first."""
    weights: dict[int, list[tuple[bool, int, int]]] = {}
    for call, row in enumerate(rows):
        for rank, file in enumerate(row.files or ()):
            if file in files:
                weights.setdefault(files[file], []).append((row.way != REFUSED, rank, call))
    if all(row.files is None for row in rows):  # nothing was traced: names tell a little
        words = [re.compile(rf"(?<![a-z0-9]){re.escape(row.call)}(?![a-z0-9])") for row in rows]
        for (_, path), number in files.items():
            for call, word in enumerate(words):
                if word.search(path.rpartition("/")[2].lower()):
                    weights.setdefault(number, []).append((rows[call].way != REFUSED, 0, call))
    of_files = {
        number: [call for *_, call in sorted(found)][:MOST_CALLS_OF_A_FILE] for number, found in sorted(weights.items())
    }
    exercising: dict[int, list[int]] = {}
    for number, found in weights.items():
        for *_, call in found:
            exercising.setdefault(call, []).append(number)
    again = {call: number for number, call in enumerate(sorted(exercising))}
    return (
        [[*_registry_row(rows[call]), sorted(exercising[call])] for call in again],
        {number: [again[call] for call in found] for number, found in of_files.items()},
    )


def _registry_row(row: Row) -> list[Any]:
    entry = by_name(row.call)
    way = way_text(entry.otherwise) if entry is not None and entry.way in ("judged", "refused") else row.way
    rules = rule_texts(entry) if entry is not None else []
    why = entry.reason if entry is not None else row.note
    return [harmless(row.call), way, harmless(why), rules, row.passed, row.total, row.priority]
