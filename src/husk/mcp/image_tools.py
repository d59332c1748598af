"""mcp: tools for images of the store: which there are, and making one of an archive. `open_box` uses them.

A client sees and uses only images that the config names, and makes only such whose names begin as the config says.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from husk.abi.text import decoded
from husk.api.aio import in_thread
from husk.mcp.answer_types import ImageAnswer, ImagesAnswer, ImportedAnswer, LeftOutAnswer
from husk.mcp.tool_calls import Ctx, Tool, progress, session_of
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from husk.mcp.config import Config
    from husk.store.store import Store

MOST_LEFT_OUT = 50


async def images(ctx: Ctx) -> ImagesAnswer:
    """The images a box can begin with (`open_box`), and the archives that `import_image` can make one of."""
    config = session_of(ctx).config

    def look() -> list[ImageAnswer]:
        from husk.store.store_errors import StoreError
        from husk.store.store_stats import image_stat

        try:
            store = _store(config)
        except StoreError:
            return []  # no store: nothing was ever imported
        found = list[ImageAnswer]()
        for name in sorted(store.images.list()):
            if config.may_use(name):
                told: Any = image_stat(store, name)
                found.append({"name": name, "files": told["files"], "bytes": told["bytes"]})
        return found

    archives = await in_thread(lambda: sorted(_sources(config)))
    return {"images": await in_thread(look), "archives": archives, "names": config.session.images}


async def import_image(
    ctx: Ctx,
    source: Annotated[str, Field(description="an archive or directory of those that `images` lists, by name")],
    image: Annotated[str, Field(description="the name of the new image")],
) -> ImportedAnswer:
    """Make an image of a root file system, an OCI layout, or what `docker save` wrote: a directory or an archive. Then
    `open_box` opens boxes with it. Nothing of it is in the store before all of it was read and checked."""
    config = session_of(ctx).config
    config.check_image_name(image)
    place = _sources(config).get(source)
    if place is None:
        known = ", ".join(sorted(_sources(config))[:40]) or "none"
        raise UsageError(f"source {source!r}: give a name without a path; there are {known}.")
    loop, told = asyncio.get_running_loop(), [0.0]

    def advance(files: int, count: int) -> None:
        now = loop.time()
        if now - told[0] >= 0.25:  # the import calls this for every file
            told[0] = now
            report = ctx.report_progress(float(count), None, f"{source}: {files} files, {count} bytes")
            asyncio.run_coroutine_threadsafe(report, loop)

    def work() -> ImportedAnswer:
        from husk.images.image_import import import_image
        from husk.store.store import Store

        report = import_image(Store.create(config.box.store or None), str(place), image, progress=advance, data=False)
        left_out: list[LeftOutAnswer] = [{"path": decoded(path), "why": why} for path, why in report.left_out]
        return {
            "image": report.image,
            "layers": report.layers,
            "files": report.files,
            "bytes": report.bytes,
            "left_out": left_out[:MOST_LEFT_OUT],
            "left_out_not_shown": max(0, len(left_out) - MOST_LEFT_OUT),
        }

    async with progress(ctx, source, None):
        return await in_thread(work)


def _store(config: Config) -> Store:
    from husk.store.store import Store

    return Store.open(config.box.store or None)


def _sources(config: Config) -> dict[str, Path]:
    """What may be imported, by name. A link that leads out of the folder is not followed."""
    found: dict[str, Path] = {}
    for folder in config.images.folders:
        for path in Path(folder).iterdir():
            if not path.name.startswith(".") and path.resolve().parent == Path(folder):
                found.setdefault(path.name, path)
    return found


TOOLS: dict[str, Tool] = {"images": images, "import_image": import_image}
