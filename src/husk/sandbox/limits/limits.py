"""sandbox: the limits of a box as plain data, and the message when one is met.

Here: names, units, defaults, and which of Linux's own limits enforce each of them. Not here: measuring (`meter`), and
control groups (`cgroups`). docs/design/008-limits.md argues the choices.
"""

from __future__ import annotations

from husk.sandbox.errors import UsageError

BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
COUNT = {"": 1, "K": 10**3, "M": 10**6}
SECONDS = {"": 1, "S": 1, "M": 60, "H": 3600}

# name: (units, default, what it bounds)
NAMES: dict[str, tuple[dict[str, int], int | None, str]] = {
    "time": (SECONDS, None, "wall time of the box (as --timeout)"),
    "cpu": (SECONDS, None, "processor time of the whole box"),
    "memory": (BYTES, None, "memory of the whole box"),
    "processes": (COUNT, 4096, "processes and threads at once; fork then fails with EAGAIN"),
    "files": (COUNT, None, "open files of each process; open then fails with EMFILE"),
    "file-size": (BYTES, None, "size of any one file; write then fails with EFBIG"),
    "disk": (BYTES, None, "bytes of the files the box keeps"),
    "disk-files": (COUNT, 500_000, "files, directories and links the box keeps; making one more fails with ENOSPC"),
    "output": (BYTES, None, "bytes on stdout and stderr together, where they are no terminal"),
    "events": (BYTES, 256 << 20, "bytes of the --events file; what comes later is counted, not written"),
}

RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_DATA, RLIMIT_CORE, RLIMIT_NPROC, RLIMIT_NOFILE = 0, 1, 2, 4, 6, 7
# Not 0: a host that pipes core files to a program runs that program, with a guest's memory as its input, unless the
# limit is exactly 1 (core(5)). No file is that small, so nothing is written either.
NO_CORE = 1
# How much one process may map beyond the memory limit, where only the meter enforces it. Runtimes map far more than
# they use (each thread's stack is 8 MiB), so RLIMIT_DATA at the limit itself would end programs well within it.
MAPPED_BEYOND = 1 << 30


class Exceeded:
    """One limit that was met. `ended`: husk ended the box; otherwise calls failed, or something was not recorded."""

    __slots__ = ("allowed", "ended", "name", "seen")

    def __init__(self, name: str, allowed: float, seen: float, *, ended: bool) -> None:
        self.name, self.allowed, self.seen, self.ended = name, allowed, seen, ended

    def __str__(self) -> str:
        if not self.ended:
            return f"limit: {self.name} {shown(self.name, self.allowed)} reached"
        seen = f" (seen: {shown(self.name, self.seen)})" if self.seen > self.allowed else ""
        return f"limit: {self.name} {shown(self.name, self.allowed)} exceeded{seen}"

    def __repr__(self) -> str:
        return f"<{self}>"

    def as_dict(self) -> dict[str, object]:
        """The same for JSON."""
        return {
            "name": self.name,
            "allowed": self.allowed,
            "seen": self.seen,
            "ended": self.ended,
            "text": str(self),
        }


class Limits:
    """The value of every limit by name; None: no limit. `asked`: the names that the caller gave."""

    __slots__ = ("_values", "asked")

    def __init__(self) -> None:
        self._values: dict[str, int | None] = {name: default for name, (_, default, _) in NAMES.items()}
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> int | None:
        return self._values[name]

    def read(self, text: str) -> None:
        """NAME=VALUE, for example memory=512M; VALUE `none` lifts a default."""
        name, equals, value = text.partition("=")
        if not equals or name not in NAMES:
            raise UsageError(f"write NAME=VALUE with NAME one of {', '.join(NAMES)}.", option="limit", value=text)
        self._values[name] = None if value == "none" else _number(text, NAMES[name][0], value)
        self.asked.add(name)

    def as_dict(self) -> dict[str, object]:
        return {name: value for name, value in self._values.items() if value is not None}

    def rlimits(self, *, own_user: bool, others: int) -> list[tuple[int, int]]:
        """Linux's per-process limits that enforce these. `own_user`: the kernel counts the box's processes apart from
        the caller's; `others`: how many processes it counts together with them."""
        found = [(RLIMIT_CORE, NO_CORE)]
        sizes = [size for size in (self["file-size"], self["disk"]) if size is not None]
        if sizes:
            found.append((RLIMIT_FSIZE, min(sizes)))
        if self["files"] is not None:
            found.append((RLIMIT_NOFILE, self["files"]))
        if self["processes"] is not None and (own_user or "processes" in self.asked):
            found.append((RLIMIT_NPROC, self["processes"] + others))
        if self["cpu"] is not None:
            found.append((RLIMIT_CPU, self["cpu"] + 1))  # the meter enforces the sum; this stops a single process
        if self["memory"] is not None:
            found.append((RLIMIT_DATA, self["memory"] + MAPPED_BEYOND))
        return found


def shown(name: str, value: float) -> str:
    """A value as it would be written in an option."""
    units = NAMES[name][0]
    if units is SECONDS:
        return f"{value:.3g}s"
    if units is COUNT:
        return f"{value // 1000:.0f}k" if value >= 10_000 and value % 1000 == 0 else f"{value:.0f}"
    letter, size = [unit for unit in units.items() if unit[1] <= max(1, value)][-1]
    return f"{value / size:.4g}{letter}"


def _number(text: str, units: dict[str, int], value: str) -> int:
    digits = value.rstrip("kmgtshKMGTSH")
    letter = value[len(digits) :].upper()
    if letter not in units or not digits.isascii() or not digits.isdigit() or not digits.strip("0"):
        known = ", ".join(unit.lower() if units is SECONDS else unit for unit in units if unit)
        raise UsageError(f"give a whole number above 0, alone or with one of {known}.", option="limit", value=text)
    digits = digits.lstrip("0")
    number = int(digits) * units[letter] if len(digits) < 20 else 1 << 62  # Python reads 4300 digits at most
    if number >= 1 << 62:
        raise UsageError(
            "that is more than can be counted; give a smaller number, or none.", option="limit", value=f"{text[:60]}"
        )
    return number
