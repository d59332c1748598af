"""Builds loader, test supervisor and guests once per run; `run` starts a program natively or through the loader."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.lib.call_table import write_call_table

HERE = Path(__file__).parent
LOADER_SOURCES = HERE.parent.parent / "src" / "husk" / "native" / "loader"

# As src/husk/native/loader/meson.build has them; HUSK_LOADER names a loader built there instead.
CFLAGS = shlex.split(
    "-std=gnu11 -O2 -Wall -Wextra -Werror -ffreestanding -fPIE -fvisibility=hidden -fno-stack-protector"
    " -fno-asynchronous-unwind-tables -fcf-protection=none -mgeneral-regs-only"
    " -fno-tree-loop-distribute-patterns -fno-jump-tables"
)
LDFLAGS = shlex.split(
    "-nostdlib -static-pie -Wl,--no-dynamic-linker -Wl,-z,noexecstack -Wl,-z,norelro -Wl,--build-id=none"
    " -Wl,-z,max-page-size=4096 -Wl,-z,noseparate-code"
)


SOURCES = ("start.S", "resident.S", "main.c", "names.c", "names_entry.S", "stack.c", "elf.c", "string.c")


class Finished:
    """What a guest did: exit code (128 + signal), both outputs."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = 128 - code if code < 0 else code
        self.out = out
        self.err = err


class Bench:
    """The built tools and a place for built guests."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.supervisor = work / "supervisor"
        folders = (LOADER_SOURCES.parent, LOADER_SOURCES, write_call_table(work / "include"))
        self.include = [f"-I{folder}" for folder in folders]
        given = os.environ.get("HUSK_LOADER")
        self.loader = Path(given) if given else work / "husk-loader"
        if not given:
            sources = [LOADER_SOURCES / n for n in SOURCES]
            self.cc(self.loader, *sources, flags=[*CFLAGS, *self.include, *LDFLAGS])
        self.cc(self.supervisor, HERE / "supervisor.c", flags=["-O1", *self.include])

    def cc(self, out: Path, *sources: Path, flags: list[str] | None = None, compiler: str = "gcc") -> Path:
        subprocess.run([compiler, *(flags or []), "-o", out, *sources], check=True, timeout=120)
        return out

    def guest(self, source: str, *flags: str, compiler: str = "gcc") -> Path:
        """Build tests/loader/guests/<source>; skips the test where the compiler is missing."""
        if not shutil.which(compiler):
            pytest.skip(f"{compiler} is not installed")
        name = "-".join([source.partition(".")[0], compiler, *(f.strip("-").replace(",", "_") for f in flags)])
        out = self.work / name
        if not out.exists():
            all_flags = ["-g0", *self.include, *flags]
            self.cc(out, HERE / "guests" / source, flags=all_flags, compiler=compiler)
        return out

    def native(self, program: Path, argv: list[str], env: dict[str, str] | None = None) -> Finished:
        return self._finish(subprocess.run(argv, executable=program, env=env, capture_output=True, timeout=60))

    def loaded(
        self, program: Path, argv: list[str], *options: str, env: dict[str, str] | None = None, setup: str = ""
    ) -> Finished:
        command = [*setup.split(), str(self.supervisor), *options, str(self.loader), str(program), *argv]
        return self._finish(subprocess.run(command, env=env, capture_output=True, timeout=60))

    @staticmethod
    def _finish(done: subprocess.CompletedProcess[bytes]) -> Finished:
        return Finished(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("loader"))
