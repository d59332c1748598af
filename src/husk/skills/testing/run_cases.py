"""skills/testing: many cases at once, on this machine or on the workers of a cluster, with the same verdicts.

A worker uses skills, inputs and packages where it sees them, or where they were sent to (husk.cluster.trees).
"""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from husk.cluster import on_worker
from husk.cluster.work import LostWork, Stop, Stopped
from husk.sandbox.errors import HuskError
from husk.skills.testing.compare_cases import FAILS, Verdict, compare_settings

if TYPE_CHECKING:
    from husk.cluster.trees import Tree
    from husk.cluster.work import Workers
    from husk.skills.running import Request
    from husk.skills.testing.cases import Case

_SENT = ("status", "reason", "native_seconds", "box_seconds", "setting")


@dataclass(frozen=True)
class _Order:
    case: Case
    request: Request
    settings: tuple[str, ...]
    native: bool
    trees: dict[Path, Tree]


def run_cases(
    cases: list[Case], request: Request, workers: Workers, *, native: bool, settings: Sequence[str] = ()
) -> Generator[tuple[int, Verdict], None, None]:
    """The number of each case and its verdict in each setting (none: as the request says), as they end. HuskError: the
    workers cannot do it."""
    every = tuple(settings) or (request.setting.name,)
    carried: dict[Path, Tree] = {}

    def order(case: Case) -> _Order:
        paths = _paths(case, request)
        for path in paths:
            if path not in carried:
                carried[path] = workers.carry(path)
        return _Order(case, request, every, native, {path: carried[path] for path in paths})

    with closing(workers.stream(_verdict, map(order, cases))) as answers:
        for number, answer in answers:
            if isinstance(answer, LostWork):
                for setting in every:
                    yield number, Verdict(cases[number], FAILS, str(answer), setting=setting)
            elif isinstance(answer, HuskError):
                raise answer
            else:
                for found in json.loads(answer):
                    yield number, Verdict(cases[number], **found)


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
    case, request = _moved(order, places), _request(order.request, places)
    answer = []
    for found in compare_settings(case, request, order.settings, native=order.native):
        for path, there in places.items():
            found.reason = found.reason.replace(str(there), str(path))
        answer.append({name: getattr(found, name) for name in _SENT})
    return json.dumps(answer).encode()


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
