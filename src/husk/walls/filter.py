"""Layer walls: compiles the registry into the seccomp filter of one box.

Here: from rows to BPF. Not here: what is allowed (husk.abi.registry) and how a filter is installed (husk-init).

The program checks the architecture, finds the call's number by binary search over ranges of calls with the same action,
then applies the call's argument rules, if any are left under the box's walls. It thus decides always-native calls
without looking at an argument, so the kernel keeps them in its bitmap and skips the filter altogether.
"""

from __future__ import annotations

from errno import ENOSYS

from husk.abi.numbers import AUDIT_ARCH_X86_64, X32_SYSCALL_BIT
from husk.abi.registry import HUSK_CALL_ROW, ROWS
from husk.abi.registry.rules import COOKIE, INSTRUCTION, ArgTest, Row, Verdict, Walls
from husk.walls.bpf import AND, JUMP_ANY_BIT, JUMP_AT_LEAST, JUMP_EQUAL, JUMP_GREATER, LOAD_WORD, RETURN, Program, join

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    # The rest of a row once the walls are known: the argument tests in order with their actions, and the last action.
    Choice = tuple[list[tuple[list[ArgTest], int]], int]
    Noticed = Mapping[int, list[list[ArgTest]]]

__all__ = ["ALLOW", "ERRNO", "KILL_PROCESS", "NOTIFY", "Walls", "compile_filter", "notify_all"]

KILL_PROCESS = 0x80000000
ERRNO = 0x00050000
NOTIFY = 0x7FC00000
ALLOW = 0x7FFF0000

# struct seccomp_data: int nr, u32 arch, u64 instruction_pointer, u64 args[6]
_NR = 0
_ARCH = 4
_INSTRUCTION_POINTER = 8
_ARGS = 16

_UNKNOWN = ERRNO | ENOSYS


def compile_filter(walls: Walls, cookie: int, noticed: Noticed | None = None) -> bytes:
    """The filter as an array of struct sock_filter. Calls that husk makes in the guest's place carry the `cookie`.

    `noticed`: calls that husk wants to see whatever their rows say, by number: in each of these cases, where all tests
    of a case must hold. A case without tests is every call. It only ever turns what a row says into a notification.
    """
    program = Program()
    leaves = _leaves(walls, noticed or {})
    program.go(_search(program, leaves, 0, len(leaves), cookie))
    known_machine = program.put(LOAD_WORD, _NR)
    # i386 calls arrive under another architecture, with numbers of their own: no rule here would mean what it says.
    program.branch(JUMP_EQUAL, AUDIT_ARCH_X86_64, known_machine, program.ret(KILL_PROCESS))
    program.put(LOAD_WORD, _ARCH)
    return program.encode()


def notify_all(ordinary: bytes, cookie: int) -> bytes:
    """The filter of a traced box: every call is notified, and husk decides by the ordinary filter what becomes of it.

    Three kinds of calls go to the ordinary filter in the host itself: those of other architectures and numbers that no
    call has, which it kills or refuses; and those that carry the box's cookie as sixth argument: husk makes them in a
    guest's place, and waits for them.
    """
    last = _ARGS + 8 * 5
    head = [
        (LOAD_WORD, 0, 0, _ARCH),
        (JUMP_EQUAL, 0, 7, AUDIT_ARCH_X86_64),
        (LOAD_WORD, 0, 0, _NR),
        (JUMP_AT_LEAST, 5, 0, X32_SYSCALL_BIT),
        (LOAD_WORD, 0, 0, last),
        (JUMP_EQUAL, 0, 2, cookie & 0xFFFFFFFF),
        (LOAD_WORD, 0, 0, last + 4),
        (JUMP_EQUAL, 1, 0, cookie >> 32),
        (RETURN, 0, 0, NOTIFY),
    ]
    return join(head, ordinary)


def _leaves(walls: Walls, noticed: Noticed) -> list[tuple[int, Choice]]:
    """Consecutive ranges of call numbers, each by its first number, and their choices."""
    choices: dict[int, Choice] = {
        row.nr: _notice(_settle(row, walls), noticed.get(row.nr, ())) for row in (*ROWS.values(), HUSK_CALL_ROW)
    }
    leaves: list[tuple[int, Choice]] = []
    unknown: Choice = ([], _UNKNOWN)
    expected = 0
    for nr in sorted(choices):
        if nr != expected:
            _append(leaves, expected, unknown)
        _append(leaves, nr, choices[nr])
        expected = nr + 1
    _append(leaves, expected, unknown)
    # x32 calls share the architecture with ours and differ by one bit. Above them lie the negative numbers; -1 is what
    # a tracer leaves behind to skip a call, and Linux has ENOSYS for all of them.
    leaves.append((X32_SYSCALL_BIT, ([], KILL_PROCESS)))
    leaves.append((X32_SYSCALL_BIT << 1, unknown))
    return leaves


def _append(leaves: list[tuple[int, Choice]], nr: int, choice: Choice) -> None:
    if not leaves or leaves[-1][1] != choice:
        leaves.append((nr, choice))


def _settle(row: Row, walls: Walls) -> Choice:
    tests: list[tuple[list[ArgTest], int]] = []
    last = _action(row.otherwise)
    for rule in row.rules:
        if all(wall.stands(walls) for wall in rule.walls):
            if not rule.tests:
                last = _action(rule.verdict)
                break
            tests.append((rule.tests, _action(rule.verdict)))
    while tests and tests[-1][1] == last:
        tests.pop()
    return tests, last


def _notice(choice: Choice, cases: Sequence[list[ArgTest]]) -> Choice:
    if not cases:
        return choice
    tests, last = choice
    # What husk does in the guest's place comes first and stays native.
    own = [entry for entry in tests if any(COOKIE in test.values for test in entry[0])]
    if not all(cases):
        return own, NOTIFY
    return [*own, *((case, NOTIFY) for case in cases), *(entry for entry in tests if entry not in own)], last


def _action(verdict: Verdict) -> int:
    if verdict.way == "native":
        return ALLOW
    return ERRNO | verdict.errno if verdict.way == "refused" and verdict.quiet else NOTIFY


def _search(program: Program, leaves: list[tuple[int, Choice]], low: int, high: int, cookie: int) -> int:
    """A label from where the call's number, in the accumulator, finds its leaf among leaves[low:high]."""
    if high - low == 1:
        return _choice(program, leaves[low][1], cookie)
    middle = (low + high) // 2
    above = _search(program, leaves, middle, high, cookie)
    below = _search(program, leaves, low, middle, cookie)
    return program.branch(JUMP_AT_LEAST, leaves[middle][0], above, below)


def _choice(program: Program, choice: Choice, cookie: int) -> int:
    tests, last = choice
    label = program.ret(last)
    for conditions, action in reversed(tests):
        refuted = label
        label = program.ret(action)
        for test in reversed(conditions):
            label = _test(program, test, cookie, label, refuted)
    return label


def _test(program: Program, test: ArgTest, cookie: int, true: int, false: int) -> int:
    """Place one argument test, its loads included."""
    offset = _INSTRUCTION_POINTER if test.index == INSTRUCTION else _ARGS + 8 * test.index
    if test.wide:
        (value,) = test.values
        if value == COOKIE:
            value = cookie
        program.branch(JUMP_EQUAL, value >> 32, true, false)
        true = program.put(LOAD_WORD, offset + 4)
        program.branch(JUMP_EQUAL, value & 0xFFFFFFFF, true, false)
        return program.put(LOAD_WORD, offset)
    if test.kind == "in":
        ranges = _ranges(test.values)
        program.go(_member(program, ranges, 0, len(ranges), true, false))
    elif test.kind == "any":
        program.branch(JUMP_ANY_BIT, test.bits() & test.mask, true, false)
    else:
        program.branch(JUMP_ANY_BIT, ~test.bits() & test.mask, false, true)
    if test.mask != 0xFFFFFFFF and test.kind == "in":
        program.put(AND, test.mask)
    return program.put(LOAD_WORD, offset)


def _ranges(values: Iterable[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for value in sorted(values):
        if ranges and ranges[-1][1] == value - 1:
            ranges[-1] = (ranges[-1][0], value)
        else:
            ranges.append((value, value))
    return ranges


def _member(program: Program, ranges: list[tuple[int, int]], low: int, high: int, true: int, false: int) -> int:
    if high - low == 1:
        first, last = ranges[low]
        if first == last:
            return program.branch(JUMP_EQUAL, first, true, false)
        not_below = program.branch(JUMP_GREATER, last, false, true)
        return program.branch(JUMP_AT_LEAST, first, not_below, false)
    middle = (low + high) // 2
    above = _member(program, ranges, middle, high, true, false)
    below = _member(program, ranges, low, middle, true, false)
    return program.branch(JUMP_AT_LEAST, ranges[middle][0], above, below)
