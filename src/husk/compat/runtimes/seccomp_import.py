"""compat/runtimes: a surface from the seccomp profile of a container: Docker's, an OCI config.json's or Kubernetes'.

Capabilities decide which rules of a profile apply; here they are those that Docker and containerd give a container
that asks for none, on x86-64, on a Linux as new as the profile asks for. Not here: what the host's kernel then does
with a call that the profile allows.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from husk.abi.registry.rules import ArgTest
from husk.abi.registry.signatures import arguments
from husk.compat.bounded_file import read_bounded
from husk.compat.runtimes.seccomp_rules import OPERATORS, Range, all_but, alternatives, comparison, ranges, tests_of
from husk.compat.surface import ALL_32, FULL, MISSING, UNKNOWN, Claim, Note, Surface, rows_by_name, spelled
from husk.sandbox.errors import UsageError

LARGEST_FILE = 8 << 20
EPERM = 1
_CAPABILITIES = (
    "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE NET_RAW SETFCAP SETGID SETPCAP SETUID "
    "SYS_CHROOT"
)
DEFAULT_CAPABILITIES = frozenset(f"CAP_{name}" for name in _CAPABILITIES.split())
OUR_ARCHES = frozenset(("amd64", "x86_64", "SCMP_ARCH_X86_64"))
ENDS = ("KILL", "KILL_THREAD", "KILL_PROCESS", "TRAP")
ACTIONS = ("ALLOW", "LOG", "ERRNO", "TRACE", "NOTIFY", *ENDS)


@dataclass(frozen=True)
class Outcome:
    """What an action means to a program."""

    support: str
    errno: int = 0
    text: str = ""


@dataclass(frozen=True)
class Rule:
    """One rule for one call: any of the alternatives leads to the outcome."""

    outcome: Outcome
    alternatives: tuple[tuple[ArgTest, ...], ...]
    # Where all it does is compare one argument with numbers of 32 bits: which argument, and which numbers fit.
    index: int = -1
    ranges: tuple[Range, ...] = ()

    @property
    def always(self) -> bool:
        return () in self.alternatives


@dataclass
class Imported:
    surface: Surface
    foreign: list[str]  # calls of other architectures, which are left out
    unknown: list[str]  # names that are no calls, left out because the person said so


def import_seccomp(path: str | os.PathLike[str], name: str = "", *, skip_unknown: bool = False) -> Imported:
    """Read a profile. UsageError: one sentence that names the file, the place and what to do."""
    file = os.fspath(path)
    profile = _Profile(file, _document(file))
    rules = profile.rules(skip_unknown)
    stem = name or os.path.basename(file).removesuffix(".json")
    surface = Surface(
        stem,
        f"seccomp profile {stem}",
        "imported",
        time.strftime("%Y-%m-%d", time.gmtime()),
        os.path.basename(file),
        False,
        profile.default.support,
        profile.default.errno,
        {call: _claim(call, found, profile.default) for call, found in sorted(rules.items())},
    )
    return Imported(surface, sorted(profile.foreign), sorted(profile.unknown))


def _document(file: str) -> dict[str, Any]:
    content = read_bounded(file, LARGEST_FILE, "name a seccomp profile.", ", which no seccomp profile is.")
    try:
        document = json.loads(content)
    except RecursionError:
        raise UsageError(f"{file}: not JSON: it is nested too deeply.") from None
    except ValueError as error:
        raise UsageError(f"{file}: not JSON: {error}.") from None
    linux = document.get("linux") if isinstance(document, dict) else None
    if isinstance(linux, dict) and isinstance(linux.get("seccomp"), dict):  # a whole config.json
        document = linux["seccomp"]
    if not isinstance(document, dict) or "defaultAction" not in document:
        raise UsageError(f"{file}: no seccomp profile: an object with `defaultAction` and `syscalls` is expected.")
    return document


def _claim(call: str, rules: list[Rule], default: Outcome) -> Claim:
    """The rules with arguments become notes, in the order of the file; one without is what holds otherwise."""
    otherwise = next((rule.outcome for rule in rules if rule.always), default)
    telling = [rule for rule in rules if not rule.always and rule.outcome != otherwise]
    outcomes = {rule.outcome for rule in telling}
    if len(outcomes) == 1 and len({rule.index for rule in telling}) == 1 and telling[0].index >= 0:
        return _one_argument(call, telling, otherwise)
    if len(telling) == 1 and (bits := _no_bits_of(telling[0])):
        note = _note((_has_any(call, bits),), otherwise)
        outcome = telling[0].outcome
        return Claim(call, outcome.support, outcome.errno, outcome.text, "", (note,))
    notes: list[Note] = []
    for rule in telling:
        for tests in rule.alternatives:
            note = _note(tests, rule.outcome)
            if not notes or (joined := _joined(notes[-1], note)) is None:
                notes.append(note)
            else:
                notes[-1] = joined
    return Claim(call, otherwise.support, otherwise.errno, otherwise.text, "", tuple(notes))


def _one_argument(call: str, rules: list[Rule], otherwise: Outcome) -> Claim:
    """Every rule compares the same argument and leads to the same end: say which values do, or which do not, whichever
    is shorter. `socket` of Docker's profile is allowed below 38, for 39 and above 40: all but AF_ALG and AF_VSOCK."""
    index = rules[0].index
    name, kind = arguments(rows_by_name()[call])[index]
    inside = [one for rule in rules for one in rule.ranges]
    fitting, others = (tests_of(index, name, kind, found) for found in (inside, all_but(inside)))
    outcome = rules[0].outcome
    if len(others) < len(fitting):
        fitting, outcome, otherwise = others, otherwise, outcome
    notes = tuple(_note((test,), outcome) for test in fitting)
    return Claim(call, otherwise.support, otherwise.errno, otherwise.text, "", notes)


def _no_bits_of(rule: Rule) -> ArgTest | None:
    """The test of a rule that holds where an argument has none of some bits: `clone` without namespaces."""
    if len(rule.alternatives) != 1 or len(rule.alternatives[0]) != 1:
        return None
    test = rule.alternatives[0][0]
    return test if test.kind == "in" and test.values == {0} and not test.wide else None


def _has_any(call: str, test: ArgTest) -> ArgTest:
    """The opposite of that test, with the names of the bits."""
    name, kind = arguments(rows_by_name()[call])[test.index]
    bits = [1 << bit for bit in range(32) if test.mask >> bit & 1]
    return ArgTest(test.index, name, "any", {spelled(kind, bit): bit for bit in bits})


def _note(tests: tuple[ArgTest, ...], outcome: Outcome) -> Note:
    return Note(tests, outcome.support, outcome.errno, outcome.text)


def _joined(first: Note, second: Note) -> Note | None:
    """Two notes that compare the same argument in the same way with one value each, as one note with both."""
    if len(first.tests) != 1 or len(second.tests) != 1:
        return None
    a, b = first.tests[0], second.tests[0]
    alike = (a.index, a.kind, a.mask, a.wide) == (b.index, b.kind, b.mask, b.wide) and a.kind == "in"
    if not alike or (first.support, first.errno, first.text) != (second.support, second.errno, second.text):
        return None
    test = ArgTest(a.index, a.label, a.kind, {**a.names, **b.names}, a.mask, a.wide)
    return Note((test,), first.support, first.errno, first.text)


class _Profile:
    """A profile while it is read. Every complaint is one sentence with the file and the place."""

    def __init__(self, file: str, document: dict[str, Any]) -> None:
        self.file, self.document = file, document
        self.foreign: set[str] = set()
        self.unknown: set[str] = set()
        self.default = self._outcome(document, "defaultAction", "defaultErrnoRet", "")

    def wrong(self, place: str, why: str) -> UsageError:
        return UsageError(f"{self.file}: {place}{': ' if place else ''}{why}")

    def rules(self, skip_unknown: bool) -> dict[str, list[Rule]]:
        found: dict[str, list[Rule]] = {}
        entries = self._list(self.document, "syscalls", "")
        for number, entry in enumerate(entries):
            place = f"syscalls[{number}]"
            if not isinstance(entry, dict):
                raise self.wrong(place, "it must be an object.")
            if not self._applies(entry, place):
                continue
            outcome = self._outcome(entry, "action", "errnoRet", place)
            for call in self._calls(entry, place, skip_unknown):
                found.setdefault(call, []).append(self._rule(call, entry, outcome, place))
        return found

    def _calls(self, entry: dict[str, Any], place: str, skip_unknown: bool) -> list[str]:
        names = self._list(entry, "names", place) or ([entry["name"]] if entry.get("name") else [])
        found = []
        for name in names:
            if not isinstance(name, str):
                raise self.wrong(f"{place}.names", "every name must be a text.")
            if name in rows_by_name():
                found.append(name)
            elif name in foreign_calls():
                self.foreign.add(name)
            elif skip_unknown:
                self.unknown.add(name)
            else:
                near = get_close_matches(name, list(rows_by_name()), 1, 0.7)
                hint = f" (do you mean {near[0]}?)" if near else ""
                raise self.wrong(place, f"no Linux has a call {name[:40]!r}{hint}; correct it, or use --skip-unknown.")
        return found

    # -- does it apply? --------------------------------------------------------------------------------------------
    def _applies(self, entry: dict[str, Any], place: str) -> bool:
        includes = self._object(entry, "includes", place)
        excludes = self._object(entry, "excludes", place)
        caps = self._texts(includes, "caps", place)
        arches = self._texts(includes, "arches", place)
        if not set(caps) <= DEFAULT_CAPABILITIES or (arches and not OUR_ARCHES & set(arches)):
            return False
        barred = set(self._texts(excludes, "caps", place)) & DEFAULT_CAPABILITIES
        return not (barred or OUR_ARCHES & set(self._texts(excludes, "arches", place)) or "minKernel" in excludes)

    # -- what it does ----------------------------------------------------------------------------------------------
    def _outcome(self, table: dict[str, Any], key: str, errno_key: str, place: str) -> Outcome:
        where = f"{place}.{key}" if place else key
        value = table.get(key)
        action = value.removeprefix("SCMP_ACT_") if isinstance(value, str) else ""
        if action not in ACTIONS:
            raise self.wrong(where, f"it is one of {', '.join(f'SCMP_ACT_{name}' for name in ACTIONS)}.")
        if action == "ALLOW":
            return Outcome(FULL)
        if action == "LOG":
            return Outcome(FULL, 0, "allowed, and logged")
        if action in ENDS:
            return Outcome(MISSING, 0, "the program gets SIGSYS")
        if action == "NOTIFY":
            return Outcome(UNKNOWN, 0, "another program decides")
        errno = table.get(errno_key)
        errno = EPERM if errno is None else errno
        if not isinstance(errno, int) or isinstance(errno, bool) or not 0 <= errno < 4096:
            raise self.wrong(f"{place}.{errno_key}" if place else errno_key, "it must be a number from 0 to 4095.")
        return Outcome(MISSING, _known(errno), "" if errno else "success, and nothing happens")

    def _rule(self, call: str, entry: dict[str, Any], outcome: Outcome, place: str) -> Rule:
        kinds, unions, compared = arguments(rows_by_name()[call]), [], []
        for number, arg in enumerate(self._list(entry, "args", place)):
            where = f"{place}.args[{number}]"
            if not isinstance(arg, dict):
                raise self.wrong(where, "it must be an object.")
            index, value, two = (self._number(arg, key, where) for key in ("index", "value", "valueTwo"))
            if index >= len(kinds):
                raise self.wrong(where, f"{call} has {len(kinds)} arguments, so there is no argument {index}.")
            op = OPERATORS.get(str(arg.get("op")))
            if op is None:
                raise self.wrong(f"{where}.op", f"it is one of {', '.join(OPERATORS)}.")
            try:
                unions.append(comparison(index, *kinds[index], op, value, two))
            except ValueError as error:
                raise self.wrong(where, f"{error}, which a runtime file cannot say.") from None
            compared.append((index, op, value))
        # The same argument twice: container runtimes make a rule of its own from each, so that any of them will do.
        any_will_do = len({index for index, _, _ in compared}) != len(compared)
        try:
            groups = [[union] for union in unions] if any_will_do else [unions]
            found = tuple(tests for group in groups for tests in alternatives(group))
        except ValueError as error:
            raise self.wrong(f"{place}.args", f"{error}, which is too much for a runtime file.") from None
        if len(compared) == 1 and compared[0][1] != "MASKED_EQ" and compared[0][2] <= ALL_32:
            index, op, value = compared[0]
            return Rule(outcome, found, index, tuple(ranges(op, value)))
        return Rule(outcome, found)

    # -- by kind ---------------------------------------------------------------------------------------------------
    def _number(self, table: dict[str, Any], key: str, place: str) -> int:
        value = table.get(key, 0)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 64:
            raise self.wrong(f"{place}.{key}", "it must be a number of 64 bits that is not negative.")
        return value

    def _list(self, table: dict[str, Any], key: str, place: str) -> list[Any]:
        value = table.get(key)
        if value is not None and not isinstance(value, list):
            raise self.wrong(f"{place}.{key}" if place else key, "it must be a list.")
        return value or []

    def _texts(self, table: dict[str, Any], key: str, place: str) -> list[str]:
        values = self._list(table, key, place)
        if not all(isinstance(value, str) for value in values):
            raise self.wrong(f"{place}.{key}", "it must be a list of texts.")
        return values

    def _object(self, table: dict[str, Any], key: str, place: str) -> dict[str, Any]:
        value = table.get(key)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(f"{place}.{key}", "it must be an object.")
        return value or {}


def _known(errno: int) -> int:
    from husk.compat.surface import ERRNO_NAMES

    return errno if errno in ERRNO_NAMES else 0


@cache
def foreign_calls() -> frozenset[str]:
    """Calls that Linux has on other architectures only. Profiles name them too."""
    text = (Path(__file__).parent / "foreign_calls.txt").read_text()
    return frozenset(word for line in text.splitlines() if not line.startswith("#") for word in line.split())
