"""review: the passport as one HTML page for a browser, a phone and paper, without a network and without a script.

Here: what the page says, as values for templates/passport.html. All text of a skill is a stranger's; the template
escapes it. A reader must always see whether something was measured in a box or only read in the code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from husk.compat.html_shell import base_style, markup, page_head, template_environment
from husk.compat.verdict.judge import BREAKS, FALLBACK, RUNS, UNCLEAR
from husk.review.measured_runs import Refusal
from husk.review.passport import Passport
from husk.review.wants import ASKED, FILE, HOST, PROGRAM, SURE, TITLES, TOOL, VARIABLE, Want
from husk.skills.refusal_levels import HARM, HARMLESS, UNEXPECTED

_TEMPLATES = Path(__file__).parent / "templates"
MOST_FILES, MOST_ROWS, MOST_LINES = 400, 300, 3000
MEASURED = "measured"
_CLASSES = {RUNS: "good", FALLBACK: "warn", BREAKS: "bad", UNCLEAR: "unknown"}
_BASIS = {"look": "read", "trace": MEASURED, "measured": MEASURED}


@dataclass
class Row:
    """One thing that the skill reaches, runs, reads or writes. `sure` is empty where it was only measured."""

    name: str
    sure: str = ""
    measured: str = ""  # what the box saw
    refused: bool = False
    where: str = ""
    why: str = ""


@dataclass
class Section:
    id: str
    title: str
    empty: str
    rows: list[Row] = field(default_factory=list)

    @property
    def left_out(self) -> int:
        return max(0, len(self.rows) - MOST_ROWS)

    @property
    def asked(self) -> int:
        """Without what is only mentioned."""
        return sum(bool(row.measured) or row.sure in ASKED for row in self.rows)


def passport_page(passport: Passport, today: str, husk: str) -> str:
    style = base_style() + (_TEMPLATES / "passport.css").read_text()
    environment = template_environment(_TEMPLATES, "The passport's page", "review")
    environment.filters |= {"size": size_text}
    runs = [one for one in passport.measured if not one.failed]
    page: str = environment.get_template("passport.html").render(
        head=markup(page_head(f"Passport of the skill {passport.name}", style)),
        passport=passport,
        today=today,
        husk=husk,
        runs=runs,
        sections=_sections(passport),
        others=[
            Section(kind, TITLES[kind][0].upper() + TITLES[kind][1:], "none", list(_static(passport.wants, kind)))
            for kind in (VARIABLE, TOOL)
        ],
        refusals=_refusals(passport),
        levels={HARM: "bad", UNEXPECTED: "warn", HARMLESS: "dim"},
        harm=HARM,
        sure=SURE,
        total=sum(file.size for file in passport.files),
        most_files=MOST_FILES,
        most_rows=MOST_ROWS,
        most_lines=MOST_LINES,
        classes=_CLASSES,
        basis=_BASIS,
        titles=TITLES,
    )
    return page


def index_page(rows: Sequence[tuple[str, Passport | None, str]], today: str, husk: str) -> str:
    """For a collection: each skill with the name of its page, or with why it has none."""
    style = base_style() + (_TEMPLATES / "passport.css").read_text()
    environment = template_environment(_TEMPLATES, "The passport's page", "review")
    found = []
    for file, passport, error in rows:
        sections = {one.id: one for one in _sections(passport)} if passport else {}
        harm = sum(one.level == HARM for one, _ in _refusals(passport)) if passport else 0
        found.append((file, passport, error, sections, harm))
    page: str = environment.get_template("passport_index.html").render(
        head=markup(page_head("Passports of skills", style)), rows=found, today=today, husk=husk
    )
    return page


def size_text(size: int) -> str:
    if size < 1 << 10:
        return f"{size:,} bytes"
    return f"{size / (1 << 10):,.1f} KiB" if size < 1 << 20 else f"{size / (1 << 20):,.1f} MiB"


def _sections(passport: Passport) -> list[Section]:
    wants = passport.wants
    unwritten = "No file was written." if passport.measured else "No name that it writes to is in its code."
    return [
        Section("reaches", "Reaches", "No host was found.", _hosts(passport, wants)),
        Section("runs", "Runs", "No program was found.", _programs(passport, wants)),
        Section("reads", "Reads", "No file outside the system's own was read.", _reads(passport)),
        Section("writes", "Writes", unwritten, _writes(passport, wants)),
    ]


def _static(wants: Iterable[Want], kind: str) -> Iterable[Row]:
    return (Row(want.name, want.sure, where=want.where, why=want.why) for want in wants if want.kind == kind)


def _hosts(passport: Passport, wants: list[Want]) -> list[Row]:
    rows = {row.name: row for row in _static(wants, HOST)}
    for run in passport.measured:
        for address, errno in run.addresses:
            known = address if address in rows else address.rpartition(":")[0]
            row = rows.get(known) or rows.setdefault(address, Row(address, why=run.title))
            if not row.measured or not errno:
                row.measured, row.refused = f"refused or failed ({errno})" if errno else "reached", bool(errno)
    return sorted(rows.values(), key=lambda row: not row.measured)


def _programs(passport: Passport, wants: list[Want]) -> list[Row]:
    rows = {row.name: row for row in _static(wants, PROGRAM)}
    for run in passport.measured:
        for path in run.ran:
            name = PurePosixPath(path).name
            row = rows.setdefault(name, Row(path, why=run.title))
            row.measured = f"ran {path}"
    # What was measured stands first.
    return sorted(rows.values(), key=lambda row: (not row.measured, list(SURE).index(row.sure) if row.sure else 0))


def _reads(passport: Passport) -> list[Row]:
    rows: dict[str, Row] = {}
    for run in passport.measured:
        for path in run.read:
            rows.setdefault(path, Row(path, "", "read", why=run.title))
    return list(rows.values())


def _writes(passport: Passport, wants: list[Want]) -> list[Row]:
    rows = {row.name: row for row in _static(wants, FILE)}
    for run in passport.measured:
        for change, path in run.changed:
            row = rows.setdefault(path, Row(path, why=run.title))
            row.measured = change
    return sorted(rows.values(), key=lambda row: not row.measured)


def _refusals(passport: Passport) -> list[tuple[Refusal, str]]:
    """Each with the run it is from, the worst first."""
    order = [HARM, UNEXPECTED, HARMLESS]
    found = {(one.what, one.reason): (one, run.title) for run in passport.measured for one in run.refusals}
    return sorted(found.values(), key=lambda pair: order.index(pair[0].level))
