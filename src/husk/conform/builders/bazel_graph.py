"""conform: from the rules of BUILD files to what must be compiled and linked.

Labels are followed from a program through its libraries, across repositories: the checkout itself and the libraries it
stands on, each in a folder of its own or from the system's packages. Only C and C++ rules have a meaning here, and a
program that depends on anything else is not built; the reason is kept. No file is written here (`ninja_file`).
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from husk.conform.builders.bazel_files import BuildFileError, Reading, Rule, build_file, read_build_file

_COMPILED = (".cc", ".cpp", ".cxx", ".c", ".S")
_MOST_ALIASES = 20  # one after the other
_LIBRARIES = ("cc_library",)
_PROGRAMS = ("cc_binary", "cc_test")
# Warnings are the project's own business, and one compiler's are errors for another; the standard is set for all.
_DROPPED_OPTIONS = ("-W", "-w", "-pedantic", "-std=")


OUTPUT = "$out"  # stands for the output in the words of a Command


class Unbuildable(Exception):
    """A target cannot be built. Its text is the reason, one sentence."""


@dataclass(frozen=True)
class Label:
    """`@repository//package:name`, in its long form. The checkout itself is the repository ""."""

    repository: str
    package: str
    name: str

    def __str__(self) -> str:
        return f"{'@' + self.repository if self.repository else ''}//{self.package}:{self.name}"

    @classmethod
    def parse(cls, text: str, near: Label) -> Label:
        """What `text` means in the BUILD file that defines `near`."""
        repository, package, rest = near.repository, near.package, text
        if rest.startswith("@"):
            repository, _, rest = rest.lstrip("@").partition("//")
            rest = "//" + rest
        if rest.startswith("//"):
            package, _, name = rest[2:].partition(":")
            return cls(repository, package, name or package.rpartition("/")[2] or repository)
        return cls(repository, package, rest.removeprefix(":"))


@dataclass(frozen=True)
class SystemLibrary:
    """A repository that the system's packages stand for: whatever is asked of it, these options answer."""

    compile_options: tuple[str, ...] = ()
    link_options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Library:
    """One library, ready to compile. `own_options` are for its own sources, the others also for all that use it."""

    label: Label
    sources: tuple[Path, ...]
    own_options: tuple[str, ...]
    compile_options: tuple[str, ...]
    link_options: tuple[str, ...]
    whole: bool  # every object goes into the program, also those that nothing refers to: tests register themselves


@dataclass(frozen=True)
class Program:
    """One program, ready to link. `libraries` come before what they depend on."""

    label: Label
    body: Library
    libraries: tuple[Library, ...]
    data: tuple[Label, ...] = ()


@dataclass(frozen=True)
class Command:
    """A program that the BUILD file compiles with a command line of its own (a genrule that calls the compiler)."""

    label: Label
    words: tuple[str, ...]
    sources: tuple[Path, ...]


@dataclass(frozen=True)
class Script:
    """A script that is used as it is."""

    label: Label
    source: Path


class Graph:
    """The targets of some repositories, found when they are asked for."""

    def __init__(self, roots: dict[str, Path | SystemLibrary], aliases: dict[str, str], reading: Reading) -> None:
        """`roots`: each repository's folder, or what stands for it. `aliases`: other names of repositories."""
        self._roots, self._aliases, self._reading = roots, aliases, reading
        self._packages: dict[tuple[str, str], dict[str, Rule]] = {}
        self._libraries: dict[Label, Library] = {}

    def rules(self, repository: str, package: str) -> dict[str, Rule]:
        """The rules of one package by name. Unbuildable: there is no such package."""
        known = self._packages.get((repository, package))
        if known is not None:
            return known
        root = self._roots.get(repository)
        path = build_file(root / package) if isinstance(root, Path) else None
        if path is None:
            raise Unbuildable(f"there is no package {'@' + repository if repository else ''}//{package}")
        try:
            rules = {rule.name: rule for rule in read_build_file(path, self._reading)}
        except BuildFileError as error:
            raise Unbuildable(str(error)) from None
        self._packages[repository, package] = rules
        return rules

    def program(self, label: Label) -> Program:
        """Unbuildable: something it needs is missing, or is not written in C or C++."""
        rule = self._rule(label)
        if rule.kind not in _PROGRAMS:
            raise Unbuildable(f"{label} is a {rule.kind}, which is no program in C or C++")
        body = self._library(label, rule)
        if not body.sources:
            raise Unbuildable("it has no source for this machine")
        wanted = [rule.text("malloc"), *rule.words("deps")]
        direct = [self._resolve(text, label) for text in wanted if text]
        data = tuple(self._resolve(text, label) for text in rule.words("data"))
        return Program(label, body, tuple(self._closure(direct)), data)

    def datum(self, label: Label) -> Program | Command | Script:
        """What a program reads or starts while it runs. Unbuildable: likewise."""
        rule = self._rule(label)
        if rule.kind in _PROGRAMS:
            return self.program(label)
        if rule.kind == "sh_binary":
            return Script(label, self._files(rule.words("srcs")[:1], label)[0])
        if rule.kind == "genrule":
            return self._command(label, rule)
        raise Unbuildable(f"{label} is a {rule.kind}, which is not in C or C++")

    def library_closure(self, library: Library) -> list[Library]:
        """A library and all it stands on, itself first."""
        return self._closure([library.label])

    def _rule(self, label: Label) -> Rule:
        """The rule of a label, through any aliases."""
        for _ in range(_MOST_ALIASES):
            rule = self._named(label)
            if rule.kind != "alias":
                return rule
            label = self._resolve(rule.text("actual"), label)
        raise Unbuildable(f"{label} is an alias of itself")

    def _named(self, label: Label) -> Rule:
        rules = self.rules(label.repository, label.package)
        rule = rules.get(label.name)
        if rule is None:
            # A genrule is also found by the name of what it makes.
            rule = next((one for one in rules.values() if label.name in one.words("outs")), None)
        if rule is None:
            raise Unbuildable(f"there is no target {label}")
        return rule

    def _resolve(self, text: str, near: Label) -> Label:
        label = Label.parse(text, near)
        # Bazel knows no such labels; here they would be names of files elsewhere.
        if label.package.startswith("/") or ".." in (*label.package.split("/"), *label.name.split("/")):
            raise Unbuildable(f"{text} leads out of its repository")
        return Label(self._aliases.get(label.repository, label.repository), label.package, label.name)

    def _closure(self, wanted: list[Label]) -> list[Library]:
        """All libraries below `wanted`, each before what it depends on, as a linker reads them."""
        finished: dict[Label, Library] = {}
        entered: set[Label] = set()
        # Without recursion: the depth of a checkout's dependencies is the checkout's to choose.
        work = [(label, False) for label in wanted]
        while work:
            label, done = work.pop()
            if done:
                finished[label] = self._libraries[label]
            elif label not in entered:
                entered.add(label)
                work.append((label, True))
                work += [(below, False) for below in self._below(label)]
        return list(reversed(finished.values()))

    def _below(self, label: Label) -> list[Label]:
        """The direct dependencies of a library, which is thereby known."""
        root = self._roots.get(label.repository)
        if isinstance(root, SystemLibrary):
            self._libraries[label] = Library(label, (), (), root.compile_options, root.link_options, whole=False)
            return []
        rule = self._rule(label)
        if rule.kind not in _LIBRARIES:
            raise Unbuildable(f"it needs {label}, which is a {rule.kind}")
        self._libraries[label] = self._library(label, rule)
        words = [*rule.words("deps"), *rule.words("implementation_deps")]
        return [self._resolve(text, label) for text in words]

    def _library(self, label: Label, rule: Rule) -> Library:
        root = self._roots[label.repository]
        assert isinstance(root, Path)
        folder = root / label.package
        compiled = [name for name in rule.words("srcs") if name.endswith(_COMPILED)]
        own = [option for option in rule.words("copts") if not option.startswith(_DROPPED_OPTIONS)]
        return Library(
            label,
            tuple(self._files(compiled, label)),
            (*own, *_defines(rule.words("local_defines"))),
            (
                f"-iquote{root}",
                *(f"-isystem{folder / name}" for name in rule.words("includes")),
                *_defines(rule.words("defines")),
            ),
            tuple(rule.words("linkopts")),
            whole=bool(rule.number("alwayslink")),
        )

    def _files(self, names: list[str], near: Label) -> list[Path]:
        found = []
        for name in names:
            label = self._resolve(name, near)
            root = self._roots.get(label.repository)
            path = root / label.package / label.name if isinstance(root, Path) else None
            if path is None or not path.is_file():
                raise Unbuildable(f"there is no source {name} for {near}")
            found.append(path)
        return found

    def _command(self, label: Label, rule: Rule) -> Command:
        """A genrule whose command is one call of the compiler, read as words: no shell of theirs is run."""
        text = rule.text("cmd")
        other = Unbuildable(f"{label} is made by a command other than a plain call of the compiler")
        if not text.startswith("$(CC) ") or any(sign in text for sign in ";|&><`"):
            raise other
        try:
            said = shlex.split(text.removeprefix("$(CC) ").replace("$(location ", "$(location:"))
        except ValueError:  # a quote that is not closed
            raise other from None
        root = self._roots[label.repository]
        assert isinstance(root, Path)
        words, sources = [], []
        for word in said:
            if word.startswith("$(location:") and word.endswith(")"):
                name = word[len("$(location:") : -1]
                if name in rule.words("outs"):
                    words.append(OUTPUT)
                    continue
                sources += self._files([name], label)
                words.append(str(sources[-1]))
            elif word == "$(CC_FLAGS)":
                continue
            elif "$" in word:
                raise Unbuildable(f"{label} is made by a command with {word}, which has no meaning here")
            else:
                words.append(f"-I{root}" if word == "-I." else word)
        return Command(label, tuple(words), tuple(sources))


def _defines(words: list[str]) -> list[str]:
    """Bazel splits each definition as a shell would, which takes its quotes and backslashes away."""
    found = []
    for word in words:
        try:
            found += [f"-D{piece}" for piece in shlex.split(word)]
        except ValueError:
            continue  # a quote that is not closed: it could not be compiled with anyway
    return found
