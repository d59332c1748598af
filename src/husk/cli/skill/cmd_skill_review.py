"""cli/skill: `husk skill review`: the passport of a skill, one page to sign. The work is in husk.review."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from husk import __version__
from husk.cli.out_file import write_text
from husk.cli.output import say, say_json
from husk.cli.skill import skill_show as show
from husk.cli.skill.skill_request import read_request
from husk.review.passport import Passport, make_passport
from husk.review.passport_page import index_page, passport_page
from husk.sandbox.errors import HuskError, UsageError, host_failure
from husk.skills.collections.find_skills import is_skill, skills_in
from husk.skills.open_skill import open_skill
from husk.skills.refusal_levels import HARM, UNEXPECTED
from husk.skills.syntax.syntax_parser import kept_worker
from husk.skills.testing.cases import Case, find_cases

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values
    from husk.skills.running import Request

ALL = "all"


def main(options: Values) -> int:
    request = read_request(options)
    if not is_skill(options.path):
        return _many(options, request)
    cases = _cases(options, options.path)
    passport = make_passport(
        options.path, request, cases=cases, command=bool(options.program or options.script), old=options.against
    )
    if options.json:
        say_json(passport.as_dict())
        return 0
    out = options.out or Path(f"{_file_name(passport.name)}.passport.html")
    write_text(out, passport_page(passport, _today(), __version__))
    say(*_summary(passport), f"{out}: the passport, for a browser or a printer")
    return 0


def _cases(options: Values, path: Path) -> list[Case]:
    """The cases to run: those that --case names, of the skill's own or of the file --cases."""
    if not options.case and options.cases is None:
        return []
    found = find_cases([path], options.cases)
    if not options.case or ALL in options.case:
        return found
    missing = [name for name in options.case if name not in {case.name for case in found}]
    if missing:
        there = ", ".join(repr(case.name) for case in found)
        raise UsageError(f"--case {missing[0]}: there is no such case; there are {there}, or `{ALL}`.")
    return [case for case in found if case.name in options.case]


def _many(options: Values, request: Request) -> int:
    """A page for each skill, and one that leads to them."""
    if options.program or options.script or options.against is not None:
        raise UsageError(f"{options.path} is a folder of skills; name one of them for --against or for a command.")
    paths, notes = skills_in([options.path])
    rows: list[tuple[str, Passport | None, str]] = []
    folder = options.out or Path("passports")
    with kept_worker():
        for path in paths:
            name = str(path.relative_to(options.path))
            try:
                cases = _cases(options, path) if options.case and _has_cases(path) else []
                rows.append((f"{_file_name(name)}.html", make_passport(path, request, cases=cases), ""))
            except HuskError as error:
                rows.append((name, None, str(error)))
            except OSError as error:
                rows.append((name, None, host_failure(error)))
            if sys.stderr.isatty() and not options.json:
                say(f"{len(rows)} of {len(paths)}", end="\r" if len(rows) < len(paths) else "\n", file=sys.stderr)
    failed = [error for _, passport, error in rows if passport is None]
    if options.json:
        say_json(
            {
                "skills": [
                    passport.as_dict() if passport else {"source": file, "error": error}
                    for file, passport, error in rows
                ],
                "notes": notes,
            }
        )
    else:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--out {folder}: {error.strerror}; for a folder of skills, name a directory.") from None
        for file, passport, _ in rows:
            if passport is not None:
                write_text(folder / file, passport_page(passport, _today(), __version__))
        write_text(folder / "index.html", index_page(rows, _today(), __version__))
        show.notes(notes + failed)
        say(f"{folder / 'index.html'}: leads to {_counted(len(rows) - len(failed), 'passport')}")
    return UsageError.exit_code if failed else 0


def _has_cases(path: Path) -> bool:
    try:
        with open_skill(path):
            return bool(find_cases([path], None))
    except UsageError:
        return False


def _summary(passport: Passport) -> list[str]:
    lines = [f"{passport.name}: {passport.digest}"]
    runs = [one for one in passport.measured if not one.failed]
    lines += [f"  not run: {one.title}: {one.failed}" for one in passport.measured if one.failed]
    if runs:
        bad = {one.what for run in runs for one in run.refusals if one.level in (HARM, UNEXPECTED)}
        lines.append(f"  measured in {_counted(len(runs), 'run')}; refused: {len(bad)}, not counting what is harmless")
    else:
        lines.append("  nothing was run: all of it is read in the code (--case all runs its cases)")
    if passport.diff is not None:
        lines.append(f"  wants {_counted(len(passport.diff.more), 'thing')} more than {passport.diff.old}")
    return lines + [f"  {note}" for note in passport.notes]


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _file_name(name: str) -> str:
    """A skill's name is a stranger's: no folders, no leading dot."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:100] or "skill"


def _today() -> str:
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    return time.strftime("%Y-%m-%d", time.gmtime(int(given)) if given.isdecimal() else time.gmtime())
