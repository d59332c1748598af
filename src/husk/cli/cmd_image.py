"""cli: `husk image`: what people do with images. The work is husk.images' and husk.store's."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from husk.cli import image_show as show
from husk.cli.exit_codes import run_on_store
from husk.cli.store_show import images, progress
from husk.sandbox.errors import HuskError
from husk.sandbox.weaken import check as check_weaken
from husk.store.store import Store
from husk.store.store_errors import StoreError

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def main(argv: list[str]) -> int:
    return run_on_store("image", _parser().parse_args(argv), (StoreError, HuskError))


def _parser() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--store", metavar="DIR", help="the store (default: $HUSK_STORE, else the user's data directory)"
    )
    shared.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser = argparse.ArgumentParser(prog="husk image", description="Root file systems that boxes start from.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: object, text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, parents=[shared], help=text, description=text)
        made.set_defaults(run=run)
        return made

    command("ls", _ls, "the images")
    inspect = command("inspect", _inspect, "one image: its layers, its size, how it wants to be started")
    inspect.add_argument("image", metavar="IMAGE")
    rm = command("rm", _rm, "forget images; `husk store gc --delete` then frees their space")
    rm.add_argument("image", metavar="IMAGE", nargs="+")
    tag = command("tag", _tag, "give an image another name too")
    tag.add_argument("image", metavar="IMAGE")
    tag.add_argument("name", metavar="NAME")

    bring = command("import", _import, "make an image of a directory, a tar archive, `docker save`, or an OCI layout")
    bring.add_argument("source", metavar="SRC", help="tar archives plain, or packed with gzip, xz, bzip2 or zstd")
    bring.add_argument("--name", metavar="NAME", default="", help="(default: what it calls itself, else SRC's name)")
    bring.add_argument("--ref", metavar="REF", default="", help="which, where SRC holds several images")
    bring.add_argument("--max-bytes", metavar="SIZE", type=_size, default=32 << 30, help="when unpacked (32g)")
    bring.add_argument("--max-entries", metavar="N", type=_count, default=2_000_000, help="names (2000000)")
    bring.add_argument("--max-ratio", metavar="N", type=_count, default=200, help="unpacked to packed (200)")
    bring.add_argument("--show-left-out", action="store_true", help="list what was left out")

    export = command("export", _export, "write an image as a tar archive or an OCI layout")
    export.add_argument("image", metavar="IMAGE")
    export.add_argument("place", metavar="DEST", help="a new file; with oci a new directory, or a file named *.tar")
    export.add_argument("--format", choices=("tar", "oci"), default="tar")

    build = command("build", _build, "make an image by a recipe; what was done before is not done again")
    build.add_argument("recipe", metavar="FILE", help="TOML; docs/images.md says what can be in it")
    build.add_argument("--name", metavar="NAME", default="", help="(default: what FILE says, else its own name)")
    build.add_argument("--no-namespaces", action="store_true", help="as for husk run, for the boxes of the steps")
    build.add_argument("--weaken", action="append", default=[], metavar="NAME", help="as for husk run, likewise")
    return parser


def _size(text: str) -> int:
    unit = text[-1:].lower() if text[-1:].isalpha() else ""
    number = text[: len(text) - len(unit)]
    if not number.isdecimal() or unit not in _UNITS or not int(number):
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write a number, perhaps with k, m, g or t, such as 8g")
    return int(number) * _UNITS[unit]


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return int(text)


def _say(options: argparse.Namespace, document: Any, lines: list[str]) -> None:
    print(json.dumps(document, indent=2) if options.json else "\n".join(lines), flush=True)


def _ls(options: argparse.Namespace) -> int:
    document, lines, code = images(Store.open(options.store))
    _say(options, document, lines)
    return code


def _inspect(options: argparse.Namespace) -> int:
    from husk.store.measure import image_stat

    store = Store.open(options.store)
    image = store.images.get(options.image)
    found = {**image_stat(store, options.image), "flat": image.flat, "created_ns": image.created_ns}
    _say(options, found, show.inspected(found))
    return 0


def _rm(options: argparse.Namespace) -> int:
    store = Store.open(options.store)
    there = set(store.images.list())
    for name in options.image:
        if name not in there:  # all or none, as far as mistakes go; a damaged one can be forgotten, too
            store.images.get(name)
    try:
        for name in options.image:
            store.images.rm(name)
    except OSError as error:
        raise StoreError(f"the image cannot be removed: {error.strerror}; make the store writable first.") from None
    lines = [f"removed {name}" for name in options.image]
    _say(options, {"removed": options.image}, [*lines, "`husk store gc` says what that frees"])
    return 0


def _tag(options: argparse.Namespace) -> int:
    store = Store.open(options.store)
    try:
        with store.writing():  # no collection between reading the old record and writing the new one
            store.images.set(options.name, store.images.get(options.image))
    except OSError as error:
        raise StoreError(f"the name cannot be written: {error.strerror}; make the store writable first.") from None
    _say(options, {"image": options.image, "name": options.name}, [f"{options.image} is {options.name} too"])
    return 0


def _import(options: argparse.Namespace) -> int:
    from husk.images.archive_limits import Limits
    from husk.images.image_import import bring
    from husk.store.images import check_name
    from husk.store.store_errors import StoreUsageError

    if options.name:
        check_name(options.name)
    if not os.path.exists(options.source):
        raise StoreUsageError(f"{options.source} does not exist; name a directory or an archive.")
    store = Store.create(options.store)
    limits = Limits(options.max_bytes, options.max_entries, options.max_ratio)
    with progress("importing", quiet=options.json) as advance:
        report = bring(store, options.source, options.name, ref=options.ref, limits=limits, progress=advance)
    _say(options, report.as_json(), show.brought(report, left_out=options.show_left_out))
    return 0


def _export(options: argparse.Namespace) -> int:
    from husk.images.image_export import export

    store = Store.open(options.store)
    report = export(store, options.image, options.place, options.format)
    if options.place == "-":
        return 0
    _say(options, report.as_json(), show.exported(report))
    return 0


def _build(options: argparse.Namespace) -> int:
    from husk.images.build import build

    def tell(line: str) -> None:
        if not options.json:
            print(line, flush=True)

    weaken = frozenset(check_weaken(name) for name in options.weaken)
    store = Store.create(options.store)
    report = build(store, options.recipe, options.name, tell, namespaces=not options.no_namespaces, weaken=weaken)
    count = f"{len(report.layers)} {'layer' if len(report.layers) == 1 else 'layers'}"
    _say(options, vars(report), [f"image {report.image}, {count}; try `husk run --image {report.image} -- sh`"])
    return 0
