"""node, java, the C and C++ tool chain, and programs that bring no libraries: Go, musl, busybox, static-PIE."""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from tests.lib.build_guests import SOURCES, guest_programs
from tests.lib.harness import differential
from tests.programs.cases import HERE, folder, load

OTHERS = load("others")


@pytest.mark.needs("node")
@pytest.mark.parametrize(("name", "status"), [("child_process", 0), ("worker_threads", 0), ("fs", 0), ("signals", 3)])
def test_node(name: str, status: int) -> None:
    result = differential(["node", "{guests}/node_" + name + ".js"], case=f"node {name}", status=status, timeout=90)
    assert result.out


@pytest.mark.needs("node")
@pytest.mark.parametrize("where", [".", "/tmp"])
def test_node_watches_files(where: str) -> None:
    differential(["node", "{guests}/node_watch.js", where], case="node watch", timeout=90)


@pytest.mark.needs("java", "javac")
@pytest.mark.timeout(300)
def test_java() -> None:
    source = (HERE / "java" / "Main.java").read_text()
    script = "javac Main.java && java -Xmx64m Main one two"
    differential(
        ["sh", "-c", script], tree={"Main.java": source}, case="java", status=4, ignore=["*.class"], timeout=240
    )


@pytest.mark.needs("gcc", "g++", "make", "ld")
@pytest.mark.timeout(300)
def test_build_and_run_a_cpp_project() -> None:
    differential(["sh", "-c", OTHERS["c++"]], tree=folder("cpp_project"), case="c++", timeout=240)


@pytest.mark.needs("gcc")
def test_compiler_output_is_reproducible() -> None:
    """The same bytes natively and in husk: compiler, assembler and linker saw the same files."""
    source = '#include <stdio.h>\nint main(void) { puts("compiled"); return 0; }\n'
    differential(["sh", "-c", OTHERS["gcc"]], tree={"prog.c": source}, case="gcc")


@functools.cache
def built(source: str, *command: str) -> bytes:
    """A program of tests/guests made with another compiler, kept by content like the rest."""
    path = SOURCES / source
    digest = hashlib.sha256(path.read_bytes() + repr(command).encode()).hexdigest()[:12]
    target = guest_programs().parent / f"{path.stem}-{digest}"
    if not target.exists():
        part = Path(f"{target}.{os.getpid()}")
        cache = str(guest_programs().parent / "go-cache")
        env = {**os.environ, "CGO_ENABLED": "0", "GOCACHE": cache, "GOFLAGS": "-buildvcs=false", "GO111MODULE": "off"}
        subprocess.run([*command, "-o", str(part), str(path)], check=True, env=env)
        part.rename(target)
    return target.read_bytes()


@pytest.mark.needs("go")
@pytest.mark.timeout(300)
def test_static_go_binary() -> None:
    tree = {"prog*": built("static_go.go", "go", "build", "-trimpath")}
    differential(["./prog", "one"], tree=tree, case="go", status=5)


@pytest.mark.needs("musl-gcc")
@pytest.mark.parametrize("flags", [("-static",), ("-static-pie", "-fPIE")])
def test_static_musl_binary(flags: tuple[str, ...]) -> None:
    tree = {"prog*": built("static_musl.c", "musl-gcc", "-O1", *flags, "-pthread")}
    differential(["./prog", "one"], tree=tree, case="musl", status=5)


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("flags", [("-static",), ("-static-pie",), ("-no-pie",), ("-pie", "-fPIE", "-Wl,-z,now")])
def test_the_same_program_linked_otherwise(flags: tuple[str, ...]) -> None:
    tree = {"prog*": built("static_musl.c", "gcc", "-O1", *flags, "-pthread")}
    differential(["./prog", "one"], tree=tree, case="static glibc", status=5)


@pytest.mark.needs("busybox")
def test_busybox() -> None:
    differential(["busybox", "sh", "-c", OTHERS["busybox"]], case="busybox", normalise=["pid"])
