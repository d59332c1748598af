"""images: the recipe of `husk image build`: read from TOML and checked before any step runs. See docs/images.md."""

from __future__ import annotations

import os
import stat as st
from typing import TYPE_CHECKING

from blake3 import blake3

from husk.sandbox.toml_reader import Table, read_toml
from husk.store.images import RESERVED, ImageConfig
from husk.store.store_errors import StoreUsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRATCH = "scratch"
PACKED = ".husk-build"  # where local packages are inside, below /run
_PACKAGES = {
    # No cache is kept: it would be part of the layer. apt's own sandbox wants a second user, which a box does not have.
    # dpkg need not sync each file: the store syncs them all before the layer exists.
    "apt": (
        "get() { DEBIAN_FRONTEND=noninteractive apt-get -q -o APT::Sandbox::User=root -o Dpkg::Use-Pty=0 "
        '-o Dpkg::Options::=--force-unsafe-io "$@"; }; '
        "get update && get install -y --no-install-recommends PACKAGES && get clean && rm -f /var/lib/apt/lists/*_*"
    ),
    "pip": "python3 -m pip install --no-cache-dir --no-compile --root-user-action=ignore PACKAGES",
    "npm": "npm install --global --no-audit --no-fund --cache /tmp/.husk-npm PACKAGES && rm -rf /tmp/.husk-npm",
}
_KNOWN = ("base", "name", "allow-net", "env", "packages", "files", "run", "config")


class Input:
    """A host file that goes into a step: where it is, and its name in the cache key."""

    __slots__ = ("digest", "kind", "mode", "path", "rel", "size", "target")

    def __init__(self, path: str, rel: str) -> None:
        self.path, self.rel = path, rel
        found = os.lstat(path)
        self.kind, self.mode, self.size = st.S_IFMT(found.st_mode), st.S_IMODE(found.st_mode) & 0o777, found.st_size
        self.target = os.readlink(path) if self.kind == st.S_IFLNK else ""
        self.digest = ""
        if self.kind == st.S_IFREG:
            with open(path, "rb") as file:
                self.digest = blake3(file.read()).hexdigest()

    def key(self) -> list[object]:
        return [self.rel, self.kind, self.mode, self.target, self.digest]


class Step:
    """One layer. A shell in the box runs `command`; if that is empty, `inputs` are copied to `to`."""

    first = False  # before packages
    fetches = False  # it downloads something

    def __init__(self, title: str, command: str = "", inputs: list[Input] | None = None, to: str = "") -> None:
        self.title, self.command, self.inputs, self.to = title, command, inputs or [], to

    def key(self) -> list[object]:
        return [self.command, self.to, [one.key() for one in self.inputs]]


class Recipe:
    """What a file asks for."""

    def __init__(self, path: str) -> None:
        self.folder = os.path.dirname(os.path.abspath(path))
        said = self._said = read_toml(path, StoreUsageError, "docs/images.md shows a build file")
        said.only(_KNOWN)
        self.base = said.text("base")
        if not self.base:
            raise said.wrong('say what to build upon: base = "IMAGE", or "scratch" for nothing.')
        if self.base == "host":
            raise said.wrong(
                "the host's own programs are no image, and no step could tell when they change; `husk run --keep` and "
                "`husk commit` make a layer upon them, and `husk image import` makes a root to build upon."
            )
        self.name = said.text("name")
        self.allow_net = _filled(said, "allow-net")
        self.env = said.texts("env")
        config = said.table("config")
        config.only(("user", "workdir", "entrypoint", "cmd", "labels"))
        self.user, self.workdir, self.labels = config.text("user"), config.text("workdir"), config.texts("labels")
        if any(label.startswith(RESERVED) for label in self.labels):
            raise config.wrong(f"labels that begin with {RESERVED} are husk's own; choose another name.")
        self.entrypoint, self.cmd = _filled(config, "entrypoint"), _filled(config, "cmd")
        files = [*self._files(said)]
        first, later = [step for step in files if step.first], [step for step in files if not step.first]
        self.steps = [*first, *self._packages(said.table("packages")), *later, *self._run(said.table("run"))]

    def finished(self, base: ImageConfig) -> ImageConfig:
        """The configuration of the image: its base's, overridden by the recipe's."""
        return ImageConfig(
            base.env | self.env,
            self.user or base.user,
            self.workdir or base.workdir,
            self.entrypoint or base.entrypoint,
            self.cmd or base.cmd,
            base.labels | self.labels,
        )

    # -- steps -----------------------------------------------------------------------------------------------------
    def _packages(self, table: Table) -> Iterator[Step]:
        table.only(_PACKAGES)
        for tool, command in _PACKAGES.items():
            words, inputs = [], []
            for word in _filled(table, tool):
                if word.startswith("./"):  # a package that lies next to the recipe
                    found = Input(self._beside(word), os.path.basename(word))
                    if found.kind != st.S_IFREG:
                        raise self._said.wrong(f"{word} is no file.")
                    inputs.append(found)
                    word = f"/run/{PACKED}/{found.rel}"
                words.append("'" + word.replace("'", "'\\''") + "'")
            if words:
                fetches = len(inputs) < len(words)
                if tool == "pip" and not fetches:
                    words.insert(0, "--no-index")
                title = f"{tool} {' '.join(_filled(table, tool))}"
                step = Step(title, command.replace("PACKAGES", " ".join(words)), inputs)
                step.fetches = fetches
                yield step

    def _files(self, said: Table) -> Iterator[Step]:
        for table in said.tables("files"):
            table.only(("from", "to", "first"))
            source, to = table.text("from"), table.text("to")
            if not source or not to.startswith("/") or ".." in to.split("/"):
                raise said.wrong("each of [[files]] has from, a name next to this file, and to, an absolute path.")
            step = Step(f"copy {source} to {to}", "", [*self._inputs(self._beside(source))], to)
            step.first = table.flag("first")  # before packages are installed
            yield step

    def _beside(self, name: str) -> str:
        """The path of a name beside the recipe. An untrusted recipe must not read any other host file."""
        path = os.path.realpath(os.path.join(self.folder, name))
        if os.path.commonpath([path, os.path.realpath(self.folder)]) != os.path.realpath(self.folder):
            raise self._said.wrong(f"{name} does not lie next to it.")
        if not os.path.exists(path):
            raise self._said.wrong(f"{name} does not exist.")
        return path

    def _inputs(self, path: str) -> Iterator[Input]:
        yield Input(path, "")
        if not os.path.isdir(path):
            return
        for where, folders, files in os.walk(path):
            folders.sort()
            for name in sorted(folders + files):
                full = os.path.join(where, name)
                found = Input(full, os.path.relpath(full, path))
                if found.kind not in (st.S_IFREG, st.S_IFDIR, st.S_IFLNK):
                    raise self._said.wrong(f"{full} is neither file, directory nor link.")
                yield found

    def _run(self, table: Table) -> Iterator[Step]:
        table.only(("commands",))
        for command in _filled(table, "commands"):
            yield Step(f"run {command}", command)


def _filled(table: Table, key: str) -> list[str]:
    """A list of texts, none of them empty."""
    found = table.words(key)
    if not all(found):
        raise table.wrong(f"{table.name_of(key)} has an empty text in it; take it out.")
    return found
