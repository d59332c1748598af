"""mcp: the tools a model sees. Each only decodes its arguments and calls the session; the config decides what is
allowed.

A model reads their docstrings and parameter notes, so these say what happens, not how.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import posixpath
import stat as st
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, ParamSpec, TypeAlias, TypeVar

from mcp.server.fastmcp import Context
from mcp.server.fastmcp.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field

from husk.api.aio import in_thread
from husk.api.run_result import TimeoutExpired
from husk.mcp import answers
from husk.mcp.answer_types import (
    AppliedAnswer,
    ChangesAnswer,
    ClosedAnswer,
    CopiedAnswer,
    EntryAnswer,
    ListingAnswer,
    ReadAnswer,
    RunAnswer,
    WrittenAnswer,
)
from husk.mcp.session import MAIN, Session
from husk.sandbox.errors import HuskError, NotExecutable, NotFound, UsageError
from husk.store.layout import default_place

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from husk.api.aio import AsyncSandbox
    from husk.mcp.config import Config
    from husk.mcp.server import Server

P = ParamSpec("P")
T = TypeVar("T")
Ctx: TypeAlias = Context[Any, Session, Any]
Input = Annotated[str, Field(description="what the program reads from its standard input")]
Cwd = Annotated[str | None, Field(description="where it starts")]
Env = Annotated[dict[str, str] | None, Field(description="variables to add")]
Seconds = Annotated[float | None, Field(description="seconds; the server may give less")]
BoxName = Annotated[str, Field(description="which box; made on first use")]
PathName = Annotated[str, Field(description="a path in the box; relative to its working directory")]

TICK = 1.0  # seconds between two progress notifications
MOST_READ = 1 << 20
MOST_LISTED = 2000
MOST_COPIED = 64 << 20
SUFFIXES = {"python": "py", "sh": "sh", "bash": "sh", "node": "js", "perl": "pl", "ruby": "rb"}
_KINDS = {st.S_IFDIR: "directory", st.S_IFLNK: "link", st.S_IFREG: "file"}


def session_of(ctx: Ctx) -> Session:
    found: Session = ctx.request_context.lifespan_context
    return found


def without_host_paths(sentence: str, config: Config) -> str:
    """A client is told of the host only what the config shows it: where a folder lies is the operator's business."""
    shown = {str(Path(folder).expanduser()): "" for folder in config.skills.folders}
    for mount in config.box.mounts:
        source, target = mount.split(":")[:2]
        shown[str(Path(source).expanduser())] = target
    shown.setdefault(config.box.store or default_place(), "the store")
    for folder, instead in sorted(shown.items(), key=lambda one: -len(one[0])):
        sentence = sentence.replace(f"{folder}/", f"{instead}/" if instead else "")
    return sentence


def errors_as_sentences(tool: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Turn errors before a program runs into one sentence for the model. Anything else is a bug, and the server reports
    it as one."""

    @wraps(tool)
    async def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await tool(*args, **kwargs)
        except HuskError as error:
            sentence = str(error)
        except OSError as error:
            sentence = f"{error.filename or 'the host fails husk'}: {error.strerror or error}"
        except ValueError as error:  # a bad argument, or a box that was closed meanwhile
            sentence = str(error)
        contexts = (value for value in (*args, *kwargs.values()) if isinstance(value, Context))
        for ctx in contexts:
            sentence = without_host_paths(sentence, session_of(ctx).config)
        raise ToolError(sentence)

    return wrapped


@asynccontextmanager
async def progress(ctx: Ctx, what: str, total: float | None) -> AsyncIterator[None]:
    """Send progress to a waiting client."""
    began = time.monotonic()

    async def tick() -> None:
        while True:
            await asyncio.sleep(TICK)
            elapsed = time.monotonic() - began
            await ctx.report_progress(elapsed, total, f"{what}: running for {elapsed:.0f} s")

    await ctx.report_progress(0.0, total, f"{what}: started")
    ticking = asyncio.create_task(tick())
    try:
        yield
    finally:
        ticking.cancel()
        await asyncio.gather(ticking, return_exceptions=True)


async def run_in(ctx: Ctx, name: str, argv: list[str], timeout: float | None, **options: Any) -> RunAnswer:
    session = session_of(ctx)
    box = await session.box(name)
    seconds = session.run_seconds(name, timeout)
    async with progress(ctx, argv[0] if argv else "", seconds):
        full = await _run(box, name, argv, seconds, options)
    answer: RunAnswer = answers.short_result(full, session.keep_result(full), session.config.session.shown)
    return answer


async def _run(
    box: AsyncSandbox, name: str, argv: list[str], seconds: float | None, options: dict[str, Any]
) -> dict[str, Any]:
    try:
        # If the client cancels, the run is ended.
        result = await box.run(argv, timeout=seconds, capture_output=True, **options)
    except TimeoutExpired as late:
        result = late.result
    except NotFound as error:
        advice = f" Give its arguments apart: {argv[0].split()}." if len(argv) == 1 and " " in argv[0] else ""
        return answers.not_started(argv, error.exit_code, f"{error}{advice}", name)
    except NotExecutable as error:
        return answers.not_started(argv, error.exit_code, str(error), name)
    return answers.full_result(result, name)


async def run(
    ctx: Ctx,
    argv: Annotated[
        list[str] | str,
        Field(description='the program and its arguments: ["ls", "-l"]. A single text is a line for sh', min_length=1),
    ],
    box: BoxName = MAIN,
    input: Input = "",
    cwd: Cwd = None,
    env: Env = None,
    timeout: Seconds = None,
) -> RunAnswer:
    """Run a program in the box and wait for its end. Files it writes stay in the box for later runs; processes do not.
    `exit_code` is the program's own. `denials` lists what the sandbox refused and why, `explain` says in words whether
    trying again makes sense: read it before you do."""
    words = ["sh", "-c", argv] if isinstance(argv, str) else argv
    return await run_in(ctx, box, words, timeout, input=input.encode(), cwd=cwd, env=env)


async def run_code(
    ctx: Ctx,
    code: Annotated[str, Field(description="the program's text")],
    language: Annotated[
        Literal["python", "sh", "bash", "node", "perl", "ruby"], Field(description="what it is written in")
    ] = "python",
    args: Annotated[list[str] | None, Field(description="arguments of the program")] = None,
    box: BoxName = MAIN,
    input: Input = "",
    cwd: Cwd = None,
    env: Env = None,
    timeout: Seconds = None,
) -> RunAnswer:
    """Run a piece of Python, shell or other code in the box. The answer is that of `run`."""
    from husk.skills.scan.languages import INTERPRETERS

    interpreter, _ = INTERPRETERS[language]
    held = await session_of(ctx).box(box)
    place = f"{answers.CODE}/{time.monotonic_ns()}.{SUFFIXES[language]}"  # a name for each call: two may run at once
    await held.write(place, code)
    return await run_in(ctx, box, [*interpreter, place, *(args or [])], timeout, input=input.encode(), cwd=cwd, env=env)


async def read_file(
    ctx: Ctx,
    path: PathName,
    box: BoxName = MAIN,
    offset: Annotated[int, Field(description="the first byte", ge=0)] = 0,
    size: Annotated[int, Field(description="how many bytes at most", ge=1, le=MOST_READ)] = 100_000,
    encoding: Annotated[Literal["text", "base64"], Field(description="base64 for what is no text")] = "text",
) -> ReadAnswer:
    """Read a file of the box, or a piece of it."""
    held = (await session_of(ctx).box(box)).sandbox
    data, status = await in_thread(lambda: (held.read(path, offset=offset, size=size), held.stat(path)))
    content = answers.content(data, encoding)
    return {"path": path, "size": status.size, "offset": offset, "read": len(data), "content": content}


async def write_file(
    ctx: Ctx,
    path: PathName,
    content: str,
    box: BoxName = MAIN,
    append: bool = False,
    encoding: Annotated[Literal["text", "base64"], Field(description="how `content` is written down")] = "text",
) -> WrittenAnswer:
    """Make or replace a file of the box, and the directories above it."""
    try:
        data = base64.b64decode(content, validate=True) if encoding == "base64" else content.encode()
    except (binascii.Error, UnicodeError) as error:
        raise ToolError(f"content: {error}.") from None
    held = await session_of(ctx).box(box)
    await held.write(path, data, append=append)
    return {"path": path, "written": len(data)}


async def list_files(ctx: Ctx, path: PathName = ".", box: BoxName = MAIN) -> ListingAnswer:
    """The names in a directory of the box, with kind and size."""
    held = (await session_of(ctx).box(box)).sandbox

    def look() -> ListingAnswer:
        names, entries = held.listdir(path), list[EntryAnswer]()
        for name in names[:MOST_LISTED]:
            try:
                status = held.stat(f"{path.rstrip('/')}/{name}" if path != "/" else f"/{name}", follow=False)
            except OSError:
                continue  # gone meanwhile
            kind = _KINDS.get(st.S_IFMT(status.mode), "other")
            entries.append({"name": answers.printable(name), "kind": kind, "size": status.size})
        return {"path": path, "entries": entries, "not_shown": max(0, len(names) - MOST_LISTED)}

    return await in_thread(look)


async def changes(ctx: Ctx, box: BoxName = MAIN) -> ChangesAnswer:
    """What differs in the box from what it began with: files added, changed and deleted, those of mounted directories
    whose changes go to a copy included."""
    held = await session_of(ctx).box(box)
    found = answers.changes(await held.diff())
    return {"box": box, "changes": found[:MOST_LISTED], "not_shown": max(0, len(found) - MOST_LISTED)}


async def copy_files(
    ctx: Ctx,
    paths: Annotated[list[str], Field(description="files of the first box", min_length=1)],
    to_box: Annotated[str, Field(description="the second box")],
    directory: Annotated[str, Field(description="where in the second box; relative to its working directory")] = ".",
    box: BoxName = MAIN,
) -> CopiedAnswer:
    """Copy files from one box to another: inputs into a skill's box, results out of it."""
    session = session_of(ctx)
    source, target = (await session.box(box)).sandbox, (await session.box(to_box)).sandbox

    def copy() -> list[str]:
        room, put = MOST_COPIED, list[str]()
        for path in paths:
            data = source.read(path, size=room + 1)
            room -= len(data)
            if room < 0:
                raise UsageError(f"paths: together they are larger than {MOST_COPIED >> 20} MiB; give fewer.")
            name = posixpath.join(directory, posixpath.basename(path))
            target.write(name, data)
            put.append(answers.printable(name))
        return put

    return {"box": to_box, "files": await in_thread(copy)}


async def apply_changes(
    ctx: Ctx,
    box: BoxName = MAIN,
    mount: Annotated[
        str, Field(description="which mounted directory, if there are several: its place in the box")
    ] = "",
    dry_run: Annotated[bool, Field(description="only say what would be written")] = False,
) -> AppliedAnswer:
    """Write what changed below a mounted directory whose changes go to a copy to the person's own files: all of it, or
    nothing. Only where the server's config allows it; what would be written can always be seen with `dry_run`."""
    session = session_of(ctx)
    if not dry_run and not session.config.session.apply:
        raise UsageError(
            "this server lets no client write to the host; look with dry_run, then ask the person who runs the server "
            "to set apply = true in [session], or to take the files over."
        )
    done = await (await session.box(box)).apply(mount, dry_run=dry_run)
    return {
        "box": box,
        "mount": mount,
        "applied": not dry_run,
        "changes": answers.changes(done.changes),
        "notes": done.notes,
    }


async def commit(
    ctx: Ctx,
    label: Annotated[str, Field(description="a name for this state")],
    box: BoxName = MAIN,
    image: Annotated[str, Field(description="also make an image of this name, if the server lets you")] = "",
) -> dict[str, Any]:
    """Keep the state of the box's files under a label, to roll back to. An older commit of that label is replaced."""
    session = session_of(ctx)
    layer = {"image": image, "layer": await session.commit_image(box, image)} if image else {}
    return {"label": label, "box": box, "changes": await session.commit(box, label)} | layer


async def rollback(
    ctx: Ctx,
    label: Annotated[str, Field(description="a commit; empty: what the box began with")] = "",
    box: Annotated[str, Field(description="which box; empty: the one that was committed")] = "",
) -> dict[str, Any]:
    """Put the box's files back to a commit. Everything since then is lost, and what runs in the box is ended."""
    return {"box": await session_of(ctx).rollback(box, label), "label": label}


async def fork(ctx: Ctx, new: Annotated[str, Field(description="the new box")], box: BoxName = MAIN) -> dict[str, Any]:
    """A second box with the same files, to try something without risk. Neither sees what the other changes later."""
    return {"box": new, "changes": await session_of(ctx).fork(box, new)}


async def boxes(ctx: Ctx) -> dict[str, Any]:
    """The boxes and commits of this session, and what this server allows."""
    session = session_of(ctx)
    config = session.config
    return {
        "boxes": [{"name": name, "limits": held.limits} for name, held in session.boxes.items()],
        "commits": [{"label": label, "box": commit.box} for label, commit in session.commits.items()],
        "allowed": {
            "image": config.box.image or "the host's own programs",
            "mounts": [mount.split(":", 1)[1] for mount in config.box.mounts],
            "network": config.network.allow or config.network.mode,
            "limits": config.limits,
            "boxes": config.session.boxes,
            "commits": config.session.commits,
        },
    }


async def open_box(
    ctx: Ctx,
    name: Annotated[str, Field(description="the new box")],
    limits: Annotated[
        dict[str, str] | None, Field(description='tighter limits than the server\'s: {"memory": "256M", "cpu": "10s"}')
    ] = None,
) -> dict[str, Any]:
    """Open a fresh box. Not needed for an ordinary one: naming it in another tool is enough."""
    session = session_of(ctx)
    await session.open(name, limits or {})
    return {"box": name, "limits": session.boxes[name].limits}


async def close_box(ctx: Ctx, name: str) -> ClosedAnswer:
    """End what runs in a box and throw its files away, unless it was opened to be kept. Commits stay."""
    await session_of(ctx).close_box(name)
    return {"closed": name}


TOOLS: dict[str, Callable[..., Awaitable[Any]]] = {
    tool.__name__: tool
    for tool in (
        *(run, run_code, read_file, write_file, list_files, copy_files, changes, apply_changes),
        *(commit, rollback, fork, boxes, open_box, close_box),
    )
}


READ_ONLY = ("read_file", "list_files", "changes", "boxes", "inspect_skill")
DESTRUCTIVE = ("rollback", "close_box", "apply_changes")


def add_tools(server: Server, offered: set[str], more: dict[str, Callable[..., Awaitable[Any]]]) -> None:
    """Add those of our tools and of `more` that the config offers."""
    for name, tool in (TOOLS | more).items():
        if name in offered:
            # Clients ask their user less often about read-only tools.
            notes = ToolAnnotations(
                readOnlyHint=name in READ_ONLY, destructiveHint=name in DESTRUCTIVE, openWorldHint=server.open_world
            )
            server.add_tool(errors_as_sentences(tool), name=name, annotations=notes)
