"""conform: find the libraries that a suite stands on: a checkout the user names, else the system's packages."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from husk.conform.builders.bazel_files import build_file
from husk.conform.builders.bazel_graph import SystemLibrary
from husk.sandbox.errors import UsageError


@dataclass(frozen=True)
class Needed:
    """A library of another project."""

    option: str
    title: str
    header: str  # a file that every checkout of it has
    modules: tuple[str, ...]  # of pkg-config; one that ends in `_` means all that begin with it
    package: str  # of Debian, for the next step


ABSEIL = Needed("--abseil", "Abseil", "absl/base/config.h", ("absl_",), "libabsl-dev")
GOOGLETEST = Needed(
    "--googletest", "GoogleTest", "googletest/include/gtest/gtest.h", ("gtest", "gmock"), "libgmock-dev"
)
BENCHMARK = Needed(
    "--benchmark", "Google Benchmark", "include/benchmark/benchmark.h", ("benchmark",), "libbenchmark-dev"
)


def find_library(needed: Needed, given: str) -> Path | SystemLibrary:
    """UsageError: there is neither."""
    if given:
        folder = Path(given).absolute()
        if not (folder / needed.header).is_file() or build_file(folder) is None:
            raise UsageError(
                f"{given}: no checkout of {needed.title} ({needed.header} and BUILD.bazel); name one with"
                f" {needed.option} DIR."
            )
        return folder
    found = _installed(needed.modules)
    if found is None:
        raise UsageError(
            f"{needed.title} is not installed; install {needed.package}, or name a checkout of it with"
            f" {needed.option} DIR."
        )
    return found


def _installed(modules: tuple[str, ...]) -> SystemLibrary | None:
    tool = shutil.which("pkg-config")
    if tool is None:
        return None
    names: list[str] = []
    for module in modules:
        if module.endswith("_"):
            listed = _asked([tool, "--list-all"]) or ""
            names += sorted(line.split()[0] for line in listed.splitlines() if line.startswith(module))
        else:
            names.append(module)
    compile_options = _asked([tool, "--cflags", *names]) if names else None
    link_options = _asked([tool, "--libs", *names]) if names else None
    if compile_options is None or link_options is None:
        return None
    # A group: the modules of one project refer to each other in both directions.
    group = ("-Wl,--start-group", *shlex.split(link_options), "-Wl,--end-group")
    kept = (word for word in shlex.split(compile_options) if not word.startswith("-std="))
    return SystemLibrary(tuple(kept), group)


def _asked(words: list[str]) -> str | None:
    answer = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    return answer.stdout if answer.returncode == 0 else None
