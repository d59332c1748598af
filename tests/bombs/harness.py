"""Sets off a bomb in a box, watches husk's own memory meanwhile, and says what is wrong with the outcome."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path

from tests.bombs.bombs import ANSWERS, HEAD, TAIL, Bomb
from tests.lib.running import PIPE, finish, husk_process, scratch

MIB = 1 << 20
LIMIT_MET = 124


@dataclass
class Outcome:
    """What came of it; `peak` is the most memory husk itself ever had, in bytes; `wrong` is empty where all is well."""

    seconds: float
    peak: int
    bound: int
    wrong: list[str]


def explode(bomb: Bomb, size: int) -> Outcome:
    options = [word.replace("N", str(size)) if "=" in word else word for word in bomb.options]
    begin = time.monotonic()
    with scratch() as place:
        options = [str(place / "events") if word == "EVENTS" else word for word in options]
        script = f"{HEAD}{bomb.script}{'' if bomb.ended else TAIL}"
        words = ["run", "--timeout", str(bomb.seconds), *options, "--", "python3", "-c", script, str(size)]
        with husk_process(words, stdin=PIPE, stdout=PIPE, stderr=PIPE) as running:
            peak = Peak(running.process.pid)
            result = finish(running.process, f"the bomb {bomb.name}", b"", bomb.seconds + 60)
            peak.stop()
    bound = bomb.base * MIB + bomb.each * size
    wrong = _judged(bomb, size, result.status, result.out, result.err)
    if not 0 < peak.bytes <= bound:
        wrong.append(f"husk had {peak.bytes // MIB} MiB, and the bound is {bound // MIB}")
    return Outcome(time.monotonic() - begin, peak.bytes, bound, wrong)


def _judged(bomb: Bomb, size: int, status: int, out: str, err: str) -> list[str]:
    wrong = []
    if status != (LIMIT_MET if bomb.ended else 0):
        wrong.append(f"exit code {status}: {out[-500:]} {err[-500:]}")
    far, _, how = bomb.told.partition(" ")
    told = f"{size if far == 'N' else size // 10} {how}"
    if not bomb.ended and (told not in out.splitlines() or ANSWERS not in out.splitlines()):
        wrong.append(f"the guest said {out[-500:]!r}")
    said = [line for line in err.splitlines() if line.startswith("husk: ")]
    expected = f"husk: limit: {bomb.limit} "
    if (len(said) != 1 or not said[0].startswith(expected)) if bomb.limit else said:
        wrong.append(f"husk said {said}")
    return wrong


class Peak:
    """The high-water mark of a process's memory, read until the process ends: afterwards the host does not know it."""

    def __init__(self, pid: int) -> None:
        self.bytes = 0
        self._status, self._over = Path(f"/proc/{pid}/status"), threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(0.02):
            try:
                lines = self._status.read_text().splitlines()
            except OSError:
                return
            self.bytes = max([self.bytes, *(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))])

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
