"""cluster: work done by the workers of a Dask cluster: connecting, checking them, submitting, reading replies.

Dask itself moves a dead worker's tasks to others, and gives up on a task after a number of deaths that its scheduler is
configured with. Tasks that merely waited on such a worker are counted too, so a task that Dask gave up is tried once
more when nothing else runs: if its worker dies again, it is this one's doing (LostWork).

Not here: what runs on the workers (on_worker.py).
"""

from __future__ import annotations

import importlib.metadata
import json
import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from husk import __version__
from husk.cluster import fitness, on_worker, trees
from husk.cluster.trees import LARGEST_SENT, Tree
from husk.cluster.work import Answers, LostWork, Work
from husk.sandbox.errors import HuskError, UsageError

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT_SECONDS = 10.0
NO_WORKER_SECONDS = 60.0  # without any worker, before the work is given up
LOOK = 1.0  # seconds between two looks at which workers there are
STOP_SECONDS = 5.0
START = "start one with `dask scheduler`, and workers with `dask worker ADDRESS`"


@dataclass
class _Order:
    """A piece of work that has no answer yet."""

    number: int
    item: Any
    submitted: int = 0
    since: float = 0.0  # when it was submitted last
    alone: bool = False  # Dask gave it up once: it runs when nothing else does
    sent: int = 0


class DaskWorkers:
    """`cluster` is the scheduler's address, or a distributed.Client, which stays the caller's to close. `wanted`: rows
    of the doctor that every worker must have, beside husk's minimum. UsageError, HuskError: it cannot be used, why."""

    def __init__(
        self, cluster: str | Client, *, wanted: tuple[str, ...] = (), patience: float = NO_WORKER_SECONDS
    ) -> None:
        self._patience = patience
        self._trees: dict[str, Tree] = {}
        self._own = isinstance(cluster, str)
        self._client = _connected(cluster) if isinstance(cluster, str) else cluster
        try:
            self._address = str(self._client.scheduler.address)
            self._check_workers(wanted)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._own:
            self._client.close(timeout=STOP_SECONDS)

    def _check_workers(self, wanted: tuple[str, ...]) -> None:
        until = time.monotonic() + self._patience
        while not self._threads():
            if time.monotonic() > until:
                raise self._no_workers()
            time.sleep(0.1)
        faults: dict[str, str] = {}
        # Two steps: the first is a function of the standard library, which a worker without husk can answer too.
        for worker, version in self._ask_all(importlib.metadata.version, "huskbox").items():
            if not isinstance(version, str):
                faults[worker] = "has no husk; install the same husk there (pip install huskbox)"
            elif version != __version__:
                faults[worker] = fitness.other_version(version)
        if not faults:
            for worker, said in self._ask_all(on_worker.introduce).items():
                lacks = fitness.unfit(said, wanted) if isinstance(said, str) else f"cannot be examined ({said})"
                if lacks:
                    faults[worker] = lacks
        if faults:
            texts = "; ".join(f"worker {worker} {fault}" for worker, fault in sorted(faults.items()))
            raise HuskError(f"{self._address}: {texts}; make the workers alike, or leave these out.")

    def _ask_all(self, function: Any, *args: Any) -> dict[str, Any]:
        found: dict[str, Any] = self._client.run(function, *args, on_error="return")
        return found

    def _threads(self) -> int:
        return sum(self._client.nthreads().values())

    def _no_workers(self) -> HuskError:
        return HuskError(
            f"{self._address}: the scheduler has no workers; start some with `dask worker {self._address}`."
        )

    # -- the work ----------------------------------------------------------------------------------------------
    def carry(self, path: Path) -> Tree:
        tree = trees.look(path)
        self._trees[tree.mark] = tree
        return tree

    def stream(self, work: Work, items: Iterable[Any]) -> Answers:
        course = self.course(work)
        left = iter(items)
        more = True
        try:
            while True:
                while more and course.has_room:
                    try:
                        course.add(next(left))
                    except StopIteration:
                        more = False
                if course.idle:
                    return
                yield from course.poll(LOOK)
        finally:
            course.close()

    def course(self, work: Work) -> Course:
        """For a caller that has more items later."""
        return Course(self, work)

    def _send(self, mark: str, worker: str) -> None:
        """To a worker that asked for it."""
        tree = self._trees[mark]
        if tree.size > LARGEST_SENT:
            raise HuskError(
                f"worker {worker} does not see {tree.path} as it is here, and it is too large to be sent"
                f" ({tree.size >> 20} MiB); put it on a file system that all workers share."
            )
        content = trees.packed(tree)
        replies = self._client.run(on_worker.take_tree, tree, content, workers=[worker], on_error="return")
        for failure in replies.values():
            if isinstance(failure, OSError):
                raise HuskError(f"worker {worker} cannot keep {tree.path}: {failure.strerror}.")
        # Another failure: the worker is gone, and the work comes to one that is there.


class Course:
    """Work under way on a cluster: items are added, answers polled for, until it is closed. For one thread."""

    def __init__(self, workers: DaskWorkers, work: Work) -> None:
        self._client, self._work, self._workers = workers._client, work, workers
        self._run = uuid.uuid4().hex
        self._count = 0
        self._waiting: deque[_Order] = deque()
        self._suspects: deque[_Order] = deque()
        self._under_way: dict[Future, _Order] = {}
        self._ended: SimpleQueue[Future] = SimpleQueue()
        self._threads = workers._threads()
        self._looked = self._seen = time.monotonic()
        self._sent: set[tuple[str, str]] = set()

    def add(self, item: Any) -> int:
        """The number of the item in the answers."""
        self._waiting.append(_Order(self._count, item))
        self._count += 1
        return self._count - 1

    @property
    def idle(self) -> bool:
        """Is everything answered?"""
        return not (self._waiting or self._suspects or self._under_way)

    @property
    def has_room(self) -> bool:
        """Would another item be submitted at once?"""
        return len(self._waiting) + len(self._under_way) < self._most

    @property
    def _most(self) -> int:
        """Twice what runs at once, so that no worker waits for us; not more, so that little has to be cancelled."""
        return 2 * self._threads + 1

    def running(self) -> list[tuple[int, float]]:
        """Numbers of what probably runs now, and the seconds since each was submitted: the oldest, because the
        scheduler hands tasks out in order."""
        now = time.monotonic()
        oldest = sorted((order.since, order.number) for order in self._under_way.values())[: self._threads]
        return [(number, now - since) for since, number in oldest]

    def poll(self, seconds: float) -> list[tuple[int, bytes | HuskError]]:
        """Submit what there is room for, and return what has ended, after at most so many seconds. HuskError: there
        are no workers any more, the scheduler is gone, or a worker is unfit."""
        self._fill()
        batch = self._take(min(seconds, LOOK)) if self._under_way else []
        self._look_at_workers()
        answers = self._read(batch)
        self._fill()
        return answers

    def _fill(self) -> None:
        if any(order.alone for order in self._under_way.values()):
            return
        while self._waiting and len(self._under_way) < self._most:
            self._submit(self._waiting.popleft())
        if not self._under_way and self._suspects:
            order = self._suspects.popleft()
            order.alone = True
            self._submit(order)

    def _submit(self, order: _Order) -> None:
        order.submitted += 1
        order.since = time.monotonic()
        # The first part of the key names a group. A group that is larger than the cluster is queued by the scheduler,
        # which hands tasks out one by one as workers become free: that balances them.
        key = (f"husk-{self._run}", order.number, order.submitted)
        future = self._client.submit(
            on_worker.perform, self._work, __version__, self._run, order.item, key=key, pure=False, retries=0
        )
        self._under_way[future] = order
        future.add_done_callback(self._ended.put)

    def _take(self, seconds: float) -> list[Future]:
        found = []
        try:
            found.append(self._ended.get(timeout=seconds))
            while True:
                found.append(self._ended.get_nowait())
        except Empty:
            return found

    def _look_at_workers(self) -> None:
        """They come and go."""
        now = time.monotonic()
        if now < self._looked + LOOK:
            return
        self._looked = now
        try:
            self._threads = self._workers._threads()
        except OSError:
            raise self._gone() from None
        if self._threads:
            self._seen = now
        elif now > self._seen + self._workers._patience:
            raise self._workers._no_workers()

    def _gone(self) -> HuskError:
        count = len(self._under_way)
        return HuskError(f"{self._workers._address}: the scheduler is gone; {count} pieces of work have no answer.")

    def _read(self, batch: list[Future]) -> list[tuple[int, bytes | HuskError]]:
        ended = [(future, future.status) for future in batch]  # asked once: it may change at any moment
        finished = [future for future, status in ended if status == "finished"]
        replies = dict(zip(finished, self._client.gather(finished), strict=True))
        answers: list[tuple[int, bytes | HuskError]] = []
        for future, status in ended:
            if status == "cancelled":  # not by us
                raise self._gone()
            if status not in ("finished", "error"):
                # It had ended, and its worker died before the answer was fetched: Dask has it done again.
                future.add_done_callback(self._ended.put)
                continue
            order = self._under_way.pop(future)
            answer = self._reply(order, replies[future]) if future in replies else self._failure(order, future)
            if answer is not None:
                answers.append((order.number, answer))
        return answers

    def _failure(self, order: _Order, future: Future) -> HuskError | None:
        """Dask itself could not get an answer. None: it is tried again."""
        from distributed import KilledWorker

        error = future.exception()
        if isinstance(error, KilledWorker):
            if order.alone:
                return LostWork("each worker that ran it died.")
            self._suspects.append(order)
            return None
        if isinstance(error, ImportError):
            raise HuskError(f"a worker that joined later has no husk ({error}); install the same husk there.")
        raise HuskError(f"Dask cannot hand the work on: {type(error).__name__}: {error}.")

    def _reply(self, order: _Order, reply: bytes) -> bytes | HuskError | None:
        """None: it is tried again."""
        letter, content = reply[:1], reply[1:]
        if letter == on_worker.ANSWER:
            return content
        about = json.loads(content)
        worker = about["worker"]
        if letter == on_worker.VERSION:
            raise HuskError(f"worker {worker} {fitness.other_version(about['version'])}; make the workers alike.")
        if letter == on_worker.REFUSAL:
            error = UsageError if about["code"] == UsageError.exit_code else HuskError
            return error(f"{about['text']} (On worker {worker}.)")
        if letter != on_worker.TREE:
            raise HuskError(f"husk failed on worker {worker}:\n{about['text']}")
        order.sent += 1
        if order.sent > self._threads + 8:  # each time it came to a worker that lacked one
            raise HuskError(f"worker {worker} was sent {about['path']}, and does not find it.")
        if (about["mark"], worker) not in self._sent:
            self._workers._send(about["mark"], worker)
            self._sent.add((about["mark"], worker))
        self._waiting.appendleft(order)
        return None

    def close(self) -> None:
        """End what is still under way."""
        if not self._under_way:
            return
        self._client.cancel(list(self._under_way), force=True)
        # In a thread, because a worker that does not answer must not keep the caller.
        ending = threading.Thread(target=self._stop_all, daemon=True)
        ending.start()
        ending.join(STOP_SECONDS)

    def _stop_all(self) -> None:
        try:
            self._client.run(on_worker.stop_run, self._run, on_error="ignore")
        except Exception:
            pass  # the scheduler is gone; workers end with it


def _connected(address: str) -> Client:
    try:
        from distributed import Client, Security
        from distributed.comm.addressing import parse_address, parse_host_port
        from distributed.comm.registry import get_backend
    except ImportError:
        raise UsageError("a cluster needs Dask; install it with `pip install 'huskbox[conform]'`.") from None
    try:  # before there is a client, which complains when it is collected half made
        scheme, place = parse_address(address)
        get_backend(scheme)
        if scheme != "inproc":
            parse_host_port(place)
    except ValueError as error:
        raise UsageError(f"cluster {address!r}: {error}; give the scheduler's address, as tcp://host:8786.") from None
    if scheme == "tls" and Security().get_connection_args("client").get("ssl_context") is None:
        raise UsageError(
            f"cluster {address!r}: Dask's configuration names no certificates; set distributed.comm.tls in it."
        )
    # Dask's own messages about a scheduler that does not answer: the caller gets one sentence instead.
    for name in ("distributed.client", "distributed.core", "distributed.comm.core"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        return Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError) as error:
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise UsageError(f"cluster {address!r}: no Dask scheduler answers there ({why}); {START}.") from None


__all__ = ["Course", "DaskWorkers"]
