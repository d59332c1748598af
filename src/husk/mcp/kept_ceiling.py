"""mcp: may a client go on in a box that is kept already? Such a box brings its mounts, rules and variables along,
perhaps those of a person who kept it. What the config does not give, a client does not get this way either."""

from __future__ import annotations

from typing import TYPE_CHECKING

from husk.sandbox.errors import UsageError
from husk.sandbox.kept.kept_boxes import KeptBoxes
from husk.sandbox.policy import Mount
from husk.store.images import PACKAGES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from husk.mcp.config import Config
    from husk.sandbox.kept.record import Record

# What a skill's box sets by itself.
SKILL_VARIABLES = {"CLAUDE_SKILL_DIR", "SKILL_DIR", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "NODE_PATH", "PATH"}


def check_kept(config: Config, name: str) -> None:
    """UsageError: there is such a box, and it has more than the config gives."""
    record = KeptBoxes().find(name)
    if record is not None and (beyond := list(_beyond(config, record))):
        raise UsageError(
            f"the box kept as {name!r} has more than this server gives: {', '.join(beyond)}. Choose another name, or "
            f"ask the person who runs the server to `husk drop {name}`."
        )


def _beyond(config: Config, record: Record) -> Iterator[str]:
    given = {(mount.source, mount.target, mount.mode) for mount in map(Mount.parse_again, config.box.mounts)}
    for source, target, mode in record.mounts:
        if (source, target, mode) not in given and not _of_skills(config, source, mode):
            yield f"the mount {target}"
    for verb, pattern in record.rules:
        if verb == "allow" and pattern not in config.box.allow:
            yield f"the allowed name {pattern}"
    if config.box.default_rules and not record.default_rules:
        yield "names that husk's own rules close"
    for variable, value in record.env.items():
        if config.box.env.get(variable) != value and variable not in SKILL_VARIABLES:
            yield f"the variable {variable}"
    if record.image != config.box.image and not (record.image and config.may_use(record.image)):
        yield f"the image {record.image}" if record.image else "the host's own programs"


def _of_skills(config: Config, source: str, mode: str) -> bool:
    """Is it what `open_skill` mounts: a skill, a directory of packages, or packages of the store?"""
    if mode == "image":
        return bool(config.skills.folders) and source.startswith(PACKAGES)
    folders = (*config.skills.folders, *config.skills.packages)
    return mode != "rw" and any(source == folder or source.startswith(f"{folder}/") for folder in folders)
