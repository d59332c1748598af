"""skills: prepare a box for a skill and a request: script or command, interpreter, packages, mounts; then run it.

`prepare` does all checks and may raise. Only then `Prepared.run` starts the skill's own code, in the box.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from husk.api.files import FilesOf
from husk.sandbox.errors import UsageError
from husk.sandbox.policy import DEFAULT_PATH, Mount, Policy, read_rules
from husk.sandbox.result import Result
from husk.sandbox.runner import Runner
from husk.skills.box_runner import Around, Setting, Tell
from husk.skills.box_runner import run as run_box
from husk.skills.changed_files import fold
from husk.skills.hints import hints
from husk.skills.open_skill import Skill
from husk.skills.output_files import Produced, Staging
from husk.skills.packages.npm_packages import name_of
from husk.skills.permission_file import DEFAULT_LIMITS, Permissions
from husk.skills.provide_packages import PackageProvider
from husk.skills.scan.describe import Description, describe
from husk.skills.scan.distributions import DEBIAN
from husk.skills.scan.languages import INTERPRETERS, Script
from husk.skills.several_skills import described_together, granted, listed
from husk.skills.skill_places import INPUT, OUTPUT, SKILL, WORK, check_places, place_of, variables

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from husk.kernel.emulation import Emulation
    from husk.sandbox.filesystem import Files

MAIN = ("main", "run", "cli", "index", "__main__")


@dataclass
class Request:
    """What the user asked for, beside the skill."""

    args: list[str] = field(default_factory=list)
    script: str = ""
    command: list[str] = field(default_factory=list)  # run this instead of a script
    permissions: Permissions | None = None
    more_permissions: list[Permissions] = field(default_factory=list)  # of further skills in the box
    resolved: bool = False  # links in the manifest's mounts are resolved already
    most: Permissions | None = None
    input: Path | None = None
    output: Path | None = None
    work: Path | None = None
    mounts: list[Mount] = field(default_factory=list)
    keep: str = ""  # keep the box under this name
    keep_changes: bool = False  # keep the box if it changed files of the user that --out does not bring back
    packages: list[Path] = field(default_factory=list)
    find_links: Path | None = None
    fetch: bool = False
    index: str = ""  # instead of the one pip is configured to use
    registry: str = ""  # the same for npm
    index_hosts: list[str] = field(default_factory=list)  # what else an installation may reach
    wanted: list[str] = field(default_factory=list)  # --with: Python packages beside those of the skill
    wanted_npm: list[str] = field(default_factory=list)
    lock: Path | None = None
    fresh: bool = False  # resolve versions now, whatever an earlier run found
    env: dict[str, str] = field(default_factory=dict)
    limits: dict[str, str] = field(default_factory=dict)
    hosts: list[str] = field(default_factory=list)  # --allow-net
    denied_hosts: list[str] = field(default_factory=list)  # --deny-net, whatever a manifest gives
    in_copy: bool = False  # start in a copy of the skill's folder, unless there is another working directory
    shell: bool = False  # bash, on the caller's terminal if there is one
    terminal: bool = True  # is there one?
    emulation: Emulation | None = None  # another runtime's surface for the skill; packages are installed without it
    setting: Setting = field(default_factory=Setting)


@dataclass
class Prepared:
    policy: Policy
    script: Script | None
    staging: Staging | None
    notes: list[str]  # for the user, before the run
    provided: PackageProvider
    skills: list[Skill]
    permissions: Permissions | None  # what holds in the box
    keep_changes_as: str = ""  # the name to keep the box under if the user's files changed

    def run(
        self,
        *,
        stdin: bytes | None = None,
        capture: bool = False,
        around: Around = Runner.run,
        refused: Callable[[dict[str, object]], None] | None = None,
        tell: Tell | None = None,
    ) -> tuple[Result, Produced]:
        produced = Produced()

        def bring_back(files: Files, result: Result) -> str:
            real, _ = fold(result.changes)
            if self.staging is not None:
                for place in self.returning:
                    produced.left += self.staging.take(FilesOf(files), real, place)
            produced.changed_mounts = [
                mount.target
                for mount in self.policy.mounts
                if mount.mode == "cow" and not mount.passing and _changed_below(mount.target, real)
            ]
            lost = set(produced.changed_mounts) - (set(self.returning) if self.staging is not None else set())
            produced.kept = self.policy.keep or (self.keep_changes_as if lost else "")
            return produced.kept

        try:
            result = run_box(
                self.policy,
                stdin=stdin,
                capture=capture,
                around=around,
                at_end=bring_back,
                refused=refused,
                tell=tell,
            )
            if self.staging:
                found = self.staging.publish()
                produced.files, produced.left = found.files, found.left + produced.left
            produced.notes += [f"{skill.source} changed while it ran" for skill in self.skills if skill.changed]
            return result, produced
        finally:
            self.close()

    @property
    def returning(self) -> list[str]:
        """The places of the user's files, whose changes go to a copy."""
        return [mount.target for mount in self.policy.mounts if mount.mode == "cow" and mount.target in (INPUT, WORK)]

    def close(self) -> None:
        if self.staging:
            self.staging.remove()
        self.provided.close()


def prepare(skill: Skill, request: Request, also: Sequence[Skill] = ()) -> Prepared:
    skills = [skill, *also]
    for one in skills:
        one.check()
    check_places(skills)
    manifests = [request.permissions] if request.permissions is not None else []
    request = replace(request, permissions=granted(skills, [*manifests, *request.more_permissions]))
    found = described_together([describe(one, instructions=False) for one in skills])
    typed = request.command or (request.shell and not request.script)  # a person or model types; no script is chosen
    script = None if typed else choose(found, request.script)
    argv = _command(skill, script, request)
    if not request.setting.image and not request.command and argv[0] not in {name_of(text) for text in found.npm}:
        _check_there(argv[0], script)
    _check_allowed(request)
    mounts = [*_skill_mounts(skills, request), *_extra_mounts(request)]
    env = {"PYTHONDONTWRITEBYTECODE": "1"} | variables(skill)
    policy = request.setting.policy(argv, mounts, env, _limits(request))
    policy.terminal = policy.interactive = request.shell and request.terminal
    policy.emulation = request.emulation
    if request.permissions is not None:
        policy.rules = read_rules(request.permissions.rules)
        # In a shell's box an application may start either of the two for a line of commands.
        policy.programs = [argv[0], *(["sh"] if request.shell else []), *request.permissions.programs]
    policy.allow_net = [*request.hosts, *(request.permissions.hosts if request.permissions else [])]
    policy.deny_net = list(request.denied_hosts) if policy.allow_net else []
    policy.keep = request.keep
    notes = [problem.text for one in skills for problem in one.head.problems] + found.problems
    if len(skills) > 1 and request.permissions is not None:
        notes.append(listed(request.permissions))
    notes += hints(found, script, request, policy)
    provided = PackageProvider(request, policy, notes)
    provided.provide(found, script)
    _find_own_packages(skills, policy)
    policy.env.update(request.env)
    try:
        staging = Staging(request.output) if request.output is not None else None
    except BaseException:
        provided.close()
        raise
    if staging is not None:
        policy.mounts.append(Mount(str(staging.base / "out"), OUTPUT, "rw", ruled=False, passing=True))
        if not any(mount.target == WORK for mount in policy.mounts):
            policy.mounts.append(Mount(str(staging.base / "work"), WORK, "rw", ruled=False, passing=True))
    prepared = Prepared(policy, script, staging, notes, provided, skills, request.permissions)
    if request.keep_changes:
        prepared.keep_changes_as = f"{place_of(skill).rpartition('/')[2]}-{os.urandom(3).hex()}"
    return prepared


def _changed_below(place: str, changes: list[tuple[str, str]]) -> bool:
    return any(path.startswith(f"{place}/") for _, path in changes)


def _command(skill: Skill, script: Script | None, request: Request) -> list[str]:
    if request.command:
        return request.command
    if request.shell or script is None:
        return ["bash"]
    return [*(_as_module(skill, script) or script.command(SKILL)), *request.args]


def _as_module(skill: Skill, script: Script) -> list[str]:
    """How to start a Python file that belongs to a package, as its relative imports say. Empty: a plain script."""
    parts = PurePosixPath(script.path).with_suffix("").parts
    if script.language != "python" or len(parts) < 2 or not all(part.isidentifier() for part in parts):
        return []
    if not re.search(r"^from \.", skill.text(script.path), re.M):
        return []
    return [*(script.interpreter or ["python3"]), "-m", ".".join(parts[:-1] if parts[-1] == "__main__" else parts)]


def _find_own_packages(skills: list[Skill], policy: Policy) -> None:
    """`python -m scripts.report` and `from scripts import report` work from anywhere, as they do in the skill's folder.
    A skill whose own modules bear names of the standard library is left out: they would take the place of those."""
    for number, skill in enumerate(skills):
        names = {entry.stem for entry in skill.root.glob("*.py")}
        names |= {entry.parent.name for entry in skill.root.glob("*/__init__.py")}
        if names.isdisjoint(sys.stdlib_module_names):
            place = place_of(skill) if number else SKILL
            policy.env["PYTHONPATH"] = ":".join(filter(None, [policy.env.get("PYTHONPATH", ""), place]))


def _skill_mounts(skills: list[Skill], request: Request) -> list[Mount]:
    """Each skill at its own place, the first also at /skill, and for those who follow its instructions, which name its
    files by relative paths, a copy of it as the working directory."""
    first = skills[0]
    mounts = [Mount(str(first.root), SKILL, ruled=False, passing=first.passing)]
    mounts += [Mount(str(skill.root), place_of(skill), ruled=False, passing=skill.passing) for skill in skills]
    if request.in_copy and request.work is None and not any(mount.target == WORK for mount in request.mounts):
        if request.keep and first.passing:
            raise UsageError("--keep: a box with an archive's files cannot be kept; unpack it, or give --work DIR.")
        mounts.append(Mount(str(first.root), WORK, "cow", ruled=False, passing=first.passing))
    return mounts


def choose(found: Description, wanted: str) -> Script:
    """Choose the script: the one that was named, the only one, or the obvious entry point."""
    scripts = found.scripts
    if not scripts:
        raise UsageError(
            f"{found.skill.source}: there is no script in it, only instructions; `husk skill exec` runs a command that "
            "follows them, and `husk skill shell` opens a shell."
        )
    if wanted:
        path = str(PurePosixPath(wanted))
        for same in (
            [script for script in scripts if script.path == path],
            [script for script in scripts if PurePosixPath(script.path).name == path],
            [script for script in scripts if PurePosixPath(script.path).stem == path],
            [script for script in scripts if script.path == f"{path.replace('.', '/')}.py"],
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
        if other := [str(mount) for mount in request.mounts if str(mount) not in _mounts_of(given, request)]:
            raise UsageError(f"--mount {other[0]}: the permission manifest does not allow it ([files] mounts).")
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
    for option, place, target in (("--in", request.input, INPUT), ("--work", request.work, WORK)):
        if place is not None:
            if place.is_file():
                folder = place.parent
                raise UsageError(
                    f"{option} {place}: give its directory, {option} {folder}; it is {target}/{place.name}."
                )
            if not place.is_dir():
                raise UsageError(f"{option} {place}: there is no such directory.")
            found.append(Mount(str(place.resolve()), target, "cow"))  # editing in place works, and harms nothing
    found += request.mounts
    if request.permissions is not None:
        given = {str(mount) for mount in request.mounts}
        found += [mount for text, mount in _mounts_of(request.permissions, request).items() if text not in given]
    for mount in found:
        mount.check()
    return found


def _mounts_of(permissions: Permissions, request: Request) -> dict[str, Mount]:
    parse = Mount.parse_again if request.resolved else Mount.parse
    return {str(mount): mount for mount in map(parse, permissions.mounts)}


def _limits(request: Request) -> dict[str, str]:
    base = dict(DEFAULT_LIMITS) if request.permissions is None else dict(request.permissions.limits)
    if request.permissions is not None and request.limits:
        asked = Permissions(limits=base | request.limits)
        bounded = Permissions(limits=base)
        if beyond := asked.beyond(bounded):
            raise UsageError(f"--limit: the permission manifest allows less: {'; '.join(beyond)}.")
    return base | request.limits
