"""cli: what is said after a run: what it read, changed and was refused; and a hint for a likely mistake."""

from __future__ import annotations

import os
import sys

from husk.cli.output import say
from husk.sandbox.policy import WORKDIR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.sandbox.policy import Policy
    from husk.sandbox.result import Result

SYSTEM = ("/usr/", "/lib", "/bin/", "/sbin/", "/proc/", "/dev/", "/sys/", "/etc/ld.so")
MOST = 20
# The box has these from the host, or has its own.
SHOWN = ("/usr/", "/bin/", "/sbin/", "/lib", "/etc/", "/proc/", "/sys/", "/dev/")


def show(result: Result) -> None:
    out = sys.stderr
    say("", f"husk: exit code {result.exit_code} after {result.seconds:.2f} s", file=out)
    if result.weakened:
        say(f"  weakened: {', '.join(result.weakened)}", file=out)
    if result.devices:
        say(f"  devices of the host: {', '.join(result.devices)}", file=out)
    for limit in result.limits:
        say(f"  {limit}{'; the box was ended' if limit.ended else ''}", file=out)
    own = [path for path in result.read if not path.startswith(SYSTEM)]
    system = len(result.read) - len(own)
    _list("read", own, f"{system} file{'s' if system != 1 else ''} of the system" if system else "")
    _list("changed", [f"{path} ({change})" for change, path in result.changes], "")
    if result.host_changes:
        _list("changed on the host", [f"{path} ({change})" for change, path in result.host_changes], "")
    if result.host_sockets:
        _list("servers of the host that were reached", result.host_sockets, "")
    _list("refused", [f"{item['what']}: {item['reason']}{_allow(item)}" for item in result.refusals], "")
    lost = [f"{count} {kind}" for kind, count in result.lost.items() if count]
    if lost:
        say(f"  not written down: {', '.join(lost)}", file=out)


def _allow(item: dict[str, object]) -> str:
    return f"; to allow it, {item['allow']}" if item.get("allow") else ""


def _list(title: str, lines: list[str], rest: str) -> None:
    say(f"  {title}:" + ("" if lines else f" {rest or 'nothing'}"), file=sys.stderr)
    for line in lines[:MOST]:
        say(f"    {line}", file=sys.stderr)
    if len(lines) > MOST:
        say(f"    … and {len(lines) - MOST} more", file=sys.stderr)
    if lines and rest:
        say(f"    and {rest}", file=sys.stderr)


def hint(policy: Policy, result: Result) -> str:
    """For a program that failed: which argument names a file that only the host has, and what mount shows it.

    The usual first mistake is `husk run -- python3 script.py`: python3 is in the box, script.py is not. A file that the
    box could have from elsewhere (a mount, an image, a kept box, the program itself) gets no hint: the answer is empty.
    """
    if result.signal or result.limits or policy.image or policy.keep:
        return ""
    made = {path for _, path in result.changes}
    for word in policy.argv[1:]:
        inside = os.path.normpath(os.path.join(policy.workdir, word))
        if word.startswith("-") or inside in made or not _is_file(word) or _shown(policy, inside):
            continue
        if os.path.isabs(word):
            folder = os.path.dirname(inside)
            return f"{word} is on the host, not in the box; --mount {folder}:{folder}:ro shows its directory there."
        if policy.workdir == WORKDIR and inside.startswith(f"{WORKDIR}/"):
            show = f"--mount .:{WORKDIR}:cow shows this directory there, `husk init` makes it so for every run"
            return f"{word} is on the host, not in the box; {show}."
    return ""


def kept_copy(policy: Policy, result: Result) -> str:
    """Where the changes below a `cow` mount of a kept box are, and what to do with them."""
    copies = [mount.target for mount in policy.mounts if mount.mode == "cow"]
    count = sum(1 for _, path in result.changes if path.startswith(tuple(f"{target}/" for target in copies)))
    if not policy.keep or not count:
        return ""
    changes = f"{count} change{'s' if count != 1 else ''}"
    return f"{changes} in the copy: husk diff {policy.keep}, or husk apply {policy.keep} to write back."


def likely_refusal(result: Result, profile_file: str = "") -> str:
    """For a program that failed: the refusal that most likely matters. Programs look for many files that they can do
    without, so whatever else was refused comes first; and of these the last one, next to the failure. What would allow
    it is said as an option, and as a key of the file that the run's profile stands in."""
    if result.signal or result.limits or not result.refusals:
        return ""
    others = [item for item in result.refusals if item["errno"] != "ENOENT"]
    item = (others or result.refusals)[-1]
    rest = len(result.refusals) - 1
    more = f" ({rest} more refusal{'s' if rest != 1 else ''}: --summary)" if rest else ""
    return f"refused: {item['what']}: {item['reason']}{_allow(item)}{_in_profile(item, profile_file)}{more}"


def _in_profile(item: dict[str, object], profile_file: str) -> str:
    allow = str(item.get("allow", ""))
    if not profile_file or not allow.startswith("--"):
        return ""
    from husk.api.asker_words import Remedy

    remedy = Remedy.read(allow)
    return f", or {remedy.said('profile')} in {os.path.basename(profile_file)}" if remedy is not None else ""


def _is_file(word: str) -> bool:
    try:
        return os.path.isfile(word)
    except ValueError:  # a NUL
        return False


def _shown(policy: Policy, inside: str) -> bool:
    targets = [mount.target.rstrip("/") for mount in policy.mounts]
    return inside.startswith(SHOWN) or any(inside == target or inside.startswith(f"{target}/") for target in targets)
