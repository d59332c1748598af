"""`husk conform bisect`: first between recorded runs, then between commits of a repository that breaks at one."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from husk.cli import main
from husk.conform.execute.run_suites import Options, run_suites
from husk.conform.execute.where import Where
from husk.conform.history.bisect_commits import Search, search_commits
from husk.conform.history.database import History, open_history
from husk.conform.history.narrow import BROKEN, WORKS, first_changed, narrow, state
from husk.conform.outcomes import CRASH, FAIL, FLAKY, PASS, SKIP, CaseName, RunRecord
from husk.sandbox.errors import UsageError
from tests.conform.records import a_run
from tests.conform.small_suites import write_suite

NAME = CaseName("mini", "open", "A")


def history_of(path: Path, *verdicts: str) -> History:
    history = History(path)
    for number, verdict in enumerate(verdicts):
        history.add(a_run(number, {"open/A": verdict}))
    return history


@pytest.mark.parametrize(("verdicts", "pair"), [
    ([PASS, FAIL], (0, 1)), ([PASS, PASS, FAIL, CRASH], (1, 2)), ([FAIL, PASS, PASS], (0, 1)),
    ([PASS, SKIP, FLAKY, FAIL], (0, 3)), ([PASS, FAIL, PASS, FAIL, FAIL], (2, 3)),
])  # fmt: skip
def test_between_runs(tmp_path: Path, verdicts: list[str], pair: tuple[int, int]) -> None:
    with history_of(tmp_path / "history.db", *verdicts) as history:
        found = narrow(history.of_case(NAME))
        assert [one.info.run for one in (found.old, found.new)] == [a_run(number, {}).info.run for number in pair]


def test_between_two_given_runs(tmp_path: Path) -> None:
    with history_of(tmp_path / "history.db", PASS, FAIL, PASS, SKIP, FAIL) as history:
        names = [run.info.run for run in history.runs()]
        seen = history.of_case(NAME)
        assert narrow(seen, names[0], names[1]).new.info.run == names[1]
        assert narrow(seen, names[2], names[1]).old.info.run == names[1]
        with pytest.raises(UsageError, match="does not tell"):
            narrow(seen, names[0], names[3])
        with pytest.raises(UsageError, match="always the same verdict, pass"):
            narrow(seen[:1])
        with pytest.raises(UsageError, match="no run tells"):
            narrow(seen[3:4])


@pytest.mark.parametrize("length", [1, 2, 3, 10, 100])
def test_the_search_is_logarithmic(length: int) -> None:
    commits = [str(number) for number in range(length)]
    for broken_at in range(length):
        asked: list[str] = []

        def ask(commit: str, asked: list[str] = asked, broken_at: int = broken_at) -> str:
            asked.append(commit)
            return BROKEN if int(commit) >= broken_at else WORKS

        found = first_changed(commits, WORKS, ask)
        assert found.commits == (str(broken_at),)
        assert len(asked) == found.tried <= length.bit_length()


def test_commits_that_cannot_be_tried() -> None:
    def ask(commit: str) -> str:
        return "" if 3 <= int(commit) <= 6 else WORKS if int(commit) < 5 else BROKEN

    assert first_changed([str(number) for number in range(10)], WORKS, ask).commits == ("3", "4", "5", "6", "7")


# -- commits -----------------------------------------------------------------------------------------------------------
def run_git(place: Path, *words: str) -> str:
    who = ["-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *who, *words], cwd=place, check=True, capture_output=True, text=True).stdout.strip()


BREAKS, NO_BUILD = 6, 4


@pytest.fixture
def repository(tmp_path: Path) -> tuple[Path, list[str]]:
    """Nine commits. The runtime is a script: `build` makes it from a template. It breaks at a known commit, and one
    commit cannot be built."""
    place = tmp_path / "repository"
    place.mkdir()
    run_git(place, "init", "-q", "-b", "main")
    commits = []
    for number in range(9):
        answer = "exit 1" if number >= BREAKS else 'exec "$@"'
        (place / "runtime.in").write_text(f"#!/bin/sh\n# {number}\n{answer}\n")
        (place / "build").write_text("exit 9\n" if number == NO_BUILD else "cp runtime.in runtime; chmod +x runtime\n")
        run_git(place, "add", ".")
        run_git(place, "commit", "-q", "-m", f"Change {number}")
        commits.append(run_git(place, "rev-parse", "HEAD"))
    (place / "runtime.in").write_text("not committed")
    return place, commits


def search(repository: Path, old: str, new: str, build: str = "sh build", seconds: float = 30.0) -> Search:
    return Search(repository, old, new, WORKS, build, seconds, "a case")


def trying(asked: list[Path]) -> Callable[[Path], tuple[str, str]]:
    def attempt(tree: Path) -> tuple[str, str]:
        asked.append(tree)
        done = subprocess.run([tree / "runtime", "true"], check=False)
        return (BROKEN, "exit 1") if done.returncode else (WORKS, "")

    return attempt


def test_the_commit_is_found_and_nothing_is_touched(repository: tuple[Path, list[str]], tmp_path: Path) -> None:
    place, commits = repository
    before = snapshot(place)
    said: list[str] = []
    asked: list[Path] = []
    found = search_commits(search(place, commits[0], commits[-1]), tmp_path / "b", trying(asked), said.append)
    assert found.commits == (commits[BREAKS],)
    assert any("Change 4: cannot be told (the build ended with 9, see" in line for line in said)
    assert snapshot(place) == before and (place / "runtime.in").read_text() == "not committed"
    assert not list(tmp_path.glob("b/*/tree"))
    # Asked again, it knows the answers.
    again = len(asked)
    assert search_commits(search(place, commits[0], commits[-1]), tmp_path / "b", trying(asked), said.append) == found
    assert len(asked) == again


def snapshot(place: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}


def test_a_search_that_was_stopped_goes_on(repository: tuple[Path, list[str]], tmp_path: Path) -> None:
    place, commits = repository
    asked: list[Path] = []

    def stopped(tree: Path) -> tuple[str, str]:
        if len(asked) == 3:
            raise KeyboardInterrupt
        return trying(asked)(tree)

    with pytest.raises(KeyboardInterrupt):
        search_commits(search(place, commits[0], commits[-1]), tmp_path / "b", stopped, lambda _: None)
    found = search_commits(search(place, commits[0], commits[-1]), tmp_path / "b", trying(asked), lambda _: None)
    assert found.commits == (commits[BREAKS],) and len(asked) <= 5


def test_ends_that_are_not_as_recorded(repository: tuple[Path, list[str]], tmp_path: Path) -> None:
    place, commits = repository
    with pytest.raises(UsageError, match=r"recorded as broken, and here it works"):
        search_commits(search(place, commits[0], commits[2]), tmp_path / "b", trying([]), lambda _: None)
    with pytest.raises(UsageError, match=r"recorded as works, and here it is broken"):
        search_commits(search(place, commits[6], commits[8]), tmp_path / "b", trying([]), lambda _: None)
    with pytest.raises(UsageError, match="no ancestor"):
        search_commits(search(place, commits[8], commits[0]), tmp_path / "b", trying([]), lambda _: None)
    with pytest.raises(UsageError, match="both runs are of commit"):
        search_commits(search(place, commits[8], commits[8]), tmp_path / "b", trying([]), lambda _: None)


def test_a_build_that_does_not_end(repository: tuple[Path, list[str]], tmp_path: Path) -> None:
    place, commits = repository
    endless = search(place, commits[0], commits[-1], build="sleep 1000 & sleep 1000", seconds=0.2)
    with pytest.raises(UsageError, match="cannot be told"):
        search_commits(endless, tmp_path / "b", trying([]), lambda _: None)


def test_states() -> None:
    assert [state(verdict) for verdict in (PASS, FAIL, SKIP, FLAKY)] == [WORKS, BROKEN, "", ""]


# -- the command -------------------------------------------------------------------------------------------------------
def test_the_command_runs_the_case_alone(
    repository: tuple[Path, list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Two runs with their commits in the history, and a suite whose only interesting case breaks between them."""
    place, commits = repository
    monkeypatch.setenv("HUSK_CONFORM", str(tmp_path / "conform"))
    (tmp_path / "mini").mkdir()
    ran = tmp_path / "ran"
    suite = write_suite(
        tmp_path / "mini", "kind = 'commands'\n[[settings.commands]]\nname = 'a [case]'\nrun = ['true']\n"
        f"[[settings.commands]]\nname = 'other'\nrun = ['touch', '{ran}']\n", {},
    )  # fmt: skip
    for day, commit in ((1, commits[0]), (2, commits[-1])):
        run_git(place, "checkout", "-q", "-f", commit)
        subprocess.run(["sh", "build"], cwd=place, check=True)
        record = run_suites([suite], Where("runtime", (str(place / "runtime"),)), Options(repeat=1))
        about = {"run": f"2026010{day}-000000-runtime", "started": f"2026-01-0{day}", "commit": commit}
        info = replace(record.info, **about)  # type: ignore[arg-type]
        with open_history() as history:
            history.add(RunRecord(info, record.cases))
            (name,) = history.cases("*a [[]case]")
    ran.unlink()
    kept = sorted((tmp_path / "conform" / "runs").iterdir())
    words = ["conform", "bisect", str(name), "--json", "--repo", str(place), "--build", "sh build"]
    more = ["--suite", str(tmp_path / "mini"), "--under", "{tree}/runtime"]
    assert main([*words, *more, "20260102-000000-runtime", "20260101-000000-runtime"]) == 0
    out, err = capsys.readouterr()
    (line,) = json.loads(out)["commits"]
    assert line.startswith(commits[BREAKS][:7]) and line.endswith(f"Test: Change {BREAKS}")
    assert "8 commits" in err and not ran.exists()
    assert sorted((tmp_path / "conform" / "runs").iterdir()) == kept
    assert main([*words, "--suite", str(tmp_path / "mini")]) == 2
    assert "--under is missing" in capsys.readouterr().err
