"""api: an open box from the inside: the ground it stands on, the runs under way, and the one that is kept ready.

Life: built, used from any threads, closed once. In between the ground may be given away to a snapshot (`settle`); the
next who needs one builds it anew upon that. Not here: what an application sees of it (`sandbox`, `snapshot`).
"""

from __future__ import annotations

import errno
import resource
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from husk.api.process import Pipes, Process
from husk.api.run_result import in_public
from husk.kernel.events import Events, Full
from husk.kernel.hooks import Hooks
from husk.sandbox.errors import HuskError, NotExecutable, NotFound, UsageError
from husk.sandbox.ground import Ground, behind_walls
from husk.sandbox.result import Result as Ended
from husk.sandbox.run import Run
from husk.sandbox.stdio.streams import as_it_is

if TYPE_CHECKING:
    from collections.abc import Iterator

    from husk.abi.registry.rules import Walls
    from husk.api.options import Texts
    from husk.sandbox.kept.keeping import Keeping
    from husk.sandbox.kept.snapshot import Snapshot
    from husk.sandbox.policy import Policy

MOST_EVENTS = 100_000  # kept of one run; what comes later is counted


class Runs:
    """`lock` guards everything; it is never held while a run is waited for. `start` is what to begin with; the caller
    still closes it."""

    def __init__(self, policy: Policy, hooks: Hooks, *, events: bool, start: Snapshot | None = None) -> None:
        self.lock = threading.RLock()
        self.policy, self.hooks, self.keeps_events = policy, hooks, events
        self.closed = False
        self.standby: Run | None = None
        self._ground: Ground | None = None
        self._processes: set[Process] = set()
        self._writing = 0  # files that the application itself is writing to
        self._last: tuple[list[str], Ended] = [], Ended()  # what ran last, for the record of a kept box
        self._start = start  # while there is no ground: what to build it upon
        self._keeping: Keeping | None = None  # likewise
        self._make_ground()
        self._start = None

    # -- the ground ------------------------------------------------------------------------------------------------
    def _make_ground(self) -> None:
        try:
            behind_walls(self.policy, self._build)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            raise HuskError(
                f"no descriptors are left for another box (this process may have {soft}, and a box takes about 25); "
                "close boxes, or raise the limit: resource.setrlimit(resource.RLIMIT_NOFILE, …), `ulimit -n`."
            ) from None

    def _build(self, walls: Walls) -> None:
        """Also launches the first run, which waits to be told what to run: only that shows which walls stand."""
        start = self._start.again() if self._start is not None else None
        self._ground = Ground(self.policy, walls, start=start, kept=self._keeping, lasting=True)
        try:
            self.prepare()
            assert self.standby is not None
            self.standby.keep_namespaces()
        except BaseException:
            self.end_standby()
            if self._keeping is not None:
                self._ground.kept = None  # it goes on in the next attempt
            self._ground.close()
            self._ground = None
            raise

    def ground(self) -> Ground:
        """The caller holds the lock."""
        if self.closed:
            raise ValueError("the sandbox is closed")
        if self._ground is None:
            self._make_ground()
            if self._start is not None:
                self._start.close()
            self._start = self._keeping = None
        assert self._ground is not None
        return self._ground

    @property
    def idle(self) -> bool:
        """Does nobody run in the box or write to its files? The caller holds the lock."""
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
        """The files as they are now; the caller closes it. Of a box in which nobody runs nothing is copied."""
        from husk.sandbox.kept.take_snapshot import take_snapshot

        with self.lock:
            if self._start is None and not self.idle:
                return take_snapshot(self.ground(), over=False)
            return self.settle().again()

    def settle(self) -> Snapshot:
        """The ground becomes a snapshot, which stays ours, and is what the box goes on from. The caller holds the lock,
        and the box is idle."""
        if self._start is None:
            from husk.sandbox.kept.take_snapshot import take_snapshot

            ground = self.ground()
            self.end_standby()
            self._start = take_snapshot(ground, over=True)
            self._keeping, ground.kept = ground.kept, None
            self._ground = None
            ground.close()
        return self._start

    def go_on_from(self, start: Snapshot) -> None:
        """Of a box that has settled: it is this now."""
        assert self._start is not None
        self._start.close()
        self._start = start

    @property
    def keeping(self) -> Keeping | None:
        """Of a box that has settled, and is to be kept."""
        return self._keeping

    # -- runs ------------------------------------------------------------------------------------------------------
    def prepare(self) -> None:
        assert self._ground is not None
        run = self.standby = Run(self._ground, self.policy, self._new_events([]), self.hooks or None)
        run.ready()

    def end_standby(self) -> None:
        if self.standby is not None:
            self.standby.finish()
            self.standby = None

    def begin(self, policy: Policy, pipes: Pipes, text: Texts | None) -> Process:
        kept: list[dict[str, object]] = []
        events = self._new_events(kept)
        try:
            # In one go: whoever finds the box idle, or closes it, must know of this run.
            with self.lock:
                run = self._launched(policy, events, pipes.guest)
                pipes.given()
                process = Process(run, pipes, policy.argv, kept, self._over, text=text)
                self._processes.add(process)
            return process
        except (NotFound, NotExecutable) as error:
            raise in_public(error) from None
        finally:
            pipes.close()

    def _launched(self, policy: Policy, events: Events, stdio: tuple[int, int, int]) -> Run:
        ground = self.ground()
        standby, self.standby = self.standby, None
        if standby is not None and (not all(map(as_it_is, stdio)) or not standby.waits()):
            standby.finish()
            standby = None
        if standby is not None:
            try:
                if standby.start(policy, events, stdio):
                    return standby
                standby.finish()
            except (NotFound, NotExecutable, UsageError):
                self.standby = standby  # it was told nothing
                raise
            except BaseException:
                standby.finish()
                raise
        run = Run(ground, policy, events, self.hooks or None)
        try:
            run.launch(stdio)
        except BaseException:
            run.finish()
            raise
        return run

    def _over(self, process: Process, ended: Ended) -> None:
        with self.lock:
            self._last = process.args, ended
            self._processes.discard(process)

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
        """End every run and remove everything, but what is to be kept. False: that was done already."""
        with self.lock:
            was, self.closed = self.closed, True
            ground, self._ground = self._ground, None
            processes = list(self._processes)
        if was:
            return False
        try:
            if ground is not None:
                ground.files.vfs.state.ending = True
            for process in processes:
                process.kill()
            for process in processes:
                process.ended()
            self.end_standby()
            if ground is not None:
                ground.keep(*self._last)
            elif self._keeping is not None:
                self._keeping.record_now(self._last[0], self._last[1].exit_code)
        finally:
            for held in (ground, self._keeping, self._start):
                if held is not None:
                    held.close()
            self._keeping = self._start = None
        return True

    def forget(self) -> None:
        """In a forked child: the box is the parent's."""
        self.closed = True
        self.lock = threading.RLock()  # whoever held it is not in this process
        for run in (self.standby, *self._processes):
            if run is not None:
                run.forget()
        self.standby, self._processes = None, set()
        for held in (self._ground, self._keeping, self._start):
            if held is not None:
                held.forget()
        self._ground = self._keeping = self._start = None
