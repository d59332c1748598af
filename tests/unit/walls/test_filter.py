"""The compiled seccomp filter says what the registry says, and Linux accepts it."""

from __future__ import annotations

import ctypes
import itertools
import os
import random
import re
import sys
from collections.abc import Iterator
from errno import EFAULT, EINVAL, ENOSYS, EPERM
from pathlib import Path

import pytest

from husk.abi.ioctls import DEVICE_TYPES
from husk.abi.numbers import AUDIT_ARCH_X86_64, HUSK_CALL
from husk.abi.registry import ROWS, by_name
from husk.abi.registry.rules import (
    COOKIE,
    INSTRUCTION,
    NET_WALL,
    PID_WALL,
    Arg,
    ArgTest,
    Row,
    Rule,
    Verdict,
    Walls,
    carries_cookie,
    refuse,
)
from husk.walls import bpf
from husk.walls import filter as filter_module
from husk.walls.filter import compile_filter
from tests.unit.walls.bpf_interpreter import Instruction, decode, faults, run

KILL, ERRNO, NOTIFY, ALLOW = 0x80000000, 0x00050000, 0x7FC00000, 0x7FFF0000
NATIVE = Path(__file__).parents[3] / "src/husk/native"
BOX_COOKIE = 0x8BADF00D_CAFE1234
AUDIT_ARCH_I386 = 0x40000003

SETTINGS = {
    "no walls": Walls(),
    "all walls": Walls(pid=True, net=True, mount=True, ipc=True, user=True, landlock=7, own_placeholders=True),
    "Landlock only": Walls(landlock=6),
    "devices": Walls(landlock=6, devices=frozenset(DEVICE_TYPES)),
    "namespaces, host placeholders": Walls(pid=True, net=True, mount=True, ipc=True, user=True),
}
EVERY_SETTING = [
    Walls(pid=pid, net=net, mount=mount, ipc=ipc, landlock=landlock, own_placeholders=places)
    for pid, net, mount, ipc, places in itertools.product((False, True), repeat=5)
    for landlock in (0, 5, 6)
]
FAR_AWAY = (0xFFFFFFFF << 32, 0xDEADBEEF << 32)  # garbage in the half that Linux does not read


def expected_action(verdict: Verdict) -> int:
    if verdict.way == "native":
        return ALLOW
    if verdict.way == "refused" and verdict.quiet:
        return ERRNO | verdict.errno
    return NOTIFY


def expected(row: Row, args: tuple[int, ...], walls: Walls) -> int:
    return expected_action(row.verdict(args, walls, BOX_COOKIE))


def edges(test: ArgTest) -> set[int]:
    """Values at which an argument test may change its mind."""
    values = {0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF}
    for value in test.values:
        if value == COOKIE:
            values |= {
                BOX_COOKIE,
                BOX_COOKIE & 0xFFFFFFFF,
                BOX_COOKIE & ~0xFFFFFFFF,
                BOX_COOKIE ^ 1,
                BOX_COOKIE ^ 1 << 63,
            }
            values |= {BOX_COOKIE ^ 1 << bit for bit in range(31, 34)}
        else:
            values |= {value, value + 1, value - 1 & 0xFFFFFFFF, value | 0x80800}
            if value >> 32:
                values |= {value & 0xFFFFFFFF, value & ~0xFFFFFFFF, value - 1, value ^ 1 << 63}
    if test.kind != "in":
        values |= {1 << bit for bit in range(32)} | {test.bits(), ~test.bits() & 0xFFFFFFFF}
    return values | {value | far for value in list(values) if value < 1 << 32 for far in FAR_AWAY}


def samples(row: Row, limit: int = 3000) -> Iterator[tuple[int, ...]]:
    """Argument sets that matter to a row's rules: all combinations of edges, or a fixed random choice of them.

    Six arguments and the instruction pointer.
    """
    axes: list[list[int]] = [[0] for _ in range(INSTRUCTION + 1)]
    for rule in row.rules:
        for test in rule.tests:
            axes[test.index] = sorted({*axes[test.index], *edges(test)})
    size = 1
    for axis in axes:
        size *= len(axis)
    if size <= limit:
        yield from itertools.product(*axes)
        return
    choice = random.Random(row.nr)
    for _ in range(limit):
        yield tuple(choice.choice(axis) for axis in axes)
    # A random choice seldom meets the listed values of two arguments at once.
    for rule in row.rules:
        wanted = [sorted(test.values) for test in rule.tests]
        for values in itertools.product(*wanted):
            args = [0] * len(axes)
            for test, value in zip(rule.tests, values, strict=True):
                args[test.index] = value
            yield tuple(args)


@pytest.fixture(scope="module", params=SETTINGS)
def setting(request: pytest.FixtureRequest) -> tuple[Walls, list[Instruction]]:
    walls = SETTINGS[request.param]
    return walls, decode(compile_filter(walls, BOX_COOKIE))


def test_every_call_at_every_edge(setting: tuple[Walls, list[Instruction]]) -> None:
    walls, code = setting
    for row in ROWS.values():
        for args in samples(row):
            outcome = run(code, row.nr, AUDIT_ARCH_X86_64, args)
            assert outcome.action == expected(row, args, walls), (row.name, [hex(arg) for arg in args])


@pytest.mark.parametrize("kind", DEVICE_TYPES)
def test_commands_of_devices_are_for_boxes_that_have_them(kind: str) -> None:
    """Of any number and size, for each type that the device has, and only where it was given."""
    ioctl = ROWS[16]
    others = {value for other in DEVICE_TYPES if other != kind for value in DEVICE_TYPES[other].values()}
    given = decode(compile_filter(Walls(landlock=6, devices=frozenset({kind})), BOX_COOKIE))
    plain = decode(compile_filter(Walls(landlock=6), BOX_COOKIE))

    def action(code: list[Instruction], command: int) -> int:
        return run(code, ioctl.nr, AUDIT_ARCH_X86_64, (3, command, 0, 0, 0, 0)).action

    for number in (0x80, 0xC0180040, 0xFFFF00FF):
        for value in DEVICE_TYPES[kind].values():
            assert (action(given, number | value), action(plain, number | value)) == (ALLOW, NOTIFY)
        for value in others | {0x5400, 0x6600, 0x9400}:  # terminals, files, btrfs
            assert action(given, number | value) == NOTIFY, hex(number | value)
    assert action(given, 0x5412) == NOTIFY  # TIOCSTI types into a terminal


def test_every_combination_of_walls() -> None:
    for walls in EVERY_SETTING:
        code = decode(compile_filter(walls, BOX_COOKIE))
        assert faults(code) == [], walls
        for row in ROWS.values():
            for args in itertools.islice(samples(row, 4), 12):
                assert run(code, row.nr, AUDIT_ARCH_X86_64, args).action == expected(row, args, walls), (
                    walls,
                    row.name,
                )


def test_the_kernel_would_accept_it(setting: tuple[Walls, list[Instruction]]) -> None:
    assert faults(setting[1]) == []


def test_unconditional_calls_do_not_read_arguments(setting: tuple[Walls, list[Instruction]]) -> None:
    """The kernel remembers only calls it can decide by number and architecture."""
    walls, code = setting
    unconditional = 0
    for row in ROWS.values():
        if not any(rule.tests for rule in row.rules if rule.stands(walls)):
            unconditional += 1
            assert max(run(code, row.nr, AUDIT_ARCH_X86_64, [0] * 6).loads) < 16, row.name
    assert unconditional > 300


@pytest.mark.parametrize(
    "name", ["read", "write", "futex", "mmap", "epoll_wait", "clock_gettime", "close"]
)
def test_hot_calls_have_no_rules(name: str) -> None:
    row = by_name(name)
    assert row is not None and row.way == "native" and not row.rules


def test_unknown_numbers(setting: tuple[Walls, list[Instruction]]) -> None:
    code = setting[1]
    gaps = [nr for nr in range(1024) if nr not in ROWS]
    for nr in [*gaps, HUSK_CALL - 1, HUSK_CALL + 1, 0x3FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF]:
        outcome = run(code, nr, AUDIT_ARCH_X86_64, [0] * 6)
        assert outcome.action == ERRNO | ENOSYS, hex(nr)


def test_the_loaders_question_is_notified(setting: tuple[Walls, list[Instruction]]) -> None:
    assert run(setting[1], HUSK_CALL, AUDIT_ARCH_X86_64, [1, 2, 3, 0, 0, 0]).action == NOTIFY


def test_foreign_calls_are_killed(setting: tuple[Walls, list[Instruction]]) -> None:
    code = setting[1]
    for nr in [*range(600), HUSK_CALL, 0xFFFFFFFF]:
        for arch in (AUDIT_ARCH_I386, 0, AUDIT_ARCH_X86_64 ^ 1, 0xC00000B7):
            assert run(code, nr, arch, [0] * 6).action == KILL
    for nr in [*range(0x40000000, 0x40000000 + 600), 0x40004855, 0x7FFFFFFF]:
        assert run(code, nr, AUDIT_ARCH_X86_64, [0] * 6).action == KILL


def test_compiling_is_deterministic() -> None:
    for walls in SETTINGS.values():
        assert compile_filter(walls, BOX_COOKIE) == compile_filter(walls, BOX_COOKIE)


def test_only_the_cookie_differs_between_boxes() -> None:
    walls = SETTINGS["all walls"]
    one, other = (decode(compile_filter(walls, cookie)) for cookie in (BOX_COOKIE, 0x0123456789ABCDEF))
    assert len(one) == len(other)
    differing = [(a.k, b.k) for a, b in zip(one, other, strict=True) if a != b]
    assert set(differing) == {(BOX_COOKIE >> 32, 0x01234567), (BOX_COOKIE & 0xFFFFFFFF, 0x89ABCDEF)}


def test_rt_sigaction_of_the_resident_region_is_native(setting: tuple[Walls, list[Instruction]]) -> None:
    """The one place in a guest whose calls of it husk need not see, as native/loader/resident.S has it."""
    places = dict(re.findall(r"#define (HUSK_RESIDENT\w*) (0x[0-9a-f]+)", (NATIVE / "loader/resident.h").read_text()))
    place = int(places["HUSK_RESIDENT"], 16) + int(places["HUSK_RESIDENT_SIGACTION_CALL"], 16) + 2
    code = setting[1]
    natives = {ROWS[nr].name: run(code, nr, AUDIT_ARCH_X86_64, [10, 4096, 0, 8, 0, 0, place]).action for nr in ROWS}
    elsewhere = {ROWS[nr].name: run(code, nr, AUDIT_ARCH_X86_64, [10, 4096, 0, 8, 0, 0, 0]).action for nr in ROWS}
    assert {name for name in natives if natives[name] != elsewhere[name]} == {"rt_sigaction"}
    assert (natives["rt_sigaction"], elsewhere["rt_sigaction"]) == (ALLOW, NOTIFY)


def test_the_search_is_short(setting: tuple[Walls, list[Instruction]]) -> None:
    """Two loads, one check, one return and a search over fewer than 256 ranges; argument rules come on top."""
    walls, code = setting
    for row in ROWS.values():
        rules = sum(len(rule.tests) for rule in row.rules if rule.stands(walls))
        assert run(code, row.nr, AUDIT_ARCH_X86_64, [0] * 6).steps <= 14 + 10 * rules, row.name


@pytest.mark.parametrize("seed", range(6))
def test_noticed_calls_are_notified_and_nothing_else_changes(seed: int) -> None:
    """Emulation sees a call in the cases it named. All other calls, and husk's own, go as their rows say."""
    choice = random.Random(seed)
    rows = choice.sample(sorted(ROWS.values(), key=lambda row: row.nr), 60)
    rows += [row for row in ROWS.values() if any(COOKIE in test.values for rule in row.rules for test in rule.tests)]
    noticed: dict[int, list[list[ArgTest]]] = {}
    for row in rows:
        second = Arg(1, "the second").has_any({"a": 1 << choice.randrange(32)})
        first = Arg(0, "the first").is_in({"b": choice.randrange(9), "c": 0x80000000})
        every: list[list[ArgTest]] = [[]]
        noticed[row.nr] = choice.choice((every, [[first]], [[first, second], [second]], [[first], []]))
    walls = choice.choice(list(SETTINGS.values()))
    code = decode(compile_filter(walls, BOX_COOKIE, noticed))
    assert faults(code) == []
    seen = 0
    for row in ROWS.values():
        cases = noticed.get(row.nr, [])
        for args in [*itertools.islice(samples(row, 30), 60), *((n, m, 0, 0, 0, 0) for n in range(9) for m in (0, ~0))]:
            wanted = expected(row, args, walls)
            own = any(
                any(COOKIE in test.values for test in rule.tests)
                and all(test.holds(args, BOX_COOKIE) for test in rule.tests)
                for rule in row.rules
            )
            if not own and any(all(test.holds(args, BOX_COOKIE) for test in case) for case in cases):
                wanted = NOTIFY
                seen += 1
            assert run(code, row.nr, AUDIT_ARCH_X86_64, args).action == wanted, (row.name, args)
    assert seen > 100


# Random registries and programs: the compiler must be right about them too


def made_up_rows(choice: random.Random, size: int) -> dict[int, Row]:
    def arg_test() -> ArgTest:
        if choice.random() < 0.1:
            return carries_cookie(choice.randrange(6))
        mask = choice.choice((0xFFFFFFFF, 0xFFFFFFFF, 0xF, 0x80000001))
        arg = Arg(choice.randrange(2), "an argument", mask)
        if choice.random() < 0.5:
            start = choice.choice((0, 3, 0x7FFFFFFE, 0xFFFFFF00))
            return arg.is_in({str(n): start + choice.randrange(12) & mask for n in range(choice.randrange(1, 9))})
        flags = {str(n): 1 << choice.randrange(32) & mask for n in range(choice.randrange(1, 4))}
        return arg.has_any(flags) if choice.random() < 0.5 else arg.within(flags)

    def verdict() -> Verdict:
        kinds = (Verdict("native"), Verdict("virtual"), refuse(EPERM, "aloud"), refuse(choice.randrange(60), "x", True))
        return choice.choice(kinds)

    rows = {}
    nr = 0
    for _ in range(size):
        nr += choice.choice((1, 1, 1, 2, 3, 50))
        rules = []
        for _ in range(choice.choice((0, 0, 1, 2, 4))):
            walls = [choice.choice((PID_WALL, NET_WALL))] if choice.random() < 0.3 else []
            tests = [arg_test() for _ in range(choice.randrange(0 if walls else 1, 4))]
            rules.append(Rule(verdict(), (*walls, *tests)))
        rows[nr] = Row(nr, f"call_{nr}", verdict(), tuple(rules))
    return rows


@pytest.mark.parametrize("seed", range(12))
def test_made_up_registries(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    choice = random.Random(seed)
    rows = made_up_rows(choice, choice.choice((1, 2, 3, 40, 150)))
    monkeypatch.setattr(filter_module, "ROWS", rows)
    walls = Walls(pid=choice.random() < 0.5, net=choice.random() < 0.5)
    code = decode(compile_filter(walls, BOX_COOKIE))
    assert faults(code) == []
    for row in rows.values():
        for args in itertools.islice(samples(row, 60), 120):
            assert run(code, row.nr, AUDIT_ARCH_X86_64, args).action == expected(row, args, walls), row.name
    for nr in range(max(rows) + 2):
        if nr not in rows:
            assert run(code, nr, AUDIT_ARCH_X86_64, [0] * 6).action == ERRNO | ENOSYS


def test_far_targets_are_reached() -> None:
    """Distances around what fits in 8 bits, for both targets of a branch at once."""
    around = (0, 1, 252, 253, 254, 255, 256, 257, 600)
    for first, second in itertools.product(around, repeat=2):
        program = bpf.Program()
        program.put(bpf.RETURN, 11)
        yes = program.put(bpf.AND, 0xFFFFFFFF)
        for _ in range(first):
            program.put(bpf.AND, 0xFFFFFFFF)
        program.put(bpf.RETURN, 22)
        no = program.put(bpf.AND, 0xFFFFFFFF)
        for _ in range(second):
            program.put(bpf.AND, 0xFFFFFFFF)
        for true, false in ((yes, no), (no, yes), (yes, yes), (no, no)):
            whole = bpf.Program()
            whole._reversed = [*program._reversed]
            whole.branch(bpf.JUMP_AT_LEAST, 2, true, false)
            whole.put(bpf.LOAD_WORD, 0)
            code = decode(whole.encode())
            assert [fault for fault in faults(code) if "unreachable" not in fault] == []
            for nr, target in ((1, false), (2, true), (3, true)):
                assert run(code, nr, 0, [0] * 6).action == (11 if target == yes else 22)


def test_too_long_programs_are_not_encoded() -> None:
    program = bpf.Program()
    program.ret(ALLOW)
    for _ in range(4096):
        program.put(bpf.AND, 0)
    with pytest.raises(ValueError, match="4097 instructions"):
        program.encode()


# The real kernel


class SockFprog(ctypes.Structure):
    _fields_ = (("len", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def in_filtered_child(program: bytes, calls: list[tuple[int, ...]]) -> list[int]:
    """Install the filter in a forked child, without a listener, make the calls there, and report errno or 0 of each."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        results: list[int] = []
        fprog = SockFprog(len(program) // 8, program)
        installed = libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(fprog)) == 0
        if installed:
            for nr, *args in calls:
                ctypes.set_errno(0)
                value = libc.syscall(ctypes.c_long(nr), *(ctypes.c_long(arg) for arg in args))
                results.append(ctypes.get_errno() if value == -1 else 0)
        os.write(writer, b"".join(result.to_bytes(2, "little") for result in results))
        os._exit(0 if installed else 1)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        raw = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) == 1:
        pytest.skip("this machine does not let a process install seccomp filters")
    assert status == 0
    return [int.from_bytes(raw[at : at + 2], "little") for at in range(0, len(raw), 2)]


@pytest.mark.skipif(sys.platform != "linux" or os.uname().machine != "x86_64", reason="the filter is for x86-64 Linux")
def test_linux_loads_and_obeys_it(setting: tuple[Walls, list[Instruction]]) -> None:
    walls, _ = setting
    calls = {
        "getppid, native": (110,),
        "io_uring_setup, quietly refused": (425, 1, 0),
        "no such call": (999,),
        "minus one": (-1,),
        "prctl(PR_SET_DUMPABLE, 0), virtual": (157, 4, 0),
        "prctl(PR_SET_DUMPABLE, 7), a bad value": (157, 4, 7),
        "prctl(PR_GET_DUMPABLE), virtual": (157, 3),
        # Without a listener Linux answers what would be notified with ENOSYS.
        "open, virtual": (2, 0, 0),
        "setns, refused aloud": (308, 0, 0),
        "the loader's question": (HUSK_CALL, 1, 0, 0),
        "rt_sigaction without the cookie": (13, 1, 1, 0, 8, 0),
        "rt_sigaction with the cookie, and a bad address": (13, 1, 1, 0, 8, BOX_COOKIE),
        "rt_sigaction, a mere question": (13, 30, 0, 0, 8, 0),
        "rt_sigaction, a question about SIGHUP": (13, 1, 0, 0, 8, 0),
        "unshare(0), native": (272, 0),
        "unshare(CLONE_NEWNS)": (272, 0x20000),
        "ioctl(FIOCLEX) on a bad descriptor": (16, 999, 0x5451),
    }
    wanted = [0, ENOSYS, ENOSYS, ENOSYS, ENOSYS, EINVAL, ENOSYS, ENOSYS, ENOSYS, ENOSYS, ENOSYS, EFAULT, 0, ENOSYS, 0,
              ENOSYS, 9]
    got = in_filtered_child(compile_filter(walls, BOX_COOKIE), list(calls.values()))
    assert dict(zip(calls, got, strict=True)) == dict(zip(calls, wanted, strict=True))
    assert EPERM not in got
