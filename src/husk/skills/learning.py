"""skills: what a run used, held against the permission manifest: tighten it to that, or say what was beyond it."""

from __future__ import annotations

import math

from husk.skills.box_runner import Outcome
from husk.skills.distributions import key
from husk.skills.permission_file import Permissions
from husk.skills.produced import Produced
from husk.skills.running import INPUT, OUTPUT, WORK, Request

ROOM = 10  # a later run may take this many times as long
LEAST_SECONDS = 10


def tightened(
    start: Permissions, request: Request, outcome: Outcome, produced: Produced, packages: list[str]
) -> Permissions:
    """The manifest that this run would have been content with. `packages` are the requirements it was given."""
    touched = [*outcome.read, *(path for _, path in outcome.changes)]
    seconds = max(LEAST_SECONDS, math.ceil(outcome.seconds * ROOM))
    return Permissions(
        skill=start.skill,
        input=request.input is not None and any(path.startswith(f"{INPUT}/") for path in touched),
        output=bool(produced.files) or any(path.startswith(f"{OUTPUT}/") for path in touched),
        work=request.work is not None and any(path.startswith(f"{WORK}/") for path in touched),
        mounts=[text for text in start.mounts if any(path.startswith(f"{_target(text)}/") for path in touched)],
        hosts=sorted({*request.hosts, *start.hosts}) if request.hosts or request.permissions else [],
        programs=sorted(outcome.ran),
        pip=[text for text in start.pip if key(text) in {key(name) for name in packages}],
        npm=[text for text in start.npm if text in packages],
        limits=start.limits | {"time": str(seconds)},
        expected=sorted({expectation(item) for item in outcome.refusals}),
    )


def beyond(allowed: Permissions, outcome: Outcome) -> list[str]:
    """What a run needed or tried that its manifest does not give."""
    found = [
        f"{item['what']}: {item['reason']}" for item in outcome.refusals if expectation(item) not in allowed.expected
    ]
    return found + outcome.limits


def expectation(refusal: dict[str, object]) -> str:
    """How a refusal is known again: by the file, address or program it is about. A bare call shows its arguments, and
    descriptors and addresses in memory are others each time."""
    what, call = str(refusal["what"]), str(refusal["call"])
    return f"{call}(…)" if what.startswith(f"{call}(") else what


def _target(mount: str) -> str:
    return mount.split(":")[1]
