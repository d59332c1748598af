"""cli: print the results of the store: plain lines, readable sizes, and a progress bar on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from husk.abi.text import harmless
from husk.store.images import CACHE
from husk.store.store_errors import StoreError, shown

if TYPE_CHECKING:
    from husk.store.collect import Collected
    from husk.store.images import Image
    from husk.store.ingest import Report
    from husk.store.protect import Protected
    from husk.store.store import Store
    from husk.store.verify import Outcome


def size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


@contextmanager
def progress(title: str, *, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A function to call with files and bytes done; None where there is no terminal to show it."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    # Imported only here: it takes longer than ingesting a small directory.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(
        TextColumn(title), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn(),
        console=Console(stderr=True), transient=True,
    ) as bar:  # fmt: skip
        task = bar.add_task("", total=None)
        yield lambda files, count: bar.update(task, description=f"{files} files, {size(count)}")


@contextmanager
def download_progress(title: str, *, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A function to call with the bytes done and the bytes to come; None where there is no terminal to show it."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    with Progress(
        TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(binary_units=True),
        TransferSpeedColumn(), console=Console(stderr=True), transient=True,
    ) as bar:  # fmt: skip
        task = bar.add_task(harmless(title), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def ingested(report: Report, *, excluded: bool) -> list[str]:
    rate = report.bytes / report.seconds if report.seconds else 0
    kinds = f"{report.files} files, {report.directories} directories, {report.links + report.others} others"
    contents = f"{report.blobs} distinct contents, {size(report.blob_bytes)} (dedup ratio {report.dedup_ratio:.2f})"
    lines = [
        f"{kinds}; {size(report.bytes)} in {report.seconds:.2f} s ({size(rate)}/s)",
        f"{report.unchanged} files were unchanged since the last time and not read",
        f"{contents}; {report.new_blobs} new in the store, {size(report.new_bytes)}",
        f"manifest {report.manifest}",
    ]
    if report.image:
        lines.append(f"image {report.image}")
    else:
        lines.append("no image names it, so the next collection may take it; --name keeps it")
    if report.unstable:
        lines.append(f"{report.unstable} files changed while they were read; ingest again when no program writes there")
    secrets = sum(secret for _, secret in report.excluded)
    if excluded:
        lines += [f"left out{' (secret)' if secret else ''}: {shown(path)}" for path, secret in report.excluded]
    elif secrets:
        lines.append(
            f"{secrets} names were left out as secrets; --show-excluded lists them, --include-secrets takes them"
        )
    return lines


def images(store: Store) -> tuple[list[dict[str, Any]], list[str], int]:
    """All images as JSON and as lines, and the exit code. A damaged record does not hide the others."""
    found: dict[str, Image | StoreError] = {}
    for name in store.images.list():
        try:
            found[name] = store.images.get(name)
        except StoreError as error:
            found[name] = error
    width = max(map(len, found), default=0)
    document: list[dict[str, Any]] = []
    lines = []
    for name, image in found.items():
        if isinstance(image, StoreError):
            document.append({"name": name, "error": str(image)})
            lines.append(f"{name:<{width}}  {image}")
            continue
        document.append({"name": name, **image.as_json()})
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(image.created_ns / 1e9))
        layers = f"{len(image.layers)} {'layer' if len(image.layers) == 1 else 'layers'}"
        cache = image.config.labels.get(CACHE, "")
        about = f"  ({cache}; gc takes it when unused)" if cache else ""
        lines.append(f"{name:<{width}}  {when}  {layers}  {image.layers[-1][:16]}{about}")
    none = ["no images; `husk image import SRC` makes one of a root, `husk store ingest DIR` of any directory"]
    return document, lines or none, int(any("error" in one for one in document))


def pairs(found: dict[str, Any]) -> list[str]:
    lines = []
    for name, value in found.items():
        if isinstance(value, list):
            lines += [f"{name:<14} {item}" for item in value]
        else:
            words = f"{value} ({size(value)})" if name.endswith("bytes") else str(value)
            lines.append(f"{name:<14} {words}")
    return lines


def verified(outcome: Outcome) -> list[str]:
    lines = [f"{outcome.blobs} blobs, {size(outcome.bytes)}, {outcome.images} images"]
    for finding in outcome.findings:
        done = "repaired" if finding.repaired else "set aside" if finding.quarantined else ""
        lines.append(f"{finding.what} {finding.hash}: {finding.why}{f' ({done})' if done else ''}")
        if finding.images:
            where = f" ({', '.join(finding.paths)})" if finding.paths else ""
            lines.append(f"  touches {', '.join(finding.images)}{where}")
    if not outcome.findings:
        lines.append("everything is as it should be")
    elif not outcome.clean:
        lines.append("ingest the files again, or name a good copy with --repair-from")
    return lines


def collected(result: Collected) -> list[str]:
    what = f"{result.blobs} blobs, {size(result.bytes)}"
    if result.caches:
        what += f", {len(result.caches)} layers of packages among them,"
    if not result.deleted:
        return [
            f"{what} could be removed; {result.kept_blobs + result.young} stay; nothing was changed (--delete does it)"
        ]
    return [f"removed {what} and {result.leftovers} leftovers; {result.kept_blobs + result.young} blobs stay"]


def protected(result: Protected) -> list[str]:
    lines = [f"{result.protected} blobs are protected now, {result.already} were already"]
    if result.failed:
        lines.append(f"{result.failed} are not: {result.reason}")
    return lines
