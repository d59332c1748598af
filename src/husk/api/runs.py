"""api: an open sandbox from the inside: its box, the runs under way, and the one that is kept ready.

Life: built, used from any threads, closed once. In between the box may be given away to a snapshot (`settle`); the
next caller that needs one builds it anew upon that. Not here: what an application sees of it (`sandbox`, `snapshot`).
"""

from __future__ import annotations

import errno
import resource
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from husk.api.process import Pipes, Process
from husk.api.run_result import speaking_python
from husk.kernel.events import Events, Full
from husk.kernel.hooks import Hooks
from husk.sandbox.box import Box
from husk.sandbox.errors import HuskError, NotExecutable, NotFound, UsageError
from husk.sandbox.plan import behind_walls
from husk.sandbox.result import Result as Ended
from husk.sandbox.run import Run, Standby, launch
from husk.sandbox.stdio.std_fds import may_hand_over

if TYPE_CHECKING:
    from collections.abc import Iterator

    from husk.api.options import Command, Texts
    from husk.sandbox.kept.keeping import Keeping
    from husk.sandbox.kept.snapshot import Snapshot
    from husk.sandbox.plan import Plan
    from husk.sandbox.policy import Policy

MOST_EVENTS = 100_000  # kept of one run; what comes later is counted


class Runs:
    """`lock` guards everything; it is never held while a run is waited for. `start` is what to begin with; the caller
    still closes it."""

    def __init__(self, policy: Policy, hooks: Hooks, *, events: bool, start: Snapshot | None = None) -> None:
        self.lock = threading.RLock()
        self.policy, self.hooks, self.keeps_events = policy, hooks, events
        self.closed = False
        self.standby: Standby | None = None
        self._standby_kept: list[dict[str, object]] = []  # events of that one
        self._box: Box | None = None
        self._processes: set[Process] = set()
        self._writing = 0  # files that the application itself is writing to
        self._last: tuple[list[str], Ended] = [], Ended()  # what ran last, for the record of a kept box
        self._start = start  # while there is no box: what to build it upon
        self._keeping: Keeping | None = None  # likewise
        self._log: Keeping | None = None  # while the box is closed: where the last runs are logged
        self._log_failure = ""
        self._make_box()
        self._start = None

    # -- the box ---------------------------------------------------------------------------------------------------
    def _make_box(self) -> None:
        try:
            with speaking_python():
                behind_walls(self.policy, self._build)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            raise HuskError(
                f"no descriptors are left for another box (this process may have {soft}, and a box takes about 25); "
                "close boxes, or raise the limit: resource.setrlimit(resource.RLIMIT_NOFILE, …), `ulimit -n`."
            ) from None

    def _build(self, plan: Plan) -> None:
        """Also launches the first run, which waits to be told what to run: only that shows which walls stand."""
        start = self._start.again() if self._start is not None else None
        self._box = Box(plan, start=start, kept=self._keeping, lasting=True)
        try:
            self.prepare()
            assert self.standby is not None
            self.standby.keep_namespaces()
        except BaseException:
            self.end_standby()
            if self._keeping is not None:
                self._box.release_kept()  # it goes on in the next attempt
            self._box.close()
            self._box = None
            raise

    def box(self) -> Box:
        """The caller holds the lock."""
        if self.closed:
            raise ValueError("the sandbox is closed")
        if self._box is None:
            self._make_box()
            if self._start is not None:
                self._start.close()
            self._start = self._keeping = None
        assert self._box is not None
        return self._box

    @property
    def idle(self) -> bool:
        """No program runs in the box, and none of its files is being written. The caller holds the lock."""
        return not self._processes and not self._writing

    @contextmanager
    def writing(self) -> Iterator[None]:
        """While the application writes to a file of the box without the lock."""
        with self.lock:
            self._writing += 1
        try:
            yield
        finally:
            with self.lock:
                self._writing -= 1

    def snapshot(self) -> Snapshot:
        """The files as they are now; the caller closes it. If no program runs in the box, nothing is copied."""
        from husk.sandbox.kept.take_snapshot import take_snapshot

        with self.lock:
            if self._start is None and not self.idle:
                return take_snapshot(self.box(), over=False)
            return self.settle().again()

    def settle(self) -> Snapshot:
        """The box becomes a snapshot, which stays ours and is what the next box goes on from. The caller holds the
        lock, and the box is idle."""
        if self._start is None:
            from husk.sandbox.kept.take_snapshot import take_snapshot

            box = self.box()
            self.end_standby()
            self._start = take_snapshot(box, over=True)
            self._keeping = box.release_kept()
            self._box = None
            box.close()
        return self._start

    def go_on_from(self, start: Snapshot) -> None:
        """A box that has settled continues from `start`."""
        assert self._start is not None
        self._start.close()
        self._start = start

    @property
    def keeping(self) -> Keeping | None:
        """The hold of a kept box that has settled."""
        return self._keeping

    # -- runs ------------------------------------------------------------------------------------------------------
    def prepare(self) -> None:
        assert self._box is not None
        kept: list[dict[str, object]] = []
        self.standby = Standby(self._box, self.policy, self._new_events(kept), self.hooks or None)
        self._standby_kept = kept

    def end_standby(self) -> None:
        if self.standby is not None:
            self.standby.finish()
            self.standby = None

    def begin(self, policy: Policy, pipes: Pipes, text: Texts | None, args: Command, bufsize: int = -1) -> Process:
        try:
            with speaking_python():
                return self._begun(policy, pipes, text, args, bufsize)
        finally:
            pipes.close()

    def _begun(self, policy: Policy, pipes: Pipes, text: Texts | None, args: Command, bufsize: int) -> Process:
        # Under one lock: a thread that finds the box idle, or closes it, must know of this run.
        with self.lock:
            run, kept = self._launched(policy, pipes.guest)
            pipes.given()
            try:
                process = Process(run, pipes, args, kept, self._over, text=text, bufsize=bufsize)
            except BaseException:  # no such way to handle errors of the encoding, for one
                run.end(signal.SIGKILL)
                run.finish()
                raise
            self._processes.add(process)
        return process

    def _launched(self, policy: Policy, stdio: tuple[int, int, int]) -> tuple[Run, list[dict[str, object]]]:
        """The run, and where its events are kept."""
        box = self.box()
        standby, self.standby = self.standby, None
        if standby is not None and (not all(map(may_hand_over, stdio)) or not standby.waits()):
            standby.finish()
            standby = None
        if standby is not None:
            try:
                run = standby.start(policy, stdio)
                if run is not None:
                    return run, self._standby_kept
                standby.finish()
            except (NotFound, NotExecutable, UsageError):
                self.standby = standby  # it was told nothing
                raise
            except BaseException:
                standby.finish()
                raise
        kept: list[dict[str, object]] = []
        return launch(box, policy, self._new_events(kept), stdio, hooks=self.hooks or None), kept

    def _over(self, process: Process, ended: Ended) -> None:
        with self.lock:
            self._last = process.argv, ended
            self._processes.discard(process)
            kept = self._log or (self._box.kept if self._box is not None else self._keeping)
            if kept is not None:
                try:
                    kept.log_run(process.argv, ended)
                except OSError as error:
                    self._log_failure = error.strerror or "it cannot be written"

    def _new_events(self, kept: list[dict[str, object]]) -> Events:
        if not self.keeps_events:
            return Events(None, None)

        def keep(event: dict[str, object]) -> None:
            if len(kept) >= MOST_EVENTS:
                raise Full
            kept.append(event)

        return Events(keep, None)

    @property
    def last(self) -> tuple[list[str], Ended]:
        return self._last

    # -- life ------------------------------------------------------------------------------------------------------
    def close(self) -> bool:
        """End every run and remove everything except what is to be kept. False: it was closed already."""
        with self.lock:
            was, self.closed = self.closed, True
            box, self._box = self._box, None
            self._log = box.kept if box is not None else self._keeping
            processes = list(self._processes)
        if was:
            return False
        try:
            if box is not None:
                box.ends()
            for process in processes:
                process.kill()
            for process in processes:
                process.ended()
            self.end_standby()
            if box is not None:
                box.keep(*self._last)
            elif self._keeping is not None:
                self._keeping.record_now(self._last[0], self._last[1].exit_code)
        finally:
            for held in (box, self._keeping, self._start):
                if held is not None:
                    held.close()
            self._keeping = self._start = self._log = None
        if self._log_failure:
            raise HuskError(
                f"the box {self.policy.keep!r} is kept, but not every run is in its log ({self._log_failure})."
            )
        return True

    def forget(self) -> None:
        """In a forked child: the box is the parent's."""
        self.closed = True
        self.lock = threading.RLock()  # the thread that may have held it is not in this process
        for run in (self.standby, *self._processes):
            if run is not None:
                run.forget()
        self.standby, self._processes = None, set()
        for held in (self._box, self._keeping, self._start):
            if held is not None:
                held.forget()
        self._box = self._keeping = self._start = None
