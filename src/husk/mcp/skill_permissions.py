"""mcp: what a skill may use when a client runs it: its permission manifest, within what the server's config gives.

The manifest of the skill NAME is `NAME.permissions.toml` beside it, in a folder of the server's operator, who wrote or
approved it, as `husk skill learn` leaves it. A manifest inside the skill would be the untrusted author's own.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from husk.mcp.config import Config, read_limits
from husk.sandbox.errors import UsageError
from husk.sandbox.limits.limits import NAMES
from husk.sandbox.policy import Mount
from husk.sandbox.rules.net_ceiling import covers
from husk.skills.open_skill import ARCHIVES, open_skill
from husk.skills.permission_file import check_bound, read_permissions

if TYPE_CHECKING:
    from husk.skills.permission_file import Permissions

SUFFIX = ".permissions.toml"


def manifest_of(skill: Path) -> Path:
    """Where the manifest of the skill at `skill` is, if it has one."""
    name = skill.stem if skill.suffix.lower() in ARCHIVES else skill.name  # one suffix: a.zip.skill is not the skill a
    return skill.parent / f"{name}{SUFFIX}"


def permissions_of(config: Config, skill: Path) -> Permissions | None:
    """The manifest of the skill at `skill`, with limits no higher than the server's. None: it has no manifest, and gets
    its inputs, an output, and nothing else. UsageError, for a model to read: the skill may not run."""
    path = manifest_of(skill)
    name = path.name.removesuffix(SUFFIX)
    if not path.exists():
        if config.skills.need_permissions:
            raise UsageError(
                f"skill {name!r}: this server runs no skill without a permission manifest, and this one has none. Ask "
                f"the person who runs the server to write {path.name} (`husk skill inspect {name} --manifest`)."
            )
        return None
    found = read_permissions(path)
    with open_skill(skill) as package:
        check_bound(found, package, path.name)
    # Links are resolved once: what is checked is what is mounted.
    found.mounts = [str(Mount.parse(text)) for text in found.mounts]
    for verb in ("hide", "deny", "protect"):  # the server's rules hold for skills, too
        found.rules[verb].extend(pattern for pattern in config.box.rules[verb] if pattern not in found.rules[verb])
    lifted = [f"allowed name {pattern}" for pattern in found.allow if pattern not in config.box.allow]
    if beyond := [*_hosts_beyond(config, found.hosts), *_mounts_beyond(config, found.mounts), *lifted]:
        raise UsageError(
            f"skill {name!r}: its permission manifest asks for more than this server gives: {'; '.join(beyond)}. "
            "You cannot change that from here; ask the person who runs the server."
        )
    found.limits = _lower_limits(config.limits, found.limits)
    return found


def _hosts_beyond(config: Config, hosts: list[str]) -> list[str]:
    if config.network.mode == "host":
        return []
    return [f"network {rule}" for rule in hosts if not any(covers(given, rule) for given in config.network.allow)]


def _mounts_beyond(config: Config, mounts: list[str]) -> list[str]:
    return [f"mount {text}" for text in mounts if text not in config.box.mounts]


def _lower_limits(ours: dict[str, str], theirs: dict[str, str]) -> dict[str, str]:
    ceiling, asked, found = read_limits(ours), read_limits(theirs), {}
    for name in NAMES:
        most, wanted = ceiling[name], asked[name] if name in theirs else None
        if wanted is not None and (most is None or wanted <= most):
            found[name] = theirs[name]
        elif name in ours:
            found[name] = ours[name]
    return found
