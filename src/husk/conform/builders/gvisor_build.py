"""conform: build gVisor's system call tests from a checkout, without Bazel, and describe them as a suite.

The BUILD files say what belongs together (`bazel_graph`), ninja compiles what is missing or has changed. What cannot be
built does not stop the rest: it is reported with its first error.
"""

from __future__ import annotations

import errno
import fcntl
import fnmatch
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from husk.conform.builders.bazel_files import Reading, Value
from husk.conform.builders.bazel_graph import Command, Graph, Label, Program, Script, SystemLibrary, Unbuildable
from husk.conform.builders.ninja_file import RUNFILES, WORKPLACE, NinjaFile, data_output, program_output
from husk.conform.builders.ninja_run import Progress, disk_full, find_compiler, find_ninja, run_ninja
from husk.conform.builders.runfiles_header import HEADER, HEADER_NAME
from husk.conform.builders.suite_writer import SuiteProgram, write_suite
from husk.conform.builders.system_packages import ABSEIL, BENCHMARK, GOOGLETEST, find_library
from husk.sandbox.errors import UsageError

PACKAGE = "test/syscalls/linux"
SUITE = "suite.toml"
RUN_PACKAGE = "test/syscalls"  # its BUILD file says how each program wants to be run
# As Bazel builds by default: quick to compile, and what a test says does not hang on an optimiser.
FLAGS = ["-std=c++17", "-O0", "-w", "-pthread", "-fno-omit-frame-pointer"]

_GTEST = "@com_google_googletest//:gtest"
_BENCHMARK = "@com_google_benchmark//:benchmark"
_ALIASES = {
    "com_google_absl": "absl",
    "abseil-cpp": "absl",
    "com_google_googletest": "gtest",
    "googletest": "gtest",
    "com_google_benchmark": "benchmark",
    "google_benchmark": "benchmark",
}
_RESERVED = (WORKPLACE, RUNFILES, SUITE)  # in the output folder
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "riscv64": "riscv64"}


@dataclass(frozen=True)
class BuildRequest:
    source: str
    out: str
    abseil: str = ""
    googletest: str = ""
    benchmark: str = ""
    jobs: int = 0  # 0: ninja decides
    filters: tuple[str, ...] = ()


@dataclass
class BuildReport:
    wanted: int = 0
    built: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # program: its first error
    left_out: dict[str, str] = field(default_factory=dict)  # program: why it was not tried
    incomplete: dict[str, list[str]] = field(default_factory=dict)  # program: what it starts or reads, and is not there
    suite: str = ""

    @property
    def whole(self) -> bool:
        return not self.failed and not self.left_out


def build_gvisor(request: BuildRequest, progress: Progress) -> BuildReport:
    """UsageError, HuskError: nothing could be tried. What could not be built is in the report."""
    compiler, ninja = find_compiler(), find_ninja()
    source = _checkout(request.source)
    out = Path(request.out).absolute()
    roots: dict[str, Path | SystemLibrary] = {
        "": source,
        "absl": find_library(ABSEIL, request.abseil),
        "gtest": find_library(GOOGLETEST, request.googletest),
        "benchmark": find_library(BENCHMARK, request.benchmark),
        "bazel_tools": SystemLibrary((f"-iquote{out / WORKPLACE / 'include'}",)),
    }
    plan = _Plan(Graph(roots, _ALIASES, _reading()), compiler)
    wanted = _fitting(plan.names, request.filters)
    with _output_folder(out):
        work = out / WORKPLACE
        (work / "include" / HEADER_NAME).parent.mkdir(parents=True, exist_ok=True)
        _write_if_other(work / "include" / HEADER_NAME, HEADER)
        _write_if_other(work / "build.ninja", plan.file.text())
        outputs = [output for name in wanted for output in plan.outputs(name)]
        errors = run_ninja(ninja, work, outputs, request.jobs, progress) if outputs else {}
        report = plan.report(wanted, errors)
        report.suite = str(out / SUITE)
        # A program of an earlier build with another filter still belongs to the suite.
        programs = [
            plan.suite_program(name) for name in plan.names if name not in report.failed and (out / name).is_file()
        ]
        write_suite(out / SUITE, programs, _version(source))
    return report


class _Plan:
    """All programs of the checkout: in build.ninja, or with the reason why not."""

    def __init__(self, graph: Graph, compiler: str) -> None:
        self._graph = graph
        self.file = NinjaFile(compiler, FLAGS, graph)
        self._left_out: dict[str, str] = {}
        self._data: dict[str, list[str]] = {}  # program: outputs it starts or reads
        self._missing: dict[str, list[str]] = {}
        self._made: dict[Label, str] = {}
        try:
            rules = graph.rules("", PACKAGE)
        except Unbuildable as error:
            raise _other_shape(str(error)) from None
        near = Label("", PACKAGE, "")
        started = {Label.parse(text, near) for rule in rules.values() for text in rule.words("data")}
        self.names = [
            rule.name
            for rule in rules.values()
            if rule.kind == "cc_binary" and Label("", PACKAGE, rule.name) not in started
        ]
        if not self.names:
            raise _other_shape(f"{PACKAGE}/BUILD has no cc_binary")
        for name in self.names:
            try:
                self._add(name)
            except Unbuildable as error:
                self._left_out[name] = str(error)
        self._how = _how_to_run(graph)

    def _add(self, name: str) -> None:
        if name in _RESERVED or "/" in name:
            raise Unbuildable("it has the name of another file of the output folder, or of one in a folder")
        program = self._graph.program(Label("", PACKAGE, name))
        self.file.add_program(program, program_output(name))
        for label in program.data:
            try:
                self._data.setdefault(name, []).append(self._made.get(label) or self._make(label))
            except Unbuildable as error:
                self._missing.setdefault(name, []).append(str(error))

    def _make(self, label: Label) -> str:
        output = data_output(label)
        match self._graph.datum(label):
            case Program() as program:
                self.file.add_program(program, output)
            case Command() as command:
                self.file.add_command(command, output)
            case Script() as script:
                self.file.add_script(script, output)
        self._made[label] = output
        return output

    def outputs(self, name: str) -> list[str]:
        """What ninja has to make for a program; nothing, if it is left out."""
        return [] if name in self._left_out else [program_output(name), *self._data.get(name, [])]

    def report(self, wanted: list[str], errors: dict[str, str]) -> BuildReport:
        """`errors`: what failed in ninja, each output with its first error."""
        report = BuildReport(len(wanted))
        for name in wanted:
            if name in self._left_out:
                report.left_out[name] = self._left_out[name]
                continue
            error = self._first_error(program_output(name), errors)
            if error:
                report.failed[name] = error
                continue
            report.built.append(name)
            broken = [
                f"{output}: {error}"
                for output in self._data.get(name, [])
                if (error := self._first_error(output, errors))
            ]
            if broken or name in self._missing:
                report.incomplete[name] = self._missing.get(name, []) + broken
        return report

    def _first_error(self, output: str, errors: dict[str, str]) -> str:
        return next((text for failed, text in errors.items() if failed in self.file.needs[output]), "")

    def suite_program(self, name: str) -> SuiteProgram:
        return self._how.get(name) or SuiteProgram(name)


def _how_to_run(graph: Graph) -> dict[str, SuiteProgram]:
    """What the BUILD file about running says. A checkout without it is fine: then all run alike."""
    try:
        rules = graph.rules("", RUN_PACKAGE)
    except Unbuildable:
        return {}
    found = {}
    for rule in rules.values():
        label = Label.parse(rule.text("test") or rule.name, Label("", RUN_PACKAGE, ""))
        if rule.kind != "syscall_test" or label.package != PACKAGE:
            continue
        # Sockets, pipes and terminals that gVisor's own runner holds open outside the sandbox.
        outside = [name for name in rule.attributes if name.startswith("add_host_") and rule.number(name)]
        found[label.name] = SuiteProgram(
            label.name,
            size=rule.text("size"),
            environment={"IOURING_ENABLED": "TRUE"} if rule.number("iouring") else {},
            skip=f"needs what gVisor's own runner prepares outside ({', '.join(outside)})" if outside else "",
        )
    return found


def _reading() -> Reading:
    machine = _MACHINES.get(platform.machine(), "")

    def select_arch(given: dict[str, Value]) -> Value:
        return given.get(machine, given.get("default"))

    return Reading(
        constants={"gtest": _GTEST, "gbenchmark": _BENCHMARK, "gbenchmark_internal": _BENCHMARK},
        macros={
            "select_gtest": lambda _: [_GTEST],
            "select_system": lambda given: given.get("linux", ["__linux__"]),
            "select_arch": select_arch,
            "coreutil": lambda _: [],
            "default_net_util": lambda _: [],
        },
    )


def _checkout(given: str) -> Path:
    source = Path(given).absolute()
    if not source.is_dir():
        raise UsageError(f"{given}: no directory; name a checkout of gVisor with --source DIR.")
    if not (source / PACKAGE).is_dir():
        raise _other_shape(f"{given} has no {PACKAGE}")
    return source


def _other_shape(what: str) -> UsageError:
    return UsageError(f"{what}, so it is no checkout of gVisor of a shape that husk knows; name another with --source.")


def _fitting(names: list[str], filters: tuple[str, ...]) -> list[str]:
    """`open` means open_test, as `open_test` does."""
    found = [
        name
        for name in names
        if not filters
        or any(fnmatch.fnmatchcase(short, one) for one in filters for short in (name, name.removesuffix("_test")))
    ]
    if not found:
        raise UsageError(f"no program fits --filter {' '.join(filters)}; the checkout has {', '.join(names[:5])}, …")
    return found


@contextmanager
def _output_folder(out: Path) -> Iterator[None]:
    """The folder, for one build at a time: two ninjas would spoil each other's record of what is done."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = os.open(out, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"{out}: {error.strerror}; name a directory of yours with --out.") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise UsageError(f"another build works in {out}; wait for it, or name another directory with --out.") from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(out) from None
        raise
    finally:
        os.close(lock)


def _write_if_other(path: Path, text: str) -> None:
    """Written only if it changed: ninja compares times, and a new header would compile everything anew."""
    if path.is_file() and path.read_text() == text:
        return
    path.write_text(text)


def _version(source: Path) -> str:
    """The commit of the checkout, where git knows it."""
    git = shutil.which("git")
    if git is None or not (source / ".git").exists():
        return ""
    words = [git, "-C", str(source), "rev-parse", "--short=12", "HEAD"]
    answer = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    return answer.stdout.strip() if answer.returncode == 0 else ""
