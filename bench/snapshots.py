"""Kept boxes: a fork takes the same time whatever the box holds and whatever it was started from."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from measure import HERE, Command, Meter, printed
from store import add_program

FEW, MANY = 10, 50_000
MOST = 5e6  # nanoseconds a fork may take
FILL = """
import os, sys
for number in range(int(sys.argv[1])):
    if number % 500 == 0:
        os.mkdir(f"/workspace/{number // 500}")
    with open(f"/workspace/{number // 500}/{number}", "w") as file:
        file.write("x")
"""


class SnapshotBench:
    """Two kept boxes, one with few changed files and one with many."""

    def __init__(self, husk: Command, place: Path, scale: int) -> None:
        self.husk, self.place, self.many = husk, place, MANY // scale

    def prepare(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir(parents=True)
        self.place.chmod(0o755)
        for name, count in (("few", FEW), ("many", self.many)):
            command = [*self.husk, "run", "--keep", name, "--", "python3", "-c", FILL, str(count)]
            self.call(*command)
        # Such a box holds its image, too, and so does a fork.
        root, store = self.place / "root", str(self.place / "store")
        add_program(root, "/usr/bin/true")
        self.call(*self.husk, "store", "ingest", str(root), "--name", "bench", "--store", store)
        run = [*self.husk, "run", "--keep", "image", "--store", store, "--image", "bench"]
        self.call(*run, "--", "/usr/bin/true")

    def call(self, *command: str) -> None:
        # If something goes wrong here, the meters will say so.
        environment = os.environ | {"HUSK_STATE": str(self.place)}
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)

    def remove(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)

    def allowed(self) -> Meter:
        return lambda: [MOST]

    def fork(self, name: str) -> Meter:
        return printed([f"{sys.prefix}/bin/python3", str(HERE / "fork_cost.py"), str(self.place), name, "20"])
