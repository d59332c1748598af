"""The store against cp(1), find(1) and the host's own tree: bringing many small files in for the first time, once more
when nothing has changed, and starting a program from an image of as many."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import time
from pathlib import Path

from measure import Command, Failed, Meter, whole

FILES = 60_000
IMAGE_FILES = 50_000
PER_DIRECTORY, PER_GROUP = 40, 2_000
PYTHON = "/usr/bin/python3"
# Large parts of Python's library that no start needs.
LEFT_OUT = shutil.ignore_patterns("config-*", "test", "tests", "idlelib", "ensurepip", "dist-packages")


class StoreBench:
    """A tree of small files, and meters over it. `remove` clears away what they made."""

    def __init__(self, husk: Command, place: Path, scale: int) -> None:
        self.husk, self.place = husk, place
        self.files, self.image_files = FILES // scale, IMAGE_FILES // scale
        self.tree = place / "tree"
        self.made = 0
        self.synced: float | None = None

    def prepare(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)
        grow(self.tree, self.files)
        time.sleep(3)  # an index remembers only files older than two seconds
        self.store("ingest", str(self.tree))

    def prepare_image(self) -> None:
        root = self.place / "root"
        grow(root / "srv", self.image_files)
        for program in ("/usr/bin/true", PYTHON):
            add_program(root, program)
        # The cache of library paths that every system has: without it, each library is looked for in a dozen places.
        if os.path.exists("/etc/ld.so.cache"):
            (root / "etc").mkdir()
            shutil.copy2("/etc/ld.so.cache", root / "etc")
        self.store("ingest", str(root), "--name", "bench")

    def store(self, *words: str) -> None:
        # If something goes wrong here, the meters will say so.
        command = [*self.husk, "store", *words, "--store", str(self.place / "store")]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)

    def remove(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)

    def fresh(self) -> str:
        self.made += 1
        return str(self.place / f"made{self.made}")

    def copy(self) -> Meter:
        command = [shutil.which("cp") or "cp", "-a", str(self.tree)]

        def meter() -> list[float]:
            self.synced = None
            os.sync()  # both begin with nothing waiting to be written
            costs = whole([*command, self.fresh()], 1)()
            begin = time.perf_counter_ns()
            os.sync()
            self.synced = costs[0] + time.perf_counter_ns() - begin
            return costs

        return meter

    def copy_and_sync(self) -> Meter:
        """The copy just measured, with the sync after which it survives a power cut: an ingest promises that, too."""

        def meter() -> list[float]:
            if self.synced is None:
                raise Failed("there was no copy")
            return [self.synced]

        return meter

    def ingest(self) -> Meter:
        def meter() -> list[float]:
            os.sync()
            return whole([*self.husk, "store", "ingest", str(self.tree), "--store", self.fresh()], 1)()

        return meter

    def find(self) -> Meter:
        return whole([shutil.which("find") or "find", str(self.tree), "-printf", "%s %T@\n"], 5)

    def again(self) -> Meter:
        return whole([*self.husk, "store", "ingest", str(self.tree), "--store", str(self.place / "store")], 5)

    def at_home(self) -> Command:
        """husk with its state on the store's file system, as it is by default: elsewhere blobs cannot be linked."""
        return ["/usr/bin/env", f"HUSK_STATE={self.place / 'state'}", *self.husk]

    def start(self, *command: str) -> Meter:
        return whole([*self.at_home(), "run", "--", *command], 5)

    def start_image(self, *command: str) -> Meter:
        """The same program, libraries and all, from a root that is an image."""
        return whole(
            [*self.at_home(), "run", "--store", str(self.place / "store"), "--image", "bench", "--", *command], 5
        )


def grow(top: Path, files: int) -> None:
    """Sizes from 32 bytes to 11 KiB, most of them small, as in a source tree; contents all different."""
    chance = random.Random(str(top.name))
    for number in range(files):
        folder = top / f"g{number // PER_GROUP}" / f"p{number // PER_DIRECTORY}"
        if number % PER_DIRECTORY == 0:
            folder.mkdir(parents=True)
        (folder / f"file{number}.txt").write_bytes(chance.randbytes(int(2 ** chance.uniform(5, 13.5))))


def add_program(root: Path, program: str) -> None:
    """A program of the host with the libraries it needs, each where the host has it."""
    if not os.path.exists(program):
        return
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    for path in [program, *re.findall(r"(/\S+) \(0x", listed)]:
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(os.path.realpath(path), target)
    if program == PYTHON:
        version = re.sub(r"\D*(3\.\d+).*", r"\1", os.path.basename(os.path.realpath(program)))
        library = f"usr/lib/python{version}"
        # With their times, or Python would take its compiled modules for stale.
        shutil.copytree(f"/{library}", root / library, ignore=LEFT_OUT, symlinks=True)
