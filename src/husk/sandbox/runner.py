"""sandbox: runs one program in a box of its own, through all phases to its result. Boxes that outlive a run are
`husk.api`'s."""

from __future__ import annotations

from husk.kernel.events import Events, Full
from husk.sandbox.box import Box
from husk.sandbox.errors import HuskError
from husk.sandbox.plan import behind_walls
from husk.sandbox.result import ended_by
from husk.sandbox.run import collect, launch
from husk.sandbox.serve import Stop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.sandbox.filesystem import Files
    from husk.sandbox.image_source import Unnamed
    from husk.sandbox.limits.limits import Exceeded
    from husk.sandbox.plan import Plan
    from husk.sandbox.policy import Policy
    from husk.sandbox.result import Result
    from husk.sandbox.run import Run

__all__ = ["Events", "Full", "Runner"]


class Runner:
    """Builds, runs and removes. `run` is called once; the other methods from any thread, or from signal handlers.
    `unnamed` replaces the image that the policy names. `at_end` sees the box's files after a run that ended well."""

    def __init__(
        self,
        policy: Policy,
        events: Events,
        stdio: tuple[int, int, int] = (0, 1, 2),
        *,
        unnamed: Unnamed | None = None,
        at_end: Callable[[Files], None] | None = None,
    ) -> None:
        self.policy, self.events, self.stdio = policy, events, stdio
        self._unnamed, self._at_end = unnamed, at_end
        self._stop = Stop()
        self._run: Run | None = None  # once it is launched

    def run(self, wakes: int = -1) -> Result:
        """`wakes` is readable when a signal came, where signals have handlers."""
        return behind_walls(self.policy, lambda plan: self._run_behind(plan, wakes))

    def end(self, signal: int) -> None:
        """The box ends now."""
        self._stop.end(signal)

    def exceeded(self, limit: Exceeded) -> None:
        self._stop.exceeded(limit)

    def signal(self, number: int) -> None:
        """Pass on to the guest what a key on the person's terminal sent to husk."""
        if self._run is not None:
            self._run.signal(number)
        else:
            self._stop.signal(number)

    def resize(self) -> None:
        if self._run is not None:
            self._run.resize()

    def _run_behind(self, plan: Plan, wakes: int) -> Result:
        box = Box(plan, self._unnamed)
        try:
            if box.source is not None:
                self.policy.adopt_program(box.source)
            result = self._launched(box, wakes)
            box.keep(self.policy.argv, result)
            if self._at_end is not None and not result.exit_code:
                self._at_end(box.files)
            return result
        finally:
            box.close()

    def _launched(self, box: Box, wakes: int) -> Result:
        policy, events, stop = self.policy, self.events, self._stop
        try:
            try:
                self._run = launch(box, policy, events, self.stdio, stop=stop)
                result = self._run.wait(wakes)
            except (HuskError, OSError):
                if stop.ended_by is None:
                    raise
                result = ended_by(stop.ended_by)  # the launch failed because it was ended
        finally:
            box.ends()
            if self._run is not None:
                self._run.finish()
        if self._run is not None:
            self._run.collect(result)
        else:
            collect(result, box, policy, events, stop)
        return result
