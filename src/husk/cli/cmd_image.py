"""cli: `husk image`. The work is in husk.images and husk.store; here are the handlers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from husk.cli.exit_codes import run_command
from husk.cli.options.image_options import IMAGE
from husk.cli.output import say, say_result
from husk.cli.show import image_show as show
from husk.cli.show.store_show import download_progress, images, progress
from husk.sandbox.weaken import check as check_weaken
from husk.store.store import Store
from husk.store.store_errors import StoreError, StoreUsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from husk.cli.options.parse_words import Values
    from husk.images.build import BuildReport


def _ls(options: Values) -> int:
    document, lines, code = images(Store.open(options.store))
    say_result(document, lines, as_json=options.json)
    return code


def _inspect(options: Values) -> int:
    from husk.store.store_stats import image_stat

    store = Store.open(options.store)
    image = store.images.get(options.image)
    found = {**image_stat(store, options.image), "flat": image.flat, "created_ns": image.created_ns}
    say_result(found, show.inspected(found), as_json=options.json)
    return 0


def _rm(options: Values) -> int:
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
    say_result({"removed": options.image}, [*lines, "`husk store gc` says what that frees"], as_json=options.json)
    return 0


def _tag(options: Values) -> int:
    store = Store.open(options.store)
    try:
        with store.writing():  # no collection between reading the old record and writing the new one
            store.images.set(options.name, store.images.get(options.image))
    except OSError as error:
        raise StoreError(f"the name cannot be written: {error.strerror}; make the store writable first.") from None
    document = {"image": options.image, "name": options.name}
    say_result(document, [f"{options.image} is {options.name} too"], as_json=options.json)
    return 0


def _import(options: Values) -> int:
    from husk.images.archive_limits import Limits
    from husk.images.image_import import import_image
    from husk.store.images import check_name

    if options.name:
        check_name(options.name)
    if not os.path.exists(options.source):
        raise StoreUsageError(f"{options.source} does not exist; name a directory or an archive.")
    store = Store.create(options.store)
    limits = Limits(options.max_bytes, options.max_entries, options.max_ratio)
    with progress("importing", quiet=options.json) as advance:
        report = import_image(
            store, options.source, options.name, ref=options.ref, limits=limits, progress=advance, data=options.data
        )
    lines = show.imported(report, store.images.get(report.image).config, left_out=options.show_left_out)
    say_result(report.as_json(), lines, as_json=options.json)
    return 0


def _pull(options: Values) -> int:
    from husk.images.archive_limits import Limits

    try:
        from husk.images.registry.pull_image import pull
    except ModuleNotFoundError as error:
        if error.name not in ("httpx", "certifi"):
            raise
        raise StoreUsageError("pulling needs the package httpx: pip install 'huskbox[images]'.") from None
    store = Store.create(options.store)
    limits = Limits(options.max_bytes, options.max_entries, options.max_ratio)
    with download_progress(options.ref, quiet=options.json) as advance:
        report, digest = pull(
            store, options.ref, options.name, platform=options.platform, insecure=options.insecure, limits=limits,
            advance=advance,
        )  # fmt: skip
    config = store.images.get(report.image).config
    lines = [f"{options.ref} is {digest}", *show.imported(report, config, left_out=options.show_left_out)]
    document = {**report.as_json(), "ref": options.ref, "digest": digest}
    say_result(document, lines, as_json=options.json)
    return 0


def _export(options: Values) -> int:
    from husk.images.image_export import export

    if options.place == "-" and options.json and options.format == "tar":
        raise StoreUsageError("--json prints to standard output, where the archive would go; name a file instead of -.")
    store = Store.open(options.store)
    report = export(store, options.image, options.place, options.format)
    if options.place == "-":
        return 0
    say_result(report.as_json(), show.exported(report), as_json=options.json)
    return 0


def _build(options: Values) -> int:
    def tell(line: str) -> None:
        if not options.json:
            say(line)

    weaken = frozenset(check_weaken(name) for name in options.weaken)
    how: dict[str, Any] = {"namespaces": not options.no_namespaces, "weaken": weaken, "use_cache": not options.no_cache}
    if options.file or os.path.isdir(options.source):
        report = _build_dockerfile(options, tell, how)
    else:
        from husk.images.build import build

        for_dockerfiles = {"--build-arg": options.build_arg, "--target": options.target,
                           "--allow-net": options.allow_net, "--net": options.net != "none"}  # fmt: skip
        for option, given in for_dockerfiles.items():
            if given:
                raise StoreUsageError(f"{option} is for Dockerfiles, and {options.source} is a file: name a directory.")
        report = build(Store.create(options.store), options.source, options.name, tell, **how)
    count = f"{len(report.layers)} {'layer' if len(report.layers) == 1 else 'layers'}"
    config = Store.open(options.store).images.get(report.image).config
    line = f"image {report.image}, {count}; {show.next_step(report.image, config)}"
    say_result(vars(report), [line], as_json=options.json)
    return 0


def _build_dockerfile(options: Values, tell: Callable[[str], None], how: dict[str, Any]) -> BuildReport:
    from husk.images.build_layers import LayerMaker
    from husk.images.dockerfile.dockerfile_build import Settings, build_dockerfile

    path = options.file or os.path.join(options.source, "Dockerfile")
    args = {}
    for word in options.build_arg:
        name, equals, value = word.partition("=")
        if equals or name in os.environ:
            args[name] = value if equals else os.environ[name]
        else:
            raise StoreUsageError(f"--build-arg {name}: there is no such variable here; write {name}=VALUE.")
    settings = Settings(args, options.target, options.allow_net, options.net)
    maker = LayerMaker(Store.create(options.store), **how)
    try:
        return build_dockerfile(maker, path, options.source, options.name, settings, tell)
    finally:
        maker.close()


_HANDLERS = {
    "ls": _ls,
    "inspect": _inspect,
    "rm": _rm,
    "tag": _tag,
    "import": _import,
    "pull": _pull,
    "export": _export,
    "build": _build,
}


def main(argv: list[str]) -> int:
    return run_command(IMAGE, argv, _HANDLERS, stopped="stopped; nothing half-done is left in the store.")
