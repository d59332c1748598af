"""skills: from a skill and a request to a box that is ready to run it: script, interpreter, packages, mounts.

`prepare` does all the judging and may raise; only then `Prepared.run` starts the skill's own code, in the box.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from husk.sandbox.box import Box
from husk.sandbox.errors import UsageError
from husk.sandbox.policy import DEFAULT_PATH, Mount
from husk.skills import npm_packages, pip_packages
from husk.skills.boxes import Around, Outcome, Setting, Wish
from husk.skills.boxes import run as run_box
from husk.skills.describe import Description, describe, needs_of
from husk.skills.distributions import DEBIAN, distribution_of, key
from husk.skills.languages import INTERPRETERS, Script
from husk.skills.package import Skill
from husk.skills.permissions import DEFAULT_LIMITS, Permissions
from husk.skills.produced import Produced, Staging

SKILL, INPUT, OUTPUT, WORK = "/skill", "/in", "/out", "/workspace"
MAIN = ("main", "run", "cli", "index", "__main__")


@dataclass
class Request:
    """What the person asked for, beside the skill."""

    args: list[str] = field(default_factory=list)
    script: str = ""
    permissions: Permissions | None = None
    most: Permissions | None = None
    input: Path | None = None
    output: Path | None = None
    work: Path | None = None
    packages: list[Path] = field(default_factory=list)
    find_links: Path | None = None
    fetch: bool = False
    index: str = ""
    lock: Path | None = None
    env: dict[str, str] = field(default_factory=dict)
    limits: dict[str, str] = field(default_factory=dict)
    hosts: list[str] = field(default_factory=list)  # --allow-net
    shell: bool = False
    setting: Setting = field(default_factory=Setting)


@dataclass
class Prepared:
    wish: Wish
    script: Script | None
    staging: Staging | None
    notes: list[str]  # for the person, before the run
    packages: list[str]  # requirements it was given

    def run(
        self, *, stdin: bytes | None = None, capture: bool = False, around: Around = Box.run
    ) -> tuple[Outcome, Produced]:
        try:
            outcome = run_box(self.wish, stdin=stdin, capture=capture, around=around)
            return outcome, self.staging.hand_over() if self.staging else Produced()
        finally:
            self.close()

    def close(self) -> None:
        if self.staging:
            self.staging.remove()


def prepare(skill: Skill, request: Request) -> Prepared:
    skill.check()
    found = describe(skill)
    script = None if request.shell and not request.script else choose(found, request.script)
    argv = ["bash"] if request.shell or script is None else [*script.command(SKILL), *request.args]
    if not request.setting.image:
        _check_there(argv[0], script)
    _check_allowed(request)
    mounts = [Mount(str(skill.root), SKILL), *_extra_mounts(request)]
    wish = Wish(argv, mounts, {"PYTHONDONTWRITEBYTECODE": "1"}, setting=request.setting)
    wish.workdir, wish.limits, wish.terminal = WORK, _limits(request), request.shell
    if request.permissions is not None:
        wish.programs = request.permissions.programs
    wish.hosts = [*request.hosts, *(request.permissions.hosts if request.permissions else [])]
    notes = [problem.text for problem in skill.head.problems]
    _show_packages(request, wish)
    packages = _provide(found, script, request, wish, notes)
    wish.env.update(request.env)
    staging = Staging(request.output) if request.output is not None else None
    if staging is not None:
        wish.mounts.append(Mount(str(staging.base / "out"), OUTPUT, "rw"))
        if request.work is None:
            wish.mounts.append(Mount(str(staging.base / "work"), WORK, "rw"))
    return Prepared(wish, script, staging, notes, packages)


def choose(found: Description, wanted: str) -> Script:
    """The script a person means: the one they named, the only one, or one that is plainly the entry."""
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
    package = INTERPRETERS.get(language, ([], ""))[1] or DEBIAN.get(program, program)
    what = f"{script.path} needs {program}" if script else f"{program} is needed"
    raise UsageError(
        f"{what}, which is not in the box; install it on this machine (Debian: {package}), or give --image with one "
        "that has it."
    )


def _check_allowed(request: Request) -> None:
    """What is asked for on the command line and in the manifest, against what may be given. Nothing has run yet."""
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
        raise UsageError("--max-permissions needs --permissions: the manifest it is held against.")


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
        found += [Mount.parse(text) for text in request.permissions.mounts]
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


def _show_packages(request: Request, wish: Wish) -> None:
    """--packages DIR: a venv, a directory with a node_modules, or a directory of Python packages, as it is."""
    places = []
    for number, folder in enumerate(request.packages):
        sites = sorted(folder.glob("lib/python3*/site-packages"))
        modules = folder if folder.name == "node_modules" else folder / "node_modules"
        if modules.is_dir() and not sites:
            wish.mounts.append(Mount(str(modules.resolve()), npm_packages.PLACE))
            continue
        if not folder.is_dir():
            raise UsageError(f"--packages {folder}: there is no such directory.")
        target = f"/opt/skill/packages{number}"
        wish.mounts.append(Mount(str((sites[0] if sites else folder).resolve()), target))
        places.append(target)
    if places:
        wish.env["PYTHONPATH"] = ":".join(places)


def _provide(found: Description, script: Script | None, request: Request, wish: Wish, notes: list[str]) -> list[str]:
    reached = found.code if script is None else needs_of(found, script)
    paths = {item.path for item in reached}
    # What requirements.txt and package.json say is for all scripts; what was found by reading, for those that run.
    modules = {name: maybe for item in reached if item.language == "python" for name, maybe in item.modules.items()}
    declared = [
        text
        for text, where in found.pip.items()
        if " imports " not in where and where.split(" ")[0] in paths | _DECLARING
    ]
    given: list[str] = []
    if modules or declared:
        given = _provide_pip(modules, declared, request, wish, notes)
    wanted = [
        text
        for text, where in found.npm.items()
        if any(item.language == "node" for item in reached)
        and (where in _DECLARING or where.removesuffix(" requires it") in paths)
    ]
    have = [mount for mount in wish.mounts if mount.target == npm_packages.PLACE]
    lacking = [
        text for text in wanted if not any(Path(mount.source, npm_packages.name_of(text)).exists() for mount in have)
    ]
    if lacking and not have and not (found.skill.root / "node_modules").is_dir():
        _check_packages(request, "npm", lacking)
        layer = npm_packages.provide_npm(lacking, request.setting, find_links=request.find_links, fetch=request.fetch)
        wish.mounts.append(Mount(str(layer.content / "node_modules"), npm_packages.PLACE))
        given += lacking
    return given


_DECLARING = {"requirements.txt", "scripts/requirements.txt", "package.json", "scripts/package.json"}


def _provide_pip(
    modules: dict[str, bool], declared: list[str], request: Request, wish: Wish, notes: list[str]
) -> list[str]:
    by_hand = [mount for mount in wish.mounts if mount.target.startswith("/opt/skill/packages")]
    missing = pip_packages.look(request.setting, by_hand, wish.env, sorted(modules), declared)
    covered = {key(text) for text in declared}
    needed = list(missing.requirements)
    for module in missing.modules:
        name = distribution_of(module)
        if key(name) in covered:
            continue
        if modules[module] and not (request.find_links or request.fetch):
            notes.append(f"{name} is not in the box; the script can do without it")
        elif modules[module]:
            notes.append(f"{name} is optional and not installed; name it in requirements.txt to have it")
        else:
            needed.append(name)
    if not needed:
        return []
    _check_packages(request, "pip", needed)
    layer = pip_packages.provide(
        needed,
        missing.python,
        request.setting,
        find_links=request.find_links,
        index=request.index if request.fetch else "",
        lock=request.lock,
    )
    notes.append(f"packages: {', '.join(sorted(needed))} ({'cached' if layer.cached else 'installed in a box'})")
    wish.mounts.append(Mount(str(layer.content / "python"), pip_packages.PLACE))
    wish.env["PYTHONPATH"] = ":".join(filter(None, [wish.env.get("PYTHONPATH", ""), pip_packages.PLACE]))
    wish.env["PATH"] = f"{pip_packages.PLACE}/bin:{DEFAULT_PATH}"
    return needed


def _check_packages(request: Request, kind: str, needed: list[str]) -> None:
    given = request.permissions
    if given is None:
        return
    allowed = {key(text) for text in (given.pip if kind == "pip" else given.npm)}
    beyond = [text for text in needed if key(text) not in allowed]
    if beyond:
        raise UsageError(
            f"the skill needs the {kind} packages {', '.join(beyond)}, which the manifest does not allow ([packages])."
        )
