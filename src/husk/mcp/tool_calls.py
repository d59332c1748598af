"""mcp: what all tools share: types of parameters, the session behind a call, errors as sentences, progress, and how a
set of tools becomes part of the server. No tool lives here."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeAlias, TypeVar

from mcp.server.fastmcp import Context
from mcp.server.fastmcp.exceptions import ToolError
from mcp.server.fastmcp.tools import Tool as FunctionTool
from mcp.types import ToolAnnotations
from pydantic import Field

from husk.api.asker_words import sentence_of
from husk.mcp.session import Session
from husk.sandbox.errors import HuskError
from husk.store.layout import default_place
from husk.store.store_errors import StoreError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from husk.mcp.config import Config
    from husk.mcp.server import Server

P = ParamSpec("P")
T = TypeVar("T")
Ctx: TypeAlias = Context[Any, Session, Any]
Tool: TypeAlias = Callable[..., Awaitable[Any]]
Input = Annotated[str, Field(description="what the program reads from its standard input")]
Cwd = Annotated[str | None, Field(description="where it starts")]
Env = Annotated[dict[str, str] | None, Field(description="variables to add")]
Seconds = Annotated[float | None, Field(description="seconds; the server may give less")]
BoxName = Annotated[str, Field(description="which box; made on first use")]
PathName = Annotated[str, Field(description="a path in the box; relative to its working directory")]

TICK = 1.0  # seconds between two progress notifications


def session_of(ctx: Ctx) -> Session:
    found: Session = ctx.request_context.lifespan_context
    return found


def without_host_paths(sentence: str, config: Config) -> str:
    """A client is told of the host only what the config shows it: where a folder lies is the operator's business."""
    shown = {str(Path(folder).expanduser()): "" for folder in (*config.skills.folders, *config.images.folders)}
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
            sentence = sentence_of(error, "mcp")
        except StoreError as error:
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


READ_ONLY = ("poll", "read_file", "list_files", "changes", "boxes", "images", "inspect_skill")
DESTRUCTIVE = ("stop", "rollback", "close_box", "apply_changes")


def add_tools(server: Server, offered: set[str], tools: dict[str, Tool]) -> None:
    """Add those of `tools` that the config offers."""
    for name, tool in tools.items():
        if name in offered:
            # Clients ask their user less often about read-only tools.
            notes = ToolAnnotations(
                readOnlyHint=name in READ_ONLY, destructiveHint=name in DESTRUCTIVE, openWorldHint=server.open_world
            )
            server.add_tool(errors_as_sentences(tool), name=name, annotations=notes)
            added = server._tool_manager.get_tool(name)
            assert added is not None
            _refuse_unknown(added)


def _refuse_unknown(tool: FunctionTool) -> None:
    """The package ignores arguments that a tool does not have. A model that misspelt one would never learn of it."""
    model = tool.fn_metadata.arg_model
    model.model_config["extra"] = "forbid"
    model.model_rebuild(force=True)
    tool.parameters = model.model_json_schema(by_alias=True)
