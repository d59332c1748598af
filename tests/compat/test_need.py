"""`husk need`: required, stubbable and fakeable calls are told apart, by running without them; `husk plan` adds up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from husk.cluster.local_workers import LocalWorkers
from husk.compat.census import Asked, Census
from husk.compat.need.growth import Program, from_census, from_needs, plan
from husk.compat.need.needs import baseline, listed, patience, try_all, try_together
from husk.compat.need.needs_file import (
    EITHER,
    FAKE,
    FAKEABLE,
    REQUIRED,
    STUB,
    STUBBABLE,
    WORKS,
    Need,
    Needs,
    Target,
    attempt_line,
    head_line,
    read_needs,
    together_line,
)
from husk.compat.surface import FULL, MISSING, UNKNOWN, Claim, Surface
from husk.sandbox.errors import UsageError
from husk.sandbox.policy import Mount, Policy
from tests.lib.build_guests import guest_programs
from tests.lib.running import husk, setting

CALLS = ("pipe2", "read", "write", "getrandom", "sched_yield", "getuid", "exit_group")
PRCTL = {"PR_SET_TIMERSLACK": 29, "PR_GET_NAME": 16}
VERDICTS = {
    "pipe2": REQUIRED,
    "read": REQUIRED,
    "write": REQUIRED,
    "getrandom": STUBBABLE,
    "sched_yield": FAKEABLE,
    "getuid": EITHER,
    "prctl": REQUIRED,
    "prctl(option = PR_SET_TIMERSLACK)": EITHER,
    "prctl(option = PR_GET_NAME)": REQUIRED,
}


def census() -> Census:
    """What the program asks for, as its source says."""
    asked = [Asked(call, "native", count=1) for call in CALLS]
    asked += [Asked("prctl", "native", {0: value}, {"option": word}, 1) for word, value in PRCTL.items()]
    return Census(["/guests/three_needs"], calls=asked)


def policy() -> Policy:
    made = Policy(["/guests/three_needs"])
    made.mounts = [Mount(str(guest_programs()), "/guests", "ro")]
    made.namespaces = setting() == "walled"
    return made


@pytest.mark.both_settings
def test_each_kind_of_need_is_found() -> None:
    made = policy()
    check, longest = baseline(made, "", 60)
    needs = Needs(made.argv, needs=listed(census()))
    told: list[str] = []
    two = LocalWorkers(2)
    try_all(made, needs, check, patience(longest), two, lambda target, manner, _: told.append(f"{target} {manner}"))
    assert {str(need.target): need.verdict for need in needs.needs} == VERDICTS
    assert len(told) == len(set(told)) == 2 * len(VERDICTS)
    outcomes = {str(need.target): need.outcomes for need in needs.needs}
    assert outcomes["getrandom"] == {STUB: WORKS, FAKE: "ends with 3"}
    assert outcomes["sched_yield"] == {STUB: "ends with 4", FAKE: WORKS}
    assert try_together(made, needs, check, 60) == WORKS


def test_a_check_of_its_own() -> None:
    """It runs in the same box, where nothing is missing any more, with the output and the status to look at."""
    made = policy()
    check, _ = baseline(made, 'test "$STATUS" = 0 && grep -q done', 60)
    needs = Needs(made.argv, needs=[Need(Target(call)) for call in ("getuid", "read", "openat", "execve")])
    try_all(made, needs, check, 60, LocalWorkers(2), lambda *_: None)
    assert [need.verdict for need in needs.needs] == [EITHER, REQUIRED, EITHER, EITHER]


def test_programs_that_fail_or_differ_are_not_taken() -> None:
    made = policy()
    made.argv = ["false"]
    with pytest.raises(UsageError, match="ends with 1 with everything there"):
        baseline(made, "", 60)
    made.argv = ["sh", "-c", "echo $$-$PPID; cat /proc/sys/kernel/random/uuid"]
    with pytest.raises(UsageError, match="does not pass its test in run 2 of 3"):
        baseline(made, "", 60)
    made.argv = ["sleep", "30"]
    with pytest.raises(UsageError, match="does not end"):
        baseline(made, "", 0.3)


def test_a_hang_is_an_outcome() -> None:
    made = policy()
    made.argv = ["sh", "-c", "sleep 0.1 & wait; echo over"]
    needs = Needs(made.argv, needs=[Need(Target("clock_nanosleep"))])
    check, _ = baseline(made, "", 60)
    try_all(made, needs, check, 60, LocalWorkers(1), lambda *_: None)
    made.argv = ["sh", "-c", "while test -e /tmp; do :; done"]
    from husk.compat.need.try_without import attempt

    assert attempt(made, None, check, 0.5)[0] == "hangs"


# -- the file ----------------------------------------------------------------------------------------------------------
def lines() -> list[str]:
    needs = Needs(["cmd"], "check", "cmd", [Need(Target("read"), 3), Need(Target("prctl", "option", "PR_GET_NAME"), 1)])
    return [
        head_line(needs),
        attempt_line(Target("read"), STUB, "ends with 1"),
        attempt_line(Target("prctl", "option", "PR_GET_NAME"), FAKE, WORKS),
        together_line(WORKS),
    ]


def test_the_file_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "needs"
    path.write_text("".join(lines()))
    needs = read_needs(path)
    assert (needs.command, needs.check, needs.name, needs.together) == (["cmd"], "check", "cmd", WORKS)
    assert needs.needs[0].outcomes == {STUB: "ends with 1"} and needs.needs[1].outcomes == {FAKE: WORKS}


@pytest.mark.parametrize("cut", range(1, 40, 7))
def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "needs"
    path.write_text("".join(lines())[:-cut])
    assert read_needs(path).needs[0].outcomes == {STUB: "ends with 1"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "says no format"),
        ("{}\n", "says no format"),
        ("nonsense\n", "line 1 is no JSON"),
        ("[1]\n", "no JSON object"),
        ('{"format": "husk-needs 1"}\n', "makes no sense"),
        (lines()[0] + '{"call": "write", "manner": "stub", "outcome": "works"}\n', "makes no sense"),
        (lines()[0] + "[" * 100_000 + "\n", "is no JSON"),
    ],
)
def test_other_files_are_refused_in_a_sentence(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "needs"
    path.write_text(text)
    with pytest.raises(UsageError, match=why):
        read_needs(path)


# -- the plan ----------------------------------------------------------------------------------------------------------
def surface(missing: tuple[str, ...], unknown: tuple[str, ...] = ()) -> Surface:
    claims = {call: Claim(call, MISSING) for call in missing} | {call: Claim(call, UNKNOWN) for call in unknown}
    return Surface("r", "r", "1", "2026", "made up", False, FULL, 0, claims)


def program(name: str, *missing: str, weight: int = 1) -> Program:
    return Program(name, frozenset(missing), weight=weight)


def test_the_plan_takes_what_unlocks_most_first() -> None:
    corpus = [program("a", "x"), program("b", "x", "y"), program("c", "z", "w", "v"), program("d"), program("e", "x")]
    growth = plan("r", corpus)
    assert growth.runs == ["d"] and growth.now == pytest.approx(0.2)
    assert [(step.calls, step.programs) for step in growth.steps] == [
        (["x"], ["a", "e"]),
        (["y"], ["b"]),
        (["v", "w", "z"], ["c"]),
    ]
    assert [step.completeness for step in growth.steps] == pytest.approx([0.6, 0.8, 1.0])
    assert growth.wanted["x"] == (3, 2) and growth.wanted["z"] == (1, 0)


def test_weights_count() -> None:
    growth = plan("r", [program("a", "x"), program("b", "y", weight=8), program("c", "z")])
    assert growth.steps[0].calls == ["y"] and growth.steps[0].completeness == pytest.approx(0.8)


def test_a_plan_for_nothing() -> None:
    assert plan("r", []).steps == []
    assert plan("r", [program("a")]).now == 1.0


def test_needs_count_only_what_is_required() -> None:
    needs = Needs(["cmd"], needs=[Need(Target(call), 1) for call in ("read", "getuid", "bpf")])
    for need, outcome in zip(needs.needs, ("ends with 1", WORKS, WORKS), strict=True):
        need.outcomes = {STUB: outcome, FAKE: outcome}
    lacking = surface(("read", "getuid", "bpf"))
    assert from_needs("cmd", needs, lacking).missing == {"read"}
    assert from_census("cmd", Census([], calls=[Asked("getuid", "native", count=1)]), lacking).missing == {"getuid"}
    assert from_census("cmd", Census([], calls=[Asked("bpf", "refused", count=1)]), surface((), ("bpf",))).unknown


# -- the command line --------------------------------------------------------------------------------------------------
def test_the_commands(tmp_path: Path) -> None:
    path = tmp_path / "three.needs"
    mount = ["--mount", f"{guest_programs()}:/guests:ro"]
    done = husk(["need", "--out", str(path), *mount, "--", "/guests/three_needs"])
    assert done.status == 0, done.err
    found = read_needs(path)
    assert {str(need.target): need.verdict for need in found.needs} == VERDICTS
    assert "required" in done.out and "pipe2" in done.out
    # Interrupted after some attempts, it goes on and ends the same; what is known is not tried again.
    text = path.read_text().splitlines(keepends=True)
    path.write_text("".join(text[:6]) + text[6][:9])
    again = husk(["need", "--json", "--out", str(path), *mount, "--", "/guests/three_needs"])
    assert again.status == 0, again.err
    shown = json.loads(again.out)
    assert {entry["what"]: entry["verdict"] for entry in shown["needs"]} == VERDICTS
    assert shown["tried"] == 2 * len(VERDICTS) - 5
    other = husk(["need", "--out", str(path), *mount, "--", "true"])
    assert other.status == 2 and "another command" in other.err

    runtime = tmp_path / "small.toml"
    runtime.write_text(
        'format = 1\ntitle = "Small"\nversion = "1"\ndate = "2026-01-01"\nsource = "made up"\nmeasured = false\n'
        'default = { support = "full" }\n[calls]\nread = "missing"\ngetuid = "missing"\nsched_yield = "missing"\n'
    )
    planned = husk(["plan", "--json", "--for", str(runtime), str(path)])
    assert planned.status == 0, planned.err
    growth = json.loads(planned.out)
    assert growth["steps"] == [{"calls": ["read"], "programs": ["three"], "completeness": 1.0}]
    text_plan = husk(["plan", "--for", str(runtime), str(tmp_path / "three.needs")])
    assert "read" in text_plan.out and "100" in text_plan.out
    assert husk(["plan", "--for", str(runtime), str(runtime)]).status == 2
