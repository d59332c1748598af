"""What the build made of the registry is what a run would make of it, for every box that gets it; others do not."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest

from husk.abi import registry
from husk.abi.box_walls import Walls
from husk.abi.registry import HUSK_CALL_ROW, ROWS, handled_rows
from husk.abi.registry.rules import IN_C
from husk.kernel import syscalls
from husk.native._core import landlock_abi, ready_calls, ready_filter
from husk.sandbox import plan
from husk.sandbox.plan import Plan
from husk.sandbox.policy import Policy, Trace
from husk.walls.closing_calls import closing_calls
from husk.walls.filter import compile_filter
from husk.walls.ready_filter import USUAL, number_of
from tests.unit.walls.test_filter import BOX_COOKIE

COOKIES = (0, BOX_COOKIE, (1 << 64) - 1, 0x0123456789ABCDEF)
NEWEST_LANDLOCK = max(12, landlock_abi())
BOTH = (False, True)


def usual(landlock: int = 7, **more: bool) -> Walls:
    walls = dict.fromkeys(("pid", "net", "mount", "ipc", "user", "own_placeholders"), True) | more
    return Walls(landlock=landlock, **walls)  # type: ignore[arg-type]


@pytest.mark.parametrize(("direct", "gates"), list(itertools.product(BOTH, BOTH)))
def test_the_filter_is_the_compiled_one(direct: bool, gates: bool) -> None:
    """With every Landlock, since no rule may ask for more of it."""
    for landlock in range(1, NEWEST_LANDLOCK + 1):
        walls = usual(landlock, direct=direct)
        number, closing = number_of(walls, gates=gates), closing_calls(walls) if gates else {}
        assert number >= 0
        for cookie in COOKIES:
            assert ready_filter(number, cookie) == (compile_filter(walls, cookie, closing), list(closing))


def test_no_two_are_alike() -> None:
    assert len({ready_filter(number, BOX_COOKIE)[0] for number in range(len(USUAL))}) == len(USUAL) == 4


def test_each_box_gets_its_own_bytes() -> None:
    one = ready_filter(0, 1)[0]
    assert ready_filter(0, 2)[0] != one == ready_filter(0, 1)[0]


@pytest.mark.parametrize("wrong", [-1, 4, 1 << 40])
def test_there_is_no_other_number(wrong: int) -> None:
    with pytest.raises(ValueError):
        ready_filter(wrong, 1)


@pytest.mark.parametrize(
    "walls",
    [
        *(usual(**{name: False}) for name in ("pid", "net", "mount", "ipc", "user", "own_placeholders", "one_user")),
        usual(outside=True), usual(landlock=0), usual(0, pid=False), usual(5, pid=False),
        usual(devices=frozenset({"kvm"})), usual(devices=frozenset({"kvm"}), direct=True), Walls(),  # type: ignore[arg-type]
    ],
    ids=repr,
)  # fmt: skip
def test_other_walls_have_none(walls: Walls) -> None:
    assert [number_of(walls, gates=gates) for gates in BOTH] == [-1, -1]


def test_a_wall_that_is_new_has_none() -> None:
    """All of Walls is compared."""
    for name in set(Walls.__slots__) - {"landlock"}:
        walls = usual()
        setattr(walls, name, object())
        assert number_of(walls, gates=True) == -1, name


# -- plans -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("gates", ["0", "1"])
@pytest.mark.parametrize("walls", [usual(), usual(direct=True), usual(outside=True), Walls(landlock=7)], ids=repr)
def test_a_plan_has_the_filter_of_its_walls(monkeypatch: pytest.MonkeyPatch, walls: Walls, gates: str) -> None:
    monkeypatch.setenv("HUSK_GATE", gates)
    found = Plan(Policy([]), walls)
    closing = closing_calls(walls) if gates == "1" else {}
    assert found.closing == list(closing)
    assert found.rules == found.filter == compile_filter(walls, found.cookie, closing)
    assert found.filter_for(direct=True) == found.filter
    without = walls.but(direct=False, one_user=walls.one_user)
    assert found.filter_for(direct=False) == compile_filter(without, found.cookie, closing)
    other = Plan(Policy([]), walls)
    assert other.cookie != found.cookie and other.filter != found.filter


def test_a_traced_plan_is_no_usual_one() -> None:
    policy = Policy([])
    policy.trace = Trace()
    found = Plan(policy, usual())
    assert found.rules == compile_filter(usual(), found.cookie) != found.filter and found.closing == []


def test_a_plan_asks_for_a_ready_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "ready_filter", lambda number, cookie: (b"%d" % number, []))
    assert Plan(Policy([]), usual(direct=True)).filter == b"%d" % number_of(usual(direct=True), gates=True)


# -- the dispatcher's tables -------------------------------------------------------------------------------------------
def test_the_handlers_are_those_of_the_rows() -> None:
    lines = [line.split() for line in ready_calls()[0].splitlines()]
    assert [tuple(line) for line in lines] == [
        (str(row.nr), row.family, row.name, row.way) for row in handled_rows() if row.family != IN_C
    ]
    assert syscalls.handlers().keys() == {row.nr for row in handled_rows() if row.family != IN_C}
    assert all(int(line[0]) in ROWS or int(line[0]) == HUSK_CALL_ROW.nr for line in lines)


def test_mixed_calls_and_interrupted_ones() -> None:
    assert syscalls.mixed_calls() == registry.mixed_calls()
    for asked in BOTH:
        assert syscalls.eintr_bitmap(asked=asked) == registry.eintr_bitmap(asked=asked)


def test_a_start_needs_no_rows() -> None:
    """They would take it two milliseconds."""
    code = (
        "import sys; from husk.cli.start import begin_run; code = begin_run.main(['--', 'true']);"
        "print(code, *[name for name in sys.modules if name.startswith('husk.abi.registry')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0"], done
