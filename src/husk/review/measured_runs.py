"""review: run a skill in boxes and note what it did: files, programs, addresses, refusals. Facts, not guesses."""

from __future__ import annotations

import shlex
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from husk.sandbox.errors import HuskError
from husk.sandbox.result import Result
from husk.skills.changed_files import fold
from husk.skills.open_skill import open_skill
from husk.skills.refusal_levels import judge
from husk.skills.running import Request, prepare
from husk.skills.skill_places import SKILL
from husk.skills.testing.cases import Case, check_run
from husk.skills.testing.compare_cases import missing_need, run_in_box

# What every program opens: counted, not listed.
_SYSTEM = (
    "/usr/", "/lib", "/bin/", "/sbin/", "/proc/", "/sys/", "/dev/", "/etc/ld.so", "/opt/skill/", "/node_modules/",
)  # fmt: skip


@dataclass(frozen=True)
class Refusal:
    what: str
    reason: str
    level: str
    why: str


@dataclass
class Measured:
    """One run. `wrong` says how it is not what its case wants; `failed`, why it could not be run at all."""

    title: str
    command: str
    setting: str
    exit_code: int = 0
    seconds: float = 0.0
    wrong: str = ""
    failed: str = ""
    read: list[str] = field(default_factory=list)
    system_files: int = 0  # files of programs and libraries that it read
    changed: list[tuple[str, str]] = field(default_factory=list)  # what happened to a file, and its path
    ran: list[str] = field(default_factory=list)
    addresses: list[tuple[str, str]] = field(default_factory=list)  # with an errno where it was not reached
    refusals: list[Refusal] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    lost: int = 0  # events that were too many to be kept

    def as_dict(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in ("title", "command", "setting", "exit_code", "wrong", "failed")},
            "seconds": round(self.seconds, 3),
            "read": self.read,
            "system_files": self.system_files,
            "changed": [{"change": change, "path": path} for change, path in self.changed],
            "ran": self.ran,
            "addresses": [{"address": address, "errno": errno} for address, errno in self.addresses],
            "refusals": [vars(one) for one in self.refusals],
            "limits": self.limits,
            "lost": self.lost,
        }


class _Addresses:
    """Hears the events of a box, and keeps the addresses."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, str], None] = {}

    def __call__(self, event: dict[str, object]) -> None:
        if event.get("event") != "address" or event.get("call") not in ("connect", "sendto", "sendmsg", "sendmmsg"):
            return
        address, errno = str(event["address"]), str(event["errno"])
        # A service of the machine that is not there: the C library asks for one at every look-up of a name.
        if not (address.startswith("unix:") and errno == "ENOENT"):
            self.seen[address, errno] = None


def measure_case(case: Case, request: Request) -> Measured:
    made = Measured(f"case: {case.name}", shlex.join([case.script or "(its script)", *case.argv]), request.setting.name)
    made.failed = case.fault
    if lacking := missing_need(case, request):
        made.failed = f"{lacking} is not on this machine"
    if made.failed:
        return made
    heard = _Addresses()
    with tempfile.TemporaryDirectory(prefix="husk-review-") as name:
        Path(name).chmod(0o755)
        try:
            run, result = run_in_box(case, request, Path(name), heard)
        except HuskError as error:
            made.failed = str(error)
            return made
        made.wrong = check_run(case, run)
    return _noted(made, result, heard)


def measure_command(skill: Path, request: Request) -> Measured:
    """Run the skill's script with the request's arguments, or its command."""
    words = request.command or [request.script or "(its script)", *request.args]
    made = Measured("command", shlex.join(words), request.setting.name)
    heard = _Addresses()
    with tempfile.TemporaryDirectory(prefix="husk-review-") as name, open_skill(skill, frozen=True) as opened:
        Path(name).chmod(0o755)
        out = Path(name, "out")
        out.mkdir()
        result, _ = prepare(opened, replace(request, output=out)).run(stdin=b"", capture=True, tell=heard)
    return _noted(made, result, heard)


def _noted(made: Measured, result: Result, heard: _Addresses) -> Measured:
    made.exit_code, made.seconds = result.exit_code, result.seconds
    made.read = [path for path in result.read if not path.startswith(_SYSTEM)]
    made.system_files = len(result.read) - len(made.read)
    # Those on the host are in the box's directory for results, whose content is thrown away here.
    made.changed = [*fold(result.changes)[0], *fold(result.host_changes)[0]]
    made.ran = [path for path in result.ran if not path.startswith(f"{SKILL}/")] + [
        path for path in result.ran if path.startswith(f"{SKILL}/")
    ]
    made.addresses = sorted(heard.seen)
    for item in result.refusals:
        found = judge(item)
        made.refusals.append(Refusal(str(item["what"]), str(item["reason"]), found.level, found.why))
    made.limits = [str(limit) for limit in result.limits]
    made.lost = sum(result.lost.values())
    return made
