"""conform/execute: units on the workers of a Dask cluster (husk.cluster), for run_suites.

A worker uses its own husk, and the suite's files where it sees them or where they were sent to. In what a unit is told
and in what it says, the path on the worker stands for the path here, so that results are those of this machine.
"""

from __future__ import annotations

import base64
import json
import re
import signal
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from husk.cluster import on_worker
from husk.cluster.dask_workers import DaskWorkers
from husk.cluster.fitness import NAMESPACES
from husk.cluster.trees import Tree
from husk.cluster.work import LostWork, Stop
from husk.conform.execute.one_unit import Stopping, run_unit
from husk.conform.execute.where import HUSK, HUSK_BARE, Where, in_husk
from husk.conform.units import Ended, Unit
from husk.sandbox.errors import HuskError

if TYPE_CHECKING:
    from husk.conform.execute.run_suites import MakeWorkers

# What every machine has of its own; whether it is the same there, the workers' installation decides.
_OF_THE_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt", "/dev", "/proc", "/sys", "/tmp", "/")


@dataclass(frozen=True)
class _Order:
    unit: Unit
    where: Where
    trees: tuple[Tree, ...]


@contextmanager
def cluster_workers(address: str, where: Where) -> Iterator[MakeWorkers]:
    """What makes workers for run_suites, while the `with` lasts. HuskError: the cluster cannot be used, and why."""
    workers = DaskWorkers(address, wanted=NAMESPACES if where.runtime == HUSK else ())
    try:
        yield lambda there, jobs: ClusterWorkers(workers, there)
    finally:
        workers.close()


class ClusterWorkers:
    """As execute.workers.Workers wants it."""

    def __init__(self, workers: DaskWorkers, where: Where) -> None:
        self._workers, self._where = workers, where
        self._course = workers.course(_run_there)
        self._units: dict[int, Unit] = {}
        self._ended: deque[tuple[Unit, Ended]] = deque()
        self._trees: dict[str, Tree] = {}

    def submit(self, unit: Unit) -> None:
        places = [path for path in unit.shown if not _is_of_the_system(path)]
        if unit.directory and not any(Path(unit.directory).is_relative_to(path) for path in unit.shown):
            places.append(unit.directory)
        for path in places:
            if path not in self._trees:
                self._trees[path] = self._workers.carry(Path(path))
        trees = tuple(self._trees[path] for path in dict.fromkeys(places))
        self._units[self._course.add(_Order(unit, self._where, trees))] = unit

    def next_ended(self, seconds: float) -> tuple[Unit, Ended] | None:
        until = time.monotonic() + seconds
        while not self._ended and not self._course.idle:
            for number, answer in self._course.poll(max(0.0, until - time.monotonic())):
                self._ended.append((self._units.pop(number), _read(answer)))
            if time.monotonic() >= until:
                break
        return self._ended.popleft() if self._ended else None

    def running(self) -> list[tuple[Unit, float]]:
        return [(self._units[number], seconds) for number, seconds in self._course.running()]

    def close(self) -> None:
        self._course.close()


def _is_of_the_system(path: str) -> bool:
    return path in _OF_THE_SYSTEM or path.startswith(("/usr/", "/bin/", "/lib/", "/lib64/", "/etc/"))


def _read(answer: bytes | HuskError) -> Ended:
    if isinstance(answer, LostWork):  # a crash: it has no output that would tell which case it was
        return Ended(-signal.SIGKILL, False, 0.0, b"", f"{answer}\n".encode())
    if isinstance(answer, HuskError):
        raise answer
    found: dict[str, Any] = json.loads(answer)
    files = {name: base64.b64decode(content) for name, content in found["files"].items()}
    out, err = (base64.b64decode(found[name]) for name in ("stdout", "stderr"))
    return Ended(found["code"], found["timed_out"], found["seconds"], out, err, files, found["cut"])


# -- on the worker -----------------------------------------------------------------------------------------------------
def _run_there(order: _Order, stop: Stop) -> bytes:
    places = {str(tree.path): str(tree.here(on_worker.scratch())) for tree in order.trees}
    moved = {here: there for here, there in places.items() if here != there}
    where = order.where
    if where.is_husk:
        where = in_husk("bare" if where.runtime == HUSK_BARE else "walled", where.user)
    stopping = Stopping()
    with stop.calls(stopping.stop):
        ended = run_unit(_moved(order.unit, moved), where, stopping)
    back = {there.encode(): here.encode() for here, there in moved.items()}
    out, err = (base64.b64encode(_put(content, back)).decode() for content in (ended.stdout, ended.stderr))
    files = {name: base64.b64encode(_put(content, back)).decode() for name, content in ended.files.items()}
    return json.dumps(asdict(ended) | {"stdout": out, "stderr": err, "files": files}).encode()


def _moved(unit: Unit, moved: dict[str, str]) -> Unit:
    def text(value: str) -> str:
        for here, there in moved.items():
            value = re.sub(rf"{re.escape(here)}(?![\w.-])", lambda _: there, value)  # noqa: B023  called at once
        return value

    if not moved:
        return unit
    return replace(
        unit,
        argv=tuple(map(text, unit.argv)),
        environment=tuple((name, text(value)) for name, value in unit.environment),
        directory=text(unit.directory),
        shown=tuple(map(text, unit.shown)),
    )


def _put(content: bytes, back: dict[bytes, bytes]) -> bytes:
    for there, here in back.items():
        content = content.replace(there, here)
    return content
