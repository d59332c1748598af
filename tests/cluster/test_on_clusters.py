"""What the commands do on a cluster, they do as here: units of suites, cases of skills, attempts without a call."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from husk.cluster.dask_workers import DaskWorkers
from husk.cluster.local_workers import LocalWorkers
from husk.cluster.work import LostWork
from husk.compat.need.needs import try_all
from husk.compat.need.needs_file import Need, Needs, Target
from husk.compat.need.try_without import Check
from husk.conform.execute.cluster_workers import ClusterWorkers, _read
from husk.conform.execute.one_unit import run_unit
from husk.conform.execute.run_suites import Options, run_suites
from husk.conform.execute.where import Where, behind, in_husk, native
from husk.conform.suite_file import read_suite
from husk.conform.units import RESULTS, Ended, Unit
from husk.sandbox.errors import HuskError
from husk.sandbox.policy import Policy
from husk.skills.running import Request
from husk.skills.testing.cases import find_cases
from husk.skills.testing.run_cases import run_cases
from tests.cluster.test_cluster import pids
from tests.lib.running import husk, until

SKILL = Path(__file__).resolve().parents[2] / "examples" / "skills" / "config-check"
SCRIPT = """#!/bin/sh
echo "$0 is here: $(cat "$1/told")"
echo result > "$2/file"
test "$3" = crash && kill -SEGV $$
exit "$3"
"""


def units(place: Path) -> list[Unit]:
    (place / "suite").mkdir()
    (place / "suite" / "told").write_text("a file of the suite")
    program = place / "suite" / "program"
    program.write_text(SCRIPT)
    program.chmod(0o755)
    shown = str(place / "suite")
    place.chmod(0o755)
    return [
        Unit("mini", "commands", str(end), (str(program), shown, RESULTS, str(end)), shown=(shown,))
        for end in [*range(8), "crash"]
    ]


def left_behind(ended: Ended) -> Ended:
    return replace(ended, seconds=0.0)


def on_cluster(workers: DaskWorkers, where: Where, given: list[Unit], kill: int = 0) -> dict[str, Ended]:
    there = ClusterWorkers(workers, where)
    found: dict[str, Ended] = {}
    for unit in given:
        there.submit(unit)
    until_then = time.monotonic() + 120
    while len(found) < len(given) and time.monotonic() < until_then:
        if (ended := there.next_ended(0.2)) is not None:
            found[ended[0].file] = left_behind(ended[1])
            if kill:
                os.kill(kill, signal.SIGKILL)
                kill = 0
    assert there.next_ended(0.0) is None and there.running() == []
    there.close()
    return found


def test_units_end_as_here_though_a_worker_is_killed(cluster: Any, workers: DaskWorkers, tmp_path: Path) -> None:
    given = units(tmp_path)
    here = {unit.file: left_behind(run_unit(unit, native())) for unit in given}
    assert here["3"].code == 3 and here["crash"].code == -signal.SIGSEGV and here["1"].files == {"file": b"result\n"}
    assert on_cluster(workers, native(), given, pids(cluster)[0]) == here


def test_a_run_of_a_suite_is_the_same(
    cluster: Any, workers: DaskWorkers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUSK_CONFORM", str(tmp_path / "conform"))
    rows = [
        f'[[settings.commands]]\nname = "{number}"\nrun = ["sh", "-c", "exit {end}"]\n'
        for number, end in enumerate((0, 0, 1, 0, 2))
    ]
    (tmp_path / "suite.toml").write_text('format = 1\nname = "mini"\nkind = "commands"\n' + "\n".join(rows))
    suite = read_suite(tmp_path)
    deaths = pids(cluster)[:1]

    def make(where: Where, jobs: int) -> ClusterWorkers:
        if not where.is_native:
            os.kill(deaths.pop(), signal.SIGKILL)
        return ClusterWorkers(workers, where)

    here = run_suites([suite], behind("env"), Options(fresh_baseline=True))
    there = run_suites([suite], behind("env"), Options(fresh_baseline=True), workers=make)
    judged = [[(one.name, one.verdict, one.outcome, one.why) for one in record.cases] for record in (here, there)]
    assert judged[0] == judged[1] and not deaths
    assert [one[1] for one in judged[0]] == ["pass", "pass", "not-native", "pass", "not-native"]
    assert here.info.whole and there.info.whole


def test_units_that_are_stopped(workers: DaskWorkers, tmp_path: Path) -> None:
    told = tmp_path / "told"
    slow = Unit("mini", "commands", "slow", ("sh", "-c", f"echo $$ > {told}; exec sleep 60"))
    there = ClusterWorkers(workers, native())
    there.submit(slow)
    assert there.next_ended(0.1) is None
    assert until(lambda: told.exists() and told.read_text() != "", 60)
    assert [unit for unit, _ in there.running()] == [slow]
    there.close()
    assert until(lambda: not Path(f"/proc/{int(told.read_text())}").exists(), 30)


def test_units_in_husk_whose_files_were_sent(blind: None, workers: DaskWorkers, tmp_path: Path) -> None:
    given = [one for one in units(tmp_path) if one.file in ("2", "crash")]
    here = {unit.file: left_behind(run_unit(unit, in_husk())) for unit in given}
    assert here["2"].stdout == f"{tmp_path}/suite/program is here: a file of the suite\n".encode()
    assert on_cluster(workers, in_husk(), given) == here


def test_a_unit_that_is_lost_crashed() -> None:
    ended = _read(LostWork("each worker that ran it died."))
    assert (ended.code, ended.stderr) == (-signal.SIGKILL, b"each worker that ran it died.\n")
    with pytest.raises(HuskError, match="no box"):
        _read(HuskError("no box"))


def test_cases_of_skills_that_were_sent(blind: None, workers: DaskWorkers) -> None:
    cases = find_cases([SKILL], None)[:2]
    cases[1].exit += 1  # so that one fails, and says why
    here, there = (
        {number: (one.status, one.reason) for number, one in run_cases(cases, Request(), where, native=False)}
        for where in (LocalWorkers(1), workers)
    )
    assert here == there and here[0] == ("works", "") and here[1][0] == "fails"


def test_attempts_without_a_call(workers: DaskWorkers) -> None:
    policy = Policy(["sh", "-c", "echo $$ > /dev/null; echo done"])
    check = Check("", 0, b"done\n")
    found = []
    for where in (LocalWorkers(2), workers):
        needs = Needs(policy.argv, needs=[Need(Target("getpid")), Need(Target("openat"))])
        told: list[str] = []
        try_all(policy, needs, check, 60, where, lambda *words: told.append(words[1]), elsewhere=where is workers)  # noqa: B023
        assert len(told) == 4
        found.append([need.outcomes for need in needs.needs])
    assert found[0] == found[1]
    with pytest.raises(HuskError, match=r"does not pass its test there .*another output.*On worker tcp://"):
        needs = Needs(policy.argv, needs=[Need(Target("getpid"))])
        try_all(policy, needs, Check("", 0, b"other\n"), 60, workers, lambda *_: None, elsewhere=True)


def test_native_runs_stay_on_this_machine() -> None:
    refused = husk(["skill", "test", str(SKILL), "--native", "--cluster", "tcp://127.0.0.1:9"])
    assert refused.status == 2 and "leave out --native or --cluster" in refused.err
