"""images: build. Each step of a recipe makes a layer, cached by its inputs, so that no step runs twice.

Commands run in a box on top of the layers so far, never on the host, and reach only the network the recipe allows.
"""

from __future__ import annotations

import json
import os
import shutil
import stat as st
import tempfile
from typing import TYPE_CHECKING

from blake3 import blake3

from husk.images import tarread
from husk.images.archive_layer import LayerBuilder
from husk.images.archive_limits import Budget, Limits
from husk.images.recipe import PACKED, SCRATCH, Recipe, Step
from husk.images.tarread import TarEntry
from husk.sandbox.image_source import Unnamed
from husk.sandbox.kept.capture_layer import layer_of
from husk.sandbox.policy import Mount, Policy
from husk.sandbox.runner import Events, Runner
from husk.store.flatten import flatten
from husk.store.images import ImageConfig, check_name
from husk.store.layout import is_hash, write_whole
from husk.store.store_errors import StoreError, StoreUsageError, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from husk.sandbox.filesystem import Files
    from husk.sandbox.result import Result
    from husk.store.locks import Lease
    from husk.store.manifest import Manifest
    from husk.store.store import Store

FORMAT = 1  # part of every cache key: a change in how steps are made invalidates the cache
MAX_SYMLINKS = 40  # as many as Linux follows in one path
_KINDS = {st.S_IFREG: tarread.FILE, st.S_IFDIR: tarread.DIRECTORY, st.S_IFLNK: tarread.SYMLINK}


class BuildReport:
    """What a build did."""

    def __init__(self) -> None:
        self.image = ""
        self.layers: list[str] = []
        self.steps: list[dict[str, object]] = []  # title, layer, cached


def build(
    store: Store,
    path: str,
    name: str = "",
    tell: Callable[[str], None] | None = None,
    *,
    namespaces: bool = True,
    weaken: frozenset[str] = frozenset(),
) -> BuildReport:
    """Build the image of a recipe. `namespaces` and `weaken` apply to the boxes of its steps."""
    recipe = Recipe(path)
    name = check_name(name or recipe.name or os.path.splitext(os.path.basename(path))[0])
    return _Build(store, recipe, tell or (lambda _: None), namespaces, weaken).run(name)


class _Build:
    """One build. Layers made so far are leased: no collection removes them before the image names them."""

    def __init__(
        self, store: Store, recipe: Recipe, tell: Callable[[str], None], namespaces: bool, weaken: frozenset[str]
    ) -> None:
        self.store, self.recipe, self.tell = store, recipe, tell
        self.namespaces, self.weaken = namespaces, weaken
        self.report = BuildReport()
        self.leases: list[Lease] = []
        self.layers: list[str] = []
        self.config = ImageConfig()
        if recipe.base != SCRATCH:
            lease, base = store.lease_image(recipe.base)
            if base.config.labels.get("husk.base"):
                lease.close()
                raise StoreUsageError(
                    f"the image {recipe.base!r} is a layer upon the host's own programs; build upon a whole one."
                )
            self.leases.append(lease)
            self.layers, self.config = list(base.layers), base.config

    def run(self, name: str) -> BuildReport:
        try:
            for number, step in enumerate(self.recipe.steps, 1):
                title = f"{number}/{len(self.recipe.steps)} {step.title}"
                key = self._key(step)
                layer = self._cached(key)
                self.tell(f"{title}{' (cached)' if layer else ''}")
                self.report.steps.append({"step": step.title, "cached": bool(layer)})
                if not layer:
                    layer = self._run(step) if step.command else self._copy(step)
                    self._remember(key, layer)
                self.report.steps[-1]["layer"] = layer
                self.layers.append(layer)
            self._name(name)
        finally:
            for lease in self.leases:
                lease.close()
        return self.report

    def _name(self, name: str) -> None:
        if not self.layers:
            raise StoreUsageError("there is nothing in it; say what to build upon or what to copy.")
        config = self.recipe.finished(self.config)
        self.report.image, self.report.layers = name, self.layers
        if name in self.store.images.list():
            there = self.store.images.get(name)
            if there.layers == self.layers and there.config.as_json() == config.as_json():
                return
        with self.store.writing() as writing:
            writing.set_image(name, self.layers, config)

    # -- the cache -------------------------------------------------------------------------------------------------
    def _key(self, step: Step) -> str:
        said = [FORMAT, self.layers, step.key()]
        if step.command:
            said += [self.recipe.env, self.recipe.allow_net]
        return blake3(json.dumps(said).encode()).hexdigest()

    def _cache(self, key: str) -> str:
        return os.path.join(self.store.place, "index", f"build-{key}")

    def _remember(self, key: str, layer: str) -> None:
        try:
            write_whole(self._cache(key), f"{layer}\n".encode())
        except OSError:
            pass  # the step runs again next time; writing the image reports a store that cannot be written

    def _cached(self, key: str) -> str:
        """The cached layer, if it and all its blobs are still there; it is leased from here on."""
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

    # -- steps -----------------------------------------------------------------------------------------------------
    def _copy(self, step: Step) -> str:
        below = self.store.open_manifest(self._flat()) if self.layers else None
        with self.store.writing() as writing:
            layer = LayerBuilder(writing.stage, Budget(Limits()), whiteouts=False, below=[below] if below else [])
            layer.read(_CopiedFiles(step, below))
            made = writing.put_manifest(layer.finish())
            writing.publish()
            self.leases.append(self.store.lease([made]))
        return made

    def _run(self, step: Step) -> str:
        if not self.layers:
            raise StoreUsageError(f"{step.title!r} has nothing to run in; build upon an image, or copy files first.")
        policy = Policy(["/bin/sh", "-c", step.command])
        policy.image, policy.store = self.recipe.base, self.store.place
        policy.allow_net = list(self.recipe.allow_net)
        policy.namespaces, policy.weaken = self.namespaces, set(self.weaken)
        policy.workdir = "/"
        policy.over_files = True  # as root: packages install files of any owner
        # As root, whatever user the image starts as later, and not through its entry point.
        config = ImageConfig(self.config.env | self.recipe.env).as_json()
        made: list[str] = []

        def keep(files: Files, result: Result) -> str:
            if not result.exit_code:
                with self.store.writing() as writing:
                    made.append(layer_of(files.layers[0][1], writing))
                    writing.publish()
                    self.leases.append(self.store.lease(made))
            return ""

        with tempfile.TemporaryDirectory(prefix="husk-build-") as folder, open(os.devnull, "rb") as nothing:
            if step.inputs:
                os.chmod(folder, 0o755)
                for one in step.inputs:
                    shutil.copyfile(one.path, os.path.join(folder, one.rel))
                policy.mounts.append(Mount(folder, f"/run/{PACKED}", "ro", ruled=False))
            unnamed = Unnamed(self._flat(), self.layers, config)
            stdio = (nothing.fileno(), 2, 2)
            result = Runner(policy, Events(None, None), stdio, unnamed=unnamed, at_end=keep).run()
        if result.exit_code or not made:
            why = _network_refusal(result)
            if step.fetches and not self.recipe.allow_net:
                why = ", and has no network (the recipe may say allow-net)"
            raise StoreError(f"the step {step.title!r} ended with {result.exit_code}{why}; nothing of it was kept.")
        return made[0]

    def _flat(self) -> str:
        if len(self.layers) == 1:
            return self.layers[0]
        with self.store.writing() as writing:
            flat = writing.put_manifest(flatten([self.store.open_manifest(layer) for layer in self.layers]))
            writing.publish()
            self.leases.append(self.store.lease([flat]))
        return flat


def _network_refusal(result: Result) -> str:
    """The network refusal, if any: the usual cause of a failed step, and tools report it in many ways."""
    for item in result.refusals:
        if str(item.get("allow", "")).startswith("--allow-net "):
            rule = str(item["allow"]).removeprefix("--allow-net ")
            return f", and was refused {shown(str(item['what']).encode())} (the recipe may say allow-net = [{rule!r}])"
    return ""


class _CopiedFiles:
    """The inputs of a step as entries of a layer: owned by root, without times: equal files give equal layers."""

    def __init__(self, step: Step, below: Manifest | None) -> None:
        self.step, self.below = step, below
        self._content = b""

    def __iter__(self) -> Iterator[TarEntry]:
        top = os.fsencode(self.step.to.strip("/"))
        for one in self.step.inputs:
            name = os.path.join(top, os.fsencode(one.rel)).strip(b"/")
            if not one.rel and one.kind != st.S_IFDIR and (self.step.to.endswith("/") or self._is_directory(name)):
                name = os.path.join(name, os.fsencode(os.path.basename(one.path)))
            folder, _, last = name.rpartition(b"/")
            # A directory in place of the link /lib -> usr/lib would hide all of /usr/lib: resolve the parents first.
            name = os.path.join(self._resolve(folder), last)
            if one.kind == st.S_IFDIR and self._is_directory(name):
                continue  # an existing directory keeps its metadata
            entry = TarEntry(name, _KINDS[one.kind], 0)
            entry.mode, entry.target = one.mode, os.fsencode(one.target)
            if one.kind == st.S_IFREG:
                with open(one.path, "rb") as file:
                    self._content = file.read()
                if blake3(self._content).hexdigest() != one.digest:
                    raise StoreError(f"{one.path} was changed meanwhile; build again.")
                entry.size = len(self._content)
            yield entry

    def content(self, most: int) -> bytes:
        found, self._content = self._content[:most], self._content[most:]
        return found

    def _is_directory(self, path: bytes) -> bool:
        if not path or self.below is None:
            return not path
        entry = self.below.lookup(self._resolve(path))
        return entry is not None and entry.is_directory

    def _resolve(self, path: bytes) -> bytes:
        """Resolve `path` in the image, through its symbolic links; missing parts stay as they are."""
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
            entry = self.below.lookup(b"/".join([*here, part])) if self.below else None
            if entry is None or not entry.is_link:
                here.append(part)
                continue
            links += 1
            if links > MAX_SYMLINKS:
                raise StoreUsageError(f"{self.step.to} leads in a circle in the image; name another place.")
            if entry.target.startswith(b"/"):
                here = []
            waiting += entry.target.split(b"/")[::-1]
        return b"/".join(here)
