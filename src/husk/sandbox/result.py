"""sandbox: how a run ended, as data."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.kernel.recorder import Seen as Seen  # named here for what stands above the sandbox
    from husk.sandbox.limits.limits import Exceeded


class Result:
    """`exit_code` is the guest's, or 124 when a limit ended it (the time is one), or 128+n when signal n did."""

    __slots__ = (
        "changes",
        "devices",
        "exit_code",
        "faults",
        "host_changes",
        "host_sockets",
        "limits",
        "lost",
        "max_rss",
        "ran",
        "read",
        "refusals",
        "seconds",
        "signal",
        "stderr",
        "stdout",
        "system_seconds",
        "timed_out",
        "trace",
        "user_seconds",
        "walls",
        "weakened",
    )

    def __init__(self) -> None:
        self.exit_code = 0
        self.signal = 0
        self.timed_out = False
        self.seconds = self.user_seconds = self.system_seconds = 0.0
        self.max_rss = 0  # bytes, of the largest process
        self.refusals: list[dict[str, object]] = []
        self.changes: list[tuple[str, str]] = []  # of the box's own files, or of its copies
        self.host_changes: list[tuple[str, str]] = []  # made through `rw` mounts
        self.host_sockets: list[str] = []  # Unix sockets of the host, below mounts, that were reached
        self.devices: list[str] = []  # of the host, that the box was given
        self.ran: list[str] = []  # programs that were started, when events were watched
        self.read: list[str] = []  # files opened for reading, likewise
        self.faults: list[str] = []
        self.walls: dict[str, object] = {}
        self.weakened: list[str] = []  # walls the caller chose to do without
        self.limits: list[Exceeded] = []  # those that were met
        self.lost: dict[str, int] = {}  # what happened but was not written down or kept, by kind
        self.trace: Seen | None = None  # what was asked for, where the policy wants a trace
        self.stdout: bytes | None = None
        self.stderr: bytes | None = None

    def as_dict(self) -> dict[str, object]:
        shown: dict[str, object] = {
            name: getattr(self, name) for name in self.__slots__ if name not in ("ran", "stdout", "stderr", "trace")
        }
        shown["limits"] = [limit.as_dict() for limit in self.limits]
        for name in ("changes", "host_changes"):
            shown[name] = [{"change": change, "path": path} for change, path in getattr(self, name)]
        for name in ("stdout", "stderr"):
            data = getattr(self, name)
            if data is not None:
                shown[name] = data.decode("utf-8", "backslashreplace")
        return shown


def ended_by(signal: int) -> Result:
    """The result of a run that ended because husk itself got a signal."""
    result = Result()
    result.signal, result.exit_code = signal, 128 + signal
    return result
