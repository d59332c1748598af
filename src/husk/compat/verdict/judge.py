"""compat: hold what a program asks for against what a runtime offers: runs, runs with fallback, breaks, or unknown.

What it asks for comes from a look (it may ask this) or from a trace (it did). The rules are few and stand in
`_status`. Not here: measuring it (measure.py), and printing (the report modules).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from husk.compat.census import Census
from husk.compat.look.facts import LIBRARY, POINTER, START, SURENESS, Look, call_text
from husk.compat.surface import ERRNO_NAMES, MISSING, PARTIAL, UNKNOWN, Surface
from husk.compat.verdict.known_cases import Case, arguments, known_cases

RUNS, FALLBACK, BREAKS, UNCLEAR = "runs", "runs with fallback", "breaks", "unknown"
STATUSES = (BREAKS, UNCLEAR, FALLBACK, RUNS)  # the worst first
TRACED = "traced"
_ORDER = [TRACED, *SURENESS]
SURE_TEXTS = {TRACED: "made in the traced run", **SURENESS}
MOST_PLACES = 5
EXCUSED = "an ordinary user gets the same errno from Linux"


@dataclass
class Need:
    """One call with the argument values that are known, and how it is known."""

    call: str
    known: dict[int, int]
    sure: str  # "traced", or a word of look.facts
    text: str
    blind: bool = False  # a telling argument is not known
    failed: frozenset[str] = frozenset()  # every time in the trace, with these errnos
    places: list[str] = field(default_factory=list)


@dataclass
class Divergence:
    """A need that the runtime does not meet."""

    need: Need
    errno: str  # empty: it fails in a way that the source does not name
    text: str  # what the runtime's file says
    fallback: Case | None
    remedy: Case | None
    then: str = ""  # the fault that follows

    @property
    def fatal(self) -> bool:
        return self.fallback is None

    @property
    def certain(self) -> bool:
        """Made in any case, or the fault is plain to see."""
        return self.need.sure in (TRACED, START) or bool(self.then)

    @property
    def excused(self) -> bool:
        """Code that only might make it, as an ordinary user, would get the same errno from Linux."""
        maybe = self.need.sure in (LIBRARY, POINTER)
        return maybe and self.errno == "EPERM" and self.need.call in known_cases().privileged

    def line(self, runtime: str) -> str:
        line = f"`{self.need.text}` → {self.errno or 'no answer at all'} in {runtime}"
        if self.then:
            return f"{line}; then {self.then}"
        return f"{line}; instead: {self.fallback.text}" if self.fallback is not None else line

    def as_json(self, runtime: str) -> dict[str, Any]:
        return {
            "call": self.need.call,
            "text": self.need.text,
            "line": self.line(runtime),
            "errno": self.errno,
            "sure": self.need.sure,
            "fatal": self.fatal,
            "excused": self.excused,
            "why": self.text,
            "places": self.need.places,
            "fallback": _case_json(self.fallback),
            "remedy": _case_json(self.remedy),
        }


def _case_json(case: Case | None) -> dict[str, Any] | None:
    if case is None:
        return None
    return {"text": case.text, "source": case.source, **({"who": case.who} if case.who else {})}


@dataclass
class Measured:
    """The same command run plainly and with the runtime's surface."""

    same: bool
    text: str  # how both end
    ending: str = ""  # how it ends with the surface, where that differs
    refused: dict[str, str] = field(default_factory=dict)  # calls the surface refused in that run, in order, and errnos
    flaky: bool = False

    def as_json(self) -> dict[str, Any]:
        return {"same": self.same, "text": self.text, "refused": self.refused, "flaky": self.flaky}


@dataclass
class Verdict:
    subject: str
    runtime: str  # the name that --against takes
    title: str  # for people
    status: str
    basis: str  # look, trace or measured
    divergences: list[Divergence]
    unclear: list[str]  # why "runs" cannot be said
    partial: list[str]  # calls of which the runtime offers only some
    measured: Measured | None = None
    asked: list[str] = field(default_factory=list)  # every call that was held against the runtime
    hidden: list[str] = field(default_factory=list)  # calls whose arguments decide, and were not seen
    beyond: list[str] = field(default_factory=list)  # missing calls that the code could make and the run did not

    @property
    def line(self) -> str:
        """The first thing to know, in one line."""
        if self.status == BREAKS:
            # A fatal one comes first; where it was measured, one that the run really met (see `decided`).
            if not self.divergences:
                return self.measured.text if self.measured is not None else ""
            first = self.divergences[0]
            ending = self.measured.ending if self.measured is not None and not first.then else ""
            return first.line(self.title) + (f"; then it {ending}" if ending else "")
        if self.status == UNCLEAR:
            fatal = [one for one in self.divergences if one.fatal and not one.excused]
            return f"may break: {fatal[0].line(self.title)}" if fatal else self.unclear[0]
        if self.status == FALLBACK and self.divergences:
            return next((one for one in self.divergences if not one.fatal), self.divergences[0]).line(self.title)
        return ""

    def as_json(self) -> dict[str, Any]:
        return {
            "subject": self.subject,
            "runtime": self.runtime,
            "title": self.title,
            "status": self.status,
            "basis": self.basis,
            "line": self.line,
            "divergences": [one.as_json(self.title) for one in self.divergences],
            "unclear": self.unclear,
            "partial": self.partial,
            "asked": self.asked,
            "hidden": self.hidden,
            "beyond": self.beyond,
            "measured": self.measured.as_json() if self.measured is not None else None,
        }


def needs_of_look(look: Look) -> list[Need]:
    """One need for each call and set of values; the surest word, and a few places."""
    merged: dict[tuple[Any, ...], Need] = {}
    for use in look.all_uses():
        key = (use.call, use.values, use.blind)
        need = merged.get(key)
        if need is None:
            need = merged[key] = Need(use.call, dict(use.values), use.sure, use.text, use.blind)
        if _ORDER.index(use.sure) < _ORDER.index(need.sure):
            need.sure = use.sure
        if len(need.places) < MOST_PLACES:
            need.places.append(str(use.place))
    return list(merged.values())


def needs_of_census(census: Census) -> list[Need]:
    found = []
    for asked in census.calls:
        text = asked.example.partition(" = ")[0] or call_text(asked.call, asked.values)
        always = bool(asked.count) and sum(asked.errors.values()) >= asked.count
        failed = frozenset(asked.errors) if always else frozenset()
        times = f"{asked.count} times in the trace" if asked.count != 1 else "once in the trace"
        found.append(Need(asked.call, dict(asked.values), TRACED, text, False, failed, [times]))
    return found


def judge(subject: str, surface: Surface, look: Look | None, census: Census | None) -> Verdict:
    """The verdict from what is known without running it anew. A trace decides where there is one; the look then only
    adds what follows a failure."""
    needs = needs_of_census(census) if census is not None else needs_of_look(look) if look is not None else []
    divergences: dict[tuple[str, str, str, str], Divergence] = {}
    silent: list[str] = []
    partial: list[str] = []
    hidden: list[str] = []
    for need in needs:
        support, errno, text, seen = _answer(surface, need)
        if not seen:
            hidden.append(need.call)
        elif support == MISSING:
            one = _divergence(need, errno, text, look)
            # If it failed like this in the trace, the program goes on without it. Another errno may be another way:
            # glibc goes on after ENOSYS from clone3, not after EPERM.
            if not one.errno or need.failed != {one.errno}:
                _add(divergences, one)
        elif support == UNKNOWN and need.sure in (TRACED, START, "own"):
            silent.append(need.call)
        elif support == PARTIAL:
            partial.append(f"{need.call}: {text}" if text else need.call)
    found = sorted(divergences.values(), key=_weight)
    unclear = _unclear(surface, silent, look if census is None else None)
    status = _status(found, unclear)
    basis = "trace" if census is not None else "look"
    verdict = Verdict(subject, surface.name, _title(surface), status, basis, found, unclear, sorted(set(partial)))
    verdict.asked = sorted({need.call for need in needs})
    verdict.hidden = sorted(set(hidden))
    return verdict


def _status(found: list[Divergence], unclear: list[str]) -> str:
    fatal = [one for one in found if one.fatal and not one.excused]
    if any(one.certain for one in fatal):
        return BREAKS
    if fatal or unclear:
        return UNCLEAR
    return FALLBACK if any(not one.fatal for one in found) else RUNS


def _weight(one: Divergence) -> tuple[Any, ...]:
    return (not one.fatal, one.excused, not one.then, _ORDER.index(one.need.sure), one.need.call, one.need.text)


def _title(surface: Surface) -> str:
    return surface.title.split(" (")[0].split(",")[0]


def _answer(surface: Surface, need: Need) -> tuple[str, int, str, bool]:
    """Support, errno and text; last whether the arguments that decide are known."""
    claim = surface.claim(need.call)
    for note in claim.notes:
        if not note.tests:
            continue
        unknown = [test for test in note.tests if test.index not in need.known]
        others = [test for test in note.tests if test.index in need.known]
        if any(not test.holds(arguments(need.known), None) for test in others):
            continue
        if unknown:
            if note.support != claim.support:
                return claim.support, 0, "", False
            continue
        return note.support, note.errno, note.text or claim.text, True
    return claim.support, claim.errno, claim.text, True


def _divergence(need: Need, errno: int, text: str, look: Look | None) -> Divergence:
    cases = known_cases()
    name = ERRNO_NAMES.get(errno, "") if errno else ""
    fault = cases.fault(need.call, need.known, name)
    then = ""
    if fault is not None and look is not None:
        then = _fault_text(fault, look)
    fallback = None if then else cases.fallback(need.call, need.known, name)
    return Divergence(need, name, text, fallback, cases.remedy(need.call, need.known, name), then)


def _fault_text(fault: Case, look: Look) -> str:
    """What happens next, if the program uses the segment and does not set its base by an instruction of its own."""
    for one in [look, *look.parts]:
        if fault.segment in one.segments and "set by instruction" not in one.segments:
            if one.gs_displacement is None:
                return f"a fault at %{fault.segment}"
            return fault.text.format(displacement=hex(one.gs_displacement))
    return ""


def _add(found: dict[tuple[str, str, str, str], Divergence], one: Divergence) -> None:
    """Uses that fail the same way are one divergence."""
    fallback = one.fallback.text if one.fallback is not None else ""
    key = (one.need.call, one.errno, one.text, fallback)
    before = found.get(key)
    if before is None:
        found[key] = one
        return
    better, other = (before, one) if _weight(before) <= _weight(one) else (one, before)
    better.need.places = list(dict.fromkeys([*better.need.places, *other.need.places]))[:MOST_PLACES]
    found[key] = better


def _unclear(surface: Surface, silent: list[str], look: Look | None) -> list[str]:
    texts = []
    if look is not None and look.any_blind:
        texts += [f"not everything could be seen: {text}" for text in look.all_unseen()[:1] or look.problems[:1]]
    if silent:
        names = sorted(set(silent))
        texts.append(f"the source about {surface.name} is silent about {_listed(names)}")
    return texts


def _listed(names: list[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
