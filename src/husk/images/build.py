"""images: build by a recipe. Each step is a layer (build_layers); commands reach only the network the recipe allows."""

from __future__ import annotations

import os
import shutil
import stat as st
import tempfile
from typing import TYPE_CHECKING

from blake3 import blake3

from husk.images import tarread
from husk.images.build_layers import LayerMaker, is_directory, network_refusal, resolve
from husk.images.recipe import PACKED, SCRATCH, Recipe, Step
from husk.images.tarread import TarEntry
from husk.sandbox.policy import Mount, Policy
from husk.store.images import ImageConfig, check_name
from husk.store.store_errors import StoreError, StoreUsageError, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from husk.store.manifests.manifest import Manifest
    from husk.store.store import Store

FORMAT = 1  # part of every cache key: a change in how steps are made invalidates the cache
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
    use_cache: bool = True,
) -> BuildReport:
    """Build the image of a recipe. `namespaces` and `weaken` apply to the boxes of its steps."""
    recipe = Recipe(path)
    name = check_name(name or recipe.name or os.path.splitext(os.path.basename(path))[0])
    maker = LayerMaker(store, namespaces=namespaces, weaken=weaken, use_cache=use_cache)
    try:
        return _Build(maker, recipe, tell or (lambda _: None)).run(name)
    finally:
        maker.close()


class _Build:
    """One build of a recipe."""

    def __init__(self, maker: LayerMaker, recipe: Recipe, tell: Callable[[str], None]) -> None:
        self.maker, self.store, self.recipe, self.tell = maker, maker.store, recipe, tell
        self.report = BuildReport()
        self.layers: list[str] = []
        self.config = ImageConfig()
        if recipe.base != SCRATCH:
            base = maker.lease_base(recipe.base)
            self.layers, self.config = list(base.layers), base.config

    def run(self, name: str) -> BuildReport:
        for number, step in enumerate(self.recipe.steps, 1):
            title = f"{number}/{len(self.recipe.steps)} {step.title}"
            key = self._key(step)
            layer = self.maker.cached(key)
            self.tell(f"{title}{' (cached)' if layer else ''}")
            self.report.steps.append({"step": step.title, "cached": bool(layer)})
            if not layer:
                layer = self._run(step) if step.command else self._copy(step)
                self.maker.remember(key, layer)
            self.report.steps[-1]["layer"] = layer
            self.layers.append(layer)
        self.maker.name(name, self.layers, self.recipe.finished(self.config))
        self.report.image, self.report.layers = name, self.layers
        return self.report

    def _key(self, step: Step) -> list[object]:
        said: list[object] = [FORMAT, self.layers, step.key()]
        if step.command:
            said += [self.recipe.env, self.recipe.allow_net]
        return said

    # -- steps -----------------------------------------------------------------------------------------------------
    def _copy(self, step: Step) -> str:
        below = self.store.open_manifest(self.maker.flat(self.layers)) if self.layers else None
        return self.maker.copy(_CopiedFiles(step, below), below)

    def _run(self, step: Step) -> str:
        if not self.layers:
            raise StoreUsageError(f"{step.title!r} has nothing to run in; build upon an image, or copy files first.")
        policy = Policy(["/bin/sh", "-c", step.command])
        policy.image = self.recipe.base
        policy.allow_net = list(self.recipe.allow_net)
        policy.workdir = "/"
        policy.over_files = True  # as root: packages install files of any owner
        # As root, whatever user the image starts as later, and not through its entry point.
        config = ImageConfig(self.config.env | self.recipe.env)
        with tempfile.TemporaryDirectory(prefix="husk-build-") as folder:
            if step.inputs:
                os.chmod(folder, 0o755)
                for one in step.inputs:
                    shutil.copyfile(one.path, os.path.join(folder, one.rel))
                policy.mounts.append(Mount(folder, f"/run/{PACKED}", "ro", ruled=False))
            layer, result = self.maker.run(policy, self.layers, config)
        if not layer:
            what, rule = network_refusal(result)
            why = ""
            if rule:
                why = f", and was refused {shown(what.encode())} (the recipe may say allow-net = [{rule!r}])"
            if step.fetches and not self.recipe.allow_net:
                why = ", and has no network (the recipe may say allow-net)"
            raise StoreError(f"the step {step.title!r} ended with {result.exit_code}{why}; nothing of it was kept.")
        return layer


class _CopiedFiles:
    """The inputs of a step as entries of a layer: owned by root, without times: equal files give equal layers."""

    def __init__(self, step: Step, below: Manifest | None) -> None:
        self.step, self.below = step, below
        self._content = b""

    def __iter__(self) -> Iterator[TarEntry]:
        top = os.fsencode(self.step.to.strip("/"))
        for one in self.step.inputs:
            name = os.path.join(top, os.fsencode(one.rel)).strip(b"/")
            into = self.step.to.endswith("/") or is_directory(self.below, name)
            if not one.rel and one.kind != st.S_IFDIR and into:
                name = os.path.join(name, os.fsencode(os.path.basename(one.path)))
            folder, _, last = name.rpartition(b"/")
            # A directory in place of the link /lib -> usr/lib would hide all of /usr/lib: resolve the parents first.
            name = os.path.join(resolve(self.below, folder), last)
            if one.kind == st.S_IFDIR and is_directory(self.below, name):
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
