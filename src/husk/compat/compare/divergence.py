"""compat/compare: what differs between two runs, in the order a reader looks: output, errors, status, files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from husk.compat.census import Asked, Census
from husk.compat.compare.align_lines import VARIES, Baseline, baseline, lines_of, masked, opcodes
from husk.compat.compare.run_under import FileState, Outcome

CONTEXT = 3  # lines before a divergence
MOST_SHOWN = 200  # divergences kept


@dataclass(frozen=True)
class Divergence:
    """`where` names an output, the status, a file or a call; `line` counts from 1, 0 where there are no lines."""

    where: str
    a: str
    b: str
    line_a: int = 0
    line_b: int = 0
    before: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "where": self.where,
            "a": self.a,
            "b": self.b,
            "line_a": self.line_a or None,
            "line_b": self.line_b or None,
            "before": list(self.before),
        }


@dataclass
class Comparison:
    """All that differs, the first first; and how much was not counted because it varies natively."""

    found: list[Divergence] = field(default_factory=list)
    varying: dict[str, int] = field(default_factory=dict)
    cut: list[str] = field(default_factory=list)

    @property
    def same(self) -> bool:
        return not self.found


def compare_outcomes(a: Outcome, b: Outcome, native: Sequence[Outcome]) -> Comparison:
    comparison = Comparison(cut=sorted({*a.cut, *b.cut, *(cut for one in native for cut in one.cut)}))
    for name in ("stdout", "stderr"):
        base = baseline([lines_of(getattr(one, name)) for one in native])
        _note(comparison, name, base.count)
        comparison.found += _lines(name, lines_of(getattr(a, name)), lines_of(getattr(b, name)), base)
    statuses = {one.status for one in native}
    if len(statuses) > 1:
        _note(comparison, "exit status", len(statuses))
    elif a.status != b.status:
        comparison.found.append(Divergence("exit status", a.status, b.status))
    _files(comparison, a.files, b.files, [one.files for one in native])
    del comparison.found[MOST_SHOWN:]
    return comparison


def _note(comparison: Comparison, name: str, count: int) -> None:
    if count:
        comparison.varying[name] = count


def _lines(where: str, a: list[str], b: list[str], base: Baseline) -> list[Divergence]:
    """One divergence for each place where the two run apart."""
    left, right = masked(a, base), masked(b, base)
    texts_a, texts_b = [text for _, text in left], [text for _, text in right]
    found = []
    for tag, i, j, k, m in opcodes(texts_a, texts_b):
        if tag == "equal" or {*texts_a[i:j], *texts_b[k:m]} <= {VARIES}:
            continue
        line_a, said_a = _first(left, i, j)
        line_b, said_b = _first(right, k, m)
        before = tuple(text if text != VARIES else "(varies)" for text in texts_a[max(0, i - CONTEXT) : i])
        found.append(Divergence(where, said_a, said_b, line_a, line_b, before))
        if len(found) == MOST_SHOWN:
            break
    return found


def _first(lines: list[tuple[int, str]], start: int, end: int) -> tuple[int, str]:
    """The first line of a stretch that counts: its number, and what it says; nothing where the stretch is empty."""
    for number, text in lines[start:end]:
        if text != VARIES:
            return number, text
    return (lines[start - 1][0] + 1 if start else 1), "(nothing)"


# -- files -------------------------------------------------------------------------------------------------------------
def _files(
    comparison: Comparison,
    a: dict[str, FileState],
    b: dict[str, FileState],
    native: Sequence[dict[str, FileState]],
) -> None:
    for name in sorted(a.keys() | b.keys()):
        there = [files.get(name) for files in native]
        where = f"file {name}"
        if any(one is None for one in there) and any(one is not None for one in there):
            _note(comparison, where, 1)  # a name made by chance, or a race
        elif name not in a or name not in b:
            if native and not any(there) and _looks_random(name, native, a if name in a else b):
                _note(comparison, where, 1)
                continue
            comparison.found.append(Divergence(where, _told(a.get(name)), _told(b.get(name))))
        else:
            _one_file(comparison, where, a[name], b[name], [one for one in there if one])


def _looks_random(name: str, native: Sequence[dict[str, FileState]], mine: dict[str, FileState]) -> bool:
    """Where native runs make files under names that no other run has, a run's own such names are no difference, as long
    as there are as many in the same directory."""
    folder = name.rpartition("/")[0]

    def of_its_own(files: dict[str, FileState]) -> int:
        others = [one for one in native if one is not files]
        mine_alone = [one for one in files if all(one not in other for other in others)]
        return sum(one.rpartition("/")[0] == folder for one in mine_alone)

    counts = {of_its_own(files) for files in native} if len(native) > 1 else {0}
    return 0 not in counts and of_its_own(mine) in counts


def _one_file(comparison: Comparison, where: str, a: FileState, b: FileState, native: Sequence[FileState]) -> None:
    if len({(one.kind, one.mode) for one in native}) > 1:
        _note(comparison, where, 1)
        return
    if (a.kind, a.mode) != (b.kind, b.mode):
        comparison.found.append(Divergence(where, _told(a), _told(b)))
        return
    if a.digest == b.digest and a.size == b.size and a.content == b.content:
        return
    if all(_is_text(one) for one in (a, b, *native)):
        base = baseline([lines_of(one.content or b"") for one in native])
        _note(comparison, where, base.count)
        comparison.found += _lines(where, lines_of(a.content or b""), lines_of(b.content or b""), base)
    elif len({(one.size, one.digest) for one in native}) > 1:
        _note(comparison, where, 1)
    else:
        comparison.found.append(Divergence(where, _told(a), _told(b)))


def _is_text(state: FileState) -> bool:
    try:
        return state.content is not None and "\0" not in state.content.decode("utf-8")
    except UnicodeDecodeError:
        return False


def _told(state: FileState | None) -> str:
    if state is None:
        return "not there"
    what = f"{state.kind}, mode {state.mode:04o}" if state.kind != "link" else "a symbolic link"
    return f"{what}, {state.size} bytes {state.digest[:8]}".rstrip() if state.kind == "file" else what


# -- traces ------------------------------------------------------------------------------------------------------------
def compare_censuses(a: Census, b: Census) -> Comparison:
    """What one run asked for and the other did not, or with another end; and what they ended with. How often a call is
    made depends on timing, so it does not count."""
    comparison = Comparison()
    left, right = _by_arguments(a), _by_arguments(b)
    for key in dict.fromkeys([*left, *right]):
        mine, other = left.get(key), right.get(key)
        if mine is None or other is None or _ends(mine) != _ends(other):
            comparison.found.append(Divergence(f"call {key[0]}", _asked(mine), _asked(other)))
    for what, ours, theirs in (("exit status", a.status, b.status), ("crash", a.crash, b.crash)):
        if ours != theirs:
            comparison.found.append(Divergence(what, str(ours) or "none", str(theirs) or "none"))
    del comparison.found[MOST_SHOWN:]
    return comparison


def _by_arguments(census: Census) -> dict[tuple[str, tuple[tuple[int, int], ...]], list[Asked]]:
    found: dict[tuple[str, tuple[tuple[int, int], ...]], list[Asked]] = {}
    for asked in census.calls:
        found.setdefault((asked.call, tuple(sorted(asked.values.items()))), []).append(asked)
    return found


def _ends(asked: list[Asked]) -> set[str]:
    """How the calls ended: errors that were seen, and success where some of them had none."""
    names = {name for one in asked for name in one.errors}
    return names | ({"success"} if any(sum(one.errors.values()) < one.count for one in asked) else set())


def _asked(asked: list[Asked] | None) -> str:
    if not asked:
        return "not made"
    one = asked[0]
    words = ", ".join(f"{name}={value}" for name, value in one.arguments.items())
    return one.example or f"{one.call}({words}): {', '.join(sorted(_ends(asked)))}"
