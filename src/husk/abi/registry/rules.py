"""Layer abi: the words the registry is written in: walls, argument tests, verdicts, rules and rows.

Here: plain values, and the direct meaning of a rule (`Row.verdict`). Not here: any particular system call (those are
the rows_*.py files), the words of a signature (signatures.py), and the translation to BPF (husk.walls.filter), which is
tested against the meaning given here.

A call goes one of four ways:
  native   the host kernel runs it; husk does not see it
  virtual  a handler of husk's kernel answers it
  judged   a handler makes the checks that Linux makes first, then husk refuses it with the errno of the row; a judged
           call never succeeds
  refused  it gets an errno without a look at anything but its registers
"""

from __future__ import annotations

from errno import ENOSYS

from husk.abi.box_walls import NO_WALLS as NO_WALLS
from husk.abi.box_walls import Walls as Walls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

WAYS = ("native", "virtual", "judged", "refused")
HANDLED = ("virtual", "judged")  # a handler exists

# The family of a call that the C core answers, so that no Python handler exists.
IN_C = "native"

# What a signal with a handler does to a call that waits.
NEVER = "never"  # no EINTR: the call does not wait for long, or Linux restarts it always (ERESTARTNOINTR)
RESTARTS = "restarts"  # EINTR after a handler without SA_RESTART, a restart after others (ERESTARTSYS)
ALWAYS = "always"  # EINTR after any handler (EINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK)
IN_HUSK = "restarts, in husk"  # as RESTARTS, but the call waits in husk, and kernel/blocking.py sees to it
EINTR = (NEVER, RESTARTS, ALWAYS, IN_HUSK)

# Stands in a rule for the box's secret 64-bit number, which is known only when a filter is compiled.
COOKIE = -1

# As the index of an argument: the address of the instruction behind the `syscall`, which a filter sees as well.
INSTRUCTION = 6


class WallTest:
    """A condition on the walls: settled once per box, when its filter is compiled."""

    __slots__ = ("stands", "text")

    def __init__(self, text: str, stands: Callable[[Walls], bool]) -> None:
        self.text = text
        self.stands = stands


PID_WALL = WallTest("a pid namespace stands", lambda walls: walls.pid)
DIRECT_NAMES = WallTest("the box shows the host's /usr itself", lambda walls: walls.direct)
ONE_USER = WallTest("the box is no image", lambda walls: walls.one_user)
NET_WALL = WallTest("a network namespace stands", lambda walls: walls.net)
IPC_WALL = WallTest("an ipc namespace stands", lambda walls: walls.ipc)
UTS_WALL = WallTest("a uts namespace stands", lambda walls: walls.ipc)  # husk makes it together with ipc
# Landlock can keep signals inside the domain since its ABI 6 (Linux 6.12), SIGIO owners included.
SIGNAL_WALL = WallTest(
    "a pid namespace or Landlock ABI 6 confines signals", lambda walls: walls.pid or walls.landlock >= 6
)
# Since its first version Landlock lets a process trace or reach into processes of its own domain only: not the reaper,
# not husk, not host processes.
TRACE_WALL = WallTest("Landlock keeps a guest out of every process but guests", lambda walls: walls.landlock >= 1)
PRIVATE_NET = WallTest("a network namespace stands and is all the network there is", lambda walls: walls.private_net)


def device_given(kind: str) -> WallTest:
    return WallTest(f"the box was given {kind} (--device)", lambda walls: kind in walls.devices)


class ArgTest:
    """A condition on one argument register. `mask` is applied first; `wide` compares all 64 bits, else the low 32."""

    __slots__ = ("index", "kind", "label", "mask", "names", "values", "wide")

    def __init__(
        self, index: int, label: str, kind: str, names: Mapping[str, int], mask: int = 0xFFFFFFFF, wide: bool = False
    ) -> None:
        self.index = index
        self.label = label
        self.kind = kind  # "in", "any" (some of these bits), "within" (no other bits)
        self.names = names
        self.values = frozenset(names.values())
        self.mask = mask
        self.wide = wide

    @property
    def text(self) -> str:
        verb = {"in": "is one of", "any": "has any of", "within": "has nothing but"}[self.kind]
        return f"{self.label} {'is' if self.kind == 'in' and len(self.names) == 1 else verb} {', '.join(self.names)}"

    def bits(self) -> int:
        """All the values of a flag test as one mask."""
        union = 0
        for value in self.values:
            union |= value
        return union

    def holds(self, args: Sequence[int], cookie: int | None) -> bool:
        """`args` has six values, or seven: where the call is made. Six: at no place that a rule knows."""
        if self.index >= len(args):
            return False
        if self.wide:
            value = args[self.index] & 0xFFFFFFFFFFFFFFFF
            return any(value == (cookie if wanted == COOKIE else wanted) for wanted in self.values)
        value = args[self.index] & self.mask
        if self.kind == "in":
            return value in self.values
        if self.kind == "any":
            return value & self.bits() != 0
        return value & ~self.bits() == 0


class Arg:
    """An argument register that Linux reads as an int (the upper half is not looked at, as in Linux)."""

    __slots__ = ("index", "label", "mask")

    def __init__(self, index: int, label: str, mask: int = 0xFFFFFFFF) -> None:
        self.index = index
        self.label = label
        self.mask = mask

    def is_in(self, names: Mapping[str, int]) -> ArgTest:
        return ArgTest(self.index, self.label, "in", names, self.mask)

    def is_zero(self) -> ArgTest:
        return self.is_in({"0": 0})

    def has_any(self, names: Mapping[str, int]) -> ArgTest:
        return ArgTest(self.index, self.label, "any", names, self.mask)

    def within(self, names: Mapping[str, int]) -> ArgTest:
        return ArgTest(self.index, self.label, "within", names, self.mask)


def carries_cookie(index: int) -> ArgTest:
    """True for calls husk makes in the guest's place: they carry the box's cookie in a register Linux ignores."""
    return ArgTest(index, f"argument {index}", "in", {"the box's cookie": COOKIE}, wide=True)


def made_at(label: str, address: int) -> ArgTest:
    """True for calls of the `syscall` instruction right before `address`. A guest may jump there with any arguments."""
    return ArgTest(INSTRUCTION, "the instruction", "in", {label: address}, wide=True)


def is_null(index: int, label: str) -> ArgTest:
    """True when a pointer argument is absent."""
    return ArgTest(index, label, "in", {"null": 0}, wide=True)


class Verdict:
    """What becomes of a call. `quiet`: nothing is reported; a refused call is then answered by the filter itself."""

    __slots__ = ("errno", "quiet", "reason", "way")

    def __init__(self, way: str, reason: str = "", errno: int = 0, quiet: bool = False) -> None:
        self.way = way
        self.reason = reason
        self.errno = errno
        self.quiet = quiet


def refuse(errno: int, reason: str, quiet: bool = False) -> Verdict:
    return Verdict("refused", reason, errno, quiet)


class Rule:
    """A verdict and the conditions under which it holds, all of them."""

    __slots__ = ("tests", "verdict", "walls")

    def __init__(self, verdict: Verdict, conditions: tuple[WallTest | ArgTest, ...]) -> None:
        self.verdict = verdict
        self.walls = [condition for condition in conditions if isinstance(condition, WallTest)]
        self.tests = [condition for condition in conditions if isinstance(condition, ArgTest)]

    def stands(self, walls: Walls) -> bool:
        return all(wall.stands(walls) for wall in self.walls)


def native_if(*conditions: WallTest | ArgTest) -> Rule:
    return Rule(Verdict("native"), conditions)


def virtual_if(*conditions: WallTest | ArgTest) -> Rule:
    return Rule(Verdict("virtual"), conditions)


def refused_if(errno: int, reason: str, *conditions: WallTest | ArgTest, quiet: bool = False) -> Rule:
    return Rule(refuse(errno, reason, quiet), conditions)


def answered_if(reason: str, *conditions: WallTest | ArgTest) -> Rule:
    """The guest sees success, and nothing happens."""
    return Rule(refuse(0, reason, quiet=True), conditions)


class Row:
    """One system call: its signature, the way it goes, why, and the rules; the first rule that holds wins, then
    `otherwise`.

    `signature` is text, `NAME(ARGUMENT: KIND, ...)`; signatures.py reads it when something has to be printed.
    `family` is the module in kernel/syscalls that has the handler, empty where no way leads to one.
    """

    __slots__ = ("eintr", "family", "name", "nr", "otherwise", "reason", "rules", "signature", "way")

    def __init__(
        self,
        nr: int,
        signature: str,
        plain: Verdict,
        rules: tuple[Rule, ...],
        otherwise: Verdict | None = None,
        family: str = "",
        eintr: str = NEVER,
    ) -> None:
        self.nr = nr
        self.signature = signature
        self.name = signature.partition("(")[0]
        self.way = plain.way
        self.reason = plain.reason
        self.rules = rules
        self.otherwise = otherwise or plain
        self.family = family
        self.eintr = eintr

    def verdict(self, args: Sequence[int], walls: Walls, cookie: int | None = None) -> Verdict:
        for rule in self.rules:
            if rule.stands(walls) and all(test.holds(args, cookie) for test in rule.tests):
                return rule.verdict
        return self.otherwise

    def verdicts(self) -> list[Verdict]:
        """Every verdict some walls and arguments may lead to."""
        return [rule.verdict for rule in self.rules] + [self.otherwise]


def native(
    nr: int,
    signature: str,
    reason: str,
    *rules: Rule,
    otherwise: Verdict | None = None,
    family: str = "",
    eintr: str = NEVER,
) -> Row:
    """`family` where rules make some of it virtual."""
    return Row(nr, signature, Verdict("native", reason), rules, otherwise, family, eintr)


def virtual(family: str, nr: int, signature: str, reason: str, *rules: Rule, eintr: str = NEVER) -> Row:
    return Row(nr, signature, Verdict("virtual", reason), rules, None, family, eintr)


def judged(family: str, nr: int, signature: str, errno: int, reason: str, quiet: bool = False) -> Row:
    """`quiet` where Linux would say the same to anyone: that is no refusal worth a report."""
    return Row(nr, signature, Verdict("judged", reason, errno, quiet), (), None, family)


def refused(nr: int, signature: str, errno: int, reason: str, quiet: bool = False) -> Row:
    return Row(nr, signature, refuse(errno, reason, quiet), ())


def absent(nr: int, signature: str, reason: str) -> Row:
    """Refused like a call this kernel does not have. Quietly: programs try such calls all the time and cope."""
    return refused(nr, signature, ENOSYS, reason, quiet=True)
