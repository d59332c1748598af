"""mcp: the tools that run programs and work with files. Each only decodes its arguments and calls the session; the
config decides what is allowed.

A model reads their docstrings and parameter notes, so these say what happens, not how.
"""

from __future__ import annotations

import base64
import binascii
import posixpath
import stat as st
import time
from typing import TYPE_CHECKING, Annotated, Any, Literal

from mcp.server.fastmcp.exceptions import ToolError
from pydantic import Field

from husk.api.aio import in_thread
from husk.api.asker_words import sentence_of
from husk.api.run_result import TimeoutExpired
from husk.mcp import answers
from husk.mcp.answer_types import CopiedAnswer, EntryAnswer, ListingAnswer, ReadAnswer, RunAnswer, WrittenAnswer
from husk.mcp.session import MAIN
from husk.mcp.tool_calls import BoxName, Ctx, Cwd, Env, Input, PathName, Seconds, Tool, progress, session_of
from husk.sandbox.errors import NotExecutable, NotFound, UsageError

if TYPE_CHECKING:
    from husk.api.aio import AsyncSandbox

MOST_READ = 1 << 20
MOST_LISTED = 2000
MOST_COPIED = 64 << 20
SUFFIXES = {"python": "py", "sh": "sh", "bash": "sh", "node": "js", "perl": "pl", "ruby": "rb"}
_KINDS = {st.S_IFDIR: "directory", st.S_IFLNK: "link", st.S_IFREG: "file"}


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
        return answers.not_started(argv, error.exit_code, sentence_of(error, "mcp"), name)
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
    """Read a file of the box, or a piece of it. If it is no UTF-8 text, `binary` is true and there is no content: ask
    for base64, or look at it with a program."""
    held = (await session_of(ctx).box(box)).sandbox
    data, status = await in_thread(lambda: (held.read(path, offset=offset, size=size), held.stat(path)))
    text: tuple[str, int] | None = answers.encoded(data), len(data)
    if encoding == "text":
        text = answers.file_text(data, first=offset == 0, last=offset + len(data) >= status.size)
    content, read = text or ("", 0)
    return {
        "path": path,
        "size": status.size,
        "offset": offset,
        "read": read,
        "binary": text is None,
        "content": content,
    }


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


TOOLS: dict[str, Tool] = {
    tool.__name__: tool for tool in (run, run_code, read_file, write_file, list_files, copy_files)
}
