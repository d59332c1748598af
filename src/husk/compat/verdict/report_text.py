"""compat: verdicts as text for a terminal: the look, then a line for each runtime, or a table for many programs.

Lines are made harmless where they are printed (cli/output.py). Not here: pages (report_pages.py).
"""

from __future__ import annotations

import textwrap

from husk.compat.look.facts import LIBRARY, OWN, POINTER, START, Look
from husk.compat.verdict.judge import EXCUSED, FALLBACK, RUNS, SURE_TEXTS, UNCLEAR, Divergence, Verdict

WIDTH = 100
MOST_DIVERGENCES = 8
_CALLS = {
    START: "calls at the start",
    OWN: "calls of its own",
    LIBRARY: "deeper in libraries",
    POINTER: "through pointers only",
}


def look_lines(look: Look, indent: str = "") -> list[str]:
    lines = [f"{indent}{look.path}"]
    inner = indent + "  "
    lines += _wrapped(inner, "", form_text(look))
    if look.libraries:
        found = [one.path or f"{one.name} (not found)" for one in look.libraries]
        lines += _wrapped(inner, "libraries: ", ", ".join(found))
    for name, uses in look.segments.items():
        title = f"%{name}" if name in ("fs", "gs") else name
        lines += _wrapped(inner, f"{title}: ", "; ".join(uses[:3]))
    if look.programs:
        lines += _wrapped(inner, "programs: ", ", ".join(look.programs))
    own = {use.call for use in look.uses}
    known = look.calls()
    for sure, title in _CALLS.items():
        calls = [call for call, word in known.items() if word == sure and call in own]
        if calls:
            lines += _wrapped(inner, f"{title} ({len(calls)}): ", ", ".join(calls))
    values = sorted({use.text for use in look.uses if use.values and use.sure in (START, OWN)})
    if values:
        lines += _wrapped(inner, "with arguments: ", ", ".join(values[:24]) + (" …" if len(values) > 24 else ""))
    for text in look.problems:
        lines += _wrapped(inner, "problem: ", text)
    for text in look.unseen:
        lines += _wrapped(inner, "not seen: ", text)
    for part in look.parts:
        lines += look_lines(part, inner)
    return lines


def form_text(look: Look) -> str:
    if look.form in ("directory", "skill", "image"):
        return f"{look.form}{f': {look.kind}' if look.kind else ''}, {len(look.parts)} native parts"
    if look.form == "script":
        return f"script for {look.interpreter}" + (f" ({look.language})" if look.language else "")
    kinds = {"pie": "position-independent", "executable": "fixed address", "library": "shared library"}
    words = [f"{look.form}, {look.bits}-bit, {look.machine}", kinds.get(look.kind, look.kind)]
    words.append("static" if look.static else f"interpreter {look.interpreter}" if look.interpreter else "dynamic")
    if look.language:
        words.append(look.language)
    return ", ".join(words)


def verdict_lines(verdict: Verdict) -> list[str]:
    lines = [f"{verdict.runtime}: {verdict.status}"]
    if verdict.line:
        lines += _wrapped("  ", "", verdict.line)
    if verdict.measured is not None:
        lines += _wrapped("  ", "measured: ", verdict.measured.text)
    elif verdict.status == RUNS and verdict.basis == "look":
        lines.append("  as far as could be seen; `husk check -- CMD` runs it")
    for text in verdict.unclear:
        if text != verdict.line:
            lines += _wrapped("  ", "unclear: ", text)
    for one in verdict.divergences[:MOST_DIVERGENCES]:
        lines += _divergence_lines(one, verdict)
    if verdict.hidden and verdict.measured is None:
        lines += _wrapped("  ", "arguments that decide here and were not seen: ", ", ".join(verdict.hidden))
    if verdict.beyond:
        lines += _wrapped("  ", "missing too, but not called in this run: ", ", ".join(verdict.beyond))
    more = len(verdict.divergences) - MOST_DIVERGENCES
    if more > 0:
        lines.append(f"  … and {more} more; --json has all")
    return lines


def _divergence_lines(one: Divergence, verdict: Verdict) -> list[str]:
    lines = []
    if one.line(verdict.title) != verdict.line:
        lines += _wrapped("  - ", "", one.line(verdict.title))
    lines += _wrapped("    ", "", f"{SURE_TEXTS[one.need.sure]}; {'; '.join(one.need.places[:2])}")
    if one.text:
        lines += _wrapped("    ", "the runtime: ", one.text)
    if one.excused:
        lines += _wrapped("    ", "", EXCUSED)
    if one.fallback is not None:
        lines += _wrapped("    ", "who copes: ", f"{one.fallback.who} [{one.fallback.source}]")
    if one.remedy is not None and one.fatal:
        lines += _wrapped("    ", "remedy: ", f"{one.remedy.text} [{one.remedy.source}]")
    return lines


def matrix_lines(verdicts: list[Verdict]) -> list[str]:
    """Programs down, runtimes across; then what every cell that is not plain rests on."""
    subjects = list(dict.fromkeys(one.subject for one in verdicts))
    runtimes = list(dict.fromkeys(one.runtime for one in verdicts))
    cells = {(one.subject, one.runtime): one for one in verdicts}
    numbers: dict[int, int] = {}
    for one in verdicts:
        if one.line:
            numbers[id(one)] = len(numbers) + 1
    short = {RUNS: "runs", FALLBACK: "fallback", UNCLEAR: "unknown"}

    def cell(subject: str, runtime: str) -> str:
        one = cells[subject, runtime]
        mark = f" [{numbers[id(one)]}]" if id(one) in numbers else ""
        return short.get(one.status, one.status) + mark

    rows = [["", *runtimes], *([subject, *(cell(subject, runtime) for runtime in runtimes)] for subject in subjects)]
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    lines = ["  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    for one in verdicts:
        if id(one) in numbers:
            lines += _wrapped(f"[{numbers[id(one)]}] ", "", f"{one.subject}, {one.runtime}: {one.line}")
    return lines


def _wrapped(indent: str, title: str, text: str) -> list[str]:
    after = " " * (len(indent) + 2 * bool(title))
    return textwrap.wrap(
        " ".join((title + text).split()),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=after,
        break_long_words=False,
        break_on_hyphens=False,
    )
