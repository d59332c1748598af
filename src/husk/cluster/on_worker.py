"""cluster: what runs in a worker's process. Dask names these functions by their module, so a worker needs husk.

A reply is bytes: a letter for what became of the work, then the answer, or JSON about what went wrong.
"""

from __future__ import annotations

import asyncio
import json
import threading
import traceback
from pathlib import Path
from typing import Any

from husk import __version__
from husk.cluster import fitness, trees
from husk.cluster.trees import Entry, NotHere, Tree
from husk.cluster.work import Stop, Work
from husk.sandbox.errors import HuskError

ANSWER, REFUSAL, FAULT, VERSION, TREE = b"=", b"e", b"f", b"v", b"t"

_lock = threading.Lock()
_stops: dict[str, tuple[Stop, int]] = {}  # run -> what stops its work here, and how many pieces are under way


def perform(work: Work, version: str, run: str, item: Any) -> bytes:
    """One piece of work, in a thread of the worker."""
    if version != __version__:
        return _about(VERSION, version=__version__)
    stop = _begun(run)
    try:
        return ANSWER + work(item, stop)
    except NotHere as lacking:
        return _about(TREE, mark=lacking.tree.mark, path=str(lacking.tree.path))
    except HuskError as error:
        return _about(REFUSAL, text=str(error), code=error.exit_code)
    except Exception:
        return _about(FAULT, text=traceback.format_exc())
    finally:
        _ended(run)


def scratch() -> Path | None:
    """Where trees that were sent lie; None outside a worker. Dask removes it with the worker."""
    from distributed import get_worker

    try:
        return Path(get_worker().local_directory, "husk-trees")
    except ValueError:
        return None


def _about(letter: bytes, **fields: object) -> bytes:
    from distributed import get_worker

    return letter + json.dumps({"worker": get_worker().address} | fields).encode()


def _begun(run: str) -> Stop:
    with _lock:
        stop, count = _stops.get(run) or (Stop(), 0)
        _stops[run] = stop, count + 1
        return stop


def _ended(run: str) -> None:
    with _lock:
        stop, count = _stops.pop(run)
        if count > 1:
            _stops[run] = stop, count - 1


# -- what the asking side calls on every worker, beside the work -----------------------------------------------------
async def introduce() -> str:
    """In a thread: the worker's loop has to go on."""
    return await asyncio.to_thread(fitness.introduce)


async def stop_run(run: str) -> None:
    with _lock:
        stop = _stops[run][0] if run in _stops else None
    if stop is not None:
        await asyncio.to_thread(stop.ask)


async def take_tree(tree: Tree, entries: list[Entry], dask_worker: Any) -> None:
    place = Path(dask_worker.local_directory, "husk-trees")
    await asyncio.to_thread(trees.unpack, tree, entries, place)
