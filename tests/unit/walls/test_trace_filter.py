"""The filter of a traced box, and husk's judgement of what it notifies: together they say what the ordinary one says.

That is the whole safety of a trace: nothing is native under trace that is not native without.
"""

from __future__ import annotations

import itertools
import random
import struct

import pytest

from husk.abi.numbers import AUDIT_ARCH_X86_64, HUSK_CALL
from husk.abi.registry import ROWS
from husk.abi.registry.rules import Walls
from husk.native._core import Recorder
from husk.walls import bpf
from husk.walls.filter import NOTIFY, compile_filter, notify_all
from tests.unit.walls.bpf_interpreter import decode, faults, run

COOKIE = 0x8BADF00D_CAFE1234
AUDIT_ARCH_I386 = 0x40000003
TELLING = bytes(max(ROWS) + 1)
SETTINGS = {
    "walled": Walls(pid=True, net=True, mount=True, ipc=True, user=True, landlock=7, own_placeholders=True),
    "bare": Walls(landlock=6),
}


def cases() -> list[tuple[int, tuple[int, ...]]]:
    """Every call, with values at which rules may change their mind."""
    chance = random.Random(14)
    found = []
    for nr, row in ROWS.items():
        values = {0, 1, 0xFFFFFFFF, COOKIE}
        for rule in row.rules:
            for test in rule.tests:
                values |= {value & 0xFFFFFFFFFFFFFFFF for value in list(test.values)[:4]}
        for first, second in itertools.product(sorted(values), repeat=2):
            rest = tuple(chance.choice(sorted(values)) for _ in range(3))
            found.append((nr, (first, second, *rest, chance.choice((0, COOKIE, COOKIE ^ 1, COOKIE ^ 1 << 40)))))
    return [*found, (9999, (0,) * 6), (HUSK_CALL, (1,) * 6), (max(ROWS) + 1, (0,) * 6)]


@pytest.mark.parametrize("walls", SETTINGS.values(), ids=SETTINGS)
def test_husk_judges_as_the_filter_would_have(walls: Walls) -> None:
    rules = compile_filter(walls, COOKIE)
    recorder, ordinary = Recorder(rules, TELLING, 0), decode(rules)
    for nr, args in cases():
        wanted = run(ordinary, nr, AUDIT_ARCH_X86_64, args).action
        assert recorder.judge(nr, AUDIT_ARCH_X86_64, *args) == wanted, (nr, args)


@pytest.mark.parametrize("walls", SETTINGS.values(), ids=SETTINGS)
def test_every_call_of_a_guest_is_notified(walls: Walls) -> None:
    rules = compile_filter(walls, COOKIE)
    traced, ordinary = decode(notify_all(rules, COOKIE)), decode(rules)
    assert faults(traced) == []
    for nr, args in cases():
        action = run(traced, nr, AUDIT_ARCH_X86_64, args).action
        if args[5] == COOKIE:
            assert action == run(ordinary, nr, AUDIT_ARCH_X86_64, args).action
        else:
            assert action == NOTIFY, (nr, args)


def test_foreign_architectures_and_numbers_are_left_to_the_host() -> None:
    rules = compile_filter(SETTINGS["walled"], COOKIE)
    traced, ordinary = decode(notify_all(rules, COOKIE)), decode(rules)
    for nr, arch in ((0, AUDIT_ARCH_I386), (0x40000000, AUDIT_ARCH_X86_64), (0xFFFFFFFF, AUDIT_ARCH_X86_64)):
        args = (0,) * 6
        assert run(traced, nr, arch, args).action == run(ordinary, nr, arch, args).action != NOTIFY


def test_a_filter_that_is_too_long_is_not_made() -> None:
    with pytest.raises(ValueError, match="longer than Linux accepts"):
        notify_all(bytes(8) * bpf.MAX_INSTRUCTIONS, COOKIE)


@pytest.mark.parametrize(
    "program",
    [
        b"",
        b"\0" * 7,
        struct.pack("<HBBI", 0x20, 0, 0, 0),  # runs off the end
        struct.pack("<HBBI", 0x20, 0, 0, 62) + struct.pack("<HBBI", 0x06, 0, 0, 0),  # reads beyond the call
        struct.pack("<HBBI", 0x05, 0, 0, 1) + struct.pack("<HBBI", 0x06, 0, 0, 0),  # jumps beyond the end
        struct.pack("<HBBI", 0x15, 1, 0, 1) + struct.pack("<HBBI", 0x06, 0, 0, 0),
        struct.pack("<HBBI", 0x05, 0, 0, 0xFFFFFFFF) + struct.pack("<HBBI", 0x06, 0, 0, 0),
        struct.pack("<HBBI", 0x04, 0, 0, 1) + struct.pack("<HBBI", 0x06, 0, 0, 0),  # adds: husk's filters do not
        struct.pack("<HBBI", 0x06, 0, 0, 0) * 4097,
    ],
)
def test_a_program_that_is_no_filter_of_husks_is_not_accepted(program: bytes) -> None:
    with pytest.raises(ValueError, match="no filter"):
        Recorder(program, TELLING, 0)


def test_a_recorder_that_saw_nothing() -> None:
    recorder = Recorder(compile_filter(SETTINGS["bare"], COOKIE), TELLING, 10)
    assert (recorder.kinds(), recorder.runs(), recorder.unsorted()) == ([], [], [])
    assert recorder.lines() == b"" and recorder.lost() == (0, 0, 0, 0) and recorder.addresses() == []
    with pytest.raises(TypeError):
        recorder.__init__(b"", b"", 0)  # type: ignore[misc]
