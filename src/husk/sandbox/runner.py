"""sandbox: runs one program in a box of its own, through all phases to its result: for the command line, skills, images
and the doctor. Boxes that outlive a run are `husk.api`'s, and launch their runs by the same `run.launch`."""

from __future__ import annotations

import os

from husk.kernel.events import Events, Full
from husk.sandbox.box import Box
from husk.sandbox.errors import HuskError
from husk.sandbox.launch import Stop
from husk.sandbox.plan import behind_walls, mounted
from husk.sandbox.policy import Policy
from husk.sandbox.result import ended_by
from husk.sandbox.run import Standby, collect, launch
from husk.sandbox.stdio.std_fds import may_hand_over
from husk.vfs.image.default_image import host_sources
from husk.walls.gates import may_show_usr
from husk.walls.gates import wanted as gates_wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.sandbox.filesystem import Files
    from husk.sandbox.image_source import Unnamed
    from husk.sandbox.plan import Plan
    from husk.sandbox.result import Result
    from husk.sandbox.run import Run
    from husk.sandbox.start.launch_ahead import Ahead
    from husk.sandbox.stdio.capture import Kept

__all__ = ["Events", "Full", "Prepared", "Runner"]

# By the dynamic loader of every program, wherever a distribution has its C library.
ASKED_FIRST = (b"/etc/ld.so.preload", b"/etc/ld.so.cache", b"/lib/x86_64-linux-gnu/libc.so.6", b"/lib64/libc.so.6")


class Prepared:
    """A box that is ready before it is known what to run: its guest waits behind every wall, and has seen nothing of
    any caller. It is for one run. The owner calls `close` in any case.

    A run in it must be the one that a new box would have been. Whatever makes a difference before the program starts
    is compared by `fits`; docs/design/023-resident.md lists it."""

    def __init__(self, ahead: Ahead | None = None) -> None:
        """`ahead`: begun by this run for itself."""
        self.for_later = ahead is None
        self._sources: list[object] = []
        if ahead is None:
            self._sources = host_sources()
            self.box, self.standby = behind_walls(Policy([]), _bare_box)
            try:
                self.standby.expect(ASKED_FIRST)
            except BaseException:
                self.close()
                raise
        else:
            self.box, self.standby = _bare_box(ahead.plan, ahead)

    def fits(self, policy: Policy, events: Events, stdio: tuple[int, int, int]) -> bool:
        box = self.box
        fits = (
            policy.fits_usual_box()
            and not events.watching
            and all(map(may_hand_over, stdio))
            and self.standby.waits()
        )
        if not fits or not self.for_later:
            return fits
        return (
            (not box.walls.direct or may_show_usr(mounted(policy), policy.store))
            and gates_wanted() == box.plan.gates
            and host_sources() == self._sources
            and box.state is not None
            and box.state.is_where_it_would_be()
        )

    def furnish(self, policy: Policy) -> None:
        """It is going to run what this policy says, which `fits`."""
        self.box.furnish(policy)
        if policy.mounts or not self.for_later:
            self.standby.expect(ASKED_FIRST)  # once mounts have come, what was known of names is forgotten

    def close(self) -> None:
        """Nothing of it is left. Safe to call twice."""
        self.standby.finish()
        self.box.close()


def _bare_box(plan: Plan, ahead: Ahead | None = None) -> tuple[Box, Standby]:
    box = Box(plan, bare=True, ahead=ahead)
    try:
        return box, Standby(box, plan.policy, Events(None, None), ahead=ahead)
    except BaseException:
        box.close()
        raise


class StandbyDied(Exception):
    """The guest of a prepared box is gone, and was told nothing."""


class Beside:
    """What goes on in a box beside its program."""

    def begins(self, box: Box, run: Run) -> None:
        """The program runs."""

    def ends(self) -> None:
        """The program has ended, or none was started. Nothing else may be left in the box after this."""


class Runner:
    """Builds, runs and removes. `run` is called once; the other methods from any thread, or from signal handlers.

    `stdin` is input to give instead of the first descriptor. `keep`: the result holds so many bytes of each output
    stream, and the streams go nowhere else. `unnamed` replaces the image that the policy names. `at_end` sees the box's
    files and the result when the run is over, and may return a name to keep the box under, where the policy has none.
    `beside` is told when the program runs and when it has ended: it may run others in the same box in between.
    `prepared` is used if it fits, and closed at once otherwise; the owner closes it in any case. `denied`: see
    `behind_walls`.
    """

    def __init__(
        self,
        policy: Policy,
        events: Events,
        stdio: tuple[int, int, int] = (0, 1, 2),
        *,
        stdin: bytes | None = None,
        keep: int = 0,
        unnamed: Unnamed | None = None,
        at_end: Callable[[Files, Result], str] | None = None,
        beside: Beside | None = None,
        prepared: Prepared | None = None,
        denied: str = "",
    ) -> None:
        self.policy, self.events = policy, events
        self._stdio, self._stdin, self._keep = stdio, stdin, keep
        self._unnamed, self._at_end, self._beside = unnamed, at_end, beside
        self._prepared, self._denied = prepared, denied
        self._stop = Stop()
        self._run: Run | None = None  # once it is launched

    def run(self, wakes: int = -1) -> Result:
        """`wakes` is readable when a signal came, where signals have handlers."""
        if self._stdin is None:
            return self._with(self._stdio, wakes)
        from husk.sandbox.stdio.given_input import readable

        first = readable(self._stdin)
        try:
            return self._with((first, *self._stdio[1:]), wakes)
        finally:
            os.close(first)

    def _with(self, stdio: tuple[int, int, int], wakes: int) -> Result:
        kept = None
        if self._keep:
            from husk.sandbox.stdio.capture import Kept

            kept = Kept(self._keep), Kept(self._keep)
        result = self._run_prepared(stdio, kept, wakes)
        if result is None:
            result = behind_walls(
                self.policy, lambda plan: self._run_behind(plan, stdio, kept, wakes), denied=self._denied
            )
        if kept is not None:
            result.stdout, result.stderr = kept[0].data, kept[1].data
            result.lost["stdout"], result.lost["stderr"] = kept[0].lost, kept[1].lost
        return result

    @property
    def on_terminal(self) -> bool:
        """Does the guest get a terminal of the caller's as one of its streams?"""
        given = [*(self._stdio[:1] if self._stdin is None else ()), *(() if self._keep else self._stdio[1:])]
        return any(map(os.isatty, given))

    def end(self, signal: int) -> None:
        """The box ends now."""
        self._stop.end(signal)

    def signal(self, number: int) -> None:
        """Pass on to the guest what a key on the person's terminal sent to husk."""
        if self._run is not None:
            self._run.signal(number)
        else:
            self._stop.signal(number)

    def resize(self) -> None:
        if self._run is not None:
            self._run.resize()

    def _run_behind(
        self, plan: Plan, stdio: tuple[int, int, int], kept: tuple[Kept, Kept] | None, wakes: int
    ) -> Result:
        box = Box(plan, self._unnamed, lasting=self._at_end is not None)
        try:
            if box.source is not None:
                self.policy.adopt_program(box.source)
            result = self._launched(box, stdio, kept, wakes)
            name = self._at_end(box.files, result) if self._at_end is not None else ""
            if name and not self.policy.keep:
                box.begin_keeping(name)
            box.keep(self.policy.argv, result)
            return result
        finally:
            box.close()

    def _run_prepared(
        self, stdio: tuple[int, int, int], kept: tuple[Kept, Kept] | None, wakes: int
    ) -> Result | None:
        """None: there is no such box, it does not fit, or it has just died."""
        prepared = self._prepared
        if prepared is None:
            return None
        if self._at_end is not None or self._unnamed or not prepared.fits(self.policy, self.events, stdio):
            prepared.close()
            return None
        box = prepared.box
        try:
            prepared.furnish(self.policy)
            return self._launched(box, stdio, kept, wakes, prepared.standby)
        except StandbyDied:
            return None
        finally:
            prepared.standby.finish()  # where it was told nothing
            if not prepared.for_later:
                box.close()
            elif self.policy.mounts:
                box.let_go()  # the caller may want to unmount them

    def _launched(
        self,
        box: Box,
        stdio: tuple[int, int, int],
        kept: tuple[Kept, Kept] | None,
        wakes: int,
        standby: Standby | None = None,
    ) -> Result:
        policy, events, stop = self.policy, self.events, self._stop
        self._run = None  # of an attempt behind other walls
        try:
            try:
                if standby is not None:
                    self._run = standby.start(policy, stdio, kept, events=events, stop=stop)
                    if self._run is None:
                        raise StandbyDied
                else:
                    self._run = launch(box, policy, events, stdio, stop=stop, kept=kept)
                if self._beside is not None:
                    self._beside.begins(box, self._run)
                result = self._run.wait(wakes)
            except (HuskError, OSError):
                if stop.ended_by is None:
                    raise
                result = ended_by(stop.ended_by)  # the launch failed because it was ended
        finally:
            if self._beside is not None:
                self._beside.ends()
            box.ends()
            if self._run is not None:
                self._run.finish()
        if self._run is not None:
            self._run.collect(result)
        else:
            collect(result, box, policy, events, stop)
        return result
