"""cli/skill: `husk skill lock`: resolve a skill's packages now, and write down their versions and hashes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from husk.cli.output import say, say_json
from husk.cli.skill import skill_show as show
from husk.cli.skill.skill_request import read_request
from husk.sandbox.errors import UsageError
from husk.skills.collections.each_skill import each_skill
from husk.skills.collections.find_skills import is_skill, skills_in
from husk.skills.frontmatter import NAME
from husk.skills.open_skill import open_skill
from husk.skills.package_wishes import lock_beside_manifest
from husk.skills.packages.npm_packages import lock_beside
from husk.skills.permission_file import check_bound
from husk.skills.provide_packages import PackageProvider
from husk.skills.scan.describe import describe

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values
    from husk.skills.open_skill import Skill
    from husk.skills.running import Request


def main(options: Values) -> int:
    request = read_request(options)
    request.lock, request.fresh = None, True
    if not is_skill(options.path):
        return _many(options, request)
    notes: list[str] = []
    with open_skill(options.path) as skill:
        manifest = options.permissions or Path(f"{skill.name}.permissions.toml")
        written = _lock(skill, request, options.write or lock_beside_manifest(manifest), notes)
    if options.json:
        say_json({"locks": written, "notes": notes})
        return 0
    show.notes(notes)
    _print(written)
    return 0


def _lock(skill: Skill, request: Request, target: Path, notes: list[str]) -> dict[str, str]:
    """Resolve and write; what was written, by file."""
    skill.check()
    if request.permissions is not None:
        check_bound(request.permissions, skill, "the permission manifest")
    provider = PackageProvider(request, request.setting.policy([], []), notes)
    provider.provide(describe(skill), None)
    provider.close()
    written = {}
    for kind, path in (("packages", target), ("npm", lock_beside(target))):
        if text := provider.locks.get(kind):
            try:
                path.write_text(text, "utf-8")
            except OSError as error:
                raise UsageError(f"{path}: cannot be written ({error.strerror}).") from None
            written[str(path)] = text
    return written


def _many(options: Values, request: Request) -> int:
    """Each skill of a folder: NAME.permissions.lock, in the directory that -o names or here."""
    if request.permissions is not None:
        raise UsageError(f"{options.path} is a folder of skills and --permissions the manifest of one; name that one.")
    folder = options.write or Path()
    if not folder.is_dir():
        raise UsageError(f"-o {folder}: for a folder of skills, name a directory that is there.")
    paths, notes = skills_in([options.path])
    taken: set[str] = set()

    def lock(skill: Skill) -> dict[str, str]:
        target = _lock_in(folder, skill, taken)
        return _lock(skill, request, target, notes)

    rows = list(each_skill(paths, lock))
    failed = [f"{one.path}: {one.error.removeprefix(f'{one.path}: ')}" for one in rows if one.error]
    if options.json:
        locks = {str(one.path): one.result for one in rows if one.result is not None}
        say_json({"locks": locks, "notes": notes, "errors": failed})
    else:
        show.notes(notes + failed)
        _print({name: text for one in rows for name, text in (one.result or {}).items()})
        say(f"{len(rows)} skills: {sum(bool(one.result) for one in rows)} locked, {len(failed)} failed")
    return UsageError.exit_code if failed else 0


def _lock_in(folder: Path, skill: Skill, taken: set[str]) -> Path:
    """A skill's name is a stranger's: only a plain one that no other skill has becomes the name of a file."""
    skill.check()
    if not NAME.fullmatch(skill.name):
        raise UsageError(f"its name {skill.name!r} cannot be that of a file; lock it alone, with -o.")
    if skill.name in taken:
        raise UsageError(f"another skill is called {skill.name!r}; lock it alone, with -o.")
    taken.add(skill.name)
    return folder / lock_beside_manifest(Path(f"{skill.name}.permissions.toml"))


def _print(written: dict[str, str]) -> None:
    for name, text in written.items():
        count = len(text.splitlines())
        pinned = f", {count} package{'s' if count > 1 else ''}" if not name.endswith(".json") else ""
        say(f"{name}{pinned}")
    if not written:
        say("nothing to lock: the box has all that is needed")
