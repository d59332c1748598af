"""sandbox, doctor: run every probe and judge what the findings mean. What each row means is in `rows`."""

from __future__ import annotations

from husk.sandbox.doctor.probe_child import run_probe
from husk.sandbox.doctor.probes import PROBES
from husk.sandbox.doctor.rows import FULL, MINIMUM, RESTS_ON, ROWS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.sandbox.doctor.rows import Row

FULLY, WITH_LESS, NOT_AT_ALL = 0, 1, 125


class Finding:
    """What was found for one row. `because`: it was not tried, since this row, on which it rests, does not stand."""

    __slots__ = ("because", "detail", "row", "stands")

    def __init__(self, row: Row, stands: bool, detail: str, because: Row | None = None) -> None:
        self.row, self.stands, self.detail, self.because = row, stands, detail, because

    @property
    def remedy(self) -> str:
        return self.row.remedy if self.because is None else f"as for {self.because.what}"

    def as_dict(self) -> dict[str, object]:
        found: dict[str, object] = {
            "name": self.row.name,
            "what": self.row.what,
            "need": self.row.need,
            "stands": self.stands,
            "detail": self.detail,
        }
        if self.stands:
            return found
        return found | {
            "without": self.row.without,
            "remedy": self.remedy,
            "because": self.because.name if self.because is not None else None,
        }


def examine(probes: dict[str, Callable[[], str]] = PROBES) -> list[Finding]:
    findings: dict[str, Finding] = {}
    for row in sorted(ROWS, key=lambda row: row.name == "box"):  # it rests on many
        base = next((findings[name] for name in RESTS_ON.get(row.name, ()) if not findings[name].stands), None)
        if base is None:
            findings[row.name] = Finding(row, *run_probe(probes[row.name]))
        else:
            cause = base.because or base.row
            findings[row.name] = Finding(row, False, f"not tried; it rests on {cause.what}", cause)
    return [findings[row.name] for row in ROWS]


def exit_code(findings: list[Finding]) -> int:
    missing = {finding.row.need for finding in findings if not finding.stands}
    return NOT_AT_ALL if MINIMUM in missing else WITH_LESS if FULL in missing else FULLY
