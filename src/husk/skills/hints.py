"""skills: hints before a run about common mistakes: files and places the box does not show, hosts it does not reach."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from husk.skills.scan.describe import Description, reachable_scripts
from husk.skills.scan.languages import Script

if TYPE_CHECKING:
    from husk.sandbox.policy import Policy
    from husk.skills.running import Request

MOST = 8
SKILL = "/skill"


def hints(found: Description, script: Script | None, request: Request, policy: Policy) -> list[str]:
    # A box may show a copy of the skill; what the user names is the original.
    original = [(str(found.skill.source.resolve()), SKILL)] if found.skill.passing else []
    told = [hint for word in request.args if (hint := _unseen(word, policy, original))]
    meant = request.permissions.skill if request.permissions is not None else ""
    if meant and meant != found.skill.name:
        own = found.skill.name
        told.append(f"the permissions were made for the skill {meant!r}; they hold for {own!r} all the same")
    reached = found.code if script is None else reachable_scripts(found, script)
    hosts = sorted({host for item in reached for host in item.hosts if not host.startswith("localhost")})
    if hosts and not policy.allow_net:
        shown = ", ".join(hosts[:MOST]) + (" …" if len(hosts) > MOST else "")
        told.append(f"it mentions {shown}, which the box does not reach; --allow-net HOST lets it")
    written = sorted(path for item in reached for path in item.writes if _beneath(path, "/out"))
    if written and request.output is None:
        told.append(f"it writes {written[0]}, and without --out DIR there is no /out")
    if request.shell and request.terminal:
        told += [f"in this shell: {' '.join(item.command(SKILL))}" for item in found.scripts[:MOST]]
    return told


def _unseen(word: str, policy: Policy, original: list[tuple[str, str]]) -> str:
    """A hint if an argument names a host file that the box does not show, or shows at another path."""
    if not word or "\0" in word or len(word) > 4096 or word.startswith("-") or not os.path.exists(word):
        return ""
    path = os.path.abspath(word)
    shown = ("/usr", "/bin", "/lib", "/etc", "/dev", "/proc", *(mount.target for mount in policy.mounts))
    if os.path.isabs(word) and any(_beneath(path, place) for place in shown):
        return ""
    places = [(mount.source, mount.target) for mount in policy.mounts if mount.mode != "image"]
    if not os.path.isabs(word) and any(
        target == policy.workdir and os.path.lexists(os.path.join(source, word)) for source, target in places
    ):
        return ""  # the box has one of that name where the program starts
    for source, target in [*places, *original]:
        if _beneath(os.path.realpath(path), source):
            inside = os.path.normpath(os.path.join(target, os.path.relpath(os.path.realpath(path), source)))
            # If the current directory is shown as the working directory, a relative name is right as it is.
            same = not os.path.isabs(word) and os.path.normpath(os.path.join(policy.workdir, word)) == inside
            return "" if same else f"{word} is at {inside} in the box"
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    inner = "/in" if os.path.isdir(path) else f"/in/{os.path.basename(path)}"
    return f"{word} is here, but not in the box; --in {os.path.relpath(folder)} shows it there as {inner}"


def _beneath(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
