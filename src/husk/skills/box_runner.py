"""skills: the one place where skills meet the sandbox: a policy in, a result out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from husk.sandbox.policy import WORKDIR, Mount, Policy
from husk.sandbox.result import Result
from husk.sandbox.runner import Events, Runner

if TYPE_CHECKING:
    from husk.sandbox.filesystem import Files

MOST_KEPT = 64 << 20
WALLED, BARE = "walled", "bare"  # with namespaces where the host gives them, and without
Around = Callable[[Runner], Result]
Tell = Callable[[dict[str, object]], None]


@dataclass
class Setting:
    """How boxes are made on this machine, the same for every box of a command."""

    image: str = ""
    store: str = ""
    namespaces: bool = True
    weaken: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return WALLED if self.namespaces else BARE

    def called(self, name: str) -> Setting:
        """The same, with or without namespaces."""
        return replace(self, namespaces=name == WALLED)

    def policy(
        self,
        argv: list[str],
        mounts: list[Mount],
        env: dict[str, str] | None = None,
        limits: dict[str, str] | None = None,
    ) -> Policy:
        """What to run in such a box. The caller may add to `argv`, `mounts` and `env` until it runs."""
        policy = Policy(argv)
        policy.mounts, policy.env, policy.workdir = mounts, env or {}, WORKDIR
        for name, value in (limits or {}).items():
            policy.limits.read(f"{name}={value}")
        policy.image, policy.store = self.image, self.store
        policy.namespaces, policy.weaken = self.namespaces, set(self.weaken)
        return policy


def run(
    policy: Policy,
    *,
    stdin: bytes | None = None,
    capture: bool = False,
    around: Around = Runner.run,
    at_end: Callable[[Files, Result], str] | None = None,
    refused: Callable[[dict[str, object]], None] | None = None,
    tell: Tell | None = None,
) -> Result:
    """Run it. `stdin` None is the caller's own. `capture`: the output is kept instead of shown. `around` may hand the
    box's signals to the caller before it runs it. `at_end` as for Runner, `refused` and `tell` as for Events."""
    events = Events(tell, None, collect=True, refused=refused)
    return around(Runner(policy, events, stdin=stdin, keep=MOST_KEPT if capture else 0, at_end=at_end))
