"""images: what every build does: make layers by copying and by running, remember them by their inputs, lease them.

A layer is made once for its key. Commands run in a box on top of the layers so far, never on the host. Not here: what a
recipe or a Dockerfile asks for.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from blake3 import blake3

from husk.images.archive_layer import LayerBuilder
from husk.images.archive_limits import Budget, Limits
from husk.sandbox.image_source import BASE, Unnamed
from husk.sandbox.kept.capture_layer import layer_of
from husk.sandbox.policy import Policy
from husk.sandbox.runner import Events, Runner
from husk.store.flatten import flatten
from husk.store.images import ImageConfig
from husk.store.layout import is_hash, write_whole
from husk.store.store_errors import StoreError, StoreUsageError

if TYPE_CHECKING:
    from husk.images.archive_layer import Entries
    from husk.sandbox.filesystem import Files
    from husk.sandbox.result import Result
    from husk.store.images import Image
    from husk.store.locks import Lease
    from husk.store.manifests.manifest import Manifest
    from husk.store.store import Store

MAX_SYMLINKS = 40  # as many as Linux follows in one path


class LayerMaker:
    """The layers of one build. All are leased until `close`: no collection removes them before the image names them."""

    def __init__(
        self, store: Store, *, namespaces: bool = True, weaken: frozenset[str] = frozenset(), use_cache: bool = True
    ) -> None:
        self.store, self.namespaces, self.weaken, self.use_cache = store, namespaces, weaken, use_cache
        self.leases: list[Lease] = []

    def close(self) -> None:
        for lease in self.leases:
            lease.close()

    def lease_base(self, name: str) -> Image:
        lease, base = self.store.lease_image(name)
        if base.config.labels.get(BASE):
            lease.close()
            raise StoreUsageError(
                f"the image {name!r} is a layer upon the host's own programs; build upon a whole one."
            )
        self.leases.append(lease)
        return base

    # -- the cache -------------------------------------------------------------------------------------------------
    def _cache(self, key: list[object]) -> str:
        digest = blake3(json.dumps(key).encode()).hexdigest()
        return os.path.join(self.store.place, "index", f"build-{digest}")

    def remember(self, key: list[object], layer: str) -> None:
        try:
            write_whole(self._cache(key), f"{layer}\n".encode())
        except OSError:
            pass  # the step runs again next time; writing the image reports a store that cannot be written

    def cached(self, key: list[object]) -> str:
        """The cached layer, if it and all its blobs are still there."""
        if not self.use_cache:
            return ""
        try:
            with open(self._cache(key), "rb") as file:
                layer = file.read(100).decode("ascii", "replace").strip()
            if not is_hash(layer):
                return ""
            lease = self.store.lease([layer])
        except (FileNotFoundError, StoreError):
            return ""
        self.leases.append(lease)
        entries = self.store.open_manifest(layer).walk()
        return layer if all(self.store.has(entry.hash) for entry in entries if entry.is_file) else ""

    # -- layers ----------------------------------------------------------------------------------------------------
    def copy(self, entries: Entries, below: Manifest | None) -> str:
        """A layer of these entries."""
        with self.store.writing() as writing:
            layer = LayerBuilder(writing.stage, Budget(Limits()), whiteouts=False, below=[below] if below else [])
            layer.read(entries)
            made = writing.put_manifest(layer.finish())
            writing.publish()
            self.leases.append(self.store.lease([made]))
        return made

    def run(self, policy: Policy, layers: list[str], config: ImageConfig) -> tuple[str, Result]:
        """Run the program of `policy` upon `layers`. The layer of what it changed is empty if it failed."""
        policy.store = self.store.place
        policy.namespaces, policy.weaken = self.namespaces, set(self.weaken)
        made: list[str] = []

        def keep(files: Files, result: Result) -> str:
            if not result.exit_code:
                with self.store.writing() as writing:
                    made.append(layer_of(files.layers[0][1], writing))
                    writing.publish()
                    self.leases.append(self.store.lease(made))
            return ""

        unnamed = Unnamed(self.flat(layers), layers, config.as_json())
        with open(os.devnull, "rb") as nothing:
            stdio = (nothing.fileno(), 2, 2)
            result = Runner(policy, Events(None, None), stdio, unnamed=unnamed, at_end=keep).run()
        return (made[0] if made and not result.exit_code else ""), result

    def flat(self, layers: list[str]) -> str:
        if len(layers) == 1:
            return layers[0]
        with self.store.writing() as writing:
            flat = writing.put_manifest(flatten([self.store.open_manifest(layer) for layer in layers]))
            writing.publish()
            self.leases.append(self.store.lease([flat]))
        return flat

    def name(self, name: str, layers: list[str], config: ImageConfig) -> None:
        """Write the image's record, unless it is there already."""
        if not layers:
            raise StoreUsageError("there is nothing in it; say what to build upon or what to copy.")
        if name in self.store.images.list():
            there = self.store.images.get(name)
            if there.layers == layers and there.config.as_json() == config.as_json():
                return
        with self.store.writing() as writing:
            writing.set_image(name, layers, config)


def resolve(below: Manifest | None, path: bytes) -> bytes:
    """Resolve `path` in an image, through its symbolic links; missing parts stay as they are."""
    waiting = path.split(b"/")[::-1]
    here: list[bytes] = []
    links = 0
    while waiting:
        part = waiting.pop()
        if part in (b"", b"."):
            continue
        if part == b"..":
            del here[-1:]
            continue
        entry = below.lookup(b"/".join([*here, part])) if below else None
        if entry is None or not entry.is_link:
            here.append(part)
            continue
        links += 1
        if links > MAX_SYMLINKS:
            name = path.decode("utf-8", "backslashreplace")
            raise StoreUsageError(f"/{name} leads in a circle in the image; name another place.")
        if entry.target.startswith(b"/"):
            here = []
        waiting += entry.target.split(b"/")[::-1]
    return b"/".join(here)


def is_directory(below: Manifest | None, path: bytes) -> bool:
    """Is there a directory in the image, perhaps behind links?"""
    entry = below.lookup(resolve(below, path)) if path and below is not None else None
    return not path or (entry is not None and entry.is_directory)


def network_refusal(result: Result) -> tuple[str, str]:
    """What was refused, and the rule that would allow it, if a step was refused an address or a name: the usual cause
    of a failed step, and tools report it in many ways."""
    for item in result.refusals:
        if str(item.get("allow", "")).startswith("--allow-net "):
            return str(item["what"]), str(item["allow"]).removeprefix("--allow-net ")
    return "", ""
