"""skills: several skills in one box: what they need together, and what they may use together.

A box has one set of permissions. With several manifests it is their union: each skill keeps what it was granted, and
gets what the others were granted, so the union is listed before anything runs. Rules that close names all hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from husk.sandbox.errors import UsageError
from husk.sandbox.limits.limits import NAMES
from husk.skills.permission_file import Permissions, check_bound, read_limits
from husk.skills.scan.describe import Description

if TYPE_CHECKING:
    from husk.skills.open_skill import Skill


def described_together(found: list[Description]) -> Description:
    """One description of what all of them need. The skill it names is the first."""
    first = found[0]
    if len(found) == 1:
        return first
    together = Description(first.skill, [script for one in found for script in one.code])
    for one in reversed(found):  # of two entries for one requirement, the first skill's stays
        together.pip |= one.pip
        together.npm |= one.npm
        together.optional |= one.optional
    needed = {key for one in found for key in one.pip if key not in one.optional}
    together.optional -= needed
    together.problems = [text for one in found for text in one.problems]
    return together


def granted(skills: list[Skill], manifests: list[Permissions]) -> Permissions | None:
    """What the skills may use in one box; None: there are no manifests. UsageError: one of them has none, or one
    belongs to none of them."""
    if not manifests:
        return None
    if len(skills) == 1 and len(manifests) == 1:
        check_bound(manifests[0], skills[0], "the permission manifest")
        return manifests[0]
    for skill in skills:
        mine = [one for one in manifests if one.skill == skill.name]
        if len(mine) != 1:
            raise UsageError(
                f"the skill {skill.name!r} has {'no' if not mine else 'more than one'} permission manifest; with "
                "several skills in one box give one --permissions FILE for each, or none at all."
            )
        check_bound(mine[0], skill, f"the manifest of {skill.name!r}")
    names = {skill.name for skill in skills}
    for one in manifests:
        if one.skill not in names:
            raise UsageError(f"--permissions: the manifest of {one.skill!r} belongs to no skill of this box.")
    return union(manifests)


def union(manifests: list[Permissions]) -> Permissions:
    together = Permissions(
        input=any(one.input for one in manifests),
        output=any(one.output for one in manifests),
        work=any(one.work for one in manifests),
        limits=_highest([one.limits for one in manifests]),
    )
    places: dict[str, str] = {}
    for one in manifests:
        for text in one.mounts:
            place = text.split(":")[1]
            if places.setdefault(place, text) != text:
                raise UsageError(
                    f"two manifests mount something at {place}: {places[place]} and {text}; change one of them."
                )
        for name in ("mounts", "hide", "deny", "protect", "allow", "hosts", "programs", "pip", "npm", "expected"):
            have = getattr(together, name)
            have += [item for item in getattr(one, name) if item not in have]
    return together


def listed(together: Permissions) -> str:
    """The union in one line."""
    words = [
        f"{title} {', '.join(items)}"
        for title, items in (
            ("mounts", together.mounts),
            ("network", together.hosts),
            ("programs", together.programs),
            ("limits", [f"{name}={value}" for name, value in together.limits.items()]),
        )
        if items
    ]
    return "in one box each skill may use what all of them were granted: " + "; ".join(words or ["nothing of the host"])


def _highest(limits: list[dict[str, str]]) -> dict[str, str]:
    """Of each limit the highest; one that a manifest does not set has no end."""
    read = [read_limits(one) for one in limits]
    found = {}
    for name in NAMES:
        if any(one[name] is None for one in read):
            continue
        most = max(range(len(read)), key=lambda number: read[number][name] or 0)
        if name in limits[most]:
            found[name] = limits[most][name]
    return found
