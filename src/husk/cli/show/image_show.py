"""cli: print the results of `husk image`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from husk.cli.show.store_show import size
from husk.store.store_errors import shown

if TYPE_CHECKING:
    from husk.images.image_export import ExportReport
    from husk.images.image_import import ImportReport
    from husk.store.images import ImageConfig


def inspected(found: dict[str, Any]) -> list[str]:
    config = found["config"]
    lines = [
        f"image       {found['image']}",
        f"created     {time.strftime('%Y-%m-%d %H:%M', time.localtime(found['created_ns'] / 1e9))}",
        (
            f"holds       {found['files']} files, {found['directories']} directories, {found['others']} others; "
            f"{size(found['bytes'])}, {size(found['blob_bytes'])} in the store"
        ),
        f"manifest    {found['flat']}",
    ]
    lines += [f"layer       {layer}" for layer in found["layers"]]
    for name in ("user", "workdir", "entrypoint", "cmd"):
        if config[name]:
            lines.append(f"{name:<12}{config[name]}")
    for name in ("env", "labels"):
        lines += [f"{name:<12}{key}={value}" for key, value in config[name].items()]
    return lines


def left_out_lines(left_out: list[tuple[bytes, str]], *, all_of_them: bool) -> list[str]:
    if all_of_them:
        return [f"left out, {why}: {shown(path)}" for path, why in left_out]
    if not left_out:
        return []
    first = shown(left_out[0][0])
    more = f" and {len(left_out) - 1} more" if len(left_out) > 1 else ""
    return [f"left out, since a box has its own: {first}{more}"]


def next_step(image: str, config: ImageConfig) -> str:
    """How to start it: as the image itself says, or else with a shell."""
    return f"try `husk run --image {image}{'' if config.entrypoint or config.cmd else ' -- sh'}`"


def imported(report: ImportReport, config: ImageConfig, *, left_out: bool) -> list[str]:
    layers = f"{len(report.layers)} {'layer' if len(report.layers) == 1 else 'layers'}"
    return [
        (
            f"{report.files} files, {size(report.bytes)} in {report.seconds:.2f} s; {layers}; "
            f"{report.new_blobs} new contents in the store, {size(report.new_bytes)}"
        ),
        *left_out_lines(report.left_out, all_of_them=left_out),
        f"manifest {report.flat}",
        f"image {report.image}; {next_step(report.image, config)}",
    ]


def exported(report: ExportReport) -> list[str]:
    return [
        *left_out_lines(report.left_out, all_of_them=False),
        f"{report.image} is in {report.place}, {size(report.bytes)}",
    ]
