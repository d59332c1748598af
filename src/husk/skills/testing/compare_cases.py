"""skills/testing: `husk skill test`: runs cases in a box and says whether each works, differs or fails.

A native run beside it, for comparison, executes the skill on the host with the caller's rights. It happens only where
the caller asked for it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from husk.sandbox.errors import HuskError, UsageError
from husk.sandbox.policy import DEFAULT_PATH
from husk.sandbox.result import Result
from husk.skills.box_runner import WALLED, Tell
from husk.skills.open_skill import ARCHIVES, open_skill
from husk.skills.packages.pip_packages import find_missing
from husk.skills.running import Prepared, Request, choose, prepare
from husk.skills.scan.describe import describe
from husk.skills.skill_places import INPUT, OUTPUT, SKILL
from husk.skills.testing.cases import Case, Run, check_run
from husk.skills.testing.native_packages import beside_node_modules, native_packages

WORKS, DIFFERS, FAILS, SKIPPED, BROKEN = "works", "differs", "fails", "skipped", "broken"
SECONDS = 120


@dataclass
class Verdict:
    """`works`: the box gives what the case wants. `differs`: it does, but the native run gave something else. `fails`:
    it does not, though the native run does. `broken`: the native run fails too, or the case cannot be read. `skipped`:
    a program is missing."""

    case: Case
    status: str
    reason: str = ""
    native_seconds: float = 0.0
    box_seconds: float = 0.0
    setting: str = WALLED

    def as_dict(self) -> dict[str, object]:
        return {
            "skill": self.case.skill.name,
            "path": str(self.case.skill),
            "case": self.case.name,
            "setting": self.setting,
            "status": self.status,
            "reason": self.reason,
            "native_seconds": round(self.native_seconds, 3),
            "box_seconds": round(self.box_seconds, 3),
        }


def compare(case: Case, request: Request, *, native: bool) -> Verdict:
    return compare_settings(case, request, (request.setting.name,), native=native)[0]


def compare_settings(case: Case, request: Request, settings: Sequence[str], *, native: bool) -> list[Verdict]:
    """A verdict for each setting. Natively the case runs once."""
    why = (SKIPPED, f"{lacking} is not on this machine") if (lacking := missing_need(case, request)) else None
    if case.fault:
        why = BROKEN, case.fault
    if why is not None:
        return [Verdict(case, *why, setting=setting) for setting in settings]
    with tempfile.TemporaryDirectory(prefix="husk-case-") as name:
        place = Path(name)
        place.chmod(0o755)
        alone = _natively(case, request, place / "native") if native else None
        return [
            _judge(case, replace(request, setting=request.setting.called(setting)), place / setting, alone)
            for setting in settings
        ]


@dataclass
class _Alone:
    """The native run of a case. `wrong`: how it is not what the case wants."""

    run: Run
    wrong: str
    seconds: float


def _natively(case: Case, request: Request, place: Path) -> _Alone:
    try:
        run, seconds = _run_natively(case, request, place)
    except (HuskError, OSError) as error:
        return _Alone(Run(127, "", "", {}), str(error), 0.0)
    return _Alone(run, check_run(case, run), seconds)


def _judge(case: Case, request: Request, place: Path, alone: _Alone | None) -> Verdict:
    verdict = Verdict(case, WORKS, setting=request.setting.name)
    verdict.native_seconds = alone.seconds if alone else 0.0
    try:
        boxed, result = run_in_box(case, request, place)
    except HuskError as error:
        verdict.status, verdict.reason = FAILS, str(error)
        return verdict
    verdict.box_seconds = result.seconds
    if alone and alone.wrong:
        verdict.status, verdict.reason = BROKEN, f"natively: {alone.wrong}"
    elif fault := check_run(case, boxed):
        verdict.status, verdict.reason = FAILS, _explain(fault, result)
    elif alone and (difference := _difference(alone.run, boxed)):
        verdict.status, verdict.reason = DIFFERS, difference
    return verdict


def missing_need(case: Case, request: Request) -> str:
    """What the case needs and this machine does not have; empty: nothing."""
    if not request.setting.image:
        for program in case.needs:
            if shutil.which(program, path=DEFAULT_PATH) is None:
                return program
    if case.modules and not (request.find_links or request.fetch or request.packages):
        missing = find_missing(request.setting, [], {}, case.modules, [])
        if missing.modules:
            return f"the Python module {missing.modules[0]}"
    return ""


@contextmanager
def prepared_case(case: Case, request: Request, out: Path) -> Iterator[Prepared]:
    """The box of a case, whose output goes to `out`. The caller runs or closes it."""
    asked = replace(
        request,
        args=_filled(case.argv, INPUT, OUTPUT, SKILL),
        script=case.script,
        input=case.input,
        output=out,
        limits={"time": str(SECONDS)} | request.limits,
    )
    with open_skill(case.skill) as skill:
        yield prepare(skill, asked)


def run_in_box(case: Case, request: Request, place: Path, tell: Tell | None = None) -> tuple[Run, Result]:
    """Run a case; `place` is an empty directory for what it leaves. `tell` hears the events of the box."""
    out = place / "out"
    out.mkdir(parents=True)
    with prepared_case(case, request, out) as box:
        result, _ = box.run(stdin=case.stdin.encode(), capture=True, tell=tell)
    texts = [data.decode("utf-8", "backslashreplace") for data in (result.stdout or b"", result.stderr or b"")]
    shown = [_named(text, {INPUT: "{in}", OUTPUT: "{out}", SKILL: "{skill}"}) for text in texts]
    return Run(result.exit_code, shown[0], shown[1], _files(out)), result


def _run_natively(case: Case, request: Request, place: Path) -> tuple[Run, float]:
    """Run the same command on the host in a fresh directory, which stands for /workspace and /out. Also the seconds."""
    out = place / "out"
    out.mkdir(parents=True)
    (place / "home").mkdir()
    given = case.input.resolve() if case.input else place / "in"
    with open_skill(case.skill) as skill:
        found = describe(skill, instructions=False)
        script = choose(found, case.script)
        with native_packages(found, script, request) as packages:
            modules = packages.node_modules
            root = str(beside_node_modules(skill.root, place, modules) if modules else skill.root)
            argv = [*script.command(root), *_filled(case.argv, str(given), str(out), root)]
            env = {"HOME": str(place / "home"), "LANG": os.environ.get("LANG", "C.UTF-8"), **packages.env}
            env |= {"PYTHONDONTWRITEBYTECODE": "1", "USER": "user", "SHELL": "/bin/sh"} | request.env
            started = time.monotonic()
            code, stdout, stderr = _run_process(argv, out, env, case.stdin.encode())
            seconds = time.monotonic() - started
    places = {str(given): "{in}", str(out): "{out}", root: "{skill}"}
    texts = [_named(data.decode("utf-8", "backslashreplace"), places) for data in (stdout, stderr)]
    return Run(128 - code if code < 0 else code, texts[0], texts[1], _files(out)), seconds


def _run_process(argv: list[str], cwd: Path, env: dict[str, str], stdin: bytes) -> tuple[int, bytes, bytes]:
    process = subprocess.Popen(
        argv,
        cwd=cwd,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        stdout, stderr = process.communicate(stdin, SECONDS)
        return process.returncode, stdout, stderr
    except subprocess.TimeoutExpired:
        return 124, b"", b"it took too long"
    finally:
        _end_session(process)


def _end_session(process: subprocess.Popen[bytes]) -> None:
    """End background processes too, as a box does."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.communicate()


def _filled(argv: list[str], given: str, out: str, skill: str) -> list[str]:
    return [word.replace("{in}", given).replace("{out}", out).replace("{skill}", skill) for word in argv]


def _named(text: str, places: dict[str, str]) -> str:
    for path, name in sorted(places.items(), key=lambda item: -len(item[0])):
        text = text.replace(f"{path}/", f"{name}/")
    return text


def _files(out: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def _difference(alone: Run, boxed: Run) -> str:
    if alone.stdout != boxed.stdout:
        return "stdout is not as natively"
    if names := sorted(alone.files.keys() ^ boxed.files.keys()):
        return f"{names[0]} is made only {'natively' if names[0] in alone.files else 'in the box'}"
    return ""


def _explain(fault: str, result: Result) -> str:
    """Add the first refusal, fault or limit: it explains more than the script's own message."""
    for item in result.refusals:
        return f"{fault} (refused: {item['call']} {item['what']}: {item['reason']})"
    for text in (*result.faults, *map(str, result.limits)):
        return f"{fault} ({text.strip().splitlines()[-1]})"
    return fault


def check_cases(cases: list[Case]) -> None:
    for case in cases:
        packed = case.skill.suffix.lower() in ARCHIVES and case.skill.is_file()
        if not packed and not case.fault and not (case.skill / "SKILL.md").is_file():
            raise UsageError(f"{case.base}: the case {case.name!r} names {case.skill}, where there is no SKILL.md.")
