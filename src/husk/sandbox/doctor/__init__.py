"""sandbox, doctor: tries every mechanism husk stands on, for real, and judges what that means.

Each probe runs in a child of its own, so that nothing it tries outlives it or hurts the caller: a filter, a namespace,
a lost capability, a crash. A probe says what it found or raises; it never decides whether that matters (`rows`).
"""

from __future__ import annotations

import os

from husk.sandbox.doctor.rows import BY_NAME, FULL, MINIMUM, RESTS_ON, ROWS, Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["BY_NAME", "Finding", "Missing", "examine", "examine_one", "exit_code"]

PATIENCE = 60.0  # seconds for one probe; an emulated machine has been seen to need more than 20
FULLY, WITH_LESS, NOT_AT_ALL = 0, 1, 125


class Missing(Exception):
    """Raised by a probe: the mechanism is not there, and this is what was seen."""


class Finding:
    """What became of one row. `because`: it was not tried, since this row, on which it rests, does not stand."""

    __slots__ = ("because", "detail", "row", "stands")

    def __init__(self, row: Row, stands: bool, detail: str, because: Row | None = None) -> None:
        self.row, self.stands, self.detail, self.because = row, stands, detail, because

    @property
    def remedy(self) -> str:
        return self.row.remedy if self.because is None else f"as for {self.because.what}"

    def as_dict(self) -> dict[str, object]:
        told: dict[str, object] = {
            "name": self.row.name,
            "what": self.row.what,
            "need": self.row.need,
            "stands": self.stands,
            "detail": self.detail,
        }
        if self.stands:
            return told
        return told | {
            "without": self.row.without,
            "remedy": self.remedy,
            "because": self.because.name if self.because is not None else None,
        }


def examine(probes: dict[str, Callable[[], str]] | None = None) -> list[Finding]:
    if probes is None:
        from husk.sandbox.doctor.probes import PROBES

        probes = PROBES
    findings: dict[str, Finding] = {}
    for row in sorted(ROWS, key=lambda row: row.name == "box"):  # it rests on many
        base = next((findings[name] for name in RESTS_ON.get(row.name, ()) if not findings[name].stands), None)
        if base is None:
            findings[row.name] = Finding(row, *_in_a_child(probes[row.name]))
        else:
            cause = base.because or base.row
            findings[row.name] = Finding(row, False, f"not tried; it rests on {cause.what}", cause)
    return [findings[row.name] for row in ROWS]


def examine_one(name: str) -> Finding:
    from husk.sandbox.doctor.probes import PROBES

    return Finding(BY_NAME[name], *_in_a_child(PROBES[name]))


def exit_code(findings: list[Finding]) -> int:
    missing = {finding.row.need for finding in findings if not finding.stands}
    return NOT_AT_ALL if MINIMUM in missing else WITH_LESS if FULL in missing else FULLY


def _in_a_child(probe: Callable[[], str]) -> tuple[bool, str]:
    """(does it stand, what was seen). The child has a process group of its own, which is killed at the end: a probe
    may leave children behind."""
    import select
    import signal

    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.close(reading)
        _answer(probe, writing)
    os.close(writing)
    try:
        os.setpgid(child, child)
    except OSError:
        pass  # it was faster, or is gone
    try:
        ready, _, _ = select.select([reading], [], [], PATIENCE)
        text = os.read(reading, 1 << 16).decode("utf-8", "replace") if ready else f"no answer in {PATIENCE:g} s"
    finally:
        os.close(reading)
        try:
            os.killpg(child, signal.SIGKILL)
        except OSError:
            pass  # nobody is left
        os.waitpid(child, 0)
    return text[:1] == "+", text[1:] if text[:1] in ("+", "-") else text or "the probe was ended"


def _answer(probe: Callable[[], str], writing: int) -> None:
    """The child's whole life."""
    try:
        answer = "+" + probe()
    except Missing as missing:
        answer = f"-{missing}"
    except OSError as error:
        answer = f"-{error.strerror or error}"
    except BaseException as fault:
        answer = f"-{type(fault).__name__}: {fault}"
    try:
        os.write(writing, answer.encode())
    finally:
        os._exit(0)
