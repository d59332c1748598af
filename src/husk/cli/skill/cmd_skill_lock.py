"""cli/skill: `husk skill lock`: resolve a skill's packages now, and write down their versions and hashes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from husk.cli.output import say, say_json
from husk.cli.skill import skill_show as show
from husk.cli.skill.skill_request import read_request
from husk.sandbox.errors import UsageError
from husk.skills.open_skill import open_skill
from husk.skills.package_wishes import lock_beside_manifest
from husk.skills.packages.npm_packages import lock_beside
from husk.skills.permission_file import check_bound
from husk.skills.provide_packages import PackageProvider
from husk.skills.scan.describe import describe

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values


def main(options: Values) -> int:
    request = read_request(options)
    request.lock, request.fresh = None, True
    with open_skill(options.path) as skill:
        skill.check()
        if request.permissions is not None:
            check_bound(request.permissions, skill, "the permission manifest")
        found = describe(skill)
        notes: list[str] = []
        provider = PackageProvider(request, request.setting.policy([], []), notes)
        provider.provide(found, None)
        provider.close()
        manifest = options.permissions or Path(f"{skill.name}.permissions.toml")
    target = options.write or lock_beside_manifest(manifest)
    written = {}
    for kind, path in (("packages", target), ("npm", lock_beside(target))):
        if text := provider.locks.get(kind):
            try:
                path.write_text(text, "utf-8")
            except OSError as error:
                raise UsageError(f"{path}: cannot be written ({error.strerror}).") from None
            written[str(path)] = text
    if options.json:
        say_json({"locks": written, "notes": notes})
        return 0
    show.notes(notes)
    for name, text in written.items():
        pinned = f", {len(text.splitlines())} packages" if name == str(target) else ""
        say(f"{name}{pinned}")
    if not written:
        say("nothing to lock: the box has all that the skill needs")
    return 0
