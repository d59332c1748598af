"""cli/skill: `husk skill inspect`: what a skill is and would need, or each skill of a folder. Runs nothing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from husk.cli.out_file import write_bytes
from husk.cli.output import say, say_json, say_table
from husk.cli.skill import skill_show as show
from husk.sandbox.errors import UsageError
from husk.skills.collections.each_skill import each_skill, junit_of_skills, repeated_names
from husk.skills.collections.find_skills import is_skill, skills_in
from husk.skills.open_skill import open_skill
from husk.skills.permission_file import Permissions, propose
from husk.skills.scan.describe import Description, describe

if TYPE_CHECKING:
    from pathlib import Path

    from husk.cli.options.parse_words import Values
    from husk.skills.collections.each_skill import Each
    from husk.skills.open_skill import Skill

    Found = tuple[Description, Permissions, dict[str, str]]


def main(options: Values) -> int:
    if len(options.paths) > 1 or not is_skill(options.paths[0]):
        return _many(options)
    with open_skill(options.paths[0]) as skill:
        found, asked, notes = _look(skill)
        valid = skill.head.valid and not (options.strict and skill.head.problems)
        if options.manifest:
            skill.check()
            text = asked.text(notes)
            if options.json:
                say_json({"permissions": asked.as_dict(), "manifest": text})
            else:
                say(*text.splitlines())
        elif options.json:
            say_json(_document(found, asked, notes) | {"valid": valid})
        else:
            show.description(found)
            say("", *asked.text(notes).splitlines())
        if options.junit is not None:
            row = next(each_skill(options.paths, lambda opened: opened))
            row.problems = _problems(skill, strict=options.strict)
            write_bytes(options.junit, junit_of_skills("husk skill inspect", [row]), "--junit")
        return 0 if valid else UsageError.exit_code


def _look(skill: Skill) -> Found:
    found = describe(skill)
    return found, *propose(found)


def _document(found: Description, asked: Permissions, notes: dict[str, str]) -> dict[str, object]:
    return found.as_dict() | {"permissions": asked.as_dict(), "manifest": asked.text(notes)}


def _problems(skill: Skill, *, strict: bool) -> list[str]:
    return [problem.text for problem in skill.head.problems if strict or problem.level != "warning"]


def _many(options: Values) -> int:
    if options.manifest:
        raise UsageError("--manifest prints the manifest of one skill; name one.")
    paths, notes = skills_in(options.paths)
    rows: list[Each[Found]] = []
    for one in each_skill(paths, _look):
        if one.result is not None:
            one.problems = _problems(one.result[0].skill, strict=options.strict)
        rows.append(one)
    bad = [one for one in rows if not one.good]
    repeated = repeated_names(rows)
    if options.json:
        say_json(
            {
                "skills": [_row_document(one) for one in rows],
                "notes": notes,
                "repeated": {name: [str(path) for path in found] for name, found in repeated.items()},
                "summary": {"skills": len(rows), "valid": len(rows) - len(bad)},
            }
        )
    else:
        root = options.paths[0] if len(options.paths) == 1 else None
        _print_table(rows, root)
        for one in bad:
            say(f"{one.path}: {one.error.removeprefix(f'{one.path}: ') or '; '.join(one.problems)}")
        notes += [f"{len(found)} skills are called {name!r}: {', '.join(map(str, found))}"
                  for name, found in repeated.items()]  # fmt: skip
        show.notes(notes)
        say(f"{len(rows)} skills: {len(rows) - len(bad)} as the specification wants them, {len(bad)} not")
    if options.junit is not None:
        write_bytes(options.junit, junit_of_skills("husk skill inspect", rows), "--junit")
    return UsageError.exit_code if bad else 0


def _row_document(one: Each[Found]) -> dict[str, object]:
    if one.result is None:
        return {"path": str(one.path), "name": one.name, "valid": False, "error": one.error}
    return _document(*one.result) | {"valid": one.good}


def _print_table(rows: list[Each[Found]], root: Path | None) -> None:
    cells = []
    for one in rows:
        path = str(one.path.relative_to(root)) if root is not None else str(one.path)
        if one.result is None:
            cells.append([path, "unusable", *[""] * 4])
            continue
        found, asked, _ = one.result
        state = "ok" if one.good else "problems" if found.skill.head.fatalities == [] else "unusable"
        counts = [len(found.scripts), len(asked.pip) + len(asked.npm), len(asked.programs), len(asked.hosts)]
        cells.append([path, state, *(str(count or "") for count in counts)])
    head = [("skill", "left"), ("format", "left"), *((name, "right") for name in ("scripts", "packages", "programs",
            "hosts"))]  # fmt: skip
    say_table("", head, cells, file=sys.stdout)
