"""skills: compare what a run used with its permission manifest: tighten the manifest, or list what goes beyond it."""

from __future__ import annotations

import math

from husk.sandbox.result import Result
from husk.skills.permission_file import Permissions
from husk.skills.refusal_levels import UNEXPECTED, Judged, judge
from husk.skills.running import Request

ROOM = 10  # a later run may take this many times as long
LEAST_SECONDS = 10
TEMPORARY = "/tmp/"  # programs made there have another name in each run


def tighten(start: Permissions, request: Request, result: Result, packages: list[str]) -> Permissions:
    """The smallest manifest that this run would have needed. `packages` are the requirements that were installed."""
    touched = [*result.read, *(path for _, path in result.changes)]
    seconds = max(LEAST_SECONDS, math.ceil(result.seconds * ROOM))
    return Permissions(
        skill=start.skill,
        content=start.content,
        # What the command line gave, used or not: the same command line has to be allowed again.
        input=request.input is not None,
        output=request.output is not None,
        work=request.work is not None,
        mounts=[
            *map(str, request.mounts),
            *(text for text in start.mounts if any(path.startswith(f"{_target(text)}/") for path in touched)),
        ],
        hosts=sorted({*request.hosts, *(request.permissions.hosts if request.permissions else [])}),
        programs=sorted({TEMPORARY if path.startswith(TEMPORARY) else path for path in result.ran}),
        pip=sorted(text for text in packages if not text.startswith("npm:")),
        npm=sorted(text.removeprefix("npm:") for text in packages if text.startswith("npm:")),
        limits=start.limits | {"time": str(seconds)},
        expected=sorted({refusal_key(item) for item in result.refusals}),
    )


def beyond(allowed: Permissions, result: Result) -> list[Judged]:
    """What a run needed or tried beyond its manifest, with how much each matters."""
    found = [judge(item) for item in result.refusals if refusal_key(item) not in allowed.expected]
    return found + [Judged("limit", str(limit), UNEXPECTED, "a limit of the manifest") for limit in result.limits]


def level_notes(result: Result) -> dict[str, str]:
    """For the refusals that a manifest expects: what they would have been without the box."""
    judged = {refusal_key(item): judge(item) for item in result.refusals}
    return {key: f"{found.level}: {found.why}" for key, found in judged.items() if found.fails}


def refusal_key(refusal: dict[str, object]) -> str:
    """Identify a refusal across runs: by its file, address or program. For a bare call only by its name, because its
    arguments hold descriptors and addresses that differ each time."""
    what, call = str(refusal["what"]), str(refusal["call"])
    return f"{call}(…)" if what.startswith(f"{call}(") else what


def _target(mount: str) -> str:
    return mount.split(":")[1]
