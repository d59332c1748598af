"""api: make a policy from the arguments of an application, and check them. Nothing else is made here."""

from __future__ import annotations

import codecs
import locale
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any, TypedDict

from husk.api.run_result import speaking_python
from husk.sandbox.errors import UsageError
from husk.sandbox.policy import Mount, Policy, Publish, read_rules

Word = str | bytes | os.PathLike[str] | os.PathLike[bytes]
Command = Word | Sequence[Word]
Environment = Mapping[str, str] | Mapping[bytes, bytes]
Target = int | IO[Any] | None  # PIPE, DEVNULL, STDOUT, a descriptor, a file, or None: the caller's own
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
    env: Environment | None,
    cwd: str,
    net: str | Iterable[str] | None,
    deny_net: Iterable[str],
    allow_http: Iterable[str],
    inject: Iterable[str],
    publish: Iterable[str],
    allow_sockets: Iterable[str],
    devices: Iterable[str],
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
    policy.allow_http, policy.inject = list(allow_http), list(inject)
    policy.publish = ports_of(publish)
    policy.allow_sockets = list(allow_sockets)
    for device in devices:
        from husk.sandbox.devices.passed_devices import add_device

        add_device(policy, device)
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
    with speaking_python():
        return [mount if isinstance(mount, Mount) else Mount.parse(mount) for mount in mounts]


def ports_of(publish: Iterable[str]) -> list[Publish]:
    with speaking_python():
        return [Publish.parse(text) for text in publish]


def box_name(keep: str) -> str:
    """The name of a kept box, or nothing."""
    if keep:
        from husk.sandbox.kept.kept_boxes import check_name

        check_name(keep)
    return keep


def words(args: Command, *, shell: bool, executable: Word | None = None) -> list[str]:
    """What to run, as a list. With `shell` the words after the first are the shell's own, as subprocess has it."""
    given = [args] if isinstance(args, str | bytes | os.PathLike) else list(args)
    found = [os.fsdecode(word) for word in given]
    if shell:
        found = [os.fsdecode(executable) if executable else "/bin/sh", "-c", *found]
    if not found or not found[0]:
        raise ValueError("say what to run")
    if any("\0" in word for word in found):
        raise ValueError("an argument cannot hold a NUL byte")
    return found


def environment(env: Environment | None) -> dict[str, str]:
    found = {os.fsdecode(name): os.fsdecode(value) for name, value in (env or {}).items()}
    for name, value in found.items():
        if not name or "=" in name or "\0" in name + value:
            raise ValueError(f"{name!r} cannot be a variable of the environment")
    return found


def text_mode(
    text: bool | None, universal_newlines: bool | None, encoding: str | None, errors: str | None
) -> Texts | None:
    """None: the streams carry bytes."""
    if text is not None and universal_newlines is not None and bool(text) != bool(universal_newlines):
        raise subprocess.SubprocessError("text and universal_newlines mean the same, and differ; give one of them")
    if not (text or universal_newlines or encoding or errors):
        return None
    # As subprocess: what the locale says. Guests get the caller's LANG and LC_ALL.
    chosen = encoding or ("utf-8" if sys.flags.utf8_mode else locale.getencoding())
    codecs.lookup(chosen)  # LookupError before anything runs
    return chosen, errors or "strict"


def check_input(data: str | bytes | None, text: Texts | None) -> None:
    """TypeError: the streams carry the other kind. Told before anything runs."""
    if data is None or isinstance(data, str) == (text is not None):
        return
    if text is None:
        raise TypeError("input is str, and the streams carry bytes; give bytes, or text=True")
    raise TypeError("input is bytes, and the streams carry text; give str, or leave out text, encoding and errors")


class BoxOptions(TypedDict, total=False):
    """The keywords of Sandbox, for functions that hand them on."""

    mounts: Iterable[str | Mount]
    hide: Iterable[str]
    deny: Iterable[str]
    protect: Iterable[str]
    allow: Iterable[str]
    default_rules: bool
    env: Environment | None
    cwd: str
    net: str | Iterable[str] | None
    deny_net: Iterable[str]
    allow_http: Iterable[str]
    inject: Iterable[str]
    publish: Iterable[str]
    allow_sockets: Iterable[str]
    devices: Iterable[str]
    limits: Mapping[str, int | str | None] | None
    keep: str
    events: bool
    namespaces: bool
    weaken: Iterable[str]
    store: str


class StreamOptions(TypedDict, total=False):
    """The keywords of Sandbox.popen, for functions that hand them on."""

    bufsize: int
    executable: Word | None
    stdin: Target
    stdout: Target
    stderr: Target
    shell: bool
    cwd: Word | None
    encoding: str | None
    errors: str | None
    text: bool | None
    universal_newlines: bool | None
    env: Environment | None


class RunOptions(StreamOptions, total=False):
    """The keywords of Sandbox.run, for functions that hand them on."""

    input: str | bytes | None
    capture_output: bool
    timeout: float | None
    check: bool


class StartOptions(TypedDict, total=False):
    """The keywords of Sandbox.start, for functions that hand them on."""

    stdin: Target
    shell: bool
    cwd: Word | None
    env: Environment | None
    timeout: float | None
    kept: int
