"""conform/judge: the list of expected failures: which cases are known to miss, why, and whether by design.

A TOML file. Each `[[expected]]` row has `case`, a shell pattern for SUITE/FILE/CASE or a list of some, and `reason`; if
wanted `design` (the page that argues it), `by_design` (refused on purpose), `sometimes` (a pass is no surprise) and
`runtime`, a pattern for where it holds: `husk*` unless given, which is husk in both settings.
"""

from __future__ import annotations

import fnmatch
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from husk.compat.bounded_file import read_bounded
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from husk.conform.outcomes import CaseName

FORMAT = 1
NAME = "expected.toml"
LARGEST_FILE = 16 << 20
_KEYS = {"case": str, "reason": str, "design": str, "by_design": bool, "sometimes": bool, "runtime": str}


@dataclass(frozen=True)
class ExpectedFailure:
    case: str  # a shell pattern
    reason: str
    design: str = ""
    by_design: bool = False
    sometimes: bool = False  # its pass says nothing: time or load decides
    runtime: str = "husk*"  # a shell pattern for the name of the runtime

    @property
    def text(self) -> str:
        return f"{self.reason} ({self.design})" if self.design else self.reason

    def holds_for(self, runtime: str) -> bool:
        return fnmatch.fnmatchcase(runtime, self.runtime)


@dataclass(frozen=True)
class Expected:
    rows: tuple[ExpectedFailure, ...] = ()
    _patterns: dict[str, re.Pattern[str]] = field(default_factory=dict, compare=False, repr=False)

    def find(self, name: CaseName, runtime: str) -> ExpectedFailure | None:
        """The first row that fits."""
        text = str(name)
        return next((row for row in self.rows if row.holds_for(runtime) and self._fits(row, text)), None)

    def unused(self, names: list[CaseName], runtime: str) -> list[ExpectedFailure]:
        """Rows for this runtime that fit none of the cases."""
        texts = [str(name) for name in names]
        rows = [row for row in self.rows if row.holds_for(runtime)]
        return [row for row in rows if not any(self._fits(row, text) for text in texts)]

    def _fits(self, row: ExpectedFailure, text: str) -> bool:
        pattern = self._patterns.get(row.case)
        if pattern is None:
            pattern = self._patterns[row.case] = re.compile(fnmatch.translate(row.case))
        return pattern.match(text) is not None


def expected_failures(given: Iterable[Path], places: Iterable[Path]) -> Expected:
    """The lists that are named, else those beside the suites."""
    paths = list(given) or [place / NAME for place in dict.fromkeys(places) if (place / NAME).exists()]
    return Expected(tuple(row for path in paths for row in read_expected(path).rows))


def read_expected(path: Path) -> Expected:
    content = read_bounded(path, LARGEST_FILE, "name the list of expected failures.", ".")
    try:
        table = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not a list of expected failures: {error}.") from None
    if table.pop("format", FORMAT) != FORMAT:
        raise UsageError(f"{path}: a file of another husk.")
    rows = table.pop("expected", [])
    if table or not isinstance(rows, list):
        raise UsageError(f"{path}: a list of expected failures holds [[expected]] rows alone.")
    return Expected(tuple(one for number, row in enumerate(rows, 1) for one in _rows(f"{path}: row {number}", row)))


def _rows(where: str, row: dict[str, Any]) -> list[ExpectedFailure]:
    """One for each pattern."""
    cases = row.get("case")
    return [_row(where, row | {"case": case}) for case in cases] if isinstance(cases, list) else [_row(where, row)]


def _row(where: str, row: dict[str, Any]) -> ExpectedFailure:
    for key, value in row.items():
        if key not in _KEYS:
            raise UsageError(f"{where}: there is no key {key!r}; there are {', '.join(_KEYS)}.")
        if not isinstance(value, _KEYS[key]):
            raise UsageError(f"{where}: `{key}` must be {'true or false' if _KEYS[key] is bool else 'a text'}.")
    if not row.get("case") or not row.get("reason"):
        raise UsageError(f"{where}: a row needs `case` (a pattern for SUITE/FILE/CASE) and `reason`.")
    return ExpectedFailure(**row)
