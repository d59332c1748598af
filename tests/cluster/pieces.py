"""Work for the tests of clusters: workers import it by this name."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

from husk.cluster import on_worker, trees
from husk.cluster.trees import Tree
from husk.cluster.work import Stop
from husk.sandbox.errors import UsageError


def piece(item: tuple[str, Any], stop: Stop) -> bytes:
    kind, value = item
    if kind == "square":
        time.sleep(0.02)
        return str(value * value).encode()
    if kind == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "refuse":
        raise UsageError("there is no such box; make one.")
    if kind == "fault":
        raise ZeroDivisionError("a mistake of ours")
    if kind == "wait":
        return _wait(Path(value), stop)
    assert kind == "read"
    return _read(value)


def _wait(told: Path, stop: Stop) -> bytes:
    ended = threading.Event()
    with stop.calls(ended.set):
        Path(told, f"began-{threading.get_ident()}-{os.getpid()}").touch()
        if ended.wait(60):
            Path(told, "stopped").touch()
    return b""


def _read(tree: Tree) -> bytes:
    place = tree.here(on_worker.scratch())
    found = [f"{path.relative_to(place)} {os.access(path, os.X_OK)}" for path in sorted(place.rglob("*"))]
    return f"{place == tree.path} {found} {(place / 'sub' / 'file').read_text()}".encode()


SEEING = trees._same


def make_blind() -> None:
    """In a worker: no tree of the asking machine is seen, as on another machine."""
    trees._same = lambda tree: False


def make_seeing() -> None:
    trees._same = SEEING
