"""Builds the C targets with sanitizers and runs them: with clang and libFuzzer where they are, else with gcc and
driver.c.

`python -m tests.fuzz.libfuzzer SECONDS` is the long run, of `make fuzz-c`: that many seconds for each target. As root
on Debian it installs clang first.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.fuzz.corpora import TARGETS, corpus
from tests.lib.call_table import write_call_table

HERE = Path(__file__).resolve().parent / "targets"
NATIVE = Path(__file__).resolve().parents[2] / "src" / "husk" / "native"
# Some targets include a file of the core for its plain C. Python functions that it uses are never called or linked.
FLAGS = ["-std=gnu11", "-g", "-O1", "-w", "-fno-sanitize-recover=all", "-no-pie", "-Wl,--warn-unresolved-symbols"]
# Both allocators are to fail as malloc does, not to end the run.
OPTIONS = {"ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
LONGEST = 16384
BLIND = 200_000  # runs, where nothing guides them


def clang() -> str | None:
    """A clang that brings libFuzzer."""
    for name in ("clang", *(f"clang-{number}" for number in range(30, 11, -1))):
        found = shutil.which(name)
        if found:
            runtime = subprocess.run(
                [found, "-print-runtime-dir"], capture_output=True, text=True, check=False
            ).stdout.strip()
            beside = [Path(runtime), Path(runtime).parent / "linux"]
            if any(list(place.glob("libclang_rt.fuzzer*.a")) for place in beside if place.is_dir()):
                return found
    return None


def build(place: Path, target: str, compiler: str | None, folder: Path = HERE) -> Path:
    program = place / f"fuzz-{target}"
    sources = [str(folder / f"{target}.c")]
    if compiler:
        command = [compiler, "-fsanitize=fuzzer,address,undefined"]
    else:
        command = ["gcc", "-fsanitize=address,undefined"]
        sources.append(str(folder / "driver.c"))
    include = [f"-I{sysconfig.get_path('include')}", f"-I{NATIVE}", f"-I{write_call_table(place)}"]
    done = subprocess.run(
        [*command, *FLAGS, *include, *sources, "-o", str(program)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    # Calling an undefined symbol would be a jump to nowhere: only Python's own symbols may be undefined.
    missing = set(re.findall(r"undefined reference to [`'](\w+)'", done.stderr))
    assert all(re.match(r"_?Py", name) for name in missing), f"{target}.c has no {sorted(missing)}"
    return program


def seeds(place: Path, target: str) -> Path:
    folder = place / f"corpus-{target}"
    folder.mkdir(exist_ok=True)
    for number, data in enumerate(corpus(target)):
        (folder / f"{number:02}").write_bytes(data)
    return folder


def run(place: Path, target: str, compiler: str | None, *, runs: int = 0, seconds: int = 0, seed: int = 1) -> str:
    """What it said; an assertion tells what was found."""
    program, folder = build(place, target, compiler), seeds(place, target)
    if compiler:
        bound = [f"-runs={runs}"] if runs else [f"-max_total_time={seconds}"]
        command = [
            str(program),
            f"-seed={seed}",
            *bound,
            f"-max_len={LONGEST}",
            "-timeout=20",
            "-print_final_stats=1",
            str(folder),
        ]
    else:
        command = [str(program), str(runs or BLIND), str(seed), *map(str, sorted(folder.iterdir()))]
    done = subprocess.run(
        command, cwd=place, env={**os.environ, **OPTIONS}, capture_output=True, text=True, errors="replace", check=False
    )
    assert done.returncode == 0, f"{target}: {done.stderr[-6000:]}"
    return done.stderr


def install() -> None:
    """clang and its run-time library. Never fails: without them the blind driver runs."""
    if clang():
        return
    if os.geteuid() or not shutil.which("apt-get"):
        print("no clang with libFuzzer here: install clang and libclang-rt-VERSION-dev for more than a blind run")
        return
    apt = ["apt-get", "install", "-y", "-q", "--no-install-recommends"]
    subprocess.run([*apt, "clang"], check=False, stdout=subprocess.DEVNULL)
    version = subprocess.run(["clang", "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"version (\d+)", version)
    if found:
        subprocess.run([*apt, f"libclang-rt-{found[1]}-dev"], check=False, stdout=subprocess.DEVNULL)


def main(arguments: list[str]) -> int:
    seconds = int(arguments[0]) if arguments else 30
    install()
    compiler = clang()
    place = Path(__file__).resolve().parents[2] / "build" / "fuzz"
    place.mkdir(parents=True, exist_ok=True)
    for target in TARGETS:
        said = run(place, target, compiler, seconds=seconds, seed=os.getpid())
        figures = dict(re.findall(r"stat::(\w+):\s+(\d+)", said))
        covered = re.findall(r"cov: (\d+)", said)
        runs, edges = figures.get("number_of_executed_units", BLIND), covered[-1] if covered else "-"
        print(f"{target:10} {runs} runs, {edges} edges, nothing found")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
