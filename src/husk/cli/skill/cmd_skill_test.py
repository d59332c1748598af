"""cli/skill: `husk skill test`: run cases in boxes, and natively too. The work is in husk.skills.run_cases."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from husk.cli.output import say, say_json
from husk.cli.skill import skill_show as show
from husk.cli.skill.skill_request import read_request
from husk.cluster.choose_workers import chosen_workers
from husk.sandbox.errors import UsageError
from husk.skills.cases import find_cases
from husk.skills.compare_cases import BROKEN, DIFFERS, FAILS, check_cases
from husk.skills.run_cases import run_cases

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values


def main(options: Values) -> int:
    if not options.paths and options.cases is None:
        raise UsageError("say which skills to test, or give --cases FILE.")
    if options.native and options.cluster:
        raise UsageError("--native runs the cases on this machine, outside any box: leave out --native or --cluster.")
    cases = find_cases(options.paths, options.cases)
    check_cases(cases)
    request = read_request(options)
    if options.native:
        _announce_native(len(cases), ask=not options.yes and not options.json and sys.stdin.isatty())
    found = {}
    with chosen_workers(options.cluster, 1, namespaces=request.setting.namespaces) as workers:
        for number, verdict in run_cases(cases, request, workers, native=options.native):
            found[number] = verdict
            if not options.json:
                show.verdict(verdict)
    verdicts = [found[number] for number in range(len(cases))]
    if options.json:
        say_json([verdict.as_dict() for verdict in verdicts])
    else:
        show.count(verdicts)
    return 1 if any(verdict.status in (FAILS, DIFFERS, BROKEN) for verdict in verdicts) else 0


def _announce_native(cases: int, *, ask: bool) -> None:
    text = f"husk skill: --native runs {cases} case{'s' if cases > 1 else ''} outside any box, with all your rights."
    say(text, end=" Go on? [y/N] " if ask else "\n", file=sys.stderr)
    if ask and sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was run; without --native the cases run in boxes only.")
