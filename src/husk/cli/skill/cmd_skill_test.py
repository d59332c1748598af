"""cli/skill: `husk skill test`: run cases in boxes, and natively too. The work is in husk.skills.testing.run_cases."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from husk.cli.live_progress import told_progress
from husk.cli.out_file import write_bytes
from husk.cli.output import say, say_json
from husk.cli.skill import skill_show as show
from husk.cli.skill.skill_request import read_request
from husk.cluster.choose_workers import chosen_workers
from husk.sandbox.errors import UsageError
from husk.skills.box_runner import BARE, WALLED
from husk.skills.collections.find_skills import named as names_of
from husk.skills.testing.case_journal import CaseJournal
from husk.skills.testing.case_summary import BAD, NATIVE, junit_of, matrix
from husk.skills.testing.cases import find_cases, skills_without_cases
from husk.skills.testing.compare_cases import check_cases
from husk.skills.testing.run_cases import run_cases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from husk.cli.live_progress import Piece
    from husk.cli.options.parse_words import Values
    from husk.skills.running import Request
    from husk.skills.testing.cases import Case
    from husk.skills.testing.compare_cases import Verdict


def main(options: Values) -> int:
    if not options.paths and options.cases is None:
        raise UsageError("say which skills to test, or give --cases FILE.")
    settings, native = _settings(options)
    if native and options.cluster:
        raise UsageError("--native runs the cases on this machine, outside any box: leave out --native or --cluster.")
    cases = find_cases(options.paths, options.cases)
    check_cases(cases)
    request = read_request(options)
    many = len({case.skill for case in cases}) > 1
    with closing(_Journal(cases, request, settings, native, options)) as journal:
        if many and not options.json and (without := skills_without_cases(options.paths, cases)):
            show.notes([f"without cases, so not tested: {names_of(without)}"])
        if native and len(journal.known) < len(cases):
            count = len(cases) - len(journal.known)
            _announce_native(count, ask=not options.yes and not options.json and sys.stdin.isatty())
        verdicts = _run(cases, request, settings, native, journal, options, many=many)
    if options.junit is not None:
        write_bytes(options.junit, junit_of(verdicts), "--junit")
    if options.json:
        say_json([verdict.as_dict() for verdict in verdicts])
    else:
        if many or len(settings) > 1:
            show.matrix(matrix(verdicts, native=native))
        show.count(verdicts)
    return 1 if any(verdict.status in BAD for verdict in verdicts) else 0


def _settings(options: Values) -> tuple[list[str], bool]:
    """The settings of boxes, and whether the cases run natively, too."""
    named = list(dict.fromkeys(options.setting))
    if named and options.no_namespaces:
        raise UsageError(f"--no-namespaces is --setting {BARE}; give one of them.")
    boxes = [name for name in named if name != NATIVE] or [BARE if options.no_namespaces else WALLED]
    return boxes, options.native or NATIVE in named


class _Journal:
    """The journal of the test, where the cache can hold one. `known`: the verdicts of an earlier attempt."""

    def __init__(self, cases: list[Case], request: Request, settings: list[str], native: bool, options: Values) -> None:
        asked: dict[str, Any] = {
            "paths": sorted(str(path.resolve()) for path in options.paths),
            "cases": str(options.cases.resolve()) if options.cases else "",
            "settings": settings,
            "native": native,
            "runtime": options.runtime,
        }
        asked |= {
            name: str(getattr(request, name))
            for name in ("setting", "packages", "find_links", "fetch", "index", "registry", "env", "limits", "hosts")
        }
        self._of, self._left = CaseJournal(cases, asked, resume=options.resume), len(cases)
        self.known = self._of.known
        self._left -= len(self.known)
        if self._of.left_over:
            how_far = f"{self._of.left_over} of {len(cases)} cases"
            show.notes([f"an earlier test like this one was stopped after {how_far}; --resume would have gone on."])

    def add(self, number: int, verdicts: Sequence[Verdict]) -> None:
        self._of.add(number, verdicts)
        self._left -= 1

    def close(self) -> None:
        self._of.close(whole=not self._left)


@dataclass
class _Progress:
    """For live_progress."""

    cases: int
    done: int
    title: str = "husk skill test"
    counts: dict[str, int] = field(default_factory=dict)
    running: list[tuple[Piece, float]] = field(default_factory=list)
    ended: bool = False
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._resumed = self.done

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    @property
    def rate(self) -> float:
        return (self.done - self._resumed) / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        return (self.cases - self.done) / self.rate if self.rate else None


def _run(
    cases: list[Case],
    request: Request,
    settings: list[str],
    native: bool,
    journal: _Journal,
    options: Values,
    *,
    many: bool,
) -> list[Verdict]:
    """On a terminal many cases are a live line, and only what is bad is listed, afterwards: both would write over each
    other."""
    found = dict(journal.known)
    waiting = [number for number in range(len(cases)) if number not in found]
    live = many and not options.json and sys.stderr.isatty()
    several = len(settings) > 1

    def tell(verdict: Verdict) -> None:
        progress.counts[verdict.status] = progress.counts.get(verdict.status, 0) + 1
        if not live and not options.json:
            show.verdict(verdict, with_setting=several)

    progress = _Progress(len(cases), len(found))
    for number in sorted(found):
        for verdict in found[number]:
            tell(verdict)
    with (
        chosen_workers(options.cluster, options.jobs, namespaces=WALLED in settings) as workers,
        told_progress(quiet=not many or options.json) as watch,
        closing(run_cases([cases[n] for n in waiting], request, workers, native=native, settings=settings)) as answers,
    ):
        for place, verdict in answers:
            number = waiting[place]
            found.setdefault(number, []).append(verdict)
            tell(verdict)
            if len(found[number]) == len(settings):
                journal.add(number, found[number])
                progress.done += 1
            watch(progress)
        progress.ended = True
        watch(progress)
    every = [verdict for number in range(len(cases)) for verdict in found[number]]
    if live:
        for verdict in every:
            if verdict.status in BAD:
                show.verdict(verdict, with_setting=several)
    return every


def _announce_native(cases: int, *, ask: bool) -> None:
    text = f"husk skill: --native runs {cases} case{'s' if cases > 1 else ''} outside any box, with all your rights."
    say(text, end=" Go on? [y/N] " if ask else "\n", file=sys.stderr)
    if ask and sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was run; without --native the cases run in boxes only.")
