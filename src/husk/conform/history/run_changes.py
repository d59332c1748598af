"""conform/history: what changed between two runs: regressions, fixes, cases that came and went.

Only what passes natively every time can get better or worse: a case that is flaky or not-native in either run counts as
neither. A miss with a row in the list of expected failures is no regression.
"""

from __future__ import annotations

from dataclasses import dataclass

from husk.conform.outcomes import FLAKY, MISSES, NOT_NATIVE, PASS, VERDICTS, CaseName, Judged, RunRecord


@dataclass(frozen=True)
class Change:
    """One case. `old` or `new` is None where that run did not have it."""

    name: CaseName
    old: Judged | None
    new: Judged | None

    @property
    def case(self) -> Judged:
        found = self.new or self.old
        assert found is not None
        return found


@dataclass(frozen=True)
class Changes:
    """Each list is sorted by name. `shifted` is every other new verdict: fail → crash, pass → skip, and whatever begins
    or ceases to count. `notes` say what keeps the two runs from being compared in full."""

    regressions: list[Change]
    fixes: list[Change]
    appeared: list[Change]
    gone: list[Change]
    shifted: list[Change]
    notes: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        return bool(self.regressions or self.fixes or self.appeared or self.gone or self.shifted)


def changes(old: RunRecord, new: RunRecord) -> Changes:
    before, after = worst_by_name(old), worst_by_name(new)
    lists: dict[str, list[Change]] = {"regressions": [], "fixes": [], "appeared": [], "gone": [], "shifted": []}
    for name in sorted({*before, *after}):
        change = Change(name, before.get(name), after.get(name))
        kind = _kind(change)
        # A run that was stopped did not reach its other cases, and a filter left them out: they are not gone, or new.
        left_out = (kind == "gone" and not _complete(new)) or (kind == "appeared" and not _complete(old))
        if kind and not left_out:
            lists[kind].append(change)
    return Changes(**lists, notes=_notes(old, new))


def _kind(change: Change) -> str:
    old, new = change.old, change.new
    if old is None:
        return "appeared"
    if new is None:
        return "gone"
    if FLAKY in (old.verdict, new.verdict) or old.verdict == new.verdict:
        return ""
    if NOT_NATIVE in (old.verdict, new.verdict):
        return "shifted"
    if old.verdict == PASS and new.verdict in MISSES and not new.expected:
        return "regressions"
    if old.verdict in MISSES and new.verdict == PASS:
        return "fixes"
    return "shifted"


def worst_by_name(record: RunRecord) -> dict[CaseName, Judged]:
    """A name that is there twice stands for its worst verdict: one pass must not hide a miss."""
    found: dict[CaseName, Judged] = {}
    for one in record.cases:
        known = found.get(one.name)
        if known is None or _badness(one) > _badness(known):
            found[one.name] = one
    return found


def _badness(one: Judged) -> tuple[bool, int]:
    return one.verdict in MISSES, VERDICTS.index(one.verdict)


def _complete(record: RunRecord) -> bool:
    return record.info.whole and not record.info.case_filter


def _notes(old: RunRecord, new: RunRecord) -> tuple[str, ...]:
    notes = []
    for record in (old, new):
        if not record.info.whole:
            notes.append(f"{record.info.run} was not finished: cases it did not reach are left out.")
        if record.info.case_filter:
            notes.append(f"{record.info.run} ran only {record.info.case_filter}: other cases are left out.")
    if old.info.runtime != new.info.runtime:
        notes.append(f"two runtimes are compared: {old.info.runtime} and {new.info.runtime}.")
    if old.info.user != new.info.user:
        notes.append(f"the cases ran as different users: {old.info.user or '?'} and {new.info.user or '?'}.")
    if old.info.kernel != new.info.kernel:
        notes.append(f"the kernels differ: {old.info.kernel or '?'} and {new.info.kernel or '?'}.")
    return tuple(notes)
