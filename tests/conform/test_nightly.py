"""`husk conform nightly`: three nights end to end, with a bare repository and a stand-in for gh."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from husk.cli import main
from husk.conform.execute.run_suites import Options, run_suites
from husk.conform.execute.where import Where, native
from husk.conform.history.database import open_history
from husk.conform.matrix.calls_file import Calls, TracedFile, TracedSuite, read_calls
from husk.conform.matrix.interpreters import INTERPRETERS
from husk.conform.matrix.measure_uses import measure_uses
from husk.conform.matrix.uses_file import SKILL, WORKS, Use, Uses, read_uses, write_uses
from husk.conform.nightly.choose_files import choose_again, choose_files
from husk.conform.nightly.night import _chosen, compare
from husk.conform.nightly.nightly_config import read_nightly
from husk.conform.outcomes import FAIL, FLAKY, PASS, RunRecord
from husk.conform.suite_file import Suite, SuiteFile
from husk.conform.units import Ask, Ended, Unit
from husk.sandbox.errors import UsageError
from tests.conform.records import a_run
from tests.conform.small_suites import write_suite

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def conform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HUSK_CONFORM", str(tmp_path / "conform"))
    monkeypatch.setenv("HUSK_STATE", str(tmp_path / "state"))
    return tmp_path / "conform"


# -- the configuration -------------------------------------------------------------------------------------------------
GOOD = 'format = 1\nsuites = ["mini"]\nout = "docs"\nchoose = "all"\n'


@pytest.mark.parametrize(("text", "said"), [
    ("", "format = 1"), ("format = [", "not TOML"), ("format = 2", "format = 1"), ("format = 1", "suites must name"),
    ('format = 1\nsuites = "mini"', "suites must be a list"), ('format = 1\nsuites = ["mini"]', "out must name"),
    (f"{GOOD}colour = 1", "there is no colour"), (GOOD.replace("all", "some"), "choose must be"),
    (GOOD.replace("all", "used"), "needs skills"), (f'{GOOD}skills = ["nowhere"]', "no directory"),
    (f"{GOOD}jobs = 1000", "at most 256"), (f"{GOOD}repeat = 0", "repeat must be 1 or more"),
    (f'{GOOD}[[runs]]\nsetting = "loose"', "runs.setting"), (f"{GOOD}[[runs]]\n[[runs]]", "are the same"),
    (f'{GOOD}[publish]\nbranch = "--force"', "publish.branch"), (f'{GOOD}[publish]\nremote = "-o"', "publish.remote"),
    (f'{GOOD}[publish]\nbase = "a..b"', "publish.base"), (f'{GOOD}[publish]\npassword = "x"', "no publish.password"),
])  # fmt: skip
def test_a_configuration_that_is_none(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "nightly.toml").write_text(text)
    with pytest.raises(UsageError, match=r"nightly\.toml") as caught:
        read_nightly(tmp_path / "nightly.toml")
    assert said in str(caught.value)


def test_one_list_of_expected_failures_or_several(tmp_path: Path) -> None:
    for given, wanted in (("'a'", ["a"]), ("['a', 'b']", ["a", "b"]), ("[]", [])):
        (tmp_path / "nightly.toml").write_text(GOOD.replace("\n", f"\nexpected = {given}\n", 1))
        assert [path.name for path in read_nightly(tmp_path / "nightly.toml").expected] == wanted


def test_the_shortest_configuration(tmp_path: Path) -> None:
    (tmp_path / "nightly.toml").write_text(GOOD)
    config = read_nightly(tmp_path / "nightly.toml")
    assert config.suites == (tmp_path / "mini",) and config.out == tmp_path / "docs" and config.publish is None
    assert [(run.under, run.setting, run.user) for run in config.runs] == [("husk", "walled", "")]


def test_publishing_needs_its_section(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "nightly.toml").write_text(GOOD)
    assert main(["conform", "nightly", str(tmp_path / "nightly.toml"), "--publish"]) == 2
    assert "[publish]" in capsys.readouterr().err


# -- what matters ------------------------------------------------------------------------------------------------------
def test_files_that_exercise_what_is_used() -> None:
    def traced(**calls: int) -> TracedFile:
        return TracedFile("", "exit 0", {"read": 5, **calls})

    files = {
        "futex_test": traced(futex=1, openat=1), "other": traced(futex=9), "third": traced(futex=1),
        "quota": traced(quotactl=3), "broken": TracedFile("", "not run: no"),
    }  # fmt: skip
    calls = Calls("", {"mini": TracedSuite(files=files)})
    uses = Uses(uses=(Use(SKILL, "a", WORKS, calls={"futex": 1, "read": 7}),))
    suite = Suite("mini", "ltp", Path("/"), files=tuple(SuiteFile(name) for name in [*files, "never traced"]))
    commands = Suite("commands", "commands", Path("/"))

    def chosen(per_call: int) -> list[str]:
        found = choose_files([suite, commands], calls, uses, per_call)
        assert found.suites == [suite, commands] and found.counts == {"mini": 6} and set(found.files) == {"mini"}
        return sorted(found.files["mini"])

    # `read` is made by every file as often: that tells nothing. What could not be traced is run.
    assert chosen(1) == ["broken", "futex_test", "never traced"]
    assert chosen(2) == ["broken", "futex_test", "never traced", "other"]
    assert chosen(9) == ["broken", "futex_test", "never traced", "other", "third"]
    with pytest.raises(UsageError, match='choose = "all"'):
        lone = Calls("", {"mini": TracedSuite(files={"quota": TracedFile("", "exit 0", {"quotactl": 3})})})
        choose_files([Suite("mini", "ltp", Path("/"), files=(SuiteFile("quota"),))], lone, uses, 9)


def test_the_choice_stays_while_nothing_changes(tmp_path: Path) -> None:
    """Counts vary from trace to trace; that alone must not make cases come and go."""

    def calls(**counts: int) -> Calls:
        files = {name: TracedFile("", "exit 0", {"futex": count}) for name, count in counts.items()}
        return Calls("", {"mini": TracedSuite(files={**files, "quota": TracedFile("", "exit 0", {"quotactl": 3})})})

    def chosen(traced: Calls, used: str = "futex", per_call: int = 1) -> list[str]:
        uses = Uses(uses=(Use(SKILL, "a", WORKS, calls={used: 1}),))
        suite = Suite("mini", "tap", Path("/"))
        found = choose_again([suite], traced, uses, per_call, tmp_path / "chosen.json")
        assert found.suites == [suite]
        return sorted(found.files["mini"])

    # Of whose calls it is the larger share ranks first; with equal shares the name decides.
    assert chosen(calls(b=1, c=1)) == ["b"]
    (tmp_path / "chosen.json").write_text((tmp_path / "chosen.json").read_text().replace('"b"', '"c"'))
    assert chosen(calls(b=1, c=1)) == ["c"]
    assert chosen(calls(a=1, b=1, c=1)) == ["a"]  # a new program
    assert chosen(calls(a=1, b=1, c=1), per_call=2) == ["a", "b"]
    assert chosen(calls(a=1, b=1, c=1), "quotactl") == ["quota"]
    (tmp_path / "chosen.json").write_text("not JSON")
    assert chosen(calls(b=1, c=1)) == ["b"]


# -- comparing ---------------------------------------------------------------------------------------------------------
def ends(*verdicts: str, **more: Any) -> tuple[str, int]:
    with open_history() as history:
        record: RunRecord | None = None
        for number, verdict in enumerate(verdicts):
            record = a_run(number, {"open/A": verdict}, **more)
            history.add(record)
        assert record is not None
        found = compare(history, record)
        return found.end, len(found.unsteady)


@pytest.mark.parametrize(("verdicts", "end"), [
    ([PASS], ("report", 0)), ([PASS, PASS], ("no change", 0)), ([PASS, FAIL], ("regression", 0)),
    ([FAIL, PASS], ("report", 0)), ([PASS, FLAKY], ("no change", 0)), ([FAIL, FAIL], ("no change", 0)),
    ([PASS, FAIL, PASS], ("report", 0)), ([PASS, FAIL, PASS, FAIL], ("report", 1)),
    ([PASS, FAIL, PASS, *[PASS] * 9, FAIL], ("regression", 0)),
])  # fmt: skip
def test_how_a_night_ends(verdicts: list[str], end: tuple[str, int]) -> None:
    assert ends(*verdicts) == end


def test_other_runs_are_not_compared_with() -> None:
    with open_history() as history:
        history.add(a_run(0, {"open/A": PASS}))
        for other in ({"user": "root"}, {"suites": ("mini", "more")}, {"whole": False}, {"case_filter": "x"}):
            history.add(a_run(1, {"open/A": FAIL}, f"husk{len(history.runs())}", **other))
        assert compare(history, a_run(2, {"open/A": PASS})).end == "no change"
        assert compare(history, a_run(2, {"open/A": PASS}, user="root")).old is None


# -- end to end --------------------------------------------------------------------------------------------------------
GH = """#!/bin/sh
# A stand-in: notes its words, and answers as it is told to.
place=$(dirname "$0")
printf '%s\\n' "$*" >> "$place/words"
[ "$1 $2" = "pr list" ] && { cat "$place/open.json"; exit; }
for word; do [ -f "$word" ] && cp "$word" "$place/body.md"; done
[ -e "$place/fail" ] && { echo "gh: not logged in" >&2; exit 4; }
echo "https://example.org/pull/7"
"""
CONFIG = """format = 1
suites = ["../mini"]
skills = ["{skill}"]
choose = "used"
out = "docs/conformance"
repeat = 1
jobs = 2
[[runs]]
under = "{runtime}"
[publish]
branch = "nightly/"
title = "Night"
"""


class World:
    """A repository with a bare one as its origin, a suite, a runtime that is a script, and gh."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.place, self.capsys = place, capsys
        self.tree, self.bare, self.bin = place / "tree", place / "origin.git", place / "bin"
        for name, value in (("NAME", "Test"), ("EMAIL", "test@example.org")):
            monkeypatch.setenv(f"GIT_AUTHOR_{name}", value)
            monkeypatch.setenv(f"GIT_COMMITTER_{name}", value)
        self.git(place, "init", "-q", "--bare", "-b", "main", str(self.bare))
        self.git(place, "init", "-q", "-b", "main", str(self.tree))
        (self.tree / "nightly.toml").write_text(
            CONFIG.format(runtime=place / "runtime", skill=ROOT / "examples" / "skills" / "word-count")
        )
        self.git(self.tree, "add", ".")
        self.git(self.tree, "commit", "-q", "-m", "Begin")
        self.git(self.tree, "remote", "add", "origin", str(self.bare))
        self.git(self.tree, "push", "-q", "origin", "main")
        (place / "mini").mkdir()
        write_suite(place / "mini", "kind = 'tap'\n[settings]\nfind = ['*.t']\n", {
            "one.t": "#!/bin/sh\nmkdir -p /tmp/x; echo 1..2; echo ok 1 - first; echo ok 2 - second\n",
            "two.t": "#!/bin/sh\necho 1..1; echo ok 1 - only\n",
        })  # fmt: skip
        self.runtime('exec "$@"')
        self.bin.mkdir()
        (self.bin / "gh").write_text(GH)
        (self.bin / "gh").chmod(0o755)
        self.requests([])
        monkeypatch.setenv("PATH", f"{self.bin}:{os.environ['PATH']}")

    def git(self, place: Path, *words: str) -> str:
        done = subprocess.run(["git", *words], cwd=place, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def runtime(self, text: str) -> None:
        (self.place / "runtime").write_text(f"#!/bin/sh\n{text}\n")
        (self.place / "runtime").chmod(0o755)

    def requests(self, rows: list[dict[str, Any]]) -> None:
        (self.bin / "open.json").write_text(json.dumps(rows))

    def night(self, *words: str, code: int) -> str:
        (self.bin / "words").unlink(missing_ok=True)
        assert main(["conform", "nightly", str(self.tree / "nightly.toml"), "-q", *words]) == code
        out, err = self.capsys.readouterr()
        return out + err

    def gh_words(self) -> list[str]:
        words = self.bin / "words"
        return words.read_text().splitlines() if words.exists() else []

    def branches(self) -> dict[str, str]:
        lines = self.git(self.bare, "for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads")
        return dict(line.split() for line in lines.splitlines())

    def untouched(self) -> tuple[str, str, str]:
        """Branch, head and index of the person's tree."""
        return (
            self.git(self.tree, "symbolic-ref", "HEAD"), self.git(self.tree, "rev-parse", "HEAD"),
            self.git(self.tree, "diff", "--cached", "--name-only"),
        )  # fmt: skip


SH_ALONE = functools.partial(measure_uses, interpreters=INTERPRETERS[:1])  # the others take seconds each


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What sh and the skill call, measured once for all worlds: the digests are the same."""
    path = tmp_path_factory.mktemp("measured") / "uses.json"
    write_uses(SH_ALONE([ROOT / "examples" / "skills" / "word-count"], Uses(), "2026-01-01"), path)
    return path


@pytest.fixture
def world(
    tmp_path: Path, conform: Path, measured: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> World:
    monkeypatch.setattr("husk.conform.nightly.night.measure_uses", SH_ALONE)
    conform.mkdir()
    shutil.copy(measured, conform / "uses.json")
    return World(tmp_path, monkeypatch, capsys)


def test_three_nights(world: World, conform: Path) -> None:
    today = time.strftime("%Y-%m-%d", time.gmtime())
    before = world.untouched()

    # What would be done: nothing is.
    shown = world.night("--publish", "--dry-run", code=0)
    push = f"git push origin '{{commit}}:refs/heads/nightly/{today}'"
    assert push in shown and f"gh pr create --base main --head nightly/{today}" in shown
    assert world.branches().keys() == {"main"} and not (world.tree / "docs").exists()
    assert all(words.startswith("pr list ") for words in world.gh_words())
    with open_history() as history:
        assert not history.runs()

    # The first night: something to report, in a new pull request.
    said = world.night("--publish", code=3)
    assert "report: runtime 100.0 % (5 of 5, the first run)" in said and "opened a pull request" in said
    assert read_uses(conform / "uses.json").date == today and read_calls(conform / "calls.json").suites["mini"].files
    created = world.gh_words()[-1]
    assert created.startswith(f"pr create --base main --head nightly/{today} --title Night: {today} --body-file ")
    files = world.git(world.bare, "ls-tree", "-r", "--name-only", f"nightly/{today}").splitlines()
    assert "nightly.toml" in files and "docs/conformance/CAPABILITIES.md" in files
    assert not any(name.endswith((".json", ".xml")) for name in files)
    assert world.untouched() == before

    # The second: the same again, and nothing is published.
    assert "no change: runtime 100.0 % (5 of 5, no change)" in world.night("--publish", code=0)
    assert not [words for words in world.gh_words() if not words.startswith("pr list ")]

    # The third: a program breaks there, and the open pull request is updated. One of a fork is not ours.
    world.runtime('case "$*" in *one.t*) exit 1;; esac; exec "$@"')
    world.requests([
        {"number": 9, "headRefName": "nightly/evil", "isCrossRepository": True},
        {"number": 7, "headRefName": f"nightly/{today}", "isCrossRepository": False},
        {"number": 8, "headRefName": "feature", "isCrossRepository": False},
    ])  # fmt: skip
    first = world.branches()[f"nightly/{today}"]
    said = world.night("--publish", code=1)
    assert "regression: runtime 40.0 % (2 of 5, 3 regressions)" in said and "mini/one.t/" in said
    assert world.gh_words()[-1].startswith(f"pr edit 7 --title Night: {today} --body-file ")
    assert "## Regressions in `runtime` (3)" in (world.bin / "body.md").read_text()
    assert world.git(world.bare, "rev-parse", f"nightly/{today}^") == first
    assert world.branches().keys() == {"main", f"nightly/{today}"} and world.untouched() == before


def test_what_fails_loses_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    # Before the run: no gh, no base.
    config = world.tree / "nightly.toml"
    good = config.read_text()
    config.write_text(f'{good}base = "trunk"\n')
    assert "origin has no branch trunk" in world.night("--publish", code=2)
    config.write_text(good)
    (world.bin / "gh").chmod(0o644)
    monkeypatch.setenv("PATH", f"{world.bin}:/usr/bin:/bin")
    assert "`gh pr list" in world.night("--publish", code=125)
    (world.bin / "gh").chmod(0o755)
    with open_history() as history:
        assert not history.runs()

    # After it: gh fails, then the push does.
    (world.bin / "fail").touch()
    said = world.night("--publish", code=125)
    assert "report: runtime 100.0 %" in said and "not logged in" in said and "is pushed" in said
    assert "Runs and documents are kept" in said and (world.tree / "docs/conformance/results.json").exists()
    (world.bare / "hooks").mkdir(exist_ok=True)
    (world.bare / "hooks" / "pre-receive").write_text("#!/bin/sh\necho closed >&2; exit 1\n")
    (world.bare / "hooks" / "pre-receive").chmod(0o755)
    world.runtime('case "$*" in *two.t*) exit 1;; esac; exec "$@"')
    said = world.night("--publish", code=125)
    assert "`git push origin " in said and "Runs and documents are kept" in said
    with open_history() as history:
        assert len(history.runs()) == 2


def test_a_stopped_night_keeps_what_it_measured(
    tmp_path: Path, conform: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_: object, told: Callable[[Use, bool], None], **__: object) -> Uses:
        told(Use(SKILL, "first", WORKS, digest="1"), False)
        raise KeyboardInterrupt

    (tmp_path / "mini").mkdir()
    write_suite(tmp_path / "mini", "kind = 'tap'\n", {"one.t": "#!/bin/sh\n"})
    (tmp_path / "nightly.toml").write_text(GOOD)
    conform.mkdir()
    write_uses(Uses(uses=(Use(SKILL, "second", WORKS, digest="2"),)), conform / "uses.json")
    monkeypatch.setattr("husk.conform.nightly.night.measure_uses", stopped)
    assert main(["conform", "nightly", str(tmp_path / "nightly.toml"), "-q"]) == 130
    assert [one.name for one in read_uses(conform / "uses.json").uses] == ["first", "second"]
    assert capsys.readouterr().err == "husk conform: stopped.\n"


def test_programs_are_asked_for_their_cases_as_the_user_of_the_run(
    tmp_path: Path, conform: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some refuse to run natively as root."""
    asked: list[str] = []

    def ask(unit: Unit, there: Where) -> Ended:
        asked.append(there.user)
        return Ended(0, False, 0.0, b"", b"")

    def traced(*_: object, ask: Ask, **__: object) -> Calls:
        ask(Unit("mini", "tap", "one.t", ("true",)))
        return Calls()

    monkeypatch.setattr("husk.conform.nightly.night.run_unit", ask)
    monkeypatch.setattr("husk.conform.nightly.night.trace_suites", traced)
    (tmp_path / "nightly.toml").write_text(f'{GOOD}[[runs]]\nuser = "1000"\n')
    config = read_nightly(tmp_path / "nightly.toml")
    _chosen(config, [], Uses(), conform / "calls.json", lambda _: None)
    assert asked == ["1000"]


def test_only_the_chosen_files_are_run(tmp_path: Path, conform: Path) -> None:
    """And the run is whole all the same: it can be compared."""
    (tmp_path / "mini").mkdir()
    says = "#!/bin/sh\necho 1..1; echo ok 1 - it\n"
    files = {"one.t": says, "two.t": says}
    suite = write_suite(tmp_path / "mini", "kind = 'tap'\n[settings]\nfind = ['*.t']\n", files)
    record = run_suites([suite], native(), Options(repeat=1, files={"mini": frozenset({"two.t"})}))
    assert {one.name.file for one in record.cases} == {"two.t"}
    assert record.info.whole and not record.info.case_filter
