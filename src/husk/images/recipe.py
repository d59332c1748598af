"""images: the recipe of `husk image build`: read from TOML, and checked before anything is done. See docs/images.md."""

from __future__ import annotations

import os
import stat as st
import tomllib
from typing import TYPE_CHECKING, Any

from blake3 import blake3

from husk.store.errors import StoreUsageError
from husk.store.images import ImageConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRATCH = "scratch"
PACKED = ".husk-build"  # where local packages are inside, below /run
_PACKAGES = {
    # No cache is kept: it would be part of the layer. apt's own sandbox wants a second user, which a box has not. dpkg
    # need not sync each file: the store syncs them all, or a machine that dies has no layer.
    "apt": (
        "get() { DEBIAN_FRONTEND=noninteractive apt-get -q -o APT::Sandbox::User=root -o Dpkg::Use-Pty=0 "
        '-o Dpkg::Options::=--force-unsafe-io "$@"; }; '
        "get update && get install -y --no-install-recommends PACKAGES && get clean && rm -f /var/lib/apt/lists/*_*"
    ),
    "pip": "python3 -m pip install --no-cache-dir --no-compile --root-user-action=ignore PACKAGES",
    "npm": "npm install --global --no-audit --no-fund --cache /tmp/.husk-npm PACKAGES && rm -rf /tmp/.husk-npm",
}
_KNOWN = {"base", "name", "allow-net", "env", "packages", "files", "run", "config"}


class Input:
    """A file of the person's that goes into a step: where it is, and what it is called in the key."""

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
    """One layer. `command`: what a shell inside runs; empty: `inputs` are copied to `to`."""

    first = False  # before packages
    fetches = False  # something that is not among its inputs

    def __init__(self, title: str, command: str = "", inputs: list[Input] | None = None, to: str = "") -> None:
        self.title, self.command, self.inputs, self.to = title, command, inputs or [], to

    def key(self) -> list[object]:
        return [self.command, self.to, [one.key() for one in self.inputs]]


class Recipe:
    """What a file asks for."""

    def __init__(self, path: str) -> None:
        self.folder = os.path.dirname(os.path.abspath(path))
        try:
            with open(path, "rb") as file:
                said = tomllib.load(file)
        except OSError as error:
            raise StoreUsageError(f"{path} cannot be read: {error.strerror}; name a build file.") from None
        except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, a number or a nesting without end
            raise StoreUsageError(f"{path} is no TOML: {error}; docs/images.md shows a build file.") from None
        self._path = path
        if unknown := sorted(said.keys() - _KNOWN):
            raise self._wrong(f"{unknown[0]} is nothing it can say; it can say {', '.join(sorted(_KNOWN))}")
        self.base = self._text(said, "base")
        if not self.base:
            raise self._wrong('say what to build upon: base = "IMAGE", or "scratch" for nothing')
        if self.base == "host":
            raise self._wrong(
                "the host's own programs are no image, and no step could tell when they change; `husk run --keep` and "
                "`husk commit` make a layer upon them, and `husk image import` makes a root to build upon"
            )
        self.name = self._text(said, "name")
        self.allow_net = self._words(said, "allow-net")
        self.env = self._table(said, "env")
        self.config = self._table(said, "config", texts=False)
        if unknown := sorted(self.config.keys() - {"user", "workdir", "entrypoint", "cmd", "labels"}):
            raise self._wrong(f"config.{unknown[0]} is none of user, workdir, entrypoint, cmd, labels")
        files = [*self._files(said)]
        first, later = [step for step in files if step.first], [step for step in files if not step.first]
        self.steps = [*first, *self._packages(said), *later, *self._run(said)]

    def _wrong(self, why: str) -> StoreUsageError:
        return StoreUsageError(f"{self._path}: {why}.")

    def _text(self, table: dict[str, Any], key: str) -> str:
        value = table.get(key, "")
        if not isinstance(value, str) or "\0" in value:
            raise self._wrong(f"{key} must be a text")
        return value

    def _words(self, table: dict[str, Any], key: str) -> list[str]:
        value = table.get(key, [])
        if not isinstance(value, list) or not all(
            isinstance(word, str) and word and "\0" not in word for word in value
        ):
            raise self._wrong(f"{key} must be a list of texts")
        return value

    def _table(self, said: dict[str, Any], key: str, *, texts: bool = True) -> dict[str, Any]:
        value = said.get(key, {})
        if not isinstance(value, dict) or (texts and not all(isinstance(text, str) for text in value.values())):
            raise self._wrong(f"[{key}] must be a table{' of texts' if texts else ''}")
        return value

    def finished(self, base: ImageConfig) -> ImageConfig:
        """How the image is started: as its base is, but for what the recipe says."""
        config = self.config
        return ImageConfig(
            base.env | self.env,
            self._text(config, "user") or base.user,
            self._text(config, "workdir") or base.workdir,
            self._words(config, "entrypoint") or base.entrypoint,
            self._words(config, "cmd") or base.cmd,
            base.labels | self._table(config, "labels"),
        )

    # -- steps -----------------------------------------------------------------------------------------------------
    def _packages(self, said: dict[str, Any]) -> Iterator[Step]:
        table = self._table(said, "packages", texts=False)
        for tool in table:
            if tool not in _PACKAGES:
                raise self._wrong(f"packages.{tool} is none of {', '.join(_PACKAGES)}")
        for tool, command in _PACKAGES.items():
            words, inputs = [], []
            for word in self._words(table, tool):
                if word.startswith("./"):  # a package that lies next to the recipe
                    found = Input(self._beside(word), os.path.basename(word))
                    if found.kind != st.S_IFREG:
                        raise self._wrong(f"{word} is no file")
                    inputs.append(found)
                    word = f"/run/{PACKED}/{found.rel}"
                words.append("'" + word.replace("'", "'\\''") + "'")
            if words:
                fetches = len(inputs) < len(words)
                if tool == "pip" and not fetches:
                    words.insert(0, "--no-index")
                title = f"{tool} {' '.join(self._words(table, tool))}"
                step = Step(title, command.replace("PACKAGES", " ".join(words)), inputs)
                step.fetches = fetches
                yield step

    def _files(self, said: dict[str, Any]) -> Iterator[Step]:
        tables = said.get("files", [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise self._wrong("write [[files]], with from and to")
        for table in tables:
            source, to = self._text(table, "from"), self._text(table, "to")
            if not source or not to.startswith("/") or ".." in to.split("/") or table.keys() - {"from", "to", "first"}:
                raise self._wrong("each of [[files]] has from, a name next to this file, and to, an absolute path")
            step = Step(f"copy {source} to {to}", "", [*self._inputs(self._beside(source))], to)
            step.first = table.get("first", False)
            if not isinstance(step.first, bool):
                raise self._wrong("first, of [[files]], is true (copy it before packages are installed) or false")
            yield step

    def _beside(self, name: str) -> str:
        """A name next to the recipe; nothing else of the host gets in by a recipe somebody else wrote."""
        path = os.path.realpath(os.path.join(self.folder, name))
        if os.path.commonpath([path, os.path.realpath(self.folder)]) != os.path.realpath(self.folder):
            raise self._wrong(f"{name} does not lie next to it")
        if not os.path.exists(path):
            raise self._wrong(f"{name} does not exist")
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
                    raise self._wrong(f"{full} is neither file, directory nor link")
                yield found

    def _run(self, said: dict[str, Any]) -> Iterator[Step]:
        table = self._table(said, "run", texts=False)
        if table.keys() - {"commands"}:
            raise self._wrong('[run] has commands = ["…"]')
        for command in self._words(table, "commands"):
            yield Step(f"run {command}", command)
