"""conform: results.json, the file that holds one run with its verdicts. docs/formats/results.md.

It can be read back whole: reports are made from it as well as from history.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from husk.conform.json_file import read_json, write_json
from husk.conform.outcomes import RAW, VERDICTS, CaseName, Judged, RunInfo, RunRecord, score

FORMAT = 1
LARGEST_FILE = 1 << 30
_DEFAULT = Judged(CaseName("", "", ""), "", "", "")
_BLANK = RunInfo("", "")
_LEFT_OUT = ("seconds", "why", "output", "expected", "by_design")  # where they have their default value


def as_document(record: RunRecord) -> dict[str, Any]:
    total = score(record.cases)
    return {
        "format": FORMAT,
        "run": asdict(record.info),
        "score": {"counts": total.counts, "expected": total.expected, "by_design": total.by_design,
                  "share": total.share, "share_but_design": total.share_but_design},
        "cases": [_case(one) for one in record.cases],
    }  # fmt: skip


def _case(one: Judged) -> dict[str, Any]:
    row: dict[str, Any] = {
        "suite": one.name.suite, "file": one.name.file, "case": one.name.case,
        "family": one.family, "verdict": one.verdict, "outcome": one.outcome,
    }  # fmt: skip
    return row | {key: getattr(one, key) for key in _LEFT_OUT if getattr(one, key) != getattr(_DEFAULT, key)}


def write_results(record: RunRecord, path: Path) -> None:
    write_json(as_document(record), path)


def read_results(path: Path) -> RunRecord:
    return read_json(path, "results.json", FORMAT, LARGEST_FILE, "husk conform run --out FILE", _record)


def _record(document: dict[str, Any]) -> RunRecord:
    known = {one.name for one in fields(RunInfo)}
    about = {key: value for key, value in document["run"].items() if key in known}
    about["suites"] = tuple(map(str, about.get("suites", ())))
    _checked(about, _BLANK)
    return RunRecord(RunInfo(**about), [_judged(row) for row in document["cases"]])


def _judged(row: dict[str, Any]) -> Judged:
    if row["verdict"] not in VERDICTS or row["outcome"] not in RAW:
        raise ValueError(f"no verdict: {row['verdict']!r}, {row['outcome']!r}")
    rest = _checked({key: row[key] for key in _LEFT_OUT if key in row}, _DEFAULT)
    name = CaseName(str(row["suite"]), str(row["file"]), str(row["case"]))
    return Judged(name, str(row["family"]), row["verdict"], row["outcome"], **rest)


def _checked(values: dict[str, Any], like: object) -> dict[str, Any]:
    """Each value must be of the type that it has in `like`: whoever gets the record later relies on it."""
    for key, value in values.items():
        wanted = type(getattr(like, key))
        fits = isinstance(value, (int, float) if wanted is float else wanted)
        if not fits or isinstance(value, bool) != (wanted is bool):
            raise ValueError(f"{key} is {value!r}")
    return values
