"""conform/matrix: the coverage matrix, a row for each call of the registry: put together, never typed.

Not here: how the matrix is shown (report/, cli/conform/).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from errno import errorcode

from husk.abi.registry import ROWS
from husk.abi.registry.rules import Row as RegistryRow
from husk.conform.matrix.calls_file import Calls
from husk.conform.matrix.priority import NOT_MEASURED, PRIORITIES, priority
from husk.conform.matrix.uses_file import INTERPRETER, SKILL, Uses
from husk.conform.outcomes import COUNTED, PASS, Judged, RunRecord

NATIVE, VIRTUAL, REFUSED = "native", "virtual", "refused"


@dataclass(frozen=True)
class Row:
    """One call. `files` is None where no suite was traced, and (suite, file) of those that exercise it otherwise.
    `passed` of `total` are the cases that count of these files, in the first record's runtime; `by_runtime` has both
    numbers for each. `interpreters` and `skills` make the call; None: not measured."""

    call: str
    number: int
    way: str  # native, virtual or refused: what husk does with it
    note: str  # the reason of the registry's row, with the errno of a refusal
    files: tuple[tuple[str, str], ...] | None = None
    passed: int = 0
    total: int = 0
    by_runtime: tuple[tuple[str, int, int], ...] = ()
    interpreters: tuple[str, ...] | None = None
    skills: tuple[str, ...] | None = None
    priority: str = NOT_MEASURED
    depends: bool = False  # arguments or walls can make it go another way

    @property
    def missed(self) -> int:
        return self.total - self.passed

    @property
    def used(self) -> bool:
        return bool(self.interpreters or self.skills)


def coverage(records: Sequence[RunRecord], exercised: Calls | None, uses: Uses | None) -> list[Row]:
    """A row for each call of the registry, the most important first, then by name. `exercised` says which files of the
    suites exercise a call, `uses` which programs make it; None: nothing is known, and the rows say so."""
    files = exercised.exercising() if exercised is not None and exercised.suites else None
    counts: dict[str, dict[tuple[str, str], tuple[int, int]]] = {}
    for record in records:  # runs of other suites in the same runtime stand in one column
        of_runtime = counts.setdefault(record.info.runtime, {})
        counts[record.info.runtime] = _counts(record.cases) | of_runtime
    rows = [_row(entry, files, list(counts.items()), uses) for entry in ROWS.values()]
    order = (*PRIORITIES, NOT_MEASURED)
    return sorted(rows, key=lambda row: (order.index(row.priority), row.call))


def _counts(cases: Sequence[Judged]) -> dict[tuple[str, str], tuple[int, int]]:
    """(suite, file) -> passed, counted."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for one in cases:
        if one.verdict in COUNTED:
            passed, total = found.get((one.name.suite, one.name.file), (0, 0))
            found[one.name.suite, one.name.file] = (passed + (one.verdict == PASS), total + 1)
    return found


def _row(
    entry: RegistryRow,
    files: dict[str, list[tuple[str, str]]] | None,
    counts: Sequence[tuple[str, dict[tuple[str, str], tuple[int, int]]]],
    uses: Uses | None,
) -> Row:
    exercising = None if files is None else tuple(files.get(entry.name, ()))
    sums = []
    for runtime, of_files in counts if exercising is not None else ():
        pairs = [of_files.get(file, (0, 0)) for file in exercising or ()]
        sums.append((runtime, sum(passed for passed, _ in pairs), sum(total for _, total in pairs)))
    passed, total = sums[0][1:] if sums else (0, 0)
    way, note = _way(entry)
    return Row(
        entry.name, entry.nr, way, note, exercising, passed, total, tuple(sums), _making(entry.name, uses, INTERPRETER),
        _making(entry.name, uses, SKILL), priority(entry.name, uses), bool(entry.rules),
    )  # fmt: skip


def _making(call: str, uses: Uses | None, kind: str) -> tuple[str, ...] | None:
    if uses is None or not uses.measured(kind):
        return None
    return tuple(one.name for one in uses.measured(kind) if call in one.calls)


def _way(entry: RegistryRow) -> tuple[str, str]:
    """A judged call never succeeds: for whoever asks what husk does, it is refused."""
    if entry.way in (NATIVE, VIRTUAL):
        return entry.way, entry.reason
    name = {95: "EOPNOTSUPP"}.get(entry.otherwise.errno) or errorcode.get(entry.otherwise.errno, "0")
    return REFUSED, f"{name}: {entry.reason}"
