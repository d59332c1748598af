"""api: make a policy from the arguments of an application, and check them. Nothing else is made here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from husk.sandbox.errors import UsageError
from husk.sandbox.policy import Mount, Policy, Publish, read_rules

Command = str | Sequence[str | os.PathLike[str]]
Texts = tuple[str, str]  # encoding and what to do about errors


def policy_of(
    image: str,
    *,
    mounts: Iterable[str | Mount],
    hide: Iterable[str],
    deny: Iterable[str],
    protect: Iterable[str],
    allow: Iterable[str],
    default_rules: bool,
    env: Mapping[str, str] | None,
    cwd: str,
    net: str | Iterable[str] | None,
    deny_net: Iterable[str],
    publish: Iterable[str],
    allow_sockets: Iterable[str],
    limits: Mapping[str, int | str | None] | None,
    keep: str,
    namespaces: bool,
    weaken: Iterable[str],
    store: str,
) -> Policy:
    """The arguments of Sandbox, checked as far as possible before a box is made."""
    policy = Policy([])
    policy.image, policy.store, policy.namespaces = image, store, namespaces
    policy.mounts = mounts_of(mounts)
    policy.rules = read_rules({"hide": hide, "deny": deny, "protect": protect, "allow": allow})
    policy.default_rules = default_rules
    policy.env = environment(env)
    if isinstance(net, str):
        if net not in ("none", "host"):
            raise UsageError(f'net={net!r}: give "host", "none", or a list like ["example.org:443"].')
        policy.net = net
    elif net is not None:
        policy.allow_net = list(net)
    policy.deny_net = list(deny_net)
    policy.publish = [Publish.parse(text) for text in publish]
    policy.allow_sockets = list(allow_sockets)
    if cwd:
        policy.workdir = cwd
    policy.keep = box_name(keep)
    for name, value in (limits or {}).items():
        policy.limits.read(f"{name}={'none' if value is None else value}")
    if weaken:
        from husk.sandbox.weaken import check

        policy.weaken = {check(name) for name in weaken}
    return policy


def mounts_of(mounts: Iterable[str | Mount]) -> list[Mount]:
    return [mount if isinstance(mount, Mount) else Mount.parse(mount) for mount in mounts]


def box_name(keep: str) -> str:
    """The name of a kept box, or nothing."""
    if keep:
        from husk.sandbox.kept.kept_boxes import check_name

        check_name(keep)
    return keep


def words(args: Command, *, shell: bool) -> list[str]:
    """What to run, as a list."""
    if shell:
        if not isinstance(args, str):
            raise ValueError("with shell=True give the command as one string")
        found = ["/bin/sh", "-c", args]
    else:
        found = [args] if isinstance(args, str) else [os.fspath(word) for word in args]
    if not found or not found[0]:
        raise ValueError("say what to run")
    if any("\0" in word for word in found):
        raise ValueError("an argument cannot hold a NUL byte")
    return found


def environment(env: Mapping[str, str] | None) -> dict[str, str]:
    for name, value in (env or {}).items():
        if not name or "=" in name or "\0" in name + value:
            raise ValueError(f"{name!r} cannot be a variable of the environment")
    return dict(env or {})


def text_mode(text: bool | None, encoding: str | None, errors: str | None) -> Texts | None:
    return (encoding or "utf-8", errors or "strict") if text or encoding or errors else None
