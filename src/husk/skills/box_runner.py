"""skills: the one place where skills meet the sandbox: a wish in, an outcome out.

Everything else here knows `Wish` and `Outcome` only, so that what stands behind them can change.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from husk.sandbox.policy import Mount, Policy
from husk.sandbox.result import Result
from husk.sandbox.runner import Events, Runner

MOST_KEPT = 64 << 20
PIECE = 1 << 16
Around = Callable[[Runner], Result]


@dataclass
class Setting:
    """How boxes are made on this machine, the same for every box of a command."""

    image: str = ""
    store: str = ""
    namespaces: bool = True
    weaken: frozenset[str] = frozenset()


@dataclass
class Wish:
    argv: list[str]
    mounts: list[Mount] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    workdir: str = "/workspace"
    hosts: list[str] = field(default_factory=list)  # rules as --allow-net takes them; none: loopback only
    limits: dict[str, str] = field(default_factory=dict)
    programs: list[str] | None = None  # what may be started beside argv[0]; None: anything
    terminal: bool = False
    setting: Setting = field(default_factory=Setting)


@dataclass
class Outcome:
    exit_code: int
    seconds: float
    stdout: bytes
    stderr: bytes
    changes: list[tuple[str, str]]
    refusals: list[dict[str, object]]
    faults: list[str]
    limits: list[str]
    ran: list[str]
    read: list[str]


def run(wish: Wish, *, stdin: bytes | None = None, capture: bool = False, around: Around = Runner.run) -> Outcome:
    """Run it. `stdin` None is the caller's own. `capture`: the output is kept instead of shown. `around` may hand the
    box's signals to the caller before it runs it."""
    policy = Policy(wish.argv)
    policy.mounts = list(wish.mounts)
    policy.env = dict(wish.env)
    policy.workdir = wish.workdir
    policy.allow_net = list(wish.hosts)
    policy.programs = None if wish.programs is None else [wish.argv[0], *wish.programs]
    for name, value in wish.limits.items():
        policy.limits.read(f"{name}={value}")
    policy.image, policy.store = wish.setting.image, wish.setting.store
    policy.namespaces, policy.weaken = wish.setting.namespaces, set(wish.setting.weaken)
    policy.terminal = policy.interactive = wish.terminal
    events = Events(None, None, collect=True)
    source = 0 if stdin is None else _filled(stdin)
    out, err = (_Kept(), _Kept()) if capture else (None, None)
    try:
        ends = (source, 1, 2) if out is None or err is None else (source, out.write_end, err.write_end)
        result = around(Runner(policy, events, ends))
    finally:
        for kept in (out, err):
            if kept is not None:
                kept.finish()
        if stdin is not None:
            os.close(source)
    return Outcome(
        result.exit_code,
        result.seconds,
        out.data if out else b"",
        err.data if err else b"",
        result.changes,
        result.refusals,
        result.faults,
        [str(limit) for limit in result.limits],
        [os.fsdecode(path) for path in events.ran],
        result.read,
    )


def _filled(data: bytes) -> int:
    """A descriptor to read `data` from. A pipe, because that is what programs expect of input that is no terminal."""
    if not data:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    read_end, write_end = os.pipe()

    def fill() -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(write_end, view[:PIECE]) :]
        except OSError:
            pass  # nobody reads any more
        finally:
            os.close(write_end)

    threading.Thread(target=fill, daemon=True).start()
    return read_end


class _Kept:
    """One pipe and the thread that empties it."""

    def __init__(self) -> None:
        self._read_end, self.write_end = os.pipe()
        self._pieces: list[bytes] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        kept = 0
        while piece := os.read(self._read_end, PIECE):
            if kept < MOST_KEPT:
                self._pieces.append(piece)
                kept += len(piece)

    def finish(self) -> None:
        """The box is gone, so ours is the last writing end."""
        os.close(self.write_end)
        self._thread.join()
        os.close(self._read_end)

    @property
    def data(self) -> bytes:
        return b"".join(self._pieces)
