"""images: build by a Dockerfile: its stages, and what each instruction does.

RUN, COPY and WORKDIR make layers, cached by their inputs (build_layers); the others change how the image is started. A
RUN is a box upon the layers so far: it sees nothing of the host, and reaches no network that was not opened for it.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from husk.images.build import BuildReport
from husk.images.build_layers import LayerMaker, is_directory, network_refusal
from husk.images.dockerfile.build_context import BuildContext
from husk.images.dockerfile.copy_entries import CopyEntries, Item, from_context, from_image
from husk.images.dockerfile.dockerfile_syntax import Dockerfile, Instruction, Words
from husk.images.recipe import SCRATCH
from husk.images.registry.image_reference import spellings
from husk.sandbox.errors import HuskError, NotExecutable, NotFound
from husk.sandbox.image_source import ImageSource, Unnamed
from husk.sandbox.policy import DEFAULT_PATH, Policy
from husk.store.images import RESERVED, ImageConfig, check_name
from husk.store.store_errors import StoreError, StoreUsageError, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from husk.store.manifests.manifest import Manifest
    from husk.store.store import Store

FORMAT = "dockerfile-1"  # part of every cache key: a change in how steps are made invalidates the cache
SHELL = ["/bin/sh", "-c"]
PLATFORM = {"OS": "linux", "ARCH": "amd64", "PLATFORM": "linux/amd64", "VARIANT": ""}
# Variables that docker knows without an ARG before the first FROM.
_PREDEFINED = {f"{kind}{name}": value for kind in ("TARGET", "BUILD") for name, value in PLATFORM.items()}
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY")
_LAYERS = ("RUN", "COPY", "WORKDIR")
_STAGE = re.compile(r"[a-z][a-z0-9._-]*")


class Settings:
    """What the person who builds says: values of ARGs, the stage to stop at, and the network of RUNs."""

    __slots__ = ("allow_net", "args", "net", "target")

    def __init__(
        self, args: Mapping[str, str] | None = None, target: str = "", allow_net: Sequence[str] = (), net: str = "none"
    ) -> None:
        self.args, self.target, self.allow_net, self.net = dict(args or {}), target, list(allow_net), net


class Stage:
    """From one FROM to the next. `config`, `args` and so on are as of the instruction that was done last."""

    def __init__(self, number: int, said: Instruction, base: str, name: str) -> None:
        self.number, self.said, self.base, self.name = number, said, base, name
        self.instructions: list[Instruction] = []
        self.layers: list[str] = []
        self.config = ImageConfig()
        self.args: dict[str, str] = {}
        self.shell = SHELL
        self.own_cmd = self.done = False

    @property
    def title(self) -> str:
        return self.name or f"stage {self.number}"


def build_dockerfile(
    maker: LayerMaker,
    path: str,
    context: str,
    name: str = "",
    settings: Settings | None = None,
    tell: Callable[[str], None] | None = None,
) -> BuildReport:
    """Build the image of a Dockerfile's last stage. It is called `name`, else as the context's directory."""
    name = check_name(name or os.path.basename(os.path.realpath(context)).lower())
    return _Build(maker, path, context, settings or Settings(), tell or (lambda _: None)).run(name)


class _Build:
    def __init__(
        self, maker: LayerMaker, path: str, context: str, settings: Settings, tell: Callable[[str], None]
    ) -> None:
        self.maker, self.settings, self.tell = maker, settings, tell
        self.store: Store = maker.store
        self.file = Dockerfile(path)
        self.context = BuildContext(context, path)
        self.report = BuildReport()
        self.global_args: dict[str, str] = {}
        self.stages: list[Stage] = []
        self._read_stages()
        declared = {*_PROXIES}
        for one in self.file.instructions:
            if one.name == "ARG":
                declared |= {word.partition("=")[0] for word in one.rest.split()}
        for arg in settings.args:
            if arg not in declared and arg.upper() not in declared:
                raise StoreUsageError(f"--build-arg {arg}: {path} has no ARG {arg}.")
        self.number = self.total = 0

    # -- stages ----------------------------------------------------------------------------------------------------
    def _read_stages(self) -> None:
        for said in self.file.instructions:
            if said.name == "FROM":
                self.stages.append(self._stage(said))
            elif self.stages:
                self.stages[-1].instructions.append(said)
            elif said.name == "ARG":
                self._set_arg(said, self.global_args, self._global)
            else:
                raise said.wrong(f"{said.name} stands before the first FROM; only ARG may.")
        if not self.stages:
            raise StoreUsageError(f"{self.file.path} has no FROM; say what to build upon, or FROM scratch.")

    def _stage(self, said: Instruction) -> Stage:
        words = Words(said, self.file.escape, self._global).split(said.rest)
        platform = Words(said, self.file.escape, self._global).one(said.flags.pop("platform", ""))
        if platform not in ("", PLATFORM["PLATFORM"]):
            raise said.wrong(f"--platform={platform}: a box runs {PLATFORM['PLATFORM']} only; leave it out.")
        if said.flags:
            raise said.wrong(f"FROM --{next(iter(said.flags))} is not supported.")
        if len(words) == 3 and words[1].upper() == "AS":
            name = words[2].lower()
            if not _STAGE.fullmatch(name) or any(name == stage.name for stage in self.stages):
                raise said.wrong(f"{words[2]!r} cannot name a stage: it begins with a letter and comes once.")
        elif len(words) == 1:
            name = ""
        else:
            raise said.wrong("write FROM IMAGE, or FROM IMAGE AS NAME.")
        return Stage(len(self.stages), said, words[0], name)

    def _global(self, name: str) -> str | None:
        return self.global_args.get(name, _PREDEFINED.get(name))

    def _find_stage(self, name: str, before: int) -> Stage | None:
        """A stage by its name or number, among the first `before`."""
        for stage in self.stages[:before]:
            if name.lower() == stage.name or name == str(stage.number):
                return stage
        return None

    def _needed(self, stage: Stage, found: list[Stage]) -> list[Stage]:
        """The stages that `stage` stands upon or copies from, and itself, in their order."""
        if stage not in found:
            found.append(stage)
            wanted = [stage.base, *(one.flags.get("from", "") for one in stage.instructions)]
            for name in wanted:
                below = self._find_stage(name, stage.number) if name else None
                if below is not None:
                    self._needed(below, found)
        return sorted(found, key=lambda one: one.number)

    def run(self, name: str) -> BuildReport:
        last = self.stages[-1]
        if self.settings.target:
            found = self._find_stage(self.settings.target, len(self.stages))
            if found is None:
                names = ", ".join(stage.name for stage in self.stages if stage.name) or "none has a name"
                raise StoreUsageError(f"there is no stage {self.settings.target!r}; there are {names}.")
            last = found
        needed = self._needed(last, [])
        self.total = sum(said.name in _LAYERS for stage in needed for said in stage.instructions)
        for stage in needed:
            self._run_stage(stage)
        self.maker.name(name, last.layers, last.config)
        self.report.image, self.report.layers = name, last.layers
        return self.report

    def _run_stage(self, stage: Stage) -> None:
        below = self._find_stage(stage.base, stage.number)
        if below is not None:
            stage.layers, stage.config, stage.shell = list(below.layers), _copied(below.config), below.shell
        elif stage.base != SCRATCH:
            base = self.maker.lease_base(self._image(stage.said, stage.base))
            stage.layers, stage.config = list(base.layers), _copied(base.config)
        for said in stage.instructions:
            self.number += said.name in _LAYERS
            getattr(self, f"_{said.name.lower()}")(stage, said, self._words(stage, said))

    def _image(self, said: Instruction, name: str) -> str:
        """The name in the store of an image that the file names."""
        there = set(self.store.images.list())
        for spelling in spellings(name):
            if spelling in there:
                return spelling
        raise said.wrong(f"there is no image {name!r} in the store; `husk image pull {name}` fetches it.")

    # -- variables -------------------------------------------------------------------------------------------------
    def _words(self, stage: Stage, said: Instruction) -> Words:
        return Words(said, self.file.escape, lambda name: stage.config.env.get(name, stage.args.get(name)))

    def _set_arg(self, said: Instruction, into: dict[str, str], lookup: Callable[[str], str | None]) -> None:
        for word in Words(said, self.file.escape, lookup).split(said.rest):
            name, equals, default = word.partition("=")
            if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
                raise said.wrong(f"{name[:60]!r} cannot name an ARG.")
            outer = self._global(name)
            value = self.settings.args.get(name, default if equals else outer)
            if value is not None:
                into[name] = value

    def _arg(self, stage: Stage, said: Instruction, words: Words) -> None:
        self._set_arg(said, stage.args, words.lookup)

    # -- how the image starts --------------------------------------------------------------------------------------
    def _env(self, stage: Stage, said: Instruction, words: Words) -> None:
        stage.config.env |= dict(words.pairs(said.rest))  # all with the values from before this instruction

    def _label(self, stage: Stage, said: Instruction, words: Words) -> None:
        labels = dict(words.pairs(said.rest))
        if any(label.startswith(RESERVED) for label in labels):
            raise said.wrong(f"labels that begin with {RESERVED} are husk's own; choose another name.")
        stage.config.labels |= labels

    def _user(self, stage: Stage, said: Instruction, words: Words) -> None:
        stage.config.user = words.one(said.rest)

    def _cmd(self, stage: Stage, said: Instruction, _: Words) -> None:
        stage.config.cmd, stage.own_cmd = self._program(stage, said), True

    def _entrypoint(self, stage: Stage, said: Instruction, _: Words) -> None:
        stage.config.entrypoint = self._program(stage, said)
        if not stage.own_cmd:
            stage.config.cmd = []  # as docker does: the base's command was for the base's entry point

    def _program(self, stage: Stage, said: Instruction) -> list[str]:
        found = said.exec_form()
        return [*stage.shell, said.rest] if found is None else found

    def _shell(self, stage: Stage, said: Instruction, _: Words) -> None:
        found = said.exec_form()
        if not found:
            raise said.wrong('SHELL has the JSON form: SHELL ["/bin/bash", "-c"].')
        stage.shell = found

    def _expose(self, stage: Stage, said: Instruction, words: Words) -> None:
        """A note for people; `--publish` opens ports."""
        for word in words.split(said.rest):
            if not re.fullmatch(r"\d{1,5}(-\d{1,5})?(/(tcp|udp|sctp))?", word):
                raise said.wrong(f"EXPOSE {word[:40]!r}: write a port, such as 8080 or 53/udp.")

    # -- layers ----------------------------------------------------------------------------------------------------
    def _step(self, stage: Stage, said: Instruction, key: list[object], make: Callable[[], str]) -> None:
        """One layer: the cached one, or a new one."""
        whole: list[object] = [FORMAT, stage.layers, *key]
        layer = self.maker.cached(whole)
        title = " ".join(str(said).split())
        where = f" {stage.title}:" if len(self.stages) > 1 else ""
        self.tell(f"{self.number}/{self.total}{where} {title[:200]}{' (cached)' if layer else ''}")
        self.report.steps.append({"step": title, "stage": stage.title, "line": said.line, "cached": bool(layer)})
        if not layer:
            layer = make()
            self.maker.remember(whole, layer)
        self.report.steps[-1]["layer"] = layer
        stage.layers.append(layer)

    def _flat(self, stage: Stage) -> Manifest | None:
        return self.store.open_manifest(self.maker.flat(stage.layers)) if stage.layers else None

    def _run(self, stage: Stage, said: Instruction, _: Words) -> None:
        if said.flags.get("network") == "none":
            net, rules = "none", []
        elif unknown := [flag for flag in said.flags if flag != "network" or said.flags[flag] != "default"]:
            raise said.wrong(f"RUN --{unknown[0]} is not supported; leave it out.")
        else:
            net, rules = self.settings.net, self.settings.allow_net
        if not stage.layers:
            raise said.wrong("there is nothing to run it in: build FROM an image, or COPY programs first.")
        if said.heredoc is not None and said.heredoc.startswith("#!"):
            raise said.wrong("a here-document with its own interpreter is not supported; name it: RUN python3 <<EOF.")
        found = said.exec_form() if said.heredoc is None else None
        argv = found or [*stage.shell, said.rest if said.heredoc is None else said.heredoc]
        env = stage.args | stage.config.env
        config = ImageConfig({"PATH": DEFAULT_PATH} | env, stage.config.user)
        key: list[object] = ["run", argv, config.env, config.user, stage.config.workdir, net, rules]

        def make() -> str:
            policy = Policy(argv)
            policy.image, policy.workdir = stage.base, stage.config.workdir or "/"
            policy.net, policy.allow_net = net, list(rules)
            policy.over_files = config.user in ("", "0", "root", "0:0", "root:root")
            try:
                layer, result = self.maker.run(policy, stage.layers, config)
            except (NotFound, NotExecutable) as error:
                raise said.wrong(f"RUN cannot start: {error}") from None
            if not layer:
                what, rule = network_refusal(result)
                why = ""
                if rule:
                    why = f", and was refused {shown(what.encode())}; --allow-net {rule} would allow it"
                elif net == "none" and not rules:
                    why = "; if it needs a network, --allow-net HOST:PORT opens what it may reach"
                raise StoreError(f"{self.file.path}, line {said.line}: RUN ended with {result.exit_code}{why}.")
            return layer

        self._step(stage, said, key, make)

    def _copy(self, stage: Stage, said: Instruction, words: Words) -> None:
        found = said.exec_form()
        names = [words.one(word) for word in found] if found is not None else words.split(said.rest)
        if len(names) < 2 or not all(names):
            raise said.wrong("COPY takes what to copy, and where to.")
        for flag in said.flags:
            if flag not in ("from", "chown", "chmod", "link"):
                raise said.wrong(f"COPY --{flag} is not supported; there are --from, --chown and --chmod.")
        *sources, to = names
        items = self._items(stage, said, sources, words.one(said.flags.get("from", "")))
        # `to` is a directory if it is written as one, or if more than one thing goes there.
        into = to.endswith(("/", "/.")) or to == "." or sum(not item.rel for item in items) > 1
        place = os.path.normpath(os.path.join("/", stage.config.workdir, to)).lstrip("/")
        owner = self._owner(stage, said, words.one(said.flags.get("chown", "")))
        mode = _mode(said, words.one(said.flags.get("chmod", "")))
        key: list[object] = ["copy", place, into, owner, mode, [item.key() for item in items]]

        def make() -> str:
            below = self._flat(stage)
            target = place.encode("utf-8", "surrogateescape")
            return self.maker.copy(CopyEntries(items, below, target, into=into, owner=owner, mode=mode), below)

        self._step(stage, said, key, make)

    def _items(self, stage: Stage, said: Instruction, sources: list[str], origin: str) -> list[Item]:
        if not origin:
            return from_context(said, self.context, sources)
        other = self._find_stage(origin, stage.number)
        if other is not None:
            flat = self._flat(other)
        else:
            flat = self.store.open_manifest(self.maker.lease_base(self._image(said, origin)).flat)
        if flat is None:
            raise said.wrong(f"there is nothing in {origin} to copy.")
        return from_image(said, self.store, flat, sources)

    def _workdir(self, stage: Stage, said: Instruction, words: Words) -> None:
        wanted = words.one(said.rest)
        stage.config.workdir = "/" + os.path.normpath(os.path.join("/", stage.config.workdir, wanted)).lstrip("/")
        place = stage.config.workdir.lstrip("/").encode("utf-8", "surrogateescape")
        below = self._flat(stage)
        if is_directory(below, place):
            return
        owner = self._owner(stage, said, stage.config.user) if stage.config.user else (0, 0)
        folder = Item(b"", b"", 0o040000, 0o755)
        entries = CopyEntries([folder], below, place, into=False, owner=owner, mode=None)
        self._step(stage, said, ["workdir", stage.config.workdir, owner], lambda: self.maker.copy(entries, below))

    def _owner(self, stage: Stage, said: Instruction, text: str) -> tuple[int, int] | None:
        """`user[:group]` as the image's own accounts have it. A number alone means the group of the same number, as
        docker has it."""
        if not text:
            return None
        user, _, group = text.partition(":")
        if user.isdigit() and (group or user).isdigit():
            return int(user), int(group or user)
        if not stage.layers:
            raise said.wrong(f"there is no /etc/passwd to find {text!r} in; write numbers.")
        unnamed = Unnamed(self.maker.flat(stage.layers), stage.layers, ImageConfig(user=text).as_json())
        try:
            source = ImageSource(stage.base, self.store.place, unnamed)
        except HuskError as error:
            raise said.wrong(str(error)) from None
        source.close()
        return source.uid, source.gid


def _copied(config: ImageConfig) -> ImageConfig:
    """A copy of its own: instructions change it in place. husk's notes about the base are not the new image's."""
    made = ImageConfig(**config.as_json())  # type: ignore[arg-type]
    made.labels = {key: value for key, value in made.labels.items() if not key.startswith(RESERVED)}
    return made


def _mode(said: Instruction, text: str) -> int | None:
    if not text:
        return None
    if not re.fullmatch(r"[0-7]{3,4}", text):
        raise said.wrong(f"--chmod={text}: write octal digits, such as 755.")
    return int(text, 8)
