"""mcp: tools for boxes as a whole: what changed, writing it back, states to return to, opening and closing."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from husk.mcp import answers
from husk.mcp.answer_types import (
    AppliedAnswer,
    BoxesAnswer,
    ChangesAnswer,
    ClosedAnswer,
    CommitAnswer,
    ForkAnswer,
    OpenBoxAnswer,
    RollbackAnswer,
)
from husk.mcp.session import MAIN
from husk.mcp.tool_calls import BoxName, Ctx, Tool, session_of
from husk.sandbox.errors import UsageError

MOST_LISTED = 2000


async def changes(ctx: Ctx, box: BoxName = MAIN) -> ChangesAnswer:
    """What differs in the box from what it began with: files added, changed and deleted, those of mounted directories
    whose changes go to a copy included."""
    held = await session_of(ctx).box(box)
    found = answers.changes(await held.diff())
    return {"box": box, "changes": found[:MOST_LISTED], "not_shown": max(0, len(found) - MOST_LISTED)}


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
) -> CommitAnswer:
    """Keep the state of the box's files under a label, to roll back to. An older commit of that label is replaced."""
    session = session_of(ctx)
    layer = await session.commit_image(box, image) if image else ""
    return {"label": label, "box": box, "changes": await session.commit(box, label), "image": image, "layer": layer}


async def rollback(
    ctx: Ctx,
    label: Annotated[str, Field(description="a commit; empty: what the box began with")] = "",
    box: Annotated[str, Field(description="which box; empty: the one that was committed")] = "",
) -> RollbackAnswer:
    """Put the box's files back to a commit. Everything since then is lost, and what runs in the box is ended."""
    return {"box": await session_of(ctx).rollback(box, label), "label": label}


async def fork(ctx: Ctx, new: Annotated[str, Field(description="the new box")], box: BoxName = MAIN) -> ForkAnswer:
    """A second box with the same files, to try something without risk. Neither sees what the other changes later."""
    return {"box": new, "changes": await session_of(ctx).fork(box, new)}


async def boxes(ctx: Ctx) -> BoxesAnswer:
    """The boxes, commits and started programs of this session, and what this server allows."""
    session = session_of(ctx)
    config = session.config
    return {
        "boxes": [
            {"name": name, "limits": held.limits, "image": held.image, "kept": held.kept}
            for name, held in session.boxes.items()
        ],
        "commits": [{"label": label, "box": commit.box} for label, commit in session.commits.items()],
        "programs": [
            {"program": one.name, "box": one.box, "argv": one.process.argv, "running": one.running}
            for one in session.programs.all()
        ],
        "allowed": {
            "image": config.box.image or "the host's own programs",
            "mounts": [mount.split(":", 1)[1] for mount in config.box.mounts],
            "network": config.network.allow or config.network.mode,
            "network_denied": config.network.deny,
            "publish": config.network.publish,
            "limits": config.limits,
            "boxes": config.session.boxes,
            "commits": config.session.commits,
            "programs": config.session.programs,
            "keep": config.session.keep,
            "apply": config.session.apply,
        },
    }


async def open_box(
    ctx: Ctx,
    name: Annotated[str, Field(description="the new box")],
    limits: Annotated[
        dict[str, str] | None, Field(description='tighter limits than the server\'s: {"memory": "256M", "cpu": "10s"}')
    ] = None,
    image: Annotated[str, Field(description="the image it begins with, of those `images` lists; empty: as all")] = "",
    keep: Annotated[
        str, Field(description="keep the box under this name for the person at the host, if the server lets you")
    ] = "",
) -> OpenBoxAnswer:
    """Open a fresh box, with tighter limits, from an image, or to be kept. Not needed for an ordinary one: naming it in
    another tool is enough. A box that is kept outlives the session: the person looks at its changes with `husk diff`
    and takes them over with `husk apply`, and a later session goes on in it under the same name."""
    held = await session_of(ctx).open(name, limits or {}, image=image, keep=keep)
    return {"box": name, "limits": held.limits, "image": held.image, "kept": held.kept}


async def close_box(ctx: Ctx, name: str) -> ClosedAnswer:
    """End what runs in a box and throw its files away, unless it was opened to be kept. Commits stay."""
    return {"closed": name, "kept": await session_of(ctx).close_box(name)}


TOOLS: dict[str, Tool] = {
    tool.__name__: tool for tool in (changes, apply_changes, commit, rollback, fork, boxes, open_box, close_box)
}
