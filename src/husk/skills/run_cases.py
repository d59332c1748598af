"""skills: many cases at once, on this machine or on the workers of a cluster, with the same verdicts.

A worker uses skills, inputs and packages where it sees them, or where they were sent to (husk.cluster.trees).
"""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from husk.cluster import on_worker
from husk.cluster.work import LostWork, Stop, Stopped
from husk.sandbox.errors import HuskError
from husk.skills.compare_cases import FAILS, Verdict, compare

if TYPE_CHECKING:
    from husk.cluster.trees import Tree
    from husk.cluster.work import Workers
    from husk.skills.cases import Case
    from husk.skills.running import Request


@dataclass(frozen=True)
class _Order:
    case: Case
    request: Request
    native: bool
    trees: dict[Path, Tree]


def run_cases(
    cases: list[Case], request: Request, workers: Workers, *, native: bool
) -> Generator[tuple[int, Verdict], None, None]:
    """The number of each case and its verdict, as they end. HuskError: the workers cannot do it."""
    carried: dict[Path, Tree] = {}

    def order(case: Case) -> _Order:
        paths = _paths(case, request)
        for path in paths:
            if path not in carried:
                carried[path] = workers.carry(path)
        return _Order(case, request, native, {path: carried[path] for path in paths})

    with closing(workers.stream(_verdict, map(order, cases))) as answers:
        for number, answer in answers:
            if isinstance(answer, LostWork):
                yield number, Verdict(cases[number], FAILS, str(answer))
            elif isinstance(answer, HuskError):
                raise answer
            else:
                found = json.loads(answer)
                yield (
                    number,
                    Verdict(cases[number], found["status"], found["reason"], found["native_seconds"], found["seconds"]),
                )


def _paths(case: Case, request: Request) -> list[Path]:
    """Everything on this machine that a case needs, beside the mounts of its permissions."""
    paths = [case.skill, case.input, request.find_links, *request.packages]
    return [path for path in paths if path is not None] + [path for path in _compared(case).values() if path.is_file()]


def _compared(case: Case) -> dict[str, Path]:
    """Produced file -> the file beside the cases that it is compared with."""
    wanted = {name: one["same"] for name, one in case.files.items() if isinstance(one, dict) and "same" in one}
    return {name: case.base / same for name, same in wanted.items()}


# -- where the box is --------------------------------------------------------------------------------------------------
def _verdict(order: _Order, stop: Stop) -> bytes:
    if stop.asked:
        raise Stopped("nobody waits for this case any more.")
    places = {path: tree.here(on_worker.scratch() if tree.mark else None) for path, tree in order.trees.items()}
    found = compare(_moved(order, places), _request(order.request, places), native=order.native)
    reason = found.reason
    for path, there in places.items():
        reason = reason.replace(str(there), str(path))
    return json.dumps(
        {"status": found.status, "reason": reason, "native_seconds": found.native_seconds, "seconds": found.box_seconds}
    ).encode()


def _moved(order: _Order, places: dict[Path, Path]) -> Case:
    case = order.case
    files = dict(case.files)
    for name, path in _compared(case).items():
        # An absolute path stays what it is when a case's own directory is put before it.
        files[name] = {**files[name], "same": str(places.get(path, path))}
    return replace(case, skill=places[case.skill], input=places[case.input] if case.input else None, files=files)


def _request(request: Request, places: dict[Path, Path]) -> Request:
    links = places[request.find_links] if request.find_links else None
    return replace(request, find_links=links, packages=[places[path] for path in request.packages])
