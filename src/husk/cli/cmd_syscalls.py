"""Layer cli: `husk syscalls`, the registry for people: as a table, as JSON, and as docs/compat.md.

Here: how rows are shown. Not here: anything about a call that its row does not say.
"""

from __future__ import annotations

import difflib
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Any

from husk.abi.registry import CHAPTERS, NEWEST_LINUX, ROWS, by_name
from husk.abi.registry.row_text import ERRNO_NAMES, conditions_text, rule_texts, way_text
from husk.abi.registry.rules import ALWAYS, IN_C, IN_HUSK, NEVER, RESTARTS, WAYS, Row, Verdict
from husk.abi.registry.signatures import arguments
from husk.abi.registry.subsystems import subsystem
from husk.cli.exit_codes import run_command
from husk.cli.options.other_options import SYSCALLS
from husk.cli.output import say_as_is, say_json
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values

_EINTR = {
    NEVER: "never",
    RESTARTS: "after a handler without SA_RESTART",
    ALWAYS: "after any handler",
    IN_HUSK: "after a handler without SA_RESTART; it waits in husk",
}

_NARROWEST = 80
_WIDEST = 140


def main(argv: list[str]) -> int:
    return run_command(SYSCALLS, argv, _syscalls)


def _syscalls(options: Values) -> int:
    if options.markdown:
        if options.json:
            raise UsageError("--json and --markdown are two forms of the same; choose one.")
        say_as_is(markdown())
        return 0
    rows: list[Row] = []
    for name in options.names:
        found = ROWS.get(int(name)) if name.isdecimal() else by_name(name)
        if found is None:
            raise UsageError(_unknown(name))
        rows.append(found)
    rows = rows or sorted(ROWS.values(), key=lambda row: row.nr)
    if options.way:
        rows = [row for row in rows if row.way == options.way]
    if options.json:
        say_json([as_json(row) for row in rows])
        return 0
    width = min(max(shutil.get_terminal_size().columns, _NARROWEST), _WIDEST)
    say_as_is(table(rows, width, details=bool(options.names)))
    return 0


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name, [row.name for row in ROWS.values()], n=4)
    hint = f"; did you mean {' or '.join(close)}?" if close else "; `husk syscalls` lists them all."
    return f"Linux on x86-64 has no system call {name!r}{hint}"


def _summary(row: Row) -> str:
    """The way of a row in one or two words; a star says that rules can make it another."""
    plain = way_text(row.otherwise) if row.way in ("judged", "refused") else row.way
    return plain + "*" if row.rules else plain


def detail_texts(row: Row) -> list[str]:
    """Signature, handler, EINTR and reach of a row."""
    texts = [row.signature]
    if row.family:
        texts.append(f"answered in {home(row)}")
    if row.eintr != NEVER:
        texts.append(f"EINTR {_EINTR[row.eintr]}")
    part = subsystem(row.name)
    if part is not None:
        texts.append(f"native, it reaches {part.name} of the host's kernel ({part.source})")
    return texts


def home(row: Row) -> str:
    return "C" if row.family == IN_C else f"kernel/syscalls/{row.family}.py"


def table(rows: list[Row], width: int, *, details: bool) -> str:
    """An aligned table, the reason wrapped within its own column; `details` and rules follow, indented."""
    if not rows:
        return "no such calls\n"
    names = max(len(row.name) for row in rows)
    ways = max(len(_summary(row)) for row in rows)
    margin = " " * (names + 2 + 5 + ways + 2)
    lines: list[str] = []
    for row in rows:
        head = f"{row.name:<{names}}  {row.nr:>3}  {_summary(row):<{ways}}  "
        lines += textwrap.wrap(
            row.reason,
            width,
            initial_indent=head,
            subsequent_indent=margin,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for text in [*detail_texts(row), *rule_texts(row)] if details else ():
            lines += textwrap.wrap(
                text,
                width,
                initial_indent="    ",
                subsequent_indent="      ",
                break_long_words=False,
                break_on_hyphens=False,
            )
    if not details and any(row.rules for row in rows):
        lines += ["", "* by arguments or walls: `husk syscalls NAME` shows the rules"]
    return "\n".join(lines) + "\n"


def as_json(row: Row) -> dict[str, Any]:
    return {
        "number": row.nr,
        "name": row.name,
        "arguments": [{"name": name, "kind": kind} for name, kind in arguments(row)],
        "way": row.way,
        "reason": row.reason,
        "family": row.family,
        "eintr": row.eintr,
        "rules": [{**_verdict_json(rule.verdict), "when": conditions_text(rule)} for rule in row.rules],
        "otherwise": _verdict_json(row.otherwise),
    }


def _verdict_json(verdict: Verdict) -> dict[str, Any]:
    said: dict[str, Any] = {"way": verdict.way}
    if verdict.way in ("judged", "refused"):
        said["errno"] = ERRNO_NAMES[verdict.errno] if verdict.errno else 0
        said["reported"] = not verdict.quiet
    if verdict.reason:
        said["reason"] = verdict.reason
    return said


def markdown() -> str:
    """docs/compat.md, all of it."""
    counts = {way: sum(row.way == way for row in ROWS.values()) for way in WAYS}
    parts = [
        "# What husk does with each system call",
        "",
        "<!-- Written by `husk syscalls --markdown`; change the rows in src/husk/abi/registry/ instead. -->",
        "",
        textwrap.fill(
            f"All {len(ROWS)} system calls of Linux on x86-64, up to Linux {NEWEST_LINUX}. {counts['native']} are"
            f" **native**: the host kernel runs them. {counts['virtual']} are **virtual**: husk's kernel answers them."
            f" {counts['judged']} are **judged**: husk's kernel makes the checks that Linux makes first, then refuses"
            f" them with the errno named. {counts['refused']} are **refused**: the guest gets the errno named, and the"
            " reason is reported outside the box. *Quiet* ones are not reported: programs try them all the time, or"
            " Linux would give the same errno. A star means that arguments or walls can change the way; those rules are"
            " at the end. A number that is not here gets `ENOSYS`; calls of i386 and x32 end the process.",
            120,
        ),
        "",
        textwrap.fill(
            "Argument names are those of Linux's own definitions. The word behind each is its kind"
            " (`src/husk/abi/registry/signatures.py` lists them): a descriptor, a path, a `*struct`, flags as in `O_*`."
            " *In* is the file of `kernel/syscalls/` with the handler, or C. *EINTR* says what a signal with a handler"
            " does to a call that waits: `restarts` is EINTR unless the handler has SA_RESTART, `restarts, in husk` the"
            " same for a call that waits in husk, `always` is EINTR after any handler.",
            120,
        ),
    ]
    for chapter, rows in CHAPTERS.items():
        parts += ["", f"## {chapter.capitalize()}", ""]
        parts += ["| call | number | way | in | EINTR | why |", "|---|---|---|---|---|---|"]
        for row in rows:
            way = _summary(row).replace("*", " \\*") + (", quiet" if row.otherwise.quiet else "")
            place = "C" if row.family == IN_C else f"`{row.family}`" if row.family else ""
            eintr = "" if row.eintr == NEVER else row.eintr
            parts.append(f"| `{row.signature}` | {row.nr} | {way} | {place} | {eintr} | {row.reason} |")
    parts += ["", "## Rules", "", "The first rule that applies decides."]
    alike: dict[tuple[str, ...], list[str]] = {}
    for row in ROWS.values():
        if row.rules:
            alike.setdefault(tuple(rule_texts(row)), []).append(row.name)
    for texts, names in alike.items():
        parts += ["", f"### {', '.join(names)}", "", *(f"- {text}" for text in texts)]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
