"""sandbox: what husk-init is told of a run, before the box has a file system: its limits, its mark, its session.

Not here: the layout of it (husk.walls.init_plan), and the program (`run`).
"""

from __future__ import annotations

import os

from husk.native import INIT
from husk.sandbox.orphans import run_mark
from husk.walls.init_plan import Order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.sandbox.limits.limits import Limits
    from husk.sandbox.plan import Plan
    from husk.sandbox.state_dir import StateDir
    from husk.walls.ids import Ids


def waiting_order(
    plan: Plan,
    ids: Ids,
    state: StateDir,
    loader_fd: int,
    limits: Limits,
    nothing: int,
    joined: list[int],
    *,
    direct: bool,
) -> Order:
    """For a guest that waits behind every wall to be told what to run. `nothing` is all that it holds until then."""
    return Order(
        INIT,
        loader_fd,
        plan.filter_for(direct=direct),
        rlimits(limits, ids, own_user=own_user(plan, ids)),
        [nothing] * 3,
        joined=joined,
        mark=mark(state),
        leads=leads_session(),
        direct=direct,
    )


def own_user(plan: Plan, ids: Ids) -> bool:
    """Does the host count the box's processes apart from the caller's?"""
    return ids.switch or plan.walls.user


def leads_session() -> bool:
    """Where husk does, so would the program without husk; and no key can stop it, so that nothing is lost by it."""
    return os.getsid(0) == os.getpid()


def mark(state: StateDir) -> int:
    return run_mark(os.path.basename(state.path))


def rlimits(limits: Limits, ids: Ids, *, own_user: bool) -> list[tuple[int, int]]:
    others = 0 if ids.switch else 1  # the reaper is of the same user
    if "processes" in limits.asked and not own_user:
        from husk.sandbox.limits.meter import user_tasks

        others += user_tasks(ids.host_uid)
    return limits.rlimits(own_user=own_user, others=others)
