"""mcp: tools for agent skills. A skill runs in a box of its own, made the way `husk skill run` does; what it is given
is copied out of a box of the session, and what it leaves is copied into it."""

from __future__ import annotations

import posixpath
import shutil
import signal
import tempfile
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from husk.api.aio import in_thread
from husk.mcp import answers
from husk.mcp.session import MAIN
from husk.mcp.tools import BoxName, Ctx, progress, session_of
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from husk.api.sandbox import Sandbox
    from husk.mcp.config import Config
    from husk.sandbox.box import Box
    from husk.sandbox.result import Result
    from husk.skills.running import Request

MOST_INPUT = 64 << 20
MOST_OUTPUT = 256 << 20
SkillName = Annotated[str, Field(description="the skill's folder or archive, by name")]


def find(config: Config, name: str) -> Path:
    """The skill of that name in one of the config's folders, and nowhere else: a name has no slash, and a link that
    leads out of the folder is not followed."""
    if not name or "/" in name or "\0" in name or name.startswith("."):
        raise UsageError(f"skill {name!r}: give the name of a skill, without a path; there are {known(config)}.")
    for folder in config.skills.folders:
        for candidate in (name, f"{name}.skill", f"{name}.zip"):
            path = Path(folder, candidate)
            if path.exists() and path.resolve().parent == Path(folder):
                return path
    raise UsageError(f"there is no skill {name!r}; there are {known(config)}.")


def known(config: Config) -> str:
    found = {
        path.name
        for folder in config.skills.folders
        for path in Path(folder).iterdir()
        if (path / "SKILL.md").is_file() or path.suffix in (".skill", ".zip")
    }
    return ", ".join(sorted(found)[:40]) or "none"


async def inspect_skill(ctx: Ctx, skill: SkillName) -> dict[str, Any]:
    """What a skill is for and would need: its description, scripts, packages, network hosts, and a proposal of
    permissions. Runs nothing."""
    config = session_of(ctx).config

    def look() -> dict[str, Any]:
        from husk.skills.describe import describe
        from husk.skills.package import opened
        from husk.skills.permissions import propose

        with opened(find(config, skill)) as package:
            found = describe(package)
            asked, notes = propose(found)
            instructions = package.text("SKILL.md", config.session.shown)
            return found.as_dict() | {"path": skill, "instructions": instructions, "permissions": asked.text(notes)}

    return await in_thread(look)


async def run_skill(
    ctx: Ctx,
    skill: SkillName,
    args: Annotated[list[str] | None, Field(description="arguments of the script")] = None,
    script: Annotated[str, Field(description="which script, where there are several")] = "",
    inputs: Annotated[list[str] | None, Field(description="files of the box; the skill sees them in /in")] = None,
    output: Annotated[str, Field(description="directory of the box for what it leaves")] = "skill-output",
    box: BoxName = MAIN,
) -> dict[str, Any]:
    """Run a script of a skill in a box of its own. It finds `inputs` in /in, and what it leaves in /out or in its
    working directory is put into `output` of the session's box. The answer is that of `run`, with `files`."""
    session = session_of(ctx)
    held = (await session.box(box)).sandbox
    path = find(session.config, skill)
    ending = _Ending()
    async with progress(ctx, skill, session.config.seconds(None)):
        full, files = await in_thread(
            lambda: _run(session.config, held, path, script, args or [], inputs or [], output, ending), ending.give_up
        )
    full["box"] = box
    return answers.short(full, session.keep(full), session.config.session.shown) | {"files": files}


def _run(
    config: Config,
    held: Sandbox,
    path: Path,
    script: str,
    args: list[str],
    inputs: list[str],
    output: str,
    ending: _Ending,
) -> tuple[dict[str, Any], list[str]]:
    from husk.skills.package import opened
    from husk.skills.running import prepare

    place = Path(tempfile.mkdtemp(prefix="husk-skill-"))
    try:
        place.chmod(0o755)  # a box started by root has another user
        given, left = place / "in", place / "out"
        given.mkdir()
        _copy_in(held, inputs, given)
        with opened(path) as package:
            request = _request(config, script, args, given, left)
            prepared = prepare(package, request)
            outcome, produced = prepared.run(stdin=b"", capture=True, around=ending.run)
        full = answers.whole(answers.of_skill(prepared.wish.argv, outcome), "")
        full |= {"limits": outcome.limits, "notes": prepared.notes + produced.left}
        return full, _copy_back(held, left, [name for name, _ in produced.files], output)
    finally:
        shutil.rmtree(place, ignore_errors=True)


class _Ending:
    """The box of a skill that another thread runs, so that a client who goes or gives up ends it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._box: Box | None = None
        self._unwanted = False

    def run(self, box: Box) -> Result:
        with self._lock:
            self._box = box
            unwanted = self._unwanted
        if unwanted:
            raise UsageError("the call was cancelled.")
        return box.run()

    def give_up(self) -> None:
        with self._lock:
            self._unwanted = True
            box = self._box
        if box is not None:
            box.end(signal.SIGKILL)


def _request(config: Config, script: str, args: list[str], given: Path, left: Path) -> Request:
    from husk.skills.boxes import Setting
    from husk.skills.running import Request

    if any("\0" in word for word in args):
        raise UsageError("an argument cannot hold a NUL byte.")
    box, skills = config.box, config.skills
    return Request(
        args=args,
        script=script,
        input=given,
        output=left,
        packages=[Path(folder) for folder in skills.packages],
        find_links=Path(skills.find_links) if skills.find_links else None,
        fetch=skills.fetch,
        limits=dict(config.limits),
        setting=Setting(box.image, box.store, box.namespaces, frozenset(box.weaken)),
    )


def _copy_in(held: Sandbox, inputs: list[str], folder: Path) -> None:
    room = MOST_INPUT
    for name in inputs:
        target = folder / posixpath.basename(name)
        if target.name in ("", ".", "..") or target.exists():
            raise UsageError(f"inputs: {name!r} is no file's name, or one that was given already.")
        data = held.read(name, size=room + 1)
        room -= len(data)
        if room < 0:
            raise UsageError(f"inputs: together they are larger than {MOST_INPUT >> 20} MiB; give fewer.")
        target.write_bytes(data)


def _copy_back(held: Sandbox, folder: Path, names: list[str], output: str) -> list[str]:
    room, put = MOST_OUTPUT, []
    for name in names:
        room -= (folder / name).stat().st_size
        if room < 0:
            raise UsageError(f"the skill left more than {MOST_OUTPUT >> 20} MiB; nothing more is taken over.")
        held.write(posixpath.join(output, name), (folder / name).read_bytes())
        put.append(answers.printable(posixpath.join(output, name)))
    return put


TOOLS: dict[str, Callable[..., Awaitable[dict[str, Any]]]] = {
    "inspect_skill": inspect_skill,
    "run_skill": run_skill,
}
