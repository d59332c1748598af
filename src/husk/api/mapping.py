"""api: husk.map, a Python function applied to many items, each in a box of its own: here, or on a cluster.

The function goes into the box as text (function_source), the item and the result as JSON (plain_values). What comes out
of a box is a stranger's: it is read as values, never unpickled, and no exception class is chosen by its name.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeVar

from husk.api import plain_values
from husk.api.function_source import source_of
from husk.api.options import mounts_of
from husk.api.run_result import TimeoutExpired
from husk.api.sandbox import Sandbox
from husk.cluster.choose_workers import chosen_workers
from husk.cluster.work import LostWork, Stop, Stopped
from husk.sandbox.errors import HuskError

if TYPE_CHECKING:
    from distributed import Client

    from husk.api.run_result import Result

ItemT = TypeVar("ItemT")
MOST_STDERR = 4096  # characters of what an item printed that its failure keeps

# Prints of the function go to standard error: standard output carries the result.
_STUB = """\
import json, os, sys, traceback
order = json.load(sys.stdin)
reply_to = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
codec = {"__name__": "codec"}
exec(order["codec"], codec)
try:
    place = {"__name__": "husk_map"}
    exec(compile(order["source"], "<husk.map>", "exec"), place)
    reply = {"value": codec["wrap"](place[order["function"]](codec["unwrap"](order["item"])))}
except BaseException as error:
    reply = {"raised": type(error).__name__, "text": str(error), "traceback": traceback.format_exc()}
sys.stdout.flush()
reply_to.write(json.dumps(reply))
reply_to.close()
"""


class ItemFailed(HuskError):
    """The function gave no result for an item. `kind` is the name of the exception it raised in the box, or "timeout",
    "ended" (by a limit, a signal, or its own exit) or "lost" (workers died). `stderr` is the end of what it printed."""

    exit_code = 1

    def __init__(self, number: int, kind: str, text: str, traceback: str = "", stderr: str = "") -> None:
        super().__init__(f"item {number}: {kind}: {text}" if text else f"item {number}: {kind}")
        self.number, self.kind, self.text, self.traceback, self.stderr = number, kind, text, traceback, stderr

    def __reduce__(self) -> tuple[Any, ...]:
        return ItemFailed, (self.number, self.kind, self.text, self.traceback, self.stderr)


def map(
    fn: Callable[[ItemT], Any],
    items: Iterable[ItemT],
    *,
    cluster: str | Client | None = None,
    jobs: int | None = None,
    timeout: float | None = None,
    return_exceptions: bool = False,
    python: str = "python3",
    **options: Any,
) -> list[Any]:
    """What the function returns for each item, in order; each call runs in a new box.

    `cluster`: the address of a Dask scheduler, or a distributed.Client; without one `jobs` boxes run at a time here
    (default: one for each processor). `timeout`: seconds for each item. `python`: the interpreter in the box. The other
    arguments are those of Sandbox.

    ItemFailed is raised for the first item without a result, and the rest is stopped; with `return_exceptions` it
    stands in the list instead. HuskError: no box can be made, or the cluster cannot be used."""
    found: dict[int, Any] = {}
    for number, result in map_unordered(
        fn, items, cluster=cluster, jobs=jobs, timeout=timeout, python=python, **options
    ):
        if isinstance(result, ItemFailed) and not return_exceptions:
            raise result
        found[number] = result
    return [found[number] for number in range(len(found))]


def map_unordered(
    fn: Callable[[ItemT], Any],
    items: Iterable[ItemT],
    *,
    cluster: str | Client | None = None,
    jobs: int | None = None,
    timeout: float | None = None,
    python: str = "python3",
    **options: Any,
) -> Generator[tuple[int, Any], None, None]:
    """As `map`: the number of each item and its result, or an ItemFailed, as they end. Items are asked for as boxes
    become free, so there may be any number. Closing the iterator stops what is still running."""
    if jobs is not None and jobs < 1:
        raise ValueError("at least one box runs at a time")
    if "keep" in options or "publish" in options:
        raise ValueError("each item has a new box: neither keep nor publish can be given")
    options["mounts"] = mounts_of(options.get("mounts", ()))  # links are followed now, as in a pool
    order = {
        "codec": inspect.getsource(plain_values),
        "source": source_of(fn),
        "function": fn.__name__,
        "python": python,
        "timeout": timeout,
        "options": options,
    }
    return _results(order, items, cluster, jobs)


def _results(
    order: dict[str, Any], items: Iterable[Any], cluster: str | Client | None, jobs: int | None
) -> Generator[tuple[int, Any], None, None]:
    orders = (order | {"item": _wrapped(item)} for item in items)
    with chosen_workers(cluster, jobs or 0) as workers, closing(workers.stream(_in_a_box, orders)) as answers:
        for number, answer in answers:
            yield number, _result(number, answer)


def _wrapped(item: object) -> object:
    try:
        return plain_values.wrap(item)
    except RecursionError:
        raise TypeError("an item is nested too deeply to go into a box") from None


# -- where the box is ------------------------------------------------------------------------------------------------
def _in_a_box(order: dict[str, Any], stop: Stop) -> bytes:
    """The work: on this machine, or on a worker of a cluster."""
    given = json.dumps({name: order[name] for name in ("codec", "source", "function", "item")})
    with Sandbox(**order["options"]) as box, stop.calls(box.close):
        if stop.asked:
            raise Stopped("nobody waits for this item any more.")
        try:
            done = box.run([order["python"], "-c", _STUB], input=given.encode(), capture_output=True,
                           timeout=order["timeout"])  # fmt: skip
        except TimeoutExpired as expired:
            return _failure("timeout", f"after {order['timeout']:g} s", expired.result)
        reply = _read(done.stdout or b"")
        if done.lost.get("stdout"):
            return _failure("ended", "its result is too large", done)
        if done.returncode or reply is None:
            return _failure("ended", done.explain(), done)
        if "value" in reply:
            return json.dumps({"value": reply["value"]}).encode()
        text, trace = (str(reply.get(name, "")) for name in ("text", "traceback"))
        return _failure(str(reply.get("raised", "")), text, done, trace)


def _read(stdout: bytes) -> dict[str, Any] | None:
    try:
        reply = json.loads(stdout)
    except (ValueError, RecursionError):
        return None
    return reply if isinstance(reply, dict) else None


def _failure(kind: str, text: str, done: Result, traceback: str = "") -> bytes:
    printed = (done.stderr or b"").decode("utf-8", "replace")[-MOST_STDERR:]
    return json.dumps({"kind": kind, "text": text, "traceback": traceback, "stderr": printed}).encode()


# -- where the result is wanted ----------------------------------------------------------------------------------------
def _result(number: int, answer: bytes | HuskError) -> Any:
    """The function's result, or an ItemFailed. HuskError: it is not this item's fault alone."""
    if isinstance(answer, LostWork):
        return ItemFailed(number, "lost", str(answer))
    if isinstance(answer, HuskError):
        raise answer
    found = json.loads(answer)
    if "value" not in found:
        return ItemFailed(number, found["kind"], found["text"], found["traceback"], found["stderr"])
    try:
        return plain_values.unwrap(found["value"])
    except (ValueError, TypeError, IndexError, RecursionError):
        return ItemFailed(number, "ended", "what it answered is no result of husk.map")


__all__ = ["ItemFailed", "map", "map_unordered"]
