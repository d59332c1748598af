"""sandbox: a box with one run, from its file system to its result. Boxes that outlive a run are `husk.api`'s."""

from __future__ import annotations

from husk.kernel.events import Events, Full
from husk.sandbox.errors import HuskError
from husk.sandbox.ground import Ground, behind_walls
from husk.sandbox.result import ended_by
from husk.sandbox.run import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.abi.registry.rules import Walls
    from husk.sandbox.filesystem import Files
    from husk.sandbox.image_source import Unnamed
    from husk.sandbox.limits.limits import Exceeded
    from husk.sandbox.policy import Policy
    from husk.sandbox.result import Result

__all__ = ["Box", "Events", "Full"]


class Box:
    """Builds, runs and removes. `run` is called once."""

    def __init__(self, policy: Policy, events: Events, stdio: tuple[int, int, int] = (0, 1, 2)) -> None:
        self.policy, self.events, self.stdio = policy, events, stdio
        self.unnamed: Unnamed | None = None  # what to start from instead of the image the policy names
        self.at_end: Callable[[Files], None] | None = None  # sees the box's files when nobody runs in it any more
        self.wakes = -1  # see Run._report
        self._run: Run | None = None
        self._ended_by: int | None = None

    def run(self) -> Result:
        return behind_walls(self.policy, self._run_behind)

    def end(self, signal: int) -> None:
        """Called from a signal handler: the box ends now."""
        self._ended_by = signal
        if self._run is not None:
            self._run.end(signal)

    def exceeded(self, limit: Exceeded) -> None:
        """Called from any thread: a limit was met."""
        if self._run is not None:
            self._run.exceeded(limit)

    def signal(self, number: int) -> None:
        """Called from a signal handler: what a key on the person's terminal sent us is meant for the guest."""
        if self._run is not None:
            self._run.signal(number)

    def resize(self) -> None:
        if self._run is not None:
            self._run.resize()

    def _run_behind(self, walls: Walls) -> Result:
        ground = Ground(self.policy, walls, self.unnamed)
        try:
            if ground.source is not None:
                self.policy.adopt_program(ground.source)
            self._run = run = Run(ground, self.policy, self.events)
            run.wakes = self.wakes
            run.ended_by = self._ended_by  # by a signal that came while there was nothing to end yet
            try:
                run.launch(self.stdio)
                result = run.wait()
            except (HuskError, OSError):
                if run.ended_by is None:
                    raise
                result = ended_by(run.ended_by)  # in the midst of being launched, which failed by that
            finally:
                ground.files.vfs.state.ending = True  # what takes long need not be finished
                run.finish()
            run.collect(result)
            ground.keep(self.policy.argv, result)
            if self.at_end is not None and not result.exit_code:
                self.at_end(ground.files)
            return result
        finally:
            ground.close()
