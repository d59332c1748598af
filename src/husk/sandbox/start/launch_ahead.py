"""sandbox: husk-init builds its walls while husk is still importing what it needs for the rest of a cold start.

On a machine with two processors that takes no time. What comes of it is the box that a resident keeps ready
(`runner.Prepared`), and it takes only runs that such a box takes. Imported before all else: nothing here may need the
kernel or the vfs.
"""

from __future__ import annotations

import os

from husk.native import LOADER
from husk.native._core import search_library
from husk.native.threads import start_thread
from husk.sandbox.launch import Launch
from husk.sandbox.plan import Plan, behind_walls
from husk.sandbox.policy import Policy
from husk.sandbox.start.orders import waiting_order
from husk.sandbox.state_dir import StateDir
from husk.vfs.state import waiting_place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

DYNAMIC_LOADER = b"/lib64/ld-linux-x86-64.so.2"  # of nearly all programs


def know_libraries() -> None:
    """Gates want to know the call sites of the C library. Found now, they need not be looked for when the first program
    begins, and a process that is forked knows them, too. Other threads may run meanwhile."""
    search_library(DYNAMIC_LOADER)


class Ahead:
    """A launch under way, and what its box will be built around. The box takes `state` and `loader_fd`, its first run
    takes the launch; the owner calls `close` in any case."""

    __slots__ = ("_launch", "ids", "loader_fd", "plan", "state")

    def __init__(self, plan: Plan) -> None:
        self.plan, self.ids = plan, plan.ids(None)
        self._launch: Launch | None = None
        self.loader_fd = -1
        self.state: StateDir | None = StateDir()
        nothing = workdir = -1
        try:
            self.loader_fd = os.open(LOADER, os.O_RDONLY | os.O_CLOEXEC)
            nothing = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
            workdir = waiting_place(os.fsencode(self.state.path))
            direct, limits = plan.walls.direct, plan.policy.limits
            order = waiting_order(plan, self.ids, self.state, self.loader_fd, limits, nothing, [], direct=direct)
            self._launch = Launch(plan.walls, self.ids, order, workdir)
            if plan.gates and len(os.sched_getaffinity(0)) > 1:
                start_thread(know_libraries)  # it takes longer than the program `true`, and no Python
        except BaseException:
            self.close()
            raise
        finally:
            for fd in (nothing, workdir):
                if fd >= 0:
                    os.close(fd)

    @classmethod
    def begin(cls, policy: Policy) -> Self | None:
        """None: a run like this needs a box of its own, or there cannot be one like this here. The ordinary way to
        start says why, where it concerns the run."""
        if not policy.fits_usual_box():
            return None
        try:
            return behind_walls(Policy([]), cls, of=policy)
        except Exception:
            return None

    def take_box(self) -> tuple[StateDir, int]:
        """The box's directory, and the loader's descriptor."""
        state, loader_fd = self.state, self.loader_fd
        assert state is not None
        self.state, self.loader_fd = None, -1
        return state, loader_fd

    def take_launch(self) -> Launch:
        launch = self._launch
        assert launch is not None
        self._launch = None
        return launch

    def close(self) -> None:
        """What nobody took ends. Safe to call twice."""
        launch, self._launch = self._launch, None
        if launch is not None:
            launch.abandon()
        if self.loader_fd >= 0:
            os.close(self.loader_fd)
            self.loader_fd = -1
        state, self.state = self.state, None
        if state is not None:
            state.remove()
