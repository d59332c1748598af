"""conform/suites: how a process ended, in words, and results made from it. What several kinds share."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from husk.conform.outcomes import CRASH, HANG, MOST_OUTPUT, SKIP, CaseName, CaseResult
from husk.conform.units import SKIP_SETTING

if TYPE_CHECKING:
    from husk.conform.units import Ended, Unit

LONGEST_WHY = 300
# A shell, and husk, report a program that died of a signal as 128 + its number. These are never an ordinary exit code.
_DEADLY = (
    signal.SIGQUIT, signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGKILL,
    signal.SIGSEGV, signal.SIGSYS, signal.SIGXCPU, signal.SIGXFSZ,
)  # fmt: skip


def as_text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def all_output(ended: Ended) -> str:
    return bounded(as_text(ended.stdout) + as_text(ended.stderr))


def bounded(text: str) -> str:
    """What is kept of an output: its beginning and its end."""
    if len(text) <= MOST_OUTPUT:
        return text
    half = MOST_OUTPUT // 2
    return f"{text[:half]}\n[…]\n{text[-half:]}"


def one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_WHY else f"{line[:LONGEST_WHY]}…"


def signal_name(code: int) -> str:
    """The signal that a process died of; empty: it did not."""
    if code < 0:
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"
    return next((one.name for one in _DEADLY if code == 128 + one), "")


def exit_code(code: int) -> int:
    """As a shell has it, wherever the process ran."""
    return 128 - code if code < 0 else code


def bad_ending(unit: Unit, ended: Ended) -> tuple[str, str] | None:
    """HANG or CRASH and why; None: it ended by itself."""
    if ended.timed_out:
        return HANG, f"it did not end within {unit.timeout:g} s"
    if died := signal_name(ended.code):
        return CRASH, died
    return None


def result(unit: Unit, case: str, outcome: str, why: str = "", output: str = "", seconds: float = 0.0) -> CaseResult:
    return CaseResult(CaseName(unit.suite, unit.file, case), outcome, seconds, one_line(why), bounded(output))


def skipped(unit: Unit) -> list[CaseResult]:
    """The suite file says that the file is not to be run."""
    reason = unit.setting(SKIP_SETTING)
    return [result(unit, one, SKIP, reason) for one in unit.cases] if reason else []
