"""conform: results.json, the file that holds one run with its verdicts. docs/formats/results.md.

It can be read back whole: reports are made from it as well as from history.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from husk.compat.bounded_file import read_bounded
from husk.conform.outcomes import RAW, VERDICTS, CaseName, Judged, RunInfo, RunRecord, score
from husk.sandbox.errors import UsageError

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
    """Whole or not at all."""
    beside = path.with_name(f".{path.name}.new")
    text = json.dumps(as_document(record), ensure_ascii=False, indent=1) + "\n"
    beside.write_bytes(text.encode("utf-8", "backslashreplace"))  # a lone surrogate becomes its JSON escape
    beside.replace(path)


def read_results(path: Path) -> RunRecord:
    content = read_bounded(path, LARGEST_FILE, "`husk conform run --out FILE` writes one.", ".")
    try:
        document = json.loads(content)
        if document["format"] != FORMAT:
            raise UsageError(f"{path}: a file of another husk (format {document['format']!r}).")
        known = {one.name for one in fields(RunInfo)}
        about = {key: value for key, value in document["run"].items() if key in known}
        about["suites"] = tuple(map(str, about.get("suites", ())))
        _checked(about, _BLANK)
        return RunRecord(RunInfo(**about), [_judged(row) for row in document["cases"]])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(f"{path}: not a results.json of husk ({type(error).__name__}: {error}).") from None


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
