"""skills: prepare a box for a skill and a request: script, interpreter, packages, mounts; then run it.

`prepare` does all checks and may raise. Only then `Prepared.run` starts the skill's own code, in the box.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from husk.sandbox.errors import UsageError
from husk.sandbox.policy import DEFAULT_PATH, Mount, Policy, read_rules
from husk.sandbox.result import Result
from husk.sandbox.runner import Runner
from husk.skills.box_runner import Around, Setting
from husk.skills.box_runner import run as run_box
from husk.skills.hints import hints
from husk.skills.open_skill import Skill
from husk.skills.output_files import Produced, Staging
from husk.skills.packages.npm_packages import name_of
from husk.skills.permission_file import DEFAULT_LIMITS, Permissions, check_bound
from husk.skills.provide_packages import PackageProvider
from husk.skills.scan.describe import Description, describe
from husk.skills.scan.distributions import DEBIAN
from husk.skills.scan.languages import INTERPRETERS, Script

if TYPE_CHECKING:
    from husk.kernel.emulation import Emulation

SKILL, INPUT, OUTPUT, WORK = "/skill", "/in", "/out", "/workspace"
MAIN = ("main", "run", "cli", "index", "__main__")


@dataclass
class Request:
    """What the user asked for, beside the skill."""

    args: list[str] = field(default_factory=list)
    script: str = ""
    permissions: Permissions | None = None
    resolved: bool = False  # links in the manifest's mounts are resolved already
    most: Permissions | None = None
    input: Path | None = None
    output: Path | None = None
    work: Path | None = None
    packages: list[Path] = field(default_factory=list)
    find_links: Path | None = None
    fetch: bool = False
    index: str = ""  # instead of the one pip is configured to use
    registry: str = ""  # the same for npm
    index_hosts: list[str] = field(default_factory=list)  # what else an installation may reach
    lock: Path | None = None
    env: dict[str, str] = field(default_factory=dict)
    limits: dict[str, str] = field(default_factory=dict)
    hosts: list[str] = field(default_factory=list)  # --allow-net
    shell: bool = False
    emulation: Emulation | None = None  # another runtime's surface for the skill; packages are installed without it
    setting: Setting = field(default_factory=Setting)


@dataclass
class Prepared:
    policy: Policy
    script: Script | None
    staging: Staging | None
    notes: list[str]  # for the user, before the run
    provided: PackageProvider

    def run(
        self, *, stdin: bytes | None = None, capture: bool = False, around: Around = Runner.run
    ) -> tuple[Result, Produced]:
        try:
            result = run_box(self.policy, stdin=stdin, capture=capture, around=around)
            return result, self.staging.publish() if self.staging else Produced()
        finally:
            self.close()

    def close(self) -> None:
        if self.staging:
            self.staging.remove()
        self.provided.close()


def prepare(skill: Skill, request: Request) -> Prepared:
    skill.check()
    found = describe(skill)
    script = None if request.shell and not request.script else choose(found, request.script)
    argv = ["bash"] if request.shell or script is None else [*script.command(SKILL), *request.args]
    if not request.setting.image and argv[0] not in {name_of(text) for text in found.npm}:
        _check_there(argv[0], script)
    if request.permissions is not None:
        check_bound(request.permissions, skill, "the permission manifest")
    _check_allowed(request)
    mounts = [Mount(str(skill.root), SKILL, ruled=False), *_extra_mounts(request)]
    policy = request.setting.policy(argv, mounts, {"PYTHONDONTWRITEBYTECODE": "1"}, _limits(request))
    policy.terminal = policy.interactive = request.shell
    policy.emulation = request.emulation
    if request.permissions is not None:
        policy.rules = read_rules(request.permissions.rules)
        policy.programs = [argv[0], *request.permissions.programs]
    policy.allow_net = [*request.hosts, *(request.permissions.hosts if request.permissions else [])]
    notes = [problem.text for problem in skill.head.problems] + found.problems
    notes += hints(found, script, request, policy)
    provided = PackageProvider(request, policy, notes)
    provided.provide(found, script)
    policy.env.update(request.env)
    try:
        staging = Staging(request.output) if request.output is not None else None
    except BaseException:
        provided.close()
        raise
    if staging is not None:
        policy.mounts.append(Mount(str(staging.base / "out"), OUTPUT, "rw", ruled=False))
        if request.work is None:
            policy.mounts.append(Mount(str(staging.base / "work"), WORK, "rw", ruled=False))
    return Prepared(policy, script, staging, notes, provided)


def choose(found: Description, wanted: str) -> Script:
    """Choose the script: the one that was named, the only one, or the obvious entry point."""
    scripts = found.scripts
    if not scripts:
        raise UsageError(
            f"{found.skill.source}: there is no script in it; a skill of instructions alone cannot be run."
        )
    if wanted:
        path = str(PurePosixPath(wanted))
        for same in (
            [script for script in scripts if script.path == path],
            [script for script in scripts if PurePosixPath(script.path).name == path],
            [script for script in scripts if PurePosixPath(script.path).stem == path],
        ):
            if len(same) == 1:
                return same[0]
        raise UsageError(f"--script {wanted}: no such script, or several; there are {_names(scripts)}.")
    top = [
        script for script in scripts if script.path.startswith("scripts/") and script.path.count("/") == 1
    ] or scripts
    if len(top) == 1:
        return top[0]
    called = {other for script in top for other in script.local}
    entries = [script for script in top if script.path not in called]
    named = [
        s
        for s in entries
        if PurePosixPath(s.path).stem in (*MAIN, found.skill.name, found.skill.name.replace("-", "_"))
    ]
    for choice in (named, entries):
        if len(choice) == 1:
            return choice[0]
    raise UsageError(f"say which script: --script NAME with one of {_names(scripts)}.")


def _names(scripts: list[Script]) -> str:
    shown = [script.path for script in scripts[:12]]
    return ", ".join(shown) + (f" and {len(scripts) - len(shown)} more" if len(scripts) > len(shown) else "")


def _check_there(program: str, script: Script | None) -> None:
    if program.startswith("/") or shutil.which(program, path=DEFAULT_PATH):
        return
    language = script.language if script else ""
    package = INTERPRETERS.get(language, ([], ""))[1] or DEBIAN.get(program, "")
    what = f"{script.path} needs {program}" if script else f"{program} is needed"
    how = (
        f"install it on this machine{f' (Debian: {package})' if package else ''}, or give --image with one that has it"
    )
    if language == "typescript":
        how = f"name {program} in package.json, {how}"
    raise UsageError(f"{what}, which is not in the box; {how}.")


def _check_allowed(request: Request) -> None:
    """Check command line and manifest against what is allowed, before anything runs."""
    given = request.permissions
    if given is not None:
        for option, value, allowed in (
            ("--in", request.input, given.input),
            ("--out", request.output, given.output),
            ("--work", request.work, given.work),
        ):
            if value is not None and not allowed:
                raise UsageError(f"{option} {value}: the permission manifest does not allow it ([files]).")
        if beyond := [rule for rule in request.hosts if rule not in given.hosts]:
            raise UsageError(f"--allow-net {beyond[0]}: the permission manifest does not allow it ([network]).")
        if request.most is not None and (beyond := given.beyond(request.most)):
            raise UsageError(
                f"the permission manifest asks for more than --max-permissions gives: {'; '.join(beyond)}."
            )
    elif request.most is not None:
        raise UsageError("--max-permissions needs --permissions: the manifest that it bounds.")


def _extra_mounts(request: Request) -> list[Mount]:
    found = []
    for option, place, target, mode in (
        ("--in", request.input, INPUT, "ro"),
        ("--work", request.work, WORK, "cow"),
    ):
        if place is not None:
            if not place.is_dir():
                raise UsageError(f"{option} {place}: there is no such directory.")
            found.append(Mount(str(place.resolve()), target, mode))
    if request.permissions is not None:
        parse = Mount.parse_again if request.resolved else Mount.parse
        found += [parse(text) for text in request.permissions.mounts]
    for mount in found:
        mount.check()
    return found


def _limits(request: Request) -> dict[str, str]:
    base = dict(DEFAULT_LIMITS) if request.permissions is None else dict(request.permissions.limits)
    if request.permissions is not None and request.limits:
        asked = Permissions(limits=base | request.limits)
        bounded = Permissions(limits=base)
        if beyond := asked.beyond(bounded):
            raise UsageError(f"--limit: the permission manifest allows less: {'; '.join(beyond)}.")
    return base | request.limits
