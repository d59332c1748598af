"""The doctor's frame: no probe can hurt it, and what it concludes follows from the rows."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from husk.cli.cmd_doctor import verdict
from husk.cli.cmd_run import main
from husk.kernel.net import port_owners
from husk.native._core import landlock_abi
from husk.sandbox import weaken
from husk.sandbox.doctor import host, probe_child, walls
from husk.sandbox.doctor.examine import Finding, examine, exit_code
from husk.sandbox.doctor.probe_child import Missing, run_probe
from husk.sandbox.doctor.probes import PROBES
from husk.sandbox.doctor.rows import BETTER, BY_NAME, FULL, MINIMUM, RESTS_ON, ROWS
from husk.walls import namespaces
from husk.walls.landlock import SCOPES_SIGNALS
from tests.unit.kernel.fakes import new_descriptors, open_descriptors


def refuse() -> str:
    raise Missing("not here")


def deny() -> str:
    raise PermissionError(1, "Operation not permitted")


def crash() -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return "survived"


def leave() -> str:
    os._exit(0)


def lose_a_child() -> str:
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
    return "left one behind"


def stray() -> str:
    raise ValueError("a bug")


def own_children() -> set[str]:
    """All children of this process; those of an earlier test may still be there."""
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


@pytest.mark.parametrize(
    ("probe", "stands", "detail"),
    [
        (lambda: "seen", True, "seen"),
        (refuse, False, "not here"),
        (deny, False, "Operation not permitted"),
        (stray, False, "ValueError: a bug"),
        (crash, False, "the probe was ended"),
        (leave, False, "the probe was ended"),
        (lose_a_child, True, "left one behind"),
    ],
    ids=["stands", "refuse", "deny", "stray", "crash", "leave", "lose a child"],
)
def test_a_probe_cannot_hurt(probe: Callable[[], str], stands: bool, detail: str) -> None:
    before, children = open_descriptors(), own_children()
    assert run_probe(probe) == (stands, detail)
    assert not new_descriptors(before)
    assert own_children() <= children


def test_a_probe_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_child, "PATIENCE", 0.1)
    seen = run_probe(lambda: time.sleep(60) or "")  # type: ignore[func-returns-value]
    assert seen == (False, "no answer in 0.1 s")


def test_a_host_that_tells_nothing_of_its_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the kernel cannot load tcp_diag: the answer is an error, which reads as no owner."""
    monkeypatch.setattr(port_owners, "find", lambda *_: iter([(b"", 0)]))
    assert run_probe(PROBES["diagnosis"]) == (False, "it does not know of a socket that listens")


def test_rows_and_probes_are_the_same_set() -> None:
    assert list(PROBES) == [row.name for row in ROWS] == list(BY_NAME)


def test_every_row_says_what_to_do() -> None:
    for row in ROWS:
        assert row.need in (MINIMUM, FULL, BETTER)
        assert row.without and row.remedy and not row.remedy.endswith(".") and "\n" not in row.sentence()


def test_what_can_be_weakened_is_offered_and_the_rest_is_not() -> None:
    offered = {row.name for row in ROWS if "--weaken" in row.remedy}
    assert offered == set(weaken.NAMES) - {"namespaces"}, "namespaces are done without by themselves"
    assert all(f"--weaken {name}" in BY_NAME[name].remedy for name in offered)


@pytest.mark.parametrize(
    ("missing", "code"),
    [(set(), 0), ({"clone", "cgroup"}, 0), ({"net-namespace"}, 1), ({"net-namespace", "landlock"}, 125)],
)
def test_exit_code(missing: set[str], code: int) -> None:
    assert exit_code([Finding(row, row.name not in missing, "") for row in ROWS]) == code


def test_all_rows_are_examined() -> None:
    findings = examine(dict.fromkeys(PROBES, lambda: "seen"))
    assert [finding.row.name for finding in findings] == [row.name for row in ROWS]
    assert all(finding.as_dict()["detail"] == "seen" for finding in findings)


def test_a_scope_with_a_hole_for_groups_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scope that does not hold, as on kernels with CVE-2026-72183: here, none at all. The probe's other half must not
    take silence for a wall."""
    with monkeypatch.context() as changed:
        changed.setattr(walls, "_restrict", lambda _abi: None)
        assert run_probe(walls.groups) == (False, "a signal to its own group got out")
    with monkeypatch.context() as changed:
        changed.setattr(walls, "_signal_own_group", lambda: None)
        assert run_probe(walls.groups) == (False, "the group gets no signal at all")
    if landlock_abi() >= SCOPES_SIGNALS:  # what this kernel has is for the doctor to say
        assert run_probe(walls.groups) in (
            (True, "a group gets signals only inside the scope"), (False, "a signal to its own group got out")
        )


def test_what_rests_on_something_missing_is_not_tried() -> None:
    """Such a probe would find the same fault again and blame the kernel for it."""
    order = [row.name for row in ROWS]
    for name, bases in RESTS_ON.items():
        assert all(order.index(base) < order.index(name) for base in bases)

    def probe(name: str) -> Callable[[], str]:
        return refuse if name in ("proc", "landlock") else lambda: "seen"

    found = {finding.row.name: finding for finding in examine({name: probe(name) for name in PROBES})}
    because = {name: one.because.name for name, one in found.items() if one.because is not None}
    namespaces = {row.name: "proc" for row in ROWS if row.name.endswith("-namespace")}
    scopes = {"landlock-scopes": "landlock", "signal-groups": "landlock"}
    assert because == {**scopes, "user": "proc", "cgroup": "proc", "box": "proc", **namespaces}
    assert found["pid-namespace"].as_dict()["because"] == "proc" and found["proc"].as_dict()["because"] is None
    assert verdict(list(found.values()), 125) == (
        "husk cannot run here as it is. Missing: /proc; Landlock. What to do is above."
    )


def test_a_guest_in_a_user_namespace_may_be_traced_where_others_may_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with Yama's scope 2, which needs a capability: in a user namespace an ordinary user has it."""
    monkeypatch.setattr(host, "sleeper", lambda *, apart=False: int(apart))

    def denied(apart: int) -> None:
        if not apart:
            raise PermissionError(1, "Operation not permitted")

    assert host.of_a_guest(lambda _: None) == ""
    assert host.of_a_guest(denied) == ", but only in a user namespace"
    with pytest.raises(PermissionError):
        host.of_a_guest(lambda _: denied(0))


# -- an older Landlock, which no filter can imitate -------------------------------------------------------------------


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    """As on Linux 6.11: rights of Landlock ABI 5, and signals are not scoped."""
    monkeypatch.setattr(namespaces, "landlock_abi", lambda: min(5, landlock_abi()))
    monkeypatch.setenv("HUSK_STATE", f"{tmp_path}/state")
    monkeypatch.setattr("husk.cli.cmd_run.with_signals", lambda box, _: box.run())  # this process keeps its handlers


@pytest.mark.usefixtures("older")
def test_signals_must_be_confined(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--no-namespaces", "--", "true"]) == 125
    assert BY_NAME["signals"].sentence() in capfd.readouterr().err


@pytest.mark.usefixtures("older")
def test_without_that_wall_no_signal_is_sent(capfd: pytest.CaptureFixture[str]) -> None:
    script = "sleep 0.1 & kill $! 2>/dev/null || echo refused; wait; echo $?"
    assert main(["--no-namespaces", "--weaken", "signals", "--summary", "--", "sh", "-c", script]) == 0
    out, err = capfd.readouterr()
    assert out == "refused\n0\n"
    assert "weakened: signals" in err
