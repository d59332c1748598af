"""conform/report: all documents about some runs, in one directory.

The same records, matrix and history always give the same bytes. Each document is written whole or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from husk.conform.history.database import RecordedRun
from husk.conform.outcomes import score
from husk.conform.report.analysis import analysis
from husk.conform.report.capabilities import capabilities
from husk.conform.report.evaluation import evaluation
from husk.conform.report.html_report import html_report
from husk.conform.report.junit import junit
from husk.conform.results_file import write_results
from husk.sandbox.errors import HuskError

if TYPE_CHECKING:
    from husk.conform.history.database import History
    from husk.conform.matrix.calls_file import Calls
    from husk.conform.matrix.coverage import Row
    from husk.conform.matrix.traces_file import Traces
    from husk.conform.matrix.uses_file import Uses
    from husk.conform.outcomes import RunRecord


def write_reports(
    records: Sequence[RunRecord],
    rows: Sequence[Row],
    history: History | None,
    out: Path,
    today: str,
    *,
    calls: Calls | None = None,
    uses: Uses | None = None,
    traces: Traces | None = None,
) -> list[Path]:
    """Write SYSCALL_ANALYSIS.md, CAPABILITIES.md, EVALUATION_DATE.md, report.html, results.json and junit.xml; return
    their paths. The first record is the one the documents are about; of each other there are results-RUN.json and
    junit-RUN.xml. `history` is None where there is nothing earlier to compare with. `today` is YYYY-MM-DD."""
    previous = _previous(records, history)
    excerpts = {name: one.text for name, one in (traces or {}).items()}
    page = html_report(records, _trend(records, history), rows, today, previous=previous, traces=excerpts)
    try:
        out.mkdir(parents=True, exist_ok=True)
        written = [
            _write(out / "SYSCALL_ANALYSIS.md", analysis(records, rows, calls, uses, today)),
            _write(out / "CAPABILITIES.md", capabilities(rows, uses, today)),
            _write(out / f"EVALUATION_{today}.md", evaluation(records, previous, rows, uses, today)),
            _write(out / "report.html", page),
        ]
        for number, record in enumerate(records):
            more = f"-{_file_name(record.info.run)}" if number else ""
            write_results(record, out / f"results{more}.json")
            written += [out / f"results{more}.json", _write(out / f"junit{more}.xml", junit(record))]
    except OSError as error:
        raise HuskError(f"{error.filename or out}: {error.strerror}; nothing recorded is lost.") from None
    return written


def _previous(records: Sequence[RunRecord], history: History | None) -> dict[str, RunRecord]:
    """For each run the latest whole one before it, of the same runtime and suites. The run itself need not be there:
    its results may come from elsewhere."""
    found = {}
    for record in records if history is not None else ():
        assert history is not None
        mine = record.info
        for old in reversed(history.line(mine.runtime, mine.suites)):
            earlier = old.info.run != mine.run and old.info.started <= mine.started
            if earlier and old.info.whole and not old.info.case_filter:
                found[mine.run] = history.record(old.info.run, outputs=False)
                break
    return found


def _trend(records: Sequence[RunRecord], history: History | None) -> list[RecordedRun]:
    """All runs of the suites that these records are about, in history or not."""
    runs = {record.info.run: RecordedRun(record.info, score(record.cases)) for record in records}
    suites = {tuple(sorted(record.info.suites)) for record in records}
    for run in history.runs() if history is not None else ():
        if tuple(sorted(run.info.suites)) in suites:
            runs.setdefault(run.info.run, run)
    return list(runs.values())


def _write(path: Path, content: str | bytes) -> Path:
    beside = path.with_name(f".{path.name}.new")
    beside.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace"))
    beside.replace(path)
    return path


def _file_name(text: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in text).lstrip(".")
