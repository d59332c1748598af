"""conform/matrix: measure which calls interpreters and skills make in husk, and whether they work there.

Not here: what follows for a call (priority.py), and the file (uses_file.py).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from husk import __version__
from husk.compat.need.skill_needs import case_census
from husk.compat.trace import trace
from husk.conform.matrix.interpreters import INTERPRETERS, Interpreter
from husk.conform.matrix.uses_file import ABSENT, FAILS, INTERPRETER, SKILL, WORKS, Use, Uses
from husk.sandbox.errors import HuskError
from husk.sandbox.policy import DEFAULT_PATH, Policy
from husk.sandbox.runner import Runner
from husk.skills.box_runner import Setting
from husk.skills.running import Request
from husk.skills.testing import compare_cases
from husk.skills.testing.cases import Case, find_cases

SECONDS = 60.0
MOST_OUTPUT = 1 << 20
Told = Callable[[Use, bool], None]  # and whether it was known already


def measure_uses(
    skills: Sequence[Path],
    known: Uses,
    date: str,
    *,
    namespaces: bool = True,
    interpreters: Sequence[Interpreter] = INTERPRETERS,
    told: Told = lambda use, old: None,
) -> Uses:
    """Measure the interpreters, and the skills of directories with cases. What `known` has by the same digest is not
    measured again."""
    setting = "walled" if namespaces else "bare"
    kernel = os.uname().release
    about = f"{__version__} {kernel} {setting}"
    wanted: list[tuple[str, str, str, Callable[[], Use]]] = []
    for one in interpreters:
        version = _version(one)
        digest = _digest([about, version, one.program, *(text for _, text in one.scripts)])
        wanted.append((INTERPRETER, one.name, digest, partial(_interpreter, one, version, digest, namespaces)))
    for name, cases in _by_skill(skills).items():
        digest = _digest([about, *map(repr, cases)], cases[0].skill)
        wanted.append((SKILL, name, digest, partial(_skill, name, cases, digest, namespaces)))
    # What was absent may have come since.
    old = {(one.kind, one.name, one.digest): one for one in known.uses if one.outcome != ABSENT}
    found: list[Use] = []
    for kind, name, digest, measure in wanted:
        use = old.get((kind, name, digest))
        found.append(use or measure())
        told(found[-1], use is not None)
    return Uses(__version__, kernel, setting, date, tuple(found))


# -- interpreters ----------------------------------------------------------------------------------------------
def _interpreter(one: Interpreter, version: str, digest: str, namespaces: bool) -> Use:
    ran = tuple(what for what, _ in one.scripts)
    program = shutil.which(one.program, path=DEFAULT_PATH)
    if program is None:
        return Use(INTERPRETER, one.name, ABSENT, why=f"{one.program} is not on this machine", digest=digest)
    total: Counter[str] = Counter()
    seconds, why = 0.0, ""
    for what, text in one.scripts:
        policy = Policy([program, one.flag, text])
        policy.namespaces, policy.timeout = namespaces, SECONDS
        try:
            traced = trace(policy, Runner.run, stdin=b"", keep=MOST_OUTPUT)
        except HuskError as error:
            why = why or f"{what}: {error}"
            continue
        total.update(traced.census.counts())
        seconds += traced.census.seconds
        result = traced.result
        if not why and (result.exit_code or (text and (result.stdout or b"").strip() != b"ok")):
            why = f"{what}: {_end(result.exit_code, result.timed_out, result.stderr or b'')}"
    outcome = FAILS if why else WORKS
    return Use(
        INTERPRETER, one.name, outcome, ran, version, why, dict(sorted(total.items())), round(seconds, 2), digest
    )


def _end(code: int, timed_out: bool, stderr: bytes) -> str:
    said = [line for line in stderr.decode("utf-8", "backslashreplace").splitlines() if line.strip()]
    text = f"no end after {SECONDS:.0f} s" if timed_out else f"exit code {code}"
    return f"{text}, {said[-1][:200]}" if said else text


def _version(one: Interpreter) -> str:
    """As the program says itself, natively; the first line."""
    if shutil.which(one.version[0], path=DEFAULT_PATH) is None:
        return ""
    try:
        ran = subprocess.run(one.version, capture_output=True, text=True, timeout=SECONDS, errors="replace", check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return next((line.strip() for line in ran.stdout.splitlines() if line.strip()), "")


# -- skills ----------------------------------------------------------------------------------------------------
def _by_skill(places: Iterable[Path]) -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = {}
    for place in places:
        for case in find_cases([place], None):
            found.setdefault(case.skill.name, []).append(case)
    return dict(sorted(found.items()))


def _skill(name: str, cases: Sequence[Case], digest: str, namespaces: bool) -> Use:
    request = Request(setting=Setting(namespaces=namespaces))
    total: Counter[str] = Counter()
    seconds, ran, lacking, faults = 0.0, list[str](), list[str](), list[str]()
    for case in cases:
        if missing := compare_cases.missing_need(case, request):
            lacking.append(f"{missing} is not on this machine")
            continue
        ran.append(case.name)
        verdict = compare_cases.compare(case, request, native=False)
        seconds += verdict.box_seconds
        if verdict.status != compare_cases.WORKS:
            faults.append(f"{case.name}: {verdict.reason}")
        try:
            total.update(case_census(case, request).counts())
        except HuskError as error:
            faults.append(f"{case.name}: {error}")
    outcome = FAILS if faults else WORKS if ran else ABSENT
    why = "; ".join(faults or dict.fromkeys(lacking))
    return Use(SKILL, name, outcome, tuple(ran), "", why, dict(sorted(total.items())), round(seconds, 2), digest)


# -- what was run ----------------------------------------------------------------------------------------------
def _digest(words: Iterable[str], folder: Path | None = None) -> str:
    whole = hashlib.sha256()
    for word in words:
        whole.update(word.encode("utf-8", "surrogateescape") + b"\0")
    for path in sorted(folder.rglob("*")) if folder is not None else ():
        if path.is_file():
            with open(path, "rb") as content:
                whole.update(str(path.relative_to(folder or path)).encode("utf-8", "surrogateescape") + b"\0")
                whole.update(hashlib.file_digest(content, "sha256").digest())
    return whole.hexdigest()[:32]
