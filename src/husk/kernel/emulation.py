"""kernel: another runtime's surface. The guest's calls that this runtime does not have fail with its errnos.

The filter notifies these calls, so that husk sees who makes them: the program, or husk itself on the program's behalf
(init, the loader, a remote call), which must go on working. Emulation only ever takes something away: what it lets pass
goes the way that the call's row says.
"""

from __future__ import annotations

import os

from husk.abi.registry import number, row
from husk.abi.registry.rules import IN_C, Arg, Rule, Verdict
from husk.kernel.call import Refused
from husk.kernel.exec.resident import loader_done

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from husk.abi.registry.rules import ArgTest
    from husk.kernel.call import Call
    from husk.kernel.hooks import Hooks, Seen


# Init waits with FUTEX_WAIT and FUTEX_WAKE, between processes, while husk has yet to get the listener: nobody could
# answer. So these two stay as they are. Within one process the C library uses their private forms.
_FUTEX = number("futex")
_NOT_INITS_FUTEX = Arg(1, "the operation").has_any({"any bit but that of FUTEX_WAKE": 0xFFFFFFFE})


class Emulation:
    """Rules by call number, tried in order before the call's row. `refused` gives the errno, or success where it is 0;
    any other way means: as the row says. A call that no rule fits goes as its row says too."""

    __slots__ = ("name", "paths", "rules")

    def __init__(
        self, name: str, rules: Mapping[int, tuple[Rule, ...]], paths: Sequence[tuple[str, int, str]] = ()
    ) -> None:
        """`paths`: names of /proc, /sys and /dev that fail, each with its errno and the reason; `*` stands for one
        component. ValueError: a rule that cannot be held."""
        self.name, self.rules = name, {nr: found for nr, found in rules.items() if found}
        self.paths = [(path.split("/"), error, reason) for path, error, reason in paths]
        for nr, found in self.rules.items():
            entry = row(nr)
            if entry is None:
                raise ValueError(f"Linux has no system call {nr}")
            if entry.family == IN_C and any(rule.tests for rule in found):
                raise ValueError(f"{entry.name} can be emulated as a whole only, not by its arguments")

    def lifted(self) -> Emulation:
        """For a later run in the same box, whose filter still notifies these calls: all go as their rows say."""
        usual = Rule(Verdict("native"), ())
        others = [nr for nr in self.rules if (entry := row(nr)) is not None and entry.family != IN_C]
        return Emulation(self.name, dict.fromkeys(others, (usual,)))

    def noticed(self) -> dict[int, list[list[ArgTest]]]:
        """The cases that the filter must notify."""
        cases: dict[int, list[list[ArgTest]]] = {}
        for nr, rules in self.rules.items():
            passes = any(rule.verdict.way != "refused" for rule in rules)  # an exception: husk looks at all of them
            cases[nr] = [[]] if passes else [rule.tests for rule in rules]
        if _FUTEX in cases:
            cases[_FUTEX] = [[*tests, _NOT_INITS_FUTEX] for tests in cases[_FUTEX]]
        return cases

    def hooks(self, others: Hooks | None) -> Hooks | None:
        """Hooks that refuse the paths, after `others`."""
        if not self.paths:
            return others
        from husk.abi.registry import handled_rows
        from husk.abi.registry.signatures import positions
        from husk.kernel.hooks import Hooks

        hooks = Hooks() if others is None else others.copy()
        for entry in handled_rows():
            if entry.family != IN_C and positions(entry, "path"):
                hooks.add(entry.name, self._refuse_path)
        return hooks

    def _refuse_path(self, seen: Seen) -> None:
        """Names as the guest wrote them: a link or a relative name that leads there is not followed."""
        for name in (seen.path, seen.new_path):
            parts = os.path.normpath(name).split("/")
            for wanted, error, reason in self.paths:
                if len(wanted) == len(parts) and all(_fits(*pair) for pair in zip(wanted, parts, strict=True)):
                    raise Refused(error, reason, str(seen))

    def verdict(self, nr: int, args: Sequence[int]) -> Verdict | None:
        for rule in self.rules.get(nr, ()):
            if all(test.holds(args, None) for test in rule.tests):
                return rule.verdict if rule.verdict.way == "refused" else None
        return None

    def answer(self, call: Call) -> bool:
        """True: the call is answered. Raises Refused, as the other runtime would."""
        if call.nr not in self.rules:
            return False
        verdict = self.verdict(call.nr, call.args)
        if verdict is not None and _is_of_program(call.tid):
            if verdict.errno:
                raise Refused(verdict.errno, verdict.reason)
            call.raw.reply(0)
            return True
        entry = row(call.nr)
        if entry is not None and entry.verdict(call.args, call.kernel.walls).way == "native":
            call.raw.proceed()
            return True
        return False


def _fits(wanted: str, part: str) -> bool:
    return wanted in (part, "*") or (wanted == "self" and (part == "thread-self" or part.isdecimal()))


def _is_of_program(tid: int) -> bool:
    """Does the thread make this call for its program? Not while the loader has yet to finish, and not while husk makes
    it run a call. A guest that forges either gets husk's own surface, which is no more than it has without emulation.
    """
    if not loader_done(tid):
        return False
    tracer = _tracer(tid)
    return not (tracer and os.path.exists(f"/proc/self/task/{tracer}"))


def _tracer(tid: int) -> int:
    """The thread that traces a thread; 0: none."""
    try:
        with open(f"/proc/{tid}/status", "rb") as status:
            for line in status:
                if line.startswith(b"TracerPid:"):
                    return int(line[10:])
    except OSError:
        pass  # the thread is gone
    return 0
