"""Fixed runs, matrix rows and uses: what the golden documents are made from. Texts of suites are hostile on purpose."""

from __future__ import annotations

from dataclasses import replace

from husk.conform.matrix.calls_file import Calls, TracedFile, TracedSuite
from husk.conform.matrix.coverage import NATIVE, REFUSED, VIRTUAL, Row
from husk.conform.matrix.uses_file import ABSENT, FAILS, INTERPRETER, SKILL, WORKS, Use, Uses
from husk.conform.outcomes import CRASH, FAIL, FLAKY, HANG, NOT_NATIVE, PASS, SKIP, CaseName, Judged, RunInfo, RunRecord

HOSTILE = "a|b `c` <script>x</script> [d](http://e) *f* \x1b[31m\nsecond # line"


def case(file: str, name: str, verdict: str, family: str, **more: object) -> Judged:
    outcome = {NOT_NATIVE: FAIL, FLAKY: PASS}.get(verdict, verdict)
    return Judged(CaseName("mini", f"bin/{file}", name), family, verdict, outcome, **more)  # type: ignore[arg-type]


INFO = RunInfo(
    "20260102-030405-husk", "husk", "husk run", "user", ("mini",), "2026-01-02T03:04:05Z", "2026-01-02T03:14:05Z",
    "9.9", "abcdef", "6.12.0", "box", "", 2, 60.0,
)  # fmt: skip
HUSK = RunRecord(
    INFO,
    [
        case("open_test", "Open.Plain", PASS, "files", seconds=0.25),
        case("open_test", "Open.Strange", FAIL, "files", why=HOSTILE, output="expected 1\x00\nActual: \ud800 ]]> 2"),
        case("open_test", "Open.Known", FAIL, "files", why="EPERM", expected="no such thing in a box", by_design=True),
        case("open_test", "Open.Better", PASS, "files", expected="was broken | once"),
        case("pipe_test", "Pipe.Ends", CRASH, "pipes", why="SIGSEGV"),
        case("pipe_test", "Pipe.Waits", HANG, "pipes"),
        case("pipe_test", "Pipe.Root", NOT_NATIVE, "pipes", why="needs root"),
        case("pipe_test", "Pipe.Race", FLAKY, "pipes"),
        case("pipe_test", "plain", SKIP, "pipes", why="no tty"),
    ],
)
BEFORE = RunRecord(
    replace(INFO, run="20260101-030405-husk", started="2026-01-01T03:04:05Z", ended="2026-01-01T03:14:05Z"),
    [
        case("open_test", "Open.Plain", FAIL, "files"),
        case("open_test", "Open.Strange", PASS, "files"),
        case("open_test", "Open.Known", FAIL, "files", expected="no such thing in a box", by_design=True),
        case("open_test", "Open.Gone", PASS, "files"),
        case("pipe_test", "Pipe.Ends", FAIL, "pipes"),
    ],
)
BARE = RunRecord(
    replace(INFO, run="20260102-040405-husk-bare", runtime="husk-bare", started="2026-01-02T04:04:05Z", whole=False),
    [case("open_test", "Open.Plain", PASS, "files"), case("open_test", "Open.Strange", PASS, "files")],
)
CALLS = Calls("9.9", {"mini": TracedSuite("A miniature", "our own, 1.0", {"bin/open_test": TracedFile("0", "exit 0")})})
OPEN, PIPE = ("mini", "bin/open_test"), ("mini", "bin/pipe_test")
EVERY = ("sh", "python")
ROWS = [
    Row("read", 0, NATIVE, "works on a descriptor", (OPEN, PIPE), 2, 6, (("husk", 2, 6), ("husk-bare", 2, 2)), EVERY,
        ("skill-a", "skill-b", "skill-c", "skill-d", "skill-e"), "critical"),
    Row("openat", 257, VIRTUAL, "carries a name | for one", (OPEN,), 2, 4, (("husk", 2, 4), ("husk-bare", 2, 2)), EVERY,
        ("skill-a",), "critical", depends=True),
    Row("getcwd", 79, VIRTUAL, "gives a name", (), 0, 0, (("husk", 0, 0), ("husk-bare", 0, 0)), EVERY, (), "critical"),
    Row("io_uring_setup", 425, REFUSED, "ENOSYS: it would bypass the filter", (), 0, 0,
        (("husk", 0, 0), ("husk-bare", 0, 0)), ("python",), ("bad-skill",), "medium"),
    Row("pipe2", 293, NATIVE, "makes descriptors", (PIPE,), 0, 2, (("husk", 0, 2), ("husk-bare", 0, 0)), (), (), "low"),
]  # fmt: skip
USES = Uses(
    "9.9", "6.12.0", "walled", "2026-01-02",
    (
        Use(INTERPRETER, "sh", WORKS, ("start and end", "files"), "dash 0.5", "",
            {"read": 3, "openat": 2, "getcwd": 1}),
        Use(INTERPRETER, "python", WORKS, ("files",), "Python 3.11", "",
            {"read": 3, "openat": 2, "getcwd": 1, "io_uring_setup": 1}),
        Use(INTERPRETER, "node", ABSENT, why="node is not on this machine"),
        Use(SKILL, "bad-skill", FAILS, ("a case",), "", HOSTILE, {"io_uring_setup": 1, "syscall_999": 1}),
        Use(SKILL, "skill-a", WORKS, ("one", "two"), "", "", {"read": 1, "openat": 1}),
    ),
)  # fmt: skip
TODAY = "2026-01-02"
