"""sandbox, doctor: run one probe in a child process. Nothing it tries can outlive it or hurt the caller: a filter, a
namespace, a lost capability, a crash."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 60.0  # seconds for one probe; an emulated machine has been seen to need more than 20


class Missing(Exception):
    """Raised by a probe: the mechanism is not there, and this is what was seen."""


def run_probe(probe: Callable[[], str]) -> tuple[bool, str]:
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
        pass  # the child was faster, or is gone
    try:
        ready, _, _ = select.select([reading], [], [], PATIENCE)
        text = os.read(reading, 1 << 16).decode("utf-8", "replace") if ready else f"no answer in {PATIENCE:g} s"
    finally:
        os.close(reading)
        try:
            os.killpg(child, signal.SIGKILL)
        except OSError:
            pass  # no process of the group is left
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
