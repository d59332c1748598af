"""The store against cp(1) and find(1): bringing a tree in for the first time, and once more when nothing has changed.

Nothing is removed while it is measured: ext4 looks at every inode that was freed in the last minutes before it gives
out a new one, which slows down whoever comes next, here or there.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from pathlib import Path

from measure import Command, Meter, whole

FILES = 60_000
PER_DIRECTORY = 40


class StoreBench:
    """A tree of small files, and meters over it. `remove` clears away what they made."""

    def __init__(self, husk: Command, place: Path, scale: int) -> None:
        self.husk, self.place, self.files = husk, place, FILES // scale
        self.tree = place / "tree"
        self.made = 0

    def prepare(self) -> None:
        """Sizes from 32 bytes to 11 KiB, most of them small, as in a source tree; contents all different."""
        shutil.rmtree(self.place, ignore_errors=True)
        chance = random.Random(1)
        for number in range(self.files):
            path = self.tree / f"{number % 30:02}" / f"p{number // PER_DIRECTORY}" / f"file{number}.txt"
            if number % PER_DIRECTORY < 30:
                path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(chance.randbytes(int(2 ** chance.uniform(5, 13.5))))
        time.sleep(3)  # an index remembers only files older than two seconds

    def remove(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)

    def fresh(self) -> str:
        self.made += 1
        return str(self.place / f"made{self.made}")

    def copy(self) -> Meter:
        return lambda: whole([shutil.which("cp") or "cp", "-a", str(self.tree), self.fresh()], 1)()

    def ingest(self) -> Meter:
        return lambda: whole([*self.husk, "store", "ingest", str(self.tree), "--store", self.fresh()], 1)()

    def find(self) -> Meter:
        return whole([shutil.which("find") or "find", str(self.tree), "-printf", "%s %T@\n"], 5)

    def again(self) -> Meter:
        store = str(self.place / "again")
        command = [*self.husk, "store", "ingest", str(self.tree), "--store", store]

        def meter() -> list[float]:
            if not Path(store).exists():
                whole(command, 1)()
            return whole(command, 5)()

        return meter

    def start_host(self) -> Meter:
        return whole([*self.husk, "run", "--", "true"], 5)

    def start_image(self) -> Meter:
        """A box whose root is an image of the whole tree, beside a program that needs nothing else of it."""
        store = str(self.place / "image")
        command = [*self.husk, "run", "--store", store, "--image", "bench", "--", "/true"]

        def meter() -> list[float]:
            if not Path(store).exists():
                subprocess.run(
                    ["gcc", "-O2", "-static", "-x", "c", "-o", str(self.tree / "true"), "-"],
                    input=b"int main(void) { return 0; }", check=True,
                )  # fmt: skip
                whole([*self.husk, "store", "ingest", str(self.tree), "--name", "bench", "--store", store], 1)()
            return whole(command, 5)()

        return meter
