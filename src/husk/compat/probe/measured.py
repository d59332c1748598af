"""compat/probe: a measured profile, from the results of checks.

Here: what results mean for a call. A check that works means full; an errno, a crash or a hang means missing; a call
that succeeds without its effect is partial. Checks that name argument values become notes. Not here: the file's format
(husk.compat.surface).
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence

from husk.abi.registry.rules import ArgTest
from husk.compat.probe.probe_lines import CRASH, ERRNO, HANG, NO_EFFECT, SKIPPED, WORKS, Result
from husk.compat.probe.run_probe import Measurement
from husk.compat.surface import (
    ERRNO_NAMES,
    ERRNO_NUMBERS,
    FULL,
    MISSING,
    PARTIAL,
    UNKNOWN,
    Claim,
    Note,
    PathClaim,
    Surface,
)

Finding = tuple[str, int, str]  # support, errno, text


def measured_surface(measurement: Measurement, name: str = "measured") -> Surface:
    by_call: dict[str, list[Result]] = {}
    for result in measurement.results:
        by_call.setdefault(result.check.call, []).append(result)
    where = f"under `{measurement.command}`" if measurement.command else "natively"
    return Surface(
        name,
        f"measured {where}, {measurement.head.system}",
        measurement.head.system.split(" ", 1)[-1],
        datetime.datetime.now(datetime.UTC).date().isoformat(),
        f"husk probe, {len(measurement.results)} checks {where} as uid {measurement.head.uid}",
        True,
        UNKNOWN,
        0,
        {call: claim(call, results) for call, results in by_call.items() if not call.startswith("/")},
        tuple(_path(results) for call, results in by_call.items() if call.startswith("/")),
    )


def finding(result: Result) -> Finding:
    """What one check says about its call."""
    errno = ERRNO_NUMBERS.get(result.errno, 0)
    if result.result == WORKS:
        if result.errno == "ENOSYS":  # the right answer for calls that Linux does not have
            return MISSING, errno, ""
        return FULL, 0, f"answers {result.errno}" if result.errno else ""
    if result.result == ERRNO:
        return MISSING, errno, "" if errno else f"errno {result.detail}"
    if result.result == NO_EFFECT:
        return PARTIAL, 0, f"no effect: {result.detail}"
    return (UNKNOWN if result.result == SKIPPED else MISSING), 0, result.text


def claim(call: str, results: Sequence[Result]) -> Claim:
    """Checks that name no argument value decide about the call; without one, those that do, as far as they agree."""
    plain = [result for result in results if not result.check.tests]
    support, errno, text = joined(plain or results)
    if not plain and support == PARTIAL and any(finding(result)[0] == FULL for result in results):
        support, errno, text = FULL, 0, ""  # the notes say what is missing
    notes = []
    groups: dict[tuple[object, ...], list[Result]] = {}
    for result in results:
        if result.check.tests:
            groups.setdefault(tuple(map(_condition, result.check.tests)), []).append(result)
    for group in groups.values():
        noted = joined(group)
        if noted[0] != UNKNOWN and noted[:2] != (support, errno):
            notes.append(Note(group[0].check.tests, *noted))
    # A condition of two arguments is narrower than one of these alone: the first that holds decides.
    notes.sort(key=lambda note: -len(note.tests))
    return Claim(call, support, errno, text, "", tuple(notes))


def joined(results: Iterable[Result]) -> Finding:
    """What several checks say together; the text names those that do not work."""
    found = [(result, finding(result)) for result in results]
    known = [(result, one) for result, one in found if one[0] != UNKNOWN] or found
    verdicts = {one[:2] for _, one in known}
    if len(verdicts) == 1:
        support, errno = verdicts.pop()
        texts = dict.fromkeys(one[2] for _, one in known if one[2])
        return support, errno, "; ".join(texts)
    supports = {one[0] for _, one in known}
    failed = [f"{result.check.case}: {result.text}" for result, one in known if one[0] != FULL]
    return (supports.pop() if len(supports) == 1 else PARTIAL), 0, "; ".join(failed)


def _condition(test: ArgTest) -> tuple[object, ...]:
    return test.index, test.kind, test.values, test.mask


def _path(results: Sequence[Result]) -> PathClaim:
    return PathClaim(results[0].check.call, *joined(results))


def contradicted(result: Result, surface: Surface) -> str:
    """What a runtime's profile claims, if the check found otherwise; empty if the two agree, or if the profile leaves
    it open (partial, unknown)."""
    if result.result == SKIPPED:
        return ""
    if result.check.is_path:
        claims = [claim for claim in surface.paths if claim.path == result.check.call]
        support, errno = (claims[0].support, claims[0].errno) if claims else (UNKNOWN, 0)
    else:
        support, errno, _ = surface.answer(result.check.call, result.registers or (0,) * 6)
    if support not in (FULL, MISSING):
        return ""
    claimed = f"{support} {ERRNO_NAMES.get(errno, '')}".rstrip()
    if support == FULL:
        return "" if result.result == WORKS else claimed
    if result.result in (CRASH, HANG):
        return ""
    return "" if result.errno and errno in (0, ERRNO_NUMBERS.get(result.errno)) else claimed
