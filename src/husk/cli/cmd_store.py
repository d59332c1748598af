"""cli: `husk store`: what people do with the store. The work is husk.store's; here are its options and its words."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from husk.cli import store_show as show
from husk.cli.exit_codes import run_on_store
from husk.store.layout import is_hash
from husk.store.store import Store
from husk.store.store_errors import StoreError, StoreUsageError

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def main(argv: list[str]) -> int:
    return run_on_store("store", _parser().parse_args(argv), (StoreError,))


def _parser() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--store", metavar="DIR", help="the store (default: $HUSK_STORE, else the user's data directory)"
    )
    shared.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser = argparse.ArgumentParser(prog="husk store", description="Content-addressed files, and images made of them.")
    # prog: without it argparse formats a usage to find out, which costs an import.
    commands = parser.add_subparsers(required=True, metavar="COMMAND", prog="husk store")

    def command(name: str, run: object, text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, parents=[shared], help=text, description=text)
        made.set_defaults(run=run)
        return made

    ingest = command(
        "ingest", _ingest, "bring a directory into the store; files that did not change are not read again"
    )
    ingest.add_argument("directory", metavar="DIR")
    ingest.add_argument("--name", metavar="IMAGE", help="make it an image of this name; without, it may be collected")
    ingest.add_argument(
        "--exclude", metavar="PATTERN", action="append", default=[], help="leave out: *.log, build/, /top"
    )
    ingest.add_argument("--include-secrets", action="store_true", help="also .env files, private keys, credentials")
    ingest.add_argument("--show-excluded", action="store_true", help="list what was left out")
    ingest.add_argument("--cross-mounts", action="store_true", help="also what is mounted below DIR")
    ingest.add_argument("--jobs", metavar="N", type=_positive, default=0, help="threads (default: one per processor)")

    command("ls", _ls, "the images")
    stat = command("stat", _stat, "an image, or the whole store")
    stat.add_argument("image", metavar="IMAGE", nargs="?")

    verify = command(
        "verify", _verify, "hash everything again; set aside what is damaged and name the images it touches"
    )
    verify.add_argument("--repair-from", metavar="DIR", default="", help="another store, or a directory with the files")
    verify.add_argument("--jobs", metavar="N", type=_positive, default=0, help="threads (default: one per processor)")

    gc = command(
        "gc", _gc, "what no image and no running box needs, unused layers of packages too; only said, unless --delete"
    )
    gc.add_argument("--delete", action="store_true", help="remove it")
    gc.add_argument(
        "--unused-for", metavar="TIME", type=_duration, default=0.0, help="keep what is younger: 90m, 12h, 7d"
    )

    protect = command("protect", _protect, "set the immutable flag on blobs, where file system and privileges allow")
    protect.add_argument(
        "what", metavar="IMAGE|HASH|PATH", help="all blobs of an image, one blob, or a file of the store"
    )

    rm = command("rm", _rm, "forget an image; `gc --delete` then frees its space")
    rm.add_argument("image", metavar="IMAGE")
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 256:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of threads; write one from 1 to 256")
    return int(text)


def _duration(text: str) -> float:
    number, unit = text[:-1], text[-1:]
    if not number.isdecimal() or unit not in _UNITS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; write a number and s, m, h, d or w, such as 7d")
    return float(int(number) * _UNITS[unit])


def _say(options: argparse.Namespace, document: Any, lines: list[str]) -> None:
    print(json.dumps(document, indent=2) if options.json else "\n".join(lines), flush=True)


def _ingest(options: argparse.Namespace) -> int:
    from husk.store.images import check_name
    from husk.store.ingest import Options, ingest

    if options.name:
        check_name(options.name)  # before an hour of work
    if not os.path.isdir(options.directory):
        raise StoreUsageError(f"{options.directory} is no directory; name the one to ingest.")
    store = Store.create(options.store)
    wishes = Options(
        options.exclude,
        include_secrets=options.include_secrets,
        cross_mounts=options.cross_mounts,
        jobs=options.jobs,
    )
    with show.progress("ingesting", quiet=options.json) as progress:
        report = ingest(store, options.directory, options.name or "", wishes, progress)
    _say(options, report.as_json(), show.ingested(report, excluded=options.show_excluded))
    return 0


def _ls(options: argparse.Namespace) -> int:
    document, lines, code = show.images(Store.open(options.store))
    _say(options, document, lines)
    return code


def _stat(options: argparse.Namespace) -> int:
    from husk.store.measure import image_stat, store_stat

    store = Store.open(options.store)
    found = image_stat(store, options.image) if options.image else store_stat(store)
    _say(options, found, show.pairs(found))
    return 0


def _verify(options: argparse.Namespace) -> int:
    from husk.store.verify import settle, verify

    store = Store.open(options.store)
    if options.repair_from and not os.path.isdir(options.repair_from):
        raise StoreUsageError(f"--repair-from {options.repair_from}: there is no such directory.")
    with show.progress("verifying", quiet=options.json) as progress:
        outcome = verify(store, options.jobs, progress)
    problem = ""
    if outcome.findings:
        try:
            settle(store, outcome, options.repair_from)
        except OSError as error:
            problem = (
                f"what is damaged cannot be set aside ({error.strerror}); make the store writable and verify again."
            )
    _say(options, outcome.as_json(), show.verified(outcome))
    if problem:
        raise StoreError(problem)
    return 0 if outcome.clean else 1


def _gc(options: argparse.Namespace) -> int:
    from husk.store.collect import collect

    store = Store.open(options.store)
    try:
        result = collect(store, delete=options.delete, unused_for=options.unused_for)
    except OSError as error:
        raise StoreError(f"the store at {store.place} cannot be collected: {error}; make it writable first.") from None
    _say(options, result.as_json(), show.collected(result))
    return 0


def _protect(options: argparse.Namespace) -> int:
    from husk.store.protect import protect

    store = Store.open(options.store)
    result = protect(_blobs(store, options.what))
    _say(options, result.as_json(), show.protected(result))
    return 1 if result.failed else 0


def _blobs(store: Store, what: str) -> list[str]:
    if is_hash(what):
        if not store.has(what):
            raise StoreUsageError(f"there is no blob {what}; `husk store stat` says how many there are.")
        return [store.blob_path(what)]
    path = os.path.realpath(what)
    if path.startswith(os.path.join(os.path.realpath(store.place), "blake3", "")) and os.path.isfile(path):
        return [path]
    if what.startswith(("/", "./", "../")):
        raise StoreUsageError(
            f"{what} is no blob of {store.place}; name an image, a hash, or a file below its blake3/."
        )
    layers = store.images.get(what).manifests
    hashes = {entry.hash for layer in layers for entry in store.open_manifest(layer).walk() if entry.is_file}
    return sorted(map(store.blob_path, {*layers, *hashes}))


def _rm(options: argparse.Namespace) -> int:
    store = Store.open(options.store)
    try:
        store.images.rm(options.image)
    except OSError as error:
        raise StoreError(f"the image cannot be removed: {error.strerror}; make the store writable first.") from None
    _say(options, {"removed": options.image}, [f"removed {options.image}; `husk store gc` says what that frees"])
    return 0
