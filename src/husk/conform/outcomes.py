"""conform: the words for what became of a test case, and the values that every room of this folder hands on.

A program that was run ends in raw outcomes, one for each of its cases (`CaseResult`). Held against a native baseline
and the list of expected failures, a raw outcome becomes a verdict (`Judged`). A run with its verdicts is a `RunRecord`:
what history keeps, what two runs are compared by, and what reports are made from.

Not here: how a suite is run (suites/, execute/), how one judges (judge/), the file that holds a record
(results_file.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

# What a case did where it ran.
PASS, FAIL, CRASH, HANG, SKIP = "pass", "fail", "crash", "hang", "skip"
RAW = (PASS, FAIL, CRASH, HANG, SKIP)
# Verdicts are these, and two more for cases that say nothing about the runtime: it does not pass natively; or it passes
# natively only sometimes.
NOT_NATIVE, FLAKY = "not-native", "flaky"
VERDICTS = (*RAW, NOT_NATIVE, FLAKY)
MISSES = (FAIL, CRASH, HANG)  # what counts against a runtime
COUNTED = (PASS, *MISSES)  # the denominator of a score; the verdict "skip" is for cases that skip natively, too

MOST_OUTPUT = 64 << 10  # bytes of a case's output that are kept


@dataclass(frozen=True, order=True)
class CaseName:
    """What identifies a case over years: the suite, the program or file that holds it, its name there."""

    suite: str
    file: str
    case: str

    def __str__(self) -> str:
        return f"{self.suite}/{self.file}/{self.case}"


@dataclass(frozen=True)
class CaseResult:
    """What one case did in one run. `why` is one line: the failed assertion, the signal, the reason for skipping."""

    name: CaseName
    outcome: str
    seconds: float = 0.0
    why: str = ""
    output: str = ""


@dataclass(frozen=True)
class Judged:
    """A case with its verdict. `expected` is the reason of its row in the list of expected failures, else empty.

    A miss that is expected stays a miss in the score, and is no regression. A pass with `expected` is unexpected.
    """

    name: CaseName
    family: str
    verdict: str
    outcome: str
    seconds: float = 0.0
    why: str = ""
    output: str = ""
    expected: str = ""
    by_design: bool = False  # the row says that husk refuses this on purpose

    @property
    def unexpected_pass(self) -> bool:
        return self.verdict == PASS and bool(self.expected)

    @property
    def unexpected_miss(self) -> bool:
        return self.verdict in MISSES and not self.expected


@dataclass(frozen=True)
class Score:
    """Counts of verdicts. `share` is what passes of what counts; None where nothing counts."""

    counts: dict[str, int] = field(default_factory=dict)
    expected: int = 0  # misses with a reason
    by_design: int = 0  # of them, refused on purpose

    @property
    def passed(self) -> int:
        return self.counts.get(PASS, 0)

    @property
    def missed(self) -> int:
        return sum(self.counts.get(verdict, 0) for verdict in MISSES)

    @property
    def counted(self) -> int:
        return self.passed + self.missed

    @property
    def share(self) -> float | None:
        return self.passed / self.counted if self.counted else None

    @property
    def share_but_design(self) -> float | None:
        """The share of what is not refused by design."""
        left = self.counted - self.by_design
        return self.passed / left if left else None


def percent(share: float | None) -> str:
    """To one decimal; nothing that misses is shown as 100 %, nothing that passes as 0 %."""
    if share is None:
        return "–"
    if 0 < share < 1:
        share = min(max(share, 0.001), 0.999)
    return f"{100 * share:.1f} %"


def score(cases: list[Judged]) -> Score:
    counts = dict.fromkeys(VERDICTS, 0)
    for one in cases:
        counts[one.verdict] += 1
    missed = [one for one in cases if one.verdict in MISSES]
    return Score(counts, sum(bool(one.expected) for one in missed), sum(one.by_design for one in missed))


@dataclass(frozen=True)
class RunInfo:
    """About a run. `runtime` names what is compared side by side: "husk", "husk-bare", "native", or the first word of
    the prefix ("runsc"); `command` is the whole prefix. Times are UTC, ISO 8601, to the second."""

    run: str  # a name of its own: 20261116-104214-husk
    runtime: str
    command: str = ""
    user: str = ""  # as which user the cases ran
    suites: tuple[str, ...] = ()
    started: str = ""
    ended: str = ""
    version: str = ""  # of the runtime, as it says itself
    commit: str = ""  # of the checkout, where the runtime is built from one
    kernel: str = ""
    machine: str = ""
    case_filter: str = ""
    jobs: int = 1
    timeout: float = 0.0
    whole: bool = True  # False: interrupted, or a worker's cases were lost


@dataclass(frozen=True)
class RunRecord:
    info: RunInfo
    cases: list[Judged]

    def families(self) -> dict[str, list[Judged]]:
        found: dict[str, list[Judged]] = {}
        for one in self.cases:
            found.setdefault(one.family, []).append(one)
        return dict(sorted(found.items()))

    def ended_at(self, time: str, *, whole: bool) -> RunRecord:
        return RunRecord(replace(self.info, ended=time, whole=whole), self.cases)
