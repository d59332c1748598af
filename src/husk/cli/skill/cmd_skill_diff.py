"""cli/skill: `husk skill diff`: what a new version of a skill wants in addition. The work is in husk.review."""

from __future__ import annotations

from typing import TYPE_CHECKING

from husk.cli.output import say, say_json
from husk.cli.skill import skill_show as show
from husk.review.version_diff import VersionDiff, compare_versions
from husk.review.wants import TITLES
from husk.sandbox.errors import UsageError
from husk.skills.collections.each_skill import each_skill
from husk.skills.collections.find_skills import find_skills, is_skill
from husk.skills.open_skill import open_skill

if TYPE_CHECKING:
    from pathlib import Path

    from husk.cli.options.parse_words import Values
    from husk.review.wants import Want
    from husk.skills.open_skill import Skill

WANTS_MORE = 1
MOST_FILES = 20


def main(options: Values) -> int:
    old, new = options.old, options.new
    if is_skill(old) != is_skill(new):
        one, many = (old, new) if is_skill(old) else (new, old)
        raise UsageError(f"{one} is one skill and {many} a folder of skills; compare like with like.")
    if is_skill(old):
        with open_skill(old) as before, open_skill(new) as after:
            _check(before, after)
            diff = compare_versions(before, after)
        if options.json:
            say_json(diff.as_dict())
        else:
            say(*_lines(diff))
        return WANTS_MORE if diff.more else 0
    return _many(old, new, as_json=options.json)


def _check(*skills: Skill) -> None:
    for skill in skills:
        skill.check()


def _many(old: Path, new: Path, *, as_json: bool) -> int:
    """Two states of a collection. A skill that is new wants everything it wants in addition."""
    before, after = find_skills(old), find_skills(new)
    names = {str(path.relative_to(old)) for path in before.skills}
    later = {str(path.relative_to(new)): path for path in after.skills}
    gone, appeared = sorted(names - later.keys()), sorted(later.keys() - names)

    def compared(skill: Skill) -> VersionDiff:
        with open_skill(old / skill.source.relative_to(new)) as earlier:
            _check(earlier, skill)
            return compare_versions(earlier, skill)

    rows = list(each_skill([path for name, path in later.items() if name in names], compared))
    more = bool(appeared) or any(one.result is not None and one.result.more for one in rows)
    failed = [one for one in rows if one.error]
    if as_json:
        say_json(
            {
                "added": appeared,
                "removed": gone,
                "skills": [
                    one.result.as_dict() if one.result is not None else {"new": str(one.path), "error": one.error}
                    for one in rows
                ],
                "wants_more": more,
            }
        )
    else:
        for name in appeared:
            say(f"{name}: a new skill; `husk skill inspect {new / name}` says what it wants")
        for name in gone:
            say(f"{name}: no longer there")
        for one in rows:
            if one.result is not None and not one.result.same:
                say(f"{one.path.relative_to(new)}:", *(f"  {line}" for line in _lines(one.result)))
        same = sum(one.result is not None and one.result.same for one in rows)
        say(f"{len(later)} skills: {len(appeared)} new, {len(rows) - same - len(failed)} changed, {same} the same;"
            f" {len(gone)} gone")  # fmt: skip
        show.notes([one.error for one in failed] + before.notes + after.notes)
    if failed:
        return UsageError.exit_code
    return WANTS_MORE if more else 0


def _lines(diff: VersionDiff) -> list[str]:
    if diff.same:
        return ["the same, file by file"]
    lines = ["it wants nothing more"] if not diff.more else ["it wants more:", *_wants("+", diff.more)]
    if diff.less:
        lines += ["it no longer wants:", *_wants("-", diff.less)]
    if diff.aside:
        lines += ["new, but nothing that its code asks for:", *_wants(" ", diff.aside)]
    lines += [f"  other versions: {old} → {new}" for old, new in diff.versions]
    lines += [f"  {name}: {old or '(none)'} → {new or '(none)'}" for name, old, new in diff.head]
    for title, names in (("added", diff.added), ("removed", diff.removed), ("changed", diff.changed)):
        if names:
            more = f" and {len(names) - MOST_FILES} more" if len(names) > MOST_FILES else ""
            lines.append(f"files {title}: {', '.join(names[:MOST_FILES])}{more}")
    return lines


def _wants(sign: str, wants: list[Want]) -> list[str]:
    lines = []
    for kind, title in TITLES.items():
        chosen = [want for want in wants if want.kind == kind]
        if chosen:
            lines.append(f"  {title}:")
        for want in chosen:
            why = f", {want.why}" if want.why else ""
            lines.append(f"  {sign} {want.name} ({want.sure}: {want.where}{why})")
    return lines
