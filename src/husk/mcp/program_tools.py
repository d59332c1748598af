"""mcp: tools for programs that run on while the client does something else: a development server, a watcher, a long
build. What `husk run -d`, `logs` and `stop` are for a person."""

from __future__ import annotations

import asyncio
import subprocess
from typing import Annotated, Literal

from pydantic import Field

from husk.api.aio import in_thread
from husk.mcp import answers
from husk.mcp.answer_types import PortAnswer, ProgramAnswer
from husk.mcp.programs import OUTPUT, Program
from husk.mcp.session import MAIN, Session
from husk.mcp.tool_calls import BoxName, Ctx, Cwd, Env, Tool, progress, session_of
from husk.sandbox.errors import HuskError

LONGEST = 300.0  # seconds that one call waits
PAUSE = 0.05
ProgramName = Annotated[str, Field(description="as `start` named it")]


async def start(
    ctx: Ctx,
    argv: Annotated[
        list[str] | str,
        Field(
            description='the program and its arguments: ["npm", "run", "dev"]. A single text is a line for sh',
            min_length=1,
        ),
    ],
    box: BoxName = MAIN,
    publish: Annotated[
        list[str] | None,
        Field(description='ports of the box that the person can reach, as HOST:BOX: ["0:8000"]; 0 takes a free one'),
    ] = None,
    cwd: Cwd = None,
    env: Env = None,
    timeout: Annotated[
        float | None, Field(description="seconds after which it is ended; the server may give less")
    ] = None,
    wait: Annotated[
        float, Field(description="seconds to wait until a server answers at the published ports", ge=0, le=LONGEST)
    ] = 0,
) -> ProgramAnswer:
    """Start a program that runs on: a server, a watcher, a long build. The answer names it; `poll` tells what it wrote
    and whether it still runs, `stop` ends it. Programs of the same box reach it at the box's loopback; with `publish`
    the person reaches it at the address in `ports`. It ends with its box, and with the session."""
    session = session_of(ctx)
    words = ["sh", "-c", argv] if isinstance(argv, str) else argv
    session.programs.check_room()
    held = await session.published_box(box, publish or [])
    seconds = session.program_seconds(box, timeout)
    process = await held.start(words, cwd=cwd, env=env, timeout=seconds, kept=OUTPUT)
    program = session.programs.add(box, process)
    if wait:
        await _wait_ready(ctx, program, wait)
    return await _told(session, program, None)


async def poll(
    ctx: Ctx,
    program: ProgramName,
    since: Annotated[
        int | None, Field(description="show output from this byte on, as `next` said; without it: the end", ge=0)
    ] = None,
    wait: Annotated[float, Field(description="seconds to wait at most for what `until` says", ge=0, le=LONGEST)] = 0,
    until: Annotated[
        Literal["output", "ready", "end"],
        Field(description="more output, a server that answers at the published ports, or the program's end"),
    ] = "output",
) -> ProgramAnswer:
    """What a program that was started wrote, and whether it still runs. When it has ended, the answer has its exit
    code, what the sandbox refused, and what it changed."""
    session = session_of(ctx)
    found = session.programs.get(program)
    if wait and until == "ready":
        await _wait_ready(ctx, found, wait)
    elif wait:
        begin = found.process.logs(since or 0).next if since is None else since
        async with progress(ctx, found.process.argv[0], wait):
            await _wait_for(found, wait, begin if until == "output" else None)
    return await _told(session, found, since)


async def stop(
    ctx: Ctx,
    program: ProgramName,
    wait: Annotated[float, Field(description="seconds between SIGTERM and the end", ge=0, le=LONGEST)] = 10,
) -> ProgramAnswer:
    """End a program that was started, with all that it has started: SIGTERM, and after `wait` seconds SIGKILL. The
    answer is that of `poll`."""
    session = session_of(ctx)
    found = session.programs.get(program)
    async with progress(ctx, found.process.argv[0], wait):
        await found.process.stop(wait)
    return await _told(session, found, None)


async def _wait_ready(ctx: Ctx, program: Program, seconds: float) -> None:
    async with progress(ctx, program.process.argv[0], seconds):
        try:
            await program.process.wait_ready(seconds)
        except (HuskError, subprocess.TimeoutExpired):
            pass  # it ended, or is not ready yet; the answer says so


async def _wait_for(program: Program, seconds: float, since: int | None) -> None:
    """Until it has ended, or, with `since`, written beyond that byte."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while program.running and loop.time() < deadline:
        if since is not None and program.process.logs(since).next > since:
            return
        await asyncio.sleep(PAUSE)


async def _told(session: Session, program: Program, since: int | None) -> ProgramAnswer:
    await program.settle(session.keep_result)
    process, most, full = program.process, session.config.session.shown, program.full
    logs = process.logs(since or 0)
    data = logs.data[:most] if since is not None else logs.data[-most:]
    begin = logs.next - len(logs.data) if since is not None else logs.next - len(data)
    ports = [] if full is not None else await in_thread(lambda: _ports(program))
    changes = full["changes"] if full is not None else []
    return {
        "program": program.name,
        "box": program.box,
        "argv": process.argv,
        "running": full is None,
        "exit_code": None if full is None else full["exit_code"],
        "ports": ports,
        "output": answers.shown_output(data, f"{program.resource}/stdout" if full else "they are not shown"),
        "since": begin,
        "next": begin + len(data),
        "lost": logs.lost if since is not None else 0,
        "explain": "" if full is None else full["explain"],
        "denials": [] if full is None else full["denials"],
        "limits": [] if full is None else full["limits"],
        "changes": changes[: answers.MOST_CHANGES],
        "changes_not_shown": max(0, len(changes) - answers.MOST_CHANGES),
        "resource": program.resource,
    }


def _ports(program: Program) -> list[PortAnswer]:
    try:
        found = program.process.ports
    except ValueError:  # its box was closed
        return []
    return [{"host": one.host, "guest": one.guest, "answers": one.answers()} for one in found]


TOOLS: dict[str, Tool] = {"start": start, "poll": poll, "stop": stop}
