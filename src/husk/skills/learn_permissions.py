"""skills: compare what a run used with its permission manifest: tighten the manifest, or list what goes beyond it."""

from __future__ import annotations

import math

from husk.sandbox.result import Result
from husk.skills.output_files import Produced
from husk.skills.permission_file import Permissions
from husk.skills.running import INPUT, OUTPUT, WORK, Request
from husk.skills.scan.distributions import distribution_key

ROOM = 10  # a later run may take this many times as long
LEAST_SECONDS = 10


def tighten(
    start: Permissions, request: Request, result: Result, produced: Produced, packages: list[str]
) -> Permissions:
    """The smallest manifest that this run would have needed. `packages` are the requirements that were installed."""
    touched = [*result.read, *(path for _, path in result.changes)]
    seconds = max(LEAST_SECONDS, math.ceil(result.seconds * ROOM))
    return Permissions(
        skill=start.skill,
        content=start.content,
        input=request.input is not None and any(path.startswith(f"{INPUT}/") for path in touched),
        output=bool(produced.files) or any(path.startswith(f"{OUTPUT}/") for path in touched),
        work=request.work is not None and any(path.startswith(f"{WORK}/") for path in touched),
        mounts=[text for text in start.mounts if any(path.startswith(f"{_target(text)}/") for path in touched)],
        hosts=sorted({*request.hosts, *start.hosts}) if request.hosts or request.permissions else [],
        programs=sorted(result.ran),
        pip=[text for text in start.pip if distribution_key(text) in {distribution_key(name) for name in packages}],
        npm=[text for text in start.npm if text in packages],
        limits=start.limits | {"time": str(seconds)},
        expected=sorted({refusal_key(item) for item in result.refusals}),
    )


def beyond(allowed: Permissions, result: Result) -> list[str]:
    """What a run needed or tried beyond its manifest."""
    found = [
        f"{item['what']}: {item['reason']}" for item in result.refusals if refusal_key(item) not in allowed.expected
    ]
    return found + [str(limit) for limit in result.limits]


def refusal_key(refusal: dict[str, object]) -> str:
    """Identify a refusal across runs: by its file, address or program. For a bare call only by its name, because its
    arguments hold descriptors and addresses that differ each time."""
    what, call = str(refusal["what"]), str(refusal["call"])
    return f"{call}(…)" if what.startswith(f"{call}(") else what


def _target(mount: str) -> str:
    return mount.split(":")[1]
