"""compat/trace: a census as one HTML page: no script, no network, readable on a phone, on paper, by day and by night.

Every text in it may come from a stranger: `_e` escapes it. The only HTML that is not escaped is written in this file,
and the head of every page in html_shell.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from husk.abi.text import shortened
from husk.compat.html_shell import PALETTE, page_head
from husk.compat.html_shell import escaped as _e
from husk.compat.trace.families import by_family, totals

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from husk.compat.census import Asked, Census, FileUse, ProgramRun

DEEPEST = 12  # processes below processes that are indented further
MOST_ROWS = 2000  # of one table: a page is for reading, the JSON has them all
NOT_SEEN = (
    "Native calls run in the host's kernel: they are counted with their arguments, but their results and durations are "
    "not seen. Times are those of calls that husk answered, from receiving to answering."
)
LOST = {
    "lines": "lines of the log",
    "values": "calls whose argument values had no room; they are counted without",
    "files": "uses of files whose names had no room",
    "addresses": "uses of addresses that had no room",
    "programs": "programs that had no room",
    "threads": "calls of threads that were gone or had no room; they are counted, but for no program",
}

_STYLE = PALETTE + """
body { margin: 0 auto; max-width: 70rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.3rem; margin: .5rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; border-bottom: 2px solid var(--line); }
code, .mono { font: .875em/1.4 ui-monospace, monospace; overflow-wrap: anywhere; }
.dim { color: var(--dim); } .bad { color: var(--bad); }
.facts { display: flex; flex-wrap: wrap; gap: .5rem; padding: 0; list-style: none; }
.facts li { background: var(--soft); border: 1px solid var(--line); border-radius: .4rem; padding: .3rem .7rem; }
.facts b { display: block; font-size: 1.15rem; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .25rem .6rem .25rem 0; border-bottom: 1px solid var(--line); }
th { color: var(--dim); font-weight: 600; font-size: .85rem; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.name { overflow-wrap: anywhere; min-width: 8rem; }
.share { width: 25%; min-width: 4rem; }
details { margin: .25rem 0; } summary { cursor: pointer; }
.tree { list-style: none; padding: 0; margin: 0; }
.tree > li { margin: .5rem 0; }
svg { display: block; width: 100%; height: 1.4rem; background: var(--soft); }
svg rect { fill: var(--accent); print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.share svg { height: .7rem; margin-top: .4rem; background: none; }
.axis { display: flex; justify-content: space-between; font-size: .75rem; color: var(--dim); }
footer { margin-top: 2rem; font-size: .85rem; color: var(--dim); }
DEPTHS@media (max-width: 40rem) { body { font-size: 15px; padding: .6rem; } .share { display: none; } }
@media print { body { max-width: none; font-size: 10pt; } details > * { display: block; } .wide { overflow: visible; }
  h2 { break-after: avoid; } tr, .tree > li { break-inside: avoid; } }
""".replace("DEPTHS", "".join(f".d{n} > div {{ padding-left: {n}rem; }}\n" for n in range(1, DEEPEST + 1)))


def html_page(census: Census) -> str:
    title = _e(" ".join(census.command))
    parts = [
        page_head(f"husk trace: {' '.join(census.command)}", _STYLE),
        "<body>",
        f"<header><p class='dim'>husk trace</p><h1><code>{title}</code></h1>",
        *_facts(census),
        "</header><main>",
        *_section("Processes and time", _processes(census)),
        *_section("Calls by family", _families(census)),
        *_section("Failures that husk saw", _failures(census)),
        *_section("Argument values", _values(census)),
        *_section("Files", _files(census)),
        *_section("Addresses", _addresses(census)),
        "</main>",
        f"<footer>husk {_e(census.husk)}, {_e(census.started)}. {NOT_SEEN}</footer></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _section(title: str, body: Iterable[str]) -> Iterator[str]:
    lines = list(body)
    if lines:
        yield f"<section><h2>{title}</h2>"
        yield from lines
        yield "</section>"


def _table(head: list[tuple[str, str]], rows: list[str]) -> Iterator[str]:
    yield '<div class="wide"><table><thead><tr>'
    yield "".join(f'<th class="{kind}">{title}</th>' for title, kind in head)
    yield "</tr></thead><tbody>"
    yield from rows[:MOST_ROWS]
    yield "</tbody></table></div>"
    if len(rows) > MOST_ROWS:
        yield f"<p class='dim'>{len(rows) - MOST_ROWS} more are in the JSON.</p>"


def _facts(census: Census) -> Iterator[str]:
    every = totals(census)
    count = sum(total.count for total in every)
    husks = sum(total.count - total.ways.get("native", 0) for total in every)
    facts = [
        (f"{count:,}", "calls"),
        (f"{len(every)}", "different ones"),
        (f"{husks:,}", "answered by husk"),
        (f"{len({program.pid for program in census.programs})}", "processes"),
        (f"{census.seconds:.2f} s", "under trace"),
        (_e(census.crash) or str(census.status), "ended by" if census.crash else "exit code"),
    ]
    yield "<ul class='facts'>"
    yield from (f"<li><b>{value}</b>{label}</li>" for value, label in facts)
    yield "</ul>"
    yield f"<p class='dim'>{'With' if census.setting == 'walled' else 'Without'} namespaces. {NOT_SEEN}</p>"
    for kind, number in census.lost.items():
        yield f"<p class='bad'>Not written down: {number:,} {_e(LOST.get(kind, kind))}.</p>"


# -- processes ---------------------------------------------------------------------------------------------------
def _processes(census: Census) -> Iterator[str]:
    if not census.programs:
        return
    shown = census.programs[:MOST_ROWS]
    below: dict[int, list[ProgramRun]] = {}
    pids = {program.pid for program in shown}
    for program in shown:
        below.setdefault(program.parent if program.parent in pids else 0, []).append(program)
    most = max((max(program.activity, default=0) for program in shown), default=0) or 1
    yield f'<div class="axis"><span>0 s</span><span>{census.seconds:.2f} s</span></div>'
    yield '<ul class="tree">'
    for program, depth in _in_order(below):
        yield f'<li class="d{min(depth, DEEPEST)}">'
        yield from _program(program, most)
        yield "</li>"
    yield "</ul>"
    if len(census.programs) > MOST_ROWS:
        yield f"<p class='dim'>{len(census.programs) - MOST_ROWS} more are in the JSON.</p>"


def _in_order(below: dict[int, list[ProgramRun]]) -> Iterator[tuple[ProgramRun, int]]:
    """Each program once, its children behind it, with its depth. `below` is used up. A file may say that a process is
    its own ancestor: what is left at the end comes last."""
    waiting = [(program, 0) for program in reversed(below.pop(0, []))]
    while waiting or below:
        if not waiting:
            waiting = [(program, 0) for program in reversed(below.pop(next(iter(below))))]
        program, depth = waiting.pop()
        yield program, depth
        waiting += [(child, depth + 1) for child in reversed(below.pop(program.pid, []))]


def _program(program: ProgramRun, most: int) -> Iterator[str]:
    words = " ".join(program.argv) or "(forked)"
    end = f"exit {program.status}" if program.status >= 0 else "end not seen"
    bad = ' class="bad"' if program.status > 0 else ""
    yield f"<div><code>{_e(shortened(words))}</code></div>"
    yield (
        f'<div class="dim">process {program.pid}, {program.count:,} calls, {program.began:.3f} to '
        f"{program.ended:.3f} s, <span{bad}>{end}</span></div>"
    )
    slots = program.activity
    if not slots:
        return
    bars = []
    for n, count in enumerate(slots):
        if count:
            height = 4 + 16 * min(1.0, count / most)
            bars.append(f'<rect x="{n}" y="{20 - height:.1f}" width="1" height="{height:.1f}"/>')
    label = f"{program.count} calls over time"
    yield (
        f'<svg viewBox="0 0 {len(slots)} 20" preserveAspectRatio="none" role="img" aria-label="{label}">'
        f"{''.join(bars)}</svg>"
    )


# -- calls -------------------------------------------------------------------------------------------------------
def _families(census: Census) -> Iterator[str]:
    groups = by_family(census)
    most = max((total.count for group in groups.values() for total in group), default=1) or 1
    for title, group in groups.items():
        rows = []
        for total in group:
            ways = ", ".join(f"{way} {count:,}" for way, count in sorted(total.ways.items()))
            errors = ", ".join(f"{_e(name)} {count:,}" for name, count in sorted(total.errors.items()))
            seconds = f"{total.seconds * 1000:.2f} ms" if total.seconds else ""
            rows.append(
                f'<tr><td class="name"><code>{_e(total.call)}</code></td><td class="n">{total.count:,}</td>'
                f'<td class="share">{_bar(total.count / most)}</td>'
                f'<td>{_e(ways)}</td><td class="n">{seconds}</td><td class="bad">{errors}</td></tr>'
            )
        calls = sum(total.count for total in group)
        yield f"<details open><summary><b>{title}</b> <span class='dim'>{calls:,} calls</span></summary>"
        head = [("call", ""), ("count", "n"), ("", "share"), ("way", ""), ("in husk", "n"), ("errors", "")]
        yield from _table(head, rows)
        yield "</details>"


def _bar(share: float) -> str:
    width = max(0.5, 100 * share)  # one that is there is seen
    return (
        '<svg viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect width="{width:.1f}" height="1"/></svg>'
    )


def _failures(census: Census) -> Iterator[str]:
    failed = [asked for asked in census.calls if asked.errors]
    if not failed:
        return
    failed.sort(key=lambda asked: (not asked.reasons, -sum(asked.errors.values())))
    rows = [
        f'<tr><td class="name"><code>{_e(_call(asked))}</code></td><td class="bad">'
        f"{', '.join(f'{_e(name)} {count:,}' for name, count in asked.errors.items())}</td>"
        f"<td>{'; '.join(map(_e, asked.reasons))}</td><td><code>{_e(shortened(asked.example))}</code></td></tr>"
        for asked in failed
    ]
    yield from _table([("call", ""), ("errno", ""), ("husk's reason", ""), ("for example", "")], rows)


def _values(census: Census) -> Iterator[str]:
    rows = [
        f'<tr><td class="name"><code>{_e(_call(asked))}</code></td><td class="n">{asked.count:,}</td>'
        f"<td>{_e(asked.way)}</td></tr>"
        for asked in census.calls
        if asked.arguments
    ]
    if rows:
        yield "<details><summary>Calls with flags and commands, each set of values on its own line</summary>"
        yield from _table([("call", ""), ("count", "n"), ("way", "")], rows)
        yield "</details>"


def _call(asked: Asked) -> str:
    return f"{asked.call}({', '.join(f'{name}={value}' for name, value in asked.arguments.items())})"


# -- files and addresses -----------------------------------------------------------------------------------------
def _files(census: Census) -> Iterator[str]:
    groups: list[tuple[str, list[FileUse]]] = [
        ("written", [file for file in census.files if file.written]),
        ("executed", [file for file in census.files if file.executed]),
        ("read", [file for file in census.files if file.read and not file.written]),
        ("listed", [file for file in census.files if file.listed]),
    ]
    reached = ("written", "executed", "read", "listed")
    lost = [file for file in census.files if file.errors and not any(getattr(file, how) for how in reached)]
    for how, files in (*groups, ("asked for in vain", lost)):
        if not files:
            continue
        rows = [
            f'<tr><td class="name"><code>{_e(file.path)}</code></td>'
            f'<td class="n">{getattr(file, how) if how in reached else ""}</td>'
            f"<td class='bad'>{', '.join(f'{_e(name)} {count:,}' for name, count in file.errors.items())}</td></tr>"
            for file in files
        ]
        yield f"<details{' open' if how == 'written' else ''}><summary><b>{how}</b> "
        yield f"<span class='dim'>{len(files):,}</span></summary>"
        yield from _table([("name", ""), ("times", "n"), ("errors", "")], rows)
        yield "</details>"


def _addresses(census: Census) -> Iterator[str]:
    rows = [
        f'<tr><td><code>{_e(use.call)}</code></td><td class="name"><code>{_e(use.address)}</code></td>'
        f'<td>{_e(use.outcome) or "succeeded"}</td><td class="n">{use.count:,}</td></tr>'
        for use in census.addresses
    ]
    if rows:
        yield from _table([("call", ""), ("address", ""), ("outcome", ""), ("times", "n")], rows)
