"""Kept boxes: a fork takes the same time whatever the box holds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from measure import HERE, Command, Meter, printed

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
            subprocess.run(command, env=os.environ | {"HUSK_STATE": str(self.place)}, check=False)

    def remove(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)

    def allowed(self) -> Meter:
        return lambda: [MOST]

    def fork(self, name: str) -> Meter:
        return printed([f"{sys.prefix}/bin/python3", str(HERE / "fork_cost.py"), str(self.place), name, "20"])
