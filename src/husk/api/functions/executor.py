"""api: husk.Executor, a concurrent.futures.Executor whose tasks each run in a box of their own.

Threads start when there is something to do and end when there is nothing left: an executor that is forgotten leaves
nothing behind. A task's function, arguments and result travel as for husk.map (function_call).
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from concurrent import futures
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack

from husk.api import at_exit as living
from husk.api.functions.function_call import call_in_box, call_order, read_reply, wrapped
from husk.cluster.work import Stop, Stopped
from husk.sandbox.errors import HuskError

if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.api.options import BoxOptions
    from husk.api.run_result import Result

P = ParamSpec("P")
T = TypeVar("T")
# What a task raised is also of these classes. A guest chooses the name: so none is here that ends programs or
# generators (SystemExit, StopIteration), and none that means husk's own timeout.
_CLASSES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    FileExistsError,
    FileNotFoundError,
    ImportError,
    IndexError,
    IsADirectoryError,
    KeyError,
    LookupError,
    ModuleNotFoundError,
    NameError,
    NotADirectoryError,
    NotImplementedError,
    OSError,
    OverflowError,
    PermissionError,
    RuntimeError,
    TypeError,
    ValueError,
    ZeroDivisionError,
)


@dataclass(frozen=True)
class Progress:
    """How far an executor is: tasks that were submitted, that run now, that have ended, and that ended without a
    result. Cancelled ones have ended."""

    submitted: int
    running: int
    done: int
    failed: int


class TaskFailed(HuskError):
    """A task gave no result. `kind` is the name of the exception that its function raised in the box, or "timeout",
    "ended" (by a limit, a signal, or its own exit) or "cancelled". `text` is what the exception said, `traceback` where
    it was raised, `stderr` the end of what the function printed. `result` tells what the box saw: `result.denials`,
    `result.explain()`.

    It can be caught as the exception that was raised, if that is one of the usual ones: `except ValueError`. A timeout
    is a TimeoutError."""

    exit_code = 1

    def __init__(
        self, kind: str, text: str, traceback: str = "", stderr: str = "", result: Result | None = None
    ) -> None:
        super().__init__(f"{kind}: {text}" if text else kind)
        self.kind, self.text, self.traceback, self.stderr, self.result = kind, text, traceback, stderr, result

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return task_failed, (self.kind, self.text, self.traceback, self.stderr, self.result)


_BY_KIND: dict[str, type[TaskFailed]] = {
    one.__name__: type(one.__name__, (TaskFailed, one), {"__module__": __name__, "__doc__": TaskFailed.__doc__})
    for one in _CLASSES
}
_BY_KIND["timeout"] = type(
    "TaskTimeout", (TaskFailed, TimeoutError), {"__module__": __name__, "__doc__": TaskFailed.__doc__}
)


def task_failed(kind: str, text: str, traceback: str, stderr: str, result: Result | None) -> TaskFailed:
    """A TaskFailed of the class that fits."""
    return _BY_KIND.get(kind, TaskFailed)(kind, text, traceback, stderr, result)


class _Future(futures.Future[T]):
    """The future of a task. Cancelling one that runs ends its box: then it has failed."""

    def __init__(self) -> None:
        super().__init__()
        self.stop = Stop()

    def cancel(self) -> bool:
        if super().cancel():
            return True
        if not self.done():
            # Ending a box takes a moment, which an event loop must not wait.
            threading.Thread(target=self.stop.ask, name="husk-cancel", daemon=True).start()
        return False


class Executor(futures.Executor):
    """Runs Python functions, each call in a box of its own, `max_workers` at a time (default: one for each processor).

    `timeout`: seconds for each task. `python`: the interpreter in the box. `progress` is called with a Progress
    whenever a task begins or ends, in one of the executor's threads. The other arguments are those of Sandbox, except
    `keep` and `publish`.

    `submit` gives a concurrent.futures.Future. If the task gives no result its exception is a TaskFailed; a HuskError
    of another kind means that no box could be made. Cancelling a task that runs ends its box."""

    def __init__(
        self,
        max_workers: int | None = None,
        *,
        image: str = "",
        timeout: float | None = None,
        python: str = "python3",
        progress: Callable[[Progress], None] | None = None,
        **options: Unpack[BoxOptions],
    ) -> None:
        if max_workers is not None and max_workers < 1:
            raise ValueError("max_workers must be greater than 0")
        if options.get("keep") or options.get("publish"):
            raise ValueError("each task has a new box: neither keep nor publish can be given")
        self._most = max_workers or os.cpu_count() or 1
        self._image, self._timeout, self._python, self._options = image, timeout, python, options
        self._progress, self._telling = progress, threading.Lock()
        self._lock = threading.Condition()
        self._waiting: deque[tuple[_Future[Any], dict[str, Any]]] = deque()
        self._running: set[_Future[Any]] = set()
        self._workers = 0
        self._closed = False
        self._submitted = self._done = self._failed = 0

    # -- as concurrent.futures.Executor has them -------------------------------------------------------------------
    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> futures.Future[T]:
        """Call the function in a box. TypeError: it, or an argument, cannot go into one (docs/api.md says what can)."""
        order = call_order(fn, python=self._python, timeout=self._timeout, image=self._image, options=self._options)
        order["given"] = wrapped((args, kwargs))
        future: _Future[T] = _Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if not self._workers:
                living.born(self)
            self._submitted += 1
            self._waiting.append((future, order))
            more = self._workers < min(self._most, len(self._waiting) + len(self._running))
            self._workers += more
        if more:
            threading.Thread(target=self._work, name="husk-executor", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """No more tasks are taken. `wait`: until all have ended. `cancel_futures`: those that have not begun are
        cancelled."""
        with self._lock:
            self._closed = True
            dropped = list(self._waiting) if cancel_futures else []
            if cancel_futures:
                self._waiting.clear()
        for future, _ in dropped:
            if future.cancel():
                future.set_running_or_notify_cancel()
                self._ended(failed=False)
        if wait:
            with self._lock:
                self._lock.wait_for(lambda: not self._workers)

    def kill_workers(self) -> None:
        """End all tasks: those that run fail, those that have not begun are cancelled. No more are taken."""
        self.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            running = list(self._running)
        for future in running:
            future.stop.ask()
        self.shutdown()

    # -- the threads -----------------------------------------------------------------------------------------------
    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._workers -= 1
                    if not self._workers:
                        living.gone(self)
                    self._lock.notify_all()
                    return
                future, order = self._waiting.popleft()
                self._running.add(future)
            try:
                self._do(future, order)
            finally:
                with self._lock:
                    self._running.discard(future)

    def _do(self, future: _Future[Any], order: dict[str, Any]) -> None:
        if not future.set_running_or_notify_cancel():
            with self._lock:
                self._running.discard(future)
            self._ended(failed=False)
            return
        self._tell()
        value, failure = None, None
        try:
            value, failure = _called(future, order)
        except BaseException as error:
            failure = error
        with self._lock:
            self._running.discard(future)
        # Before the future has its result: who waits for it finds it counted.
        self._ended(failed=failure is not None)
        if failure is None:
            future.set_result(value)
        else:
            future.set_exception(failure)

    def _ended(self, *, failed: bool) -> None:
        with self._lock:
            self._done += 1
            self._failed += failed
        self._tell()

    def _tell(self) -> None:
        if self._progress is None:
            return
        with self._telling:  # one after the other, so that no number goes backwards
            with self._lock:
                now = Progress(self._submitted, len(self._running), self._done, self._failed)
            try:
                self._progress(now)
            except Exception:  # as for callbacks of futures
                logging.getLogger("husk").exception("exception calling progress of %r", self)

    # -- life ------------------------------------------------------------------------------------------------------
    def close(self) -> None:
        """At the end of the program. Called by husk itself."""
        self.kill_workers()

    def forget(self) -> None:
        """In a forked child, which has none of the threads. Called by husk itself."""
        self._lock, self._telling = threading.Condition(), threading.Lock()
        self._closed, self._workers = True, 0
        self._waiting.clear()
        self._running.clear()

    def __repr__(self) -> str:
        state = "shut down" if self._closed else "open"
        return f"<husk.Executor, {state}: {len(self._running)} tasks run, {self._done} of {self._submitted} have ended>"


def _called(future: _Future[Any], order: dict[str, Any]) -> tuple[Any, BaseException | None]:
    try:
        reply, result = call_in_box(order, future.stop)
    except (Stopped, ValueError):
        if not future.stop.asked:
            raise
        return None, TaskFailed("cancelled", "its box was ended")  # before the function began
    value, failure = read_reply(reply)
    if failure is None:
        return value, None
    if future.stop.asked:
        return None, TaskFailed("cancelled", "its box was ended", failure[2], failure[3], result)
    return None, task_failed(*failure, result)


__all__ = ["Executor", "Progress", "TaskFailed"]
