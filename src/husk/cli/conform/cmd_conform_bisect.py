"""cli/conform: `husk conform bisect`: between which runs a case changed, and with which commit."""

from __future__ import annotations

import glob
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from husk.cli.conform.history_show import sighting_document
from husk.cli.output import say, say_result
from husk.conform.history.bisect_commits import Search, describe, search_commits
from husk.conform.history.database import open_history
from husk.conform.history.find_run import find_run
from husk.conform.history.narrow import BROKEN, WORKS, Narrowed, narrow, state
from husk.conform.places import conform_directory
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values
    from husk.conform.execute.where import Where
    from husk.conform.history.bisect_commits import Try
    from husk.conform.history.database import History
    from husk.conform.outcomes import CaseName
    from husk.conform.suite_file import Suite

TREE = "{tree}"  # in --under: the directory with the checkout


def main(options: Values) -> int:
    if bool(options.good) != bool(options.bad):
        raise UsageError("name two runs, or none.")
    with open_history() as history:
        name = _case(history, options.case)
        found = _between_runs(history, name, options)
    document: dict[str, Any] = {
        "case": str(name),
        "old": sighting_document(found.old),
        "new": sighting_document(found.new),
    }
    lines = [str(name)] + [
        f"  {one.case.verdict:<5} {one.info.run}" + (f" at {one.info.commit[:12]}" if one.info.commit else "")
        for one in (found.old, found.new)
    ]
    if options.repo:
        commits, more = _between_commits(name, found, options)
        document["commits"] = commits
        lines += more
    say_result(document, lines, as_json=options.json)
    return 0


def _case(history: History, pattern: str) -> CaseName:
    names = history.cases(glob.escape(pattern)) or history.cases(pattern)
    if len(names) != 1:
        how_many = f"{len(names)} cases fit" if names else "no case of the history fits"
        raise UsageError(f"{pattern}: {how_many}; name one as SUITE/FILE/CASE, `husk conform history --case` finds it.")
    return names[0]


def _between_runs(history: History, name: CaseName, options: Values) -> Narrowed:
    ends = [find_run(history, word, options.runtime).info for word in (options.good, options.bad) if word]
    seen = history.of_case(name)
    runtime = options.runtime or (ends[0].runtime if ends else seen[-1].info.runtime)
    return narrow([one for one in seen if one.info.runtime == runtime], *(one.run for one in ends))


def _between_commits(name: CaseName, found: Narrowed, options: Values) -> tuple[list[str], list[str]]:
    from husk.conform.suite_file import read_suite

    if not options.suite:
        raise UsageError("--repo needs --suite: the suite file that the case is in, for running it.")
    suite = read_suite(Path(options.suite))
    if suite.name != name.suite:
        raise UsageError(f"--suite {options.suite}: this is {suite.name}, and the case is of {name.suite}.")
    for one in (found.old, found.new):
        if not one.info.commit:
            raise UsageError(f"{one.info.run} has no commit recorded; --repo needs runs of a checkout.")
    repository = Path(options.repo)
    if not repository.is_dir():
        raise UsageError(f"--repo {options.repo}: there is no such directory; name a git repository.")
    runtime = found.old.info.runtime
    under = options.under or _own_prefix(runtime)
    search = Search(
        repository, found.old.info.commit, found.new.info.commit, state(found.old.case.verdict), options.build,
        options.build_timeout, "\0".join((str(name), runtime, under, options.user, str(suite.place))),
    )  # fmt: skip
    attempt = _attempt(suite, name, runtime, under, options.user)
    result = search_commits(search, conform_directory() / "bisect", attempt, _told)
    what = "broken" if search.old_state == WORKS else "fixed"
    listed = [describe(repository, commit) for commit in result.commits]
    if len(listed) == 1:
        return listed, [f"{what} by {listed[0]}"]
    return listed, [f"{what} by one of these, of which some could not be tried:", *(f"  {line}" for line in listed)]


def _told(line: str) -> None:
    say(line, file=sys.stderr)


def _own_prefix(runtime: str) -> str:
    if runtime not in ("husk", "husk-bare"):
        raise UsageError(f"--under is missing: the words that start {runtime} from a checkout, which is {TREE} there.")
    return f"{TREE}/.venv/bin/husk run" + (" --no-namespaces" if runtime == "husk-bare" else "")


def _attempt(suite: Suite, name: CaseName, runtime: str, under: str, user: str) -> Try:
    """Only this case, judged by one native run."""
    from husk.compat.prefixes import split_prefix
    from husk.conform.execute.where import Where

    words = split_prefix("--under", under)

    def attempt(tree: Path) -> tuple[str, str]:
        there = Where(runtime, tuple(word.replace(TREE, str(tree)) for word in words), user)
        return _run_one(suite, name, there)

    return attempt


def _run_one(suite: Suite, name: CaseName, there: Where) -> tuple[str, str]:
    from husk.conform.execute.run_suites import Options, run_directory, run_suites

    only = glob.escape(f"{name.file}/{name.case}")
    record = run_suites([suite], there, Options(filters=(only,), jobs=1, repeat=1))
    shutil.rmtree(run_directory(record.info.run), ignore_errors=True)  # it is no run of the history
    found = [one for one in record.cases if one.name == name]
    if not found:
        return "", "the suite does not have the case"
    known = state(found[0].verdict)
    return known, found[0].why if known == BROKEN else "" if known else f"the case is {found[0].verdict}"
