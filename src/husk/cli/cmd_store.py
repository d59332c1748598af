"""cli: `husk store`. The work is in husk.store; here are the handlers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from husk.cli.exit_codes import print_error, run_command
from husk.cli.options.store_options import STORE
from husk.cli.output import say, say_result
from husk.cli.show import store_show as show
from husk.store.layout import is_hash
from husk.store.store import Store
from husk.store.store_errors import StoreError, StoreUsageError

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values

def _ingest(options: Values) -> int:
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
    say_result(report.as_json(), show.ingested(report, excluded=options.show_excluded), as_json=options.json)
    return 0


def _ls(options: Values) -> int:
    document, lines, code = show.images(Store.open(options.store))
    say_result(document, lines, as_json=options.json)
    return code


def _stat(options: Values) -> int:
    from husk.store.store_stats import image_stat, store_stat

    store = Store.open(options.store)
    found = image_stat(store, options.image) if options.image else store_stat(store)
    say_result(found, show.pairs(found), as_json=options.json)
    return 0


def _verify(options: Values) -> int:
    from husk.store.repair import repair
    from husk.store.verify import settle, verify

    store = Store.open(options.store)
    if options.repair_from and not os.path.isdir(options.repair_from):
        raise StoreUsageError(f"--repair-from {options.repair_from}: there is no such directory.")
    with show.progress("verifying", quiet=options.json) as progress:
        outcome = verify(store, options.jobs, progress)
    try:
        if outcome.findings:
            settle(store, outcome)
            if options.repair_from:
                repair(store, outcome, options.repair_from)
    except OSError as error:
        problem = f"what is damaged cannot be set aside ({error.strerror}); make the store writable and verify again."
        if options.json:  # one object, with what was found
            print_error(problem, "store", StoreError.exit_code, **outcome.as_json())
            return StoreError.exit_code
        say(*show.verified(outcome))
        raise StoreError(problem) from None
    say_result(outcome.as_json(), show.verified(outcome), as_json=options.json)
    return 0 if outcome.clean else 1


def _gc(options: Values) -> int:
    from husk.store.collect import collect

    store = Store.open(options.store)
    try:
        result = collect(store, delete=options.delete, unused_for=options.unused_for)
    except OSError as error:
        raise StoreError(f"the store at {store.place} cannot be collected: {error}; make it writable first.") from None
    say_result(result.as_json(), show.collected(result), as_json=options.json)
    return 0


def _protect(options: Values) -> int:
    from husk.store.protect import protect

    store = Store.open(options.store)
    result = protect(_blobs(store, options.what))
    say_result(result.as_json(), show.protected(result), as_json=options.json)
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


def _rm(options: Values) -> int:
    store = Store.open(options.store)
    try:
        store.images.rm(options.image)
    except OSError as error:
        raise StoreError(f"the image cannot be removed: {error.strerror}; make the store writable first.") from None
    line = f"removed {options.image}; `husk store gc` says what that frees"
    say_result({"removed": options.image}, [line], as_json=options.json)
    return 0


_HANDLERS = {
    "ingest": _ingest,
    "ls": _ls,
    "stat": _stat,
    "verify": _verify,
    "gc": _gc,
    "protect": _protect,
    "rm": _rm,
}


def main(argv: list[str]) -> int:
    return run_command(STORE, argv, _HANDLERS, stopped="stopped; nothing half-done is left in the store.")
