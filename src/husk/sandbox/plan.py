"""sandbox: the first phase of a start: which walls to raise, and the filter that belongs to them. Nothing is made here.

The phases: plan (here) → build (`box`) → launch (`launch`) → serve (`serve`, `run`). Each returns a value for the next.
"""

from __future__ import annotations

import os

from husk.native._core import ready_filter
from husk.sandbox.errors import NoNamespaces, missing
from husk.walls.gates import may_show_usr
from husk.walls.gates import wanted as gates_wanted
from husk.walls.ids import Ids, may_switch_user
from husk.walls.landlock import SCOPES_SIGNALS
from husk.walls.namespaces import walls_here
from husk.walls.ready_filter import number_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from husk.abi.registry.rules import Walls
    from husk.sandbox.policy import Policy

    T = TypeVar("T")


class Plan:
    """A policy, the walls to raise around its box, and the seccomp filter that fits them. `rules` says what becomes of
    each call; `filter` is what the host gets: the same, unless the box is traced."""

    __slots__ = ("closing", "cookie", "filter", "gates", "policy", "rules", "walls")

    def __init__(self, policy: Policy, walls: Walls) -> None:
        self.policy, self.walls = policy, walls
        # The cookie marks husk's own calls. Each box has its own, keeps it secret, and has it in every filter.
        self.cookie = int.from_bytes(os.urandom(8), "little")
        emulation = policy.emulation
        self.gates = gates_wanted() if emulation is None and policy.trace is None else 0
        # The native calls that end the use of gates.
        self.closing: list[int] = []
        if emulation is None:
            self.rules, self.closing = self._compile(walls)
        else:
            from husk.walls.filter import compile_filter

            self.rules = compile_filter(walls, self.cookie, emulation.noticed())
        self.filter = self.rules
        if policy.trace is not None:
            from husk.walls.filter import notify_all

            self.filter = notify_all(self.rules, self.cookie)

    def _compile(self, walls: Walls) -> tuple[bytes, list[int]]:
        """The filter for these walls, and the calls in it that end the use of gates. Mostly the build has made both."""
        number = number_of(walls, gates=bool(self.gates))
        if number >= 0:
            return ready_filter(number, self.cookie)
        from husk.walls.closing_calls import closing_calls
        from husk.walls.filter import compile_filter

        closing = closing_calls(walls) if self.gates else {}
        return compile_filter(walls, self.cookie, closing), list(closing)

    def filter_for(self, *, direct: bool) -> bytes:
        """Without `direct` every name of the program is to come to husk."""
        if direct or not self.walls.direct:
            return self.filter
        return self._compile(self.walls.but(direct=False, one_user=self.walls.one_user))[0]

    def settled(self) -> Plan:
        """A kept box has given the policy its image and its mounts by now: the plan that fits them."""
        direct, one_user = self.walls.direct and _shows_usr(self.policy), not self.policy.image
        if (direct, one_user) == (self.walls.direct, self.walls.one_user):
            return self
        return Plan(self.policy, self.walls.but(direct=direct, one_user=one_user))

    def ids(self, wanted: tuple[int, int] | None) -> Ids:
        """The guest's ids; `wanted` are those of the image, if it names any."""
        return Ids(user_namespace=self.walls.user, keep_user="user" in self.policy.weaken, wanted=wanted)


def behind_walls(
    policy: Policy, attempt: Callable[[Plan], T], *, of: Policy | None = None, denied: str = ""
) -> T:
    """`attempt` behind the best walls that stand. After NoNamespaces try again without namespaces, if that will do.
    `of`: whose mounts say if the box may show the host's /usr, where it is told of them late. `denied`: why namespaces
    do not stand here, where that is known already."""
    policy.check_net()
    if not os.access("/proc/self/status", os.R_OK):
        raise missing("proc")
    weaken, outside = policy.weaken, policy.outside
    devices = frozenset(passed.kind for passed in policy.devices)
    direct = _shows_usr(of or policy)

    def possible(*, namespaces: bool) -> Walls:
        return walls_here(
            namespaces=namespaces, outside=outside, image=bool(policy.image), devices=devices, direct=direct
        )

    walls = possible(namespaces=policy.namespaces and "namespaces" not in weaken and not denied)
    if not walls.landlock:
        raise missing("landlock")
    denied = denied or "they were not wanted"
    if walls.pid:
        try:
            return attempt(Plan(policy, walls))
        except NoNamespaces as error:
            denied = str(error)
            walls = possible(namespaces=False)
    if walls.landlock < SCOPES_SIGNALS and "signals" not in weaken:
        raise missing("signals", f"no namespaces, {denied}; Landlock ABI {walls.landlock}")
    if os.geteuid() == 0 and "user" not in weaken and (lacking := may_switch_user(user_namespace=False)):
        raise missing("user", f"{lacking} is missing; no namespaces, {denied}")
    return attempt(Plan(policy, walls))


def _shows_usr(policy: Policy) -> bool:
    """Not in an image, and not where husk has to see each call or answers as another runtime."""
    ordinary = not policy.image and policy.trace is None and policy.emulation is None
    return ordinary and may_show_usr(mounted(policy), policy.store)


def mounted(policy: Policy) -> list[tuple[str, str]]:
    """Source and target of each mount."""
    return [(mount.source if mount.mode != "image" else "", mount.target) for mount in policy.mounts]


def weakened(policy: Policy, walls: Walls) -> list[str]:
    """The walls that the caller allowed to be missing and that are missing."""
    lacks = {
        "namespaces": not walls.pid,
        "signals": not walls.pid and walls.landlock < SCOPES_SIGNALS,
        "user": os.geteuid() == 0,
    }
    return [name for name in lacks if name in policy.weaken and lacks[name]]
