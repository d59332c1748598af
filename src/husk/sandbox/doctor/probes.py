"""sandbox, doctor: the table of probes, and those that need no machinery. Each runs in a child of its own."""

from __future__ import annotations

import os

from husk.sandbox.doctor import host, locations, seccomp, walls
from husk.sandbox.doctor.probe_child import Missing, run_probe
from husk.walls.ids import may_switch_user

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def machine() -> str:
    found = os.uname().machine
    if found != "x86_64":
        raise Missing(found)
    return found


def kernel() -> str:
    release = os.uname().release
    numbers = [int("".join(c for c in part if c.isdigit()) or "0") for part in release.split(".")[:2]]
    if numbers < [5, 19]:
        raise Missing(release)
    return release


def proc() -> str:
    """A child of another user, where that can be had, is what hidepid would hide."""
    child = host.sleeper()
    for name in ("status", "fd", "cwd", "maps", f"task/{child}/children"):
        path = f"/proc/{child}/{name}"
        try:
            os.stat(path)
            if name == "fd":
                os.listdir(path)
            elif name == "cwd":
                os.readlink(path)
            else:
                with open(path, "rb") as file:
                    file.read()
        except OSError as error:
            raise Missing(f"{path.replace(str(child), 'PID')}: {error.strerror}") from None
    return "status, fd, cwd, maps and children of a descendant can be read"


def user() -> str:
    if os.geteuid() != 0:
        return "started by an ordinary user"
    reason = may_switch_user(user_namespace=_stands(walls.user))
    if reason:
        raise Missing(f"{reason} is missing")
    return "the guest runs as a host user of its own"


def signals() -> str:
    scoped, namespaced = _stands(walls.scopes), _stands(walls.pid)
    if not scoped and not namespaced:
        raise Missing("neither of the two stands")
    return " and ".join(word for word, stands in (("a pid namespace", namespaced), ("Landlock", scoped)) if stands)


def box() -> str:
    from husk.sandbox.errors import HuskError
    from husk.sandbox.policy import Policy
    from husk.sandbox.runner import Events, Runner

    nothing = os.open("/dev/null", os.O_RDWR)
    policy = Policy(["true"])
    policy.timeout = 45.0  # less than a probe may take: it ends by itself, and leaves nothing behind
    if os.geteuid() == 0 and may_switch_user(user_namespace=_stands(walls.user)):
        policy.weaken.add("user")
    if not _stands(walls.scopes):
        policy.weaken.add("signals")
    try:
        result = Runner(policy, Events(None, None), (nothing, nothing, nothing)).run()
    except HuskError as error:
        raise Missing(str(error)) from None
    if result.exit_code or result.faults:
        raise Missing(f"`true` ended with {result.exit_code}")
    weakened = f", weakened: {', '.join(result.weakened)}" if result.weakened else ""
    return f"`true` ran {'with' if result.walls['pid'] else 'without'} namespaces{weakened}"


def _stands(probe: Callable[[], str]) -> bool:
    return run_probe(probe)[0]


PROBES: dict[str, Callable[[], str]] = {
    "machine": machine,
    "kernel": kernel,
    "proc": proc,
    "seccomp-listener": seccomp.listener,
    "seccomp-alone": seccomp.alone,
    "seccomp-killable": seccomp.killable,
    "seccomp-addfd": seccomp.addfd,
    "seccomp-sync": seccomp.sync,
    "landlock": walls.landlock,
    "signals": signals,
    "landlock-scopes": walls.scopes,
    "signal-groups": walls.groups,
    "user": user,
    "ptrace": host.ptrace,
    "memory": host.memory,
    "new-code": host.new_code,
    "user-namespace": walls.user,
    "mount-namespace": walls.mount,
    "pid-namespace": walls.pid,
    "net-namespace": walls.net,
    "ipc-namespace": walls.ipc,
    "uts-namespace": walls.uts,
    "cgroup-namespace": walls.cgroup,
    "pidfd-getfd": host.pidfd_getfd,
    "pidfd-thread": host.pidfd_of_a_thread,
    "diagnosis": host.diagnosis,
    "cgroup": host.control_group,
    "state": locations.state,
    "tmpfile": locations.tmpfile,
    "links": locations.links,
    "clone": locations.clone,
    "attributes": locations.attributes,
    "immutable": locations.immutable,
    "box": box,
}
