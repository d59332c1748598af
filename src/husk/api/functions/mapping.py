"""api: husk.map, a Python function applied to many items, each in a box of its own: here, or on a cluster.

The function goes into the box as text (function_source), the item and the result as JSON (plain_values). What comes out
of a box is a stranger's: it is read as values, never unpickled, and no exception class is chosen by its name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from husk.api.functions.function_call import call_in_box, call_order, read_reply, wrapped
from husk.cluster.choose_workers import chosen_workers
from husk.cluster.work import LostWork, Stop
from husk.sandbox.errors import HuskError

if TYPE_CHECKING:
    from distributed import Client

    from husk.api.options import BoxOptions

ItemT = TypeVar("ItemT")


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
    image: str = "",
    timeout: float | None = None,
    return_exceptions: bool = False,
    python: str = "python3",
    **options: Unpack[BoxOptions],
) -> list[Any]:
    """What the function returns for each item, in order; each call runs in a new box.

    `cluster`: the address of a Dask scheduler, or a distributed.Client; without one `jobs` boxes run at a time here
    (default: one for each processor). `timeout`: seconds for each item. `python`: the interpreter in the box. The other
    arguments are those of Sandbox.

    ItemFailed is raised for the first item without a result, and the rest is stopped; with `return_exceptions` it
    stands in the list instead. HuskError: no box can be made, or the cluster cannot be used."""
    found: dict[int, Any] = {}
    for number, result in map_unordered(
        fn, items, cluster=cluster, jobs=jobs, image=image, timeout=timeout, python=python, **options
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
    image: str = "",
    timeout: float | None = None,
    python: str = "python3",
    **options: Unpack[BoxOptions],
) -> Generator[tuple[int, Any], None, None]:
    """As `map`: the number of each item and its result, or an ItemFailed, as they end. Items are asked for as boxes
    become free, so there may be any number. Closing the iterator stops what is still running."""
    if jobs is not None and jobs < 1:
        raise ValueError("at least one box runs at a time")
    order = call_order(fn, python=python, timeout=timeout, image=image, options=options)
    return _results(order, items, cluster, jobs)


def _results(
    order: dict[str, Any], items: Iterable[Any], cluster: str | Client | None, jobs: int | None
) -> Generator[tuple[int, Any], None, None]:
    orders = (order | {"given": wrapped(((item,), {}))} for item in items)
    with chosen_workers(cluster, jobs or 0) as workers, closing(workers.stream(_in_a_box, orders)) as answers:
        for number, answer in answers:
            yield number, _result(number, answer)


# -- where the box is ------------------------------------------------------------------------------------------------
def _in_a_box(order: dict[str, Any], stop: Stop) -> bytes:
    """The work: on this machine, or on a worker of a cluster."""
    return json.dumps(call_in_box(order, stop)[0]).encode()


# -- where the result is wanted ----------------------------------------------------------------------------------------
def _result(number: int, answer: bytes | HuskError) -> Any:
    """The function's result, or an ItemFailed. HuskError: it is not this item's fault alone."""
    if isinstance(answer, LostWork):
        return ItemFailed(number, "lost", str(answer))
    if isinstance(answer, HuskError):
        raise answer
    value, failure = read_reply(json.loads(answer))
    return value if failure is None else ItemFailed(number, *failure)


__all__ = ["ItemFailed", "map", "map_unordered"]
