"""Made-up records for tests of reports: the same every time, as many cases as wanted, some with hostile names."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from husk.conform.matrix.calls_file import Calls, TracedFile, TracedSuite
from husk.conform.matrix.uses_file import INTERPRETER, SKILL, WORKS, Use, Uses
from husk.conform.outcomes import (
    CRASH,
    FAIL,
    FLAKY,
    HANG,
    NOT_NATIVE,
    PASS,
    SKIP,
    CaseName,
    Judged,
    RunInfo,
    RunRecord,
    Score,
    score,
)  # fmt: skip

_OWNED = "document.title='owned'"
HOSTILE = f"</script><script>{_OWNED}</script><img src=x onerror=\"{_OWNED}\">\u202egnp\x1b[2J&amp;'"
# Family, its files, and the share of cases that a runtime misses there: husk, husk-bare, runsc.
FAMILIES = {
    "files": (("open_test", "chmod_test", "rename_test", "stat_test", "xattr_test"), (0.01, 0.02, 0.03)),
    "sockets": (
        ("socket_inet_loopback_test", "socket_unix_test", "accept_bind_test", "ip_tables_test"),
        (0.06, 0.17, 0.03),
    ),
    "processes": (("fork_test", "exec_test", "wait_test", "pidfd_test"), (0.02, 0.05, 0.04)),
    "memory": (("mmap_test", "mremap_test", "madvise_test"), (0.0, 0.0, 0.02)),
    "semaphores and queues": (("semaphore_test", "msgqueue_test"), (0.0, 0.55, 0.0)),
    "time": (("timers_test", "clock_gettime_test"), (0.004, 0.004, 0.01)),
    "terminals": (("pty_test",), (0.12, 0.12, 0.2)),
    "io_uring": (("io_uring_test",), (1.0, 1.0, 0.6)),
}  # fmt: skip
DESIGN = {
    "ip_tables_test": "netfilter in a nested user namespace is not offered: it is a large part of the host's kernel",
    "io_uring_test": "io_uring is refused: its requests would pass by the filter",
}
EXPECTED = {"pty_test": "packet mode of pseudoterminals is not served yet"}
RUNTIMES = ("husk", "husk-bare", "runsc", "native")


@dataclass(frozen=True)
class Point:
    info: RunInfo
    score: Score


def info(runtime: str, day: int = 16, **more: object) -> RunInfo:
    started = datetime(2026, 11, 1, 2, 30) + timedelta(days=day - 1)
    made = RunInfo(
        f"{started:%Y%m%d-%H%M%S}-{runtime}", runtime,
        {"runsc": "runsc --rootless do", "native": ""}.get(runtime, runtime),
        "user", ("gvisor",), f"{started:%Y-%m-%dT%H:%M:%S}Z", f"{started:%Y-%m-%dT}03:10:00Z",
        {"runsc": "release-20240729.0", "native": ""}.get(runtime, "husk 0.1.0"), "", "6.18.5", "x86_64", "", 2, 60.0,
    )  # fmt: skip
    return replace(made, **more)  # type: ignore[arg-type]


def record(runtime: str, cases: int, day: int = 16, worse: float = 1.0) -> RunRecord:
    """The fate of a case depends on its name alone, so that a day and a runtime differ only where they should."""
    files = [(family, file) for family, (names, _) in FAMILIES.items() for file in names]
    each = max(1, cases // len(files))
    made: list[Judged] = []
    for family, file in files:
        for number in range(each):
            name = CaseName(
                "gvisor", file, f"{_camel(file)}Test.{_WORDS[number % len(_WORDS)]}{number // len(_WORDS) or ''}"
            )
            made.append(_judged(name, family, runtime, worse))
    return RunRecord(info(runtime, day), made)


_WORDS = ("Basic", "BadFd", "NullAddress", "AfterClose", "Inherits", "IsAtomic", "NonBlocking", "LargeOffset",
          "AcrossFork", "WithSignals", "ZeroLength", "ReadOnly", "Interrupted", "Credentials")  # fmt: skip


def _camel(file: str) -> str:
    return "".join(word.capitalize() for word in file.removesuffix("_test").split("_"))


def _judged(name: CaseName, family: str, runtime: str, worse: float) -> Judged:
    luck = random.Random(str(name))
    draw, kind, seconds = luck.random(), luck.random(), round(luck.random() ** 8 * 3, 3)
    if kind < 0.02:
        return Judged(name, family, NOT_NATIVE if kind < 0.015 else FLAKY, FAIL, seconds, "it fails natively, too")
    if kind < 0.05:
        return Judged(name, family, SKIP, SKIP, seconds, "needs CAP_NET_ADMIN")
    misses = 0.0 if runtime == "native" else FAMILIES[family][1][("husk", "husk-bare", "runsc").index(runtime)]
    if draw >= misses * worse:
        return Judged(name, family, PASS, PASS, seconds)
    verdict = (FAIL, FAIL, FAIL, CRASH, HANG)[int(kind * 1000) % 5]
    why = {CRASH: "SIGSEGV", HANG: "after 60 s"}.get(verdict, "Expected: (fd) >= (0), actual: -1 vs 0: EOPNOTSUPP (95)")
    output = f"[ RUN      ] {name.case}\ntest/syscalls/linux/{name.file}.cc:{int(kind * 900)}: Failure\n{why}\n" * 3
    reason = DESIGN.get(name.file, "") if runtime != "runsc" else ""
    expected = reason or (EXPECTED.get(name.file, "") if runtime != "runsc" else "")
    return Judged(name, family, verdict, verdict, seconds, why, output, expected, bool(reason))


def points(days: int, cases: int) -> list[Point]:
    """A history in which every runtime gets better."""
    made = []
    for day in range(17 - days, 17):
        for runtime, pace in (("husk", 0.12), ("husk-bare", 0.08), ("runsc", 0.0)):
            past = record(runtime, cases, day, 1 + pace * (16 - day))
            made.append(Point(past.info, score(past.cases)))
    return made


def calls() -> Calls:
    of = {"open_test": ("openat", "close"), "socket_unix_test": ("socket", "sendmsg"),
          "semaphore_test": ("semget", "semop"), "io_uring_test": ("io_uring_setup", "mmap"),
          "fork_test": ("fork", "clone"), "pidfd_test": ("pidfd_open",)}  # fmt: skip
    files = {file: TracedFile("0", "exit 0", {"read": 3, **dict.fromkeys(made, 40)}) for file, made in of.items()}
    return Calls("0.1.0", {"gvisor": TracedSuite("gVisor's system call tests", "gvisor 20240729", files)})


def uses() -> Uses:
    made = (
        Use(INTERPRETER, "bash", WORKS, calls={"openat": 9, "close": 9, "clone": 1}),
        Use(INTERPRETER, "python3", WORKS, calls={"openat": 99, "close": 9, "socket": 1}),
        Use(SKILL, "pdf", WORKS, calls={"openat": 5, "sendmsg": 1}),
    )
    return Uses("0.1.0", "6.18.5", "walled", "2026-11-16", made)
