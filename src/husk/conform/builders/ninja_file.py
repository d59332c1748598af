"""conform: write build.ninja for the programs of a graph. Nothing is run here (`gvisor_build`).

Layout of the output folder: the programs, what they start or read in `runfiles/_main/PACKAGE/NAME` (the names Bazel
gives them), and in `build/` what only ninja needs. ninja runs there, so its names for the others begin with `../`.
"""

from __future__ import annotations

import shlex

from husk.conform.builders.bazel_graph import OUTPUT, Command, Graph, Label, Library, Program, Script

WORKPLACE = "build"  # below the output folder, as is the next
RUNFILES = "runfiles"

_HEAD = """\
# Written by `husk conform build`. Do not edit: it is written anew each time.
ninja_required_version = 1.5
cxx = {cxx}
flags = {flags}
rule compile
  command = $cxx $flags $options -MMD -MF $out.d -c $in -o $out
  depfile = $out.d
  deps = gcc
  description = compile $out
rule archive
  command = rm -f $out && ar crs $out $in
  description = archive $out
rule link
  command = $cxx $flags $in -o $out $libraries
  description = link $out
rule command
  command = $cxx $words
  description = compile $out
rule copy
  command = cp $in $out && chmod 755 $out
  description = copy $out
"""


class NinjaFile:
    """The text of build.ninja, and which outputs each program stands on."""

    def __init__(self, compiler: str, flags: list[str], graph: Graph) -> None:
        self._graph = graph
        self._lines = [_HEAD.format(cxx=_escaped(shlex.quote(compiler)), flags=_shell(flags))]
        self._outputs: dict[Label, list[str]] = {}  # of a library: an archive, or its objects
        self._objects: dict[Label, list[str]] = {}
        self.needs: dict[str, set[str]] = {}  # output of a program: every output it needs

    def text(self) -> str:
        return "\n".join([*self._lines, "default " + " ".join(_escaped(name) for name in self.needs), ""])

    def add_program(self, program: Program, output: str) -> None:
        inputs = self._compiled(program.body, [program.body, *program.libraries])
        archives: list[str] = []
        for library in program.libraries:
            (inputs if library.whole else archives).extend(self._library(library))
        # The options of one library stay together: they may open a group and close it.
        groups = dict.fromkeys(library.link_options for library in (*program.libraries, program.body))
        options = [option for group in groups for option in group]
        self._lines += [
            f"build {_escaped(output)}: link {_names(inputs)} {_names(archives)}",
            f"  libraries = {_shell(options)}",
        ]
        objects = [name for library in program.libraries for name in self._objects.get(library.label, [])]
        self.needs[output] = {output, *inputs, *archives, *objects}

    def add_command(self, command: Command, output: str) -> None:
        words = _shell([output if word == OUTPUT else word for word in command.words])
        sources = _names([str(path) for path in command.sources])
        self._lines += [f"build {_escaped(output)}: command | {sources}", f"  words = {words}"]
        self.needs[output] = {output}

    def add_script(self, script: Script, output: str) -> None:
        self._lines.append(f"build {_escaped(output)}: copy {_names([str(script.source)])}")
        self.needs[output] = {output}

    def _library(self, library: Library) -> list[str]:
        known = self._outputs.get(library.label)
        if known is not None:
            return known
        objects = self._objects[library.label] = self._compiled(library, self._graph.library_closure(library))
        outputs = objects
        if objects and not library.whole:
            archive = f"lib/{_folder(library.label)}.a"
            self._lines.append(f"build {_escaped(archive)}: archive {_names(objects)}")
            outputs = [archive]
        self._outputs[library.label] = outputs
        return outputs

    def _compiled(self, library: Library, closure: list[Library]) -> list[str]:
        """The objects of a library's or program's own sources; `closure` is whose headers they may include."""
        objects = []
        options = dict.fromkeys(library.own_options)
        for one in closure:
            options |= dict.fromkeys(one.compile_options)
        for number, source in enumerate(library.sources):
            output = f"obj/{_folder(library.label)}/{source.name}.o"
            if output in objects:  # two folders of one library have a file of this name
                output = f"obj/{_folder(library.label)}/{number}-{source.name}.o"
            objects.append(output)
            self._lines += [
                f"build {_escaped(output)}: compile {_names([str(source)])}",
                f"  options = {_shell(list(options))}",
            ]
        return objects


def program_output(name: str) -> str:
    return f"../{name}"


def data_output(label: Label) -> str:
    """Where a program looks for what it starts or reads."""
    return f"../{RUNFILES}/_main/{label.package}/{label.name}"


def _folder(label: Label) -> str:
    return "/".join(part for part in (label.repository or "main", label.package, label.name) if part)


def _escaped(text: str) -> str:
    """A word as ninja wants it, in paths and in values alike."""
    return text.replace("$", "$$").replace(" ", "$ ").replace(":", "$:").replace("\n", "$\n")


def _names(names: list[str]) -> str:
    return " ".join(_escaped(name) for name in names)


def _shell(words: list[str]) -> str:
    return " ".join(shlex.quote(word) for word in words).replace("$", "$$")
