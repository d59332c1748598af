"""api: how a run ended and what it was refused, as data, and in words for the person or model that decides what to do
next."""

from __future__ import annotations

import errno
import re
import reprlib
import signal as signals
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from husk.api.asker_words import Asker, Remedy, assigned, reworded, sentence_of
from husk.sandbox.errors import HuskError, NotExecutable, NotFound, NoWorkdir, UsageError
from husk.sandbox.limits.limits import Exceeded
from husk.sandbox.result import Result as Ended
from husk.store.store_errors import StoreError, StoreUsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from husk.sandbox.policy import Mount

Output = bytes | str | None
_MOST_LINES = 12
_COUNTED = ("denials", "changes", "host_changes", "host_sockets", "limits", "faults")  # in the repr, by their number
# What shells say when a program could not be started.
_MEANINGS = {
    126: " A shell ends so when a program is there and cannot be executed.",
    127: " A shell ends so when there is no such program: the box has those of its image and mounts, and no others.",
}
_POINTER = re.compile(r"0x[0-9a-f]{7,}")  # an address in the program's memory, which explains nothing
# How each asker is told what would allow something.
_HOPES: dict[Asker, str] = {
    "cli": "{}",
    "python": "start the sandbox with {}",
    "mcp": "the server's configuration has to say {}",
    "profile": "the profile has to say {}",
}
_MOST_NAMED = 3  # names of one kind of refusal


@dataclass(frozen=True)
class Denial:
    """One thing husk refused. `allow` is what would allow it, as an argument of Sandbox; empty: nothing would. `count`
    is how often it was noticed; what husk answers from memory is not counted again. `remedy` is what `allow` says, for
    others who ask: `denial.remedy.said("cli")`; None: nothing would allow it."""

    call: str
    what: str
    errno: str
    reason: str
    allow: str = ""
    count: int = 1
    remedy: Remedy | None = field(default=None, repr=False)
    told: str = field(default="", repr=False)  # the reason, as the command line says it

    def reason_for(self, asker: Asker) -> str:
        """The reason, in the words of whoever asks."""
        return reworded(self.told or self.reason, asker)

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        return f"{self.what}: {self.reason}{times}"


@dataclass(frozen=True)
class Change:
    """One name of the box that differs from what it started with: `added`, `changed` or `deleted`."""

    kind: str
    path: str


@dataclass(frozen=True)
class Usage:
    """Seconds by the clock, of processor time, and the memory of the largest process in bytes."""

    seconds: float = 0.0
    user_seconds: float = 0.0
    system_seconds: float = 0.0
    max_rss: int = 0


@dataclass(repr=False)
class Result(subprocess.CompletedProcess[Any]):
    """What `subprocess.run` would return, and more. `returncode` is the program's own, -n when signal n ended it, and
    124 when a limit did."""

    args: Any  # as they were given
    returncode: int
    stdout: Any = None  # bytes, or str in text mode; None where it was not captured
    stderr: Any = None
    denials: list[Denial] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    host_changes: list[Change] = field(default_factory=list)
    host_sockets: list[str] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)  # of the host, that the box was given
    usage: Usage = field(default_factory=Usage)
    events: list[dict[str, object]] = field(default_factory=list)
    limits: list[Exceeded] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    lost: dict[str, int] = field(default_factory=dict)
    timed_out: bool = False
    weakened: list[str] = field(default_factory=list)  # walls the caller chose to do without, and which were missing

    def __repr__(self) -> str:
        said = [f"args={self.args!r}", f"returncode={self.returncode!r}"]
        for name in ("stdout", "stderr"):
            if getattr(self, name) is not None:
                said.append(f"{name}={reprlib.repr(getattr(self, name))}")  # the beginning and the end
        said += [f"{name}={len(getattr(self, name))}" for name in _COUNTED if getattr(self, name)]
        return f"Result({', '.join(said)}{', timed_out=True' if self.timed_out else ''})"

    def check_returncode(self) -> None:
        """CalledProcessError unless the program ended with 0."""
        if self.returncode:
            raise CalledProcessError(self)

    def explain(self, asker: Asker = "python") -> str:
        """A few lines for a person or a model: how it ended, what was refused and what would allow it, and whether
        trying again makes sense. `asker` chooses the words for what would allow it: "cli" (options of `husk run`),
        "python" (arguments of Sandbox), "mcp" (the server's configuration) or "profile" (husk.toml)."""
        said = [self._ending()]
        for limit in self.limits:
            if limit.name != "time":
                what = "The run was ended for it." if limit.ended else "Calls failed for it."
                text = str(limit)
                more = assigned("limit", [limit.name if asker != "cli" else f"{limit.name}=..."], asker)
                said.append(f"{text[0].upper()}{text[1:]}. {what} To allow more: {more}.")
        said += self._refused(asker)
        for stream in ("stdout", "stderr"):
            if self.lost.get(stream):
                said.append(f"{self.lost[stream]} more bytes of {stream} were not kept.")
        if self.weakened:
            said.append(f"It ran behind fewer walls than usual, as was wished; missing: {', '.join(self.weakened)}.")
        if self.faults:
            said.append(
                f"{len(self.faults)} calls failed in husk or in a hook (the program saw EIO); `faults` tells more."
            )
        return "\n".join(said)

    def _ending(self) -> str:
        took = f"after {self.usage.seconds:.2f} s"
        if self.timed_out:
            return f"The program was still running {took} and was ended: give it less to do, or a larger timeout."
        if any(limit.ended for limit in self.limits):
            return f"The program was ended {took} because it met a limit (exit code {self.returncode})."
        if self.returncode < 0:
            try:
                name = signals.Signals(-self.returncode).name
            except ValueError:
                name = f"signal {-self.returncode}"
            return f"The program was ended by {name} {took}."
        if self.returncode == 0:
            return f"The program ended well (exit code 0) {took}."
        return f"The program ended with exit code {self.returncode} {took}.{_MEANINGS.get(self.returncode, '')}"

    def _refused(self, asker: Asker) -> list[str]:
        if not self.denials:
            if self.returncode and not self.limits and not self.timed_out:
                return ["Nothing was refused by the sandbox: the failure is the program's own. See its output."]
            return []
        if self.returncode == 0:
            said = ["Refused by the sandbox on the way (the program did without):"]
        else:
            said = ["Refused by the sandbox; trying the same again will fail again:"]
        groups: dict[tuple[str, str, str], list[Denial]] = {}
        for denial in self.denials:
            # What differs only in the name is one thing to learn.
            option = denial.remedy.option if denial.remedy is not None else ""
            allow = "" if option and denial.what in denial.allow else denial.allow
            groups.setdefault((denial.reason, option, allow), []).append(denial)
        for members in list(groups.values())[:_MOST_LINES]:
            count, left = sum(member.count for member in members), len(members) - _MOST_NAMED
            names = ", ".join(member.what for member in members[:_MOST_NAMED])
            more = f" and {left} more" if left > 0 else ""
            times = f" (at least {count} times)" if count > 1 else ""
            said.append(f"- {names}{more}: {members[0].reason_for(asker)}{times}. {_hope(members, asker)}")
        if len(groups) > _MOST_LINES:
            said.append(f"- and {len(groups) - _MOST_LINES} more kinds of refusal")
        return said


def _hope(members: list[Denial], asker: Asker) -> str:
    """What would allow these, which have one option in common."""
    first = members[0].remedy
    if first is None:
        return "No option allows it; find another way."
    values = [one.remedy.value for one in members[:_MOST_NAMED] if one.remedy is not None]
    others = [value for value in dict.fromkeys(values) if value != first.value]
    plain = first.option and not first.leave_out and not first.advice
    said = first.said(asker, others=others)
    return f"To allow {'them' if others else 'it'}, {_HOPES[asker].format(said) if plain else said}."


class CalledProcessError(subprocess.CalledProcessError):
    """A run with check=True ended with something else than 0. `result` has everything, `result.explain()` says why."""

    def __init__(self, result: Result) -> None:
        super().__init__(result.returncode, result.args, result.stdout, result.stderr)
        self.result = result

    def __str__(self) -> str:
        return f"{super().__str__()} {self.result.explain()}"


class TimeoutExpired(subprocess.TimeoutExpired):
    """A run took longer than its timeout, and was ended. `result` has what there was until then."""

    def __init__(self, result: Result, timeout: float) -> None:
        # The bases' own fields hold bytes even in text mode.
        super().__init__(result.args, timeout, _bytes(result.stdout), _bytes(result.stderr))
        self.result = result


class ProgramNotFound(NotFound, FileNotFoundError):
    """There is no such program in the box."""


class ProgramNotExecutable(NotExecutable, PermissionError):
    """There is one, and it cannot be executed."""


class NoSuchDirectory(NoWorkdir, FileNotFoundError):
    """There is no such directory in the box."""


class NoDirectory(NoWorkdir, NotADirectoryError):
    """It is not a directory."""


class ClosedDirectory(NoWorkdir, PermissionError):
    """The guest may not enter it."""


_NO_WORKDIR = {errno.ENOENT: NoSuchDirectory, errno.ENOTDIR: NoDirectory, errno.EACCES: ClosedDirectory}


def in_public(failure: BaseException) -> BaseException:
    """The same as an application knows it from subprocess, and in words of Python."""
    if not isinstance(failure, HuskError):
        return failure
    sentence = sentence_of(failure, "python")
    if isinstance(failure, NotFound) and not isinstance(failure, ProgramNotFound):
        failure = ProgramNotFound(failure.sentence)
    elif isinstance(failure, NotExecutable) and not isinstance(failure, ProgramNotExecutable):
        failure = ProgramNotExecutable(failure.sentence)
    elif isinstance(failure, NoWorkdir) and type(failure) is NoWorkdir and failure.errno in _NO_WORKDIR:
        failure = _NO_WORKDIR[failure.errno](failure.sentence, failure.value or "", failure.errno)
    failure.say(sentence)
    return failure


@contextmanager
def speaking_python() -> Iterator[None]:
    """What goes wrong within is told as `in_public` tells it."""
    try:
        yield
    except HuskError as error:
        told = in_public(error)
        if told is error:
            raise
        raise told from None
    except StoreError as error:
        raise (UsageError if isinstance(error, StoreUsageError) else HuskError)(str(error)) from None


def _bytes(output: Output) -> bytes | None:
    return output.encode("utf-8", "surrogateescape") if isinstance(output, str) else output


def made(args: object, ended: Ended, events: list[dict[str, object]], mounts: Iterable[Mount] = ()) -> Result:
    """The public form of what the sandbox tells. `mounts` are the box's: remedies name them."""
    return Result(
        args,
        -ended.signal if ended.signal else ended.exit_code,
        denials=[_denial(refusal, mounts) for refusal in ended.refusals],
        changes=[Change(kind, path) for kind, path in ended.changes],
        host_changes=[Change(kind, path) for kind, path in ended.host_changes],
        host_sockets=list(ended.host_sockets),
        devices=list(ended.devices),
        usage=Usage(ended.seconds, ended.user_seconds, ended.system_seconds, ended.max_rss),
        events=events,
        limits=ended.limits,
        faults=list(ended.faults),
        lost=dict(ended.lost),
        timed_out=ended.timed_out,
        weakened=list(ended.weakened),
    )


def _denial(refusal: dict[str, object], mounts: Iterable[Mount]) -> Denial:
    count = refusal.get("count", 1)
    call, what, number, told = (str(refusal[name]) for name in ("call", "what", "errno", "reason"))
    remedy = Remedy.read(str(refusal["allow"]), what, mounts)
    return Denial(
        call,
        _POINTER.sub("…", what),
        number,
        reworded(told, "python"),
        remedy.said() if remedy is not None else "",
        count if isinstance(count, int) else 1,
        remedy,
        told,
    )
