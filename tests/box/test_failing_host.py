"""The host fails husk once, anywhere between its start and its end: with ENOSPC, EIO, EMFILE or ENOMEM.

The guest gets an errno or ends, husk says what happened in a sentence, nothing is granted and nothing is left behind.
Here at a few places spread over the whole run; `make faults` takes every single one, with each errno. (Handler by
handler, and what a guest can see afterwards: tests/unit/kernel/test_host_faults.py.)
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.box.test_faults import ALL, groups
from tests.lib import failing_host
from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import PIPE, finish, husk, husk_process, scratch

pytestmark = [
    pytest.mark.both_settings,
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
]

PLACES = 4
ERRNOS = (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.ENOMEM)
PROGRAM = Path(failing_host.__file__)
# Names of every kind, programs, pipes and a mount, and some that must not be there.
WORK = """
mkdir d && cd d && echo x >a && mv a b && ln b c && ln -s b l && cat l && ls . >/dev/null && cd .. && rm -r d
echo y >/work/out && mv /work/out /work/done; /bin/true | /bin/true; (exit 3); test -e /usr/bin/env
cat /work/../beside/file /beside/file /etc/shadow 2>/dev/null; echo end
"""


@pytest.fixture
def place() -> Iterator[Path]:
    with scratch() as found:
        for name in ("work", "beside", "state"):
            (found / name).mkdir()
        (found / "work").chmod(0o777)
        (found / "beside" / "file").write_text("nobody's business\n")
        yield found


def fails(place: Path, monkeypatch: pytest.MonkeyPatch, at: int, number: int) -> tuple[int, str]:
    """One run, looked at from all sides: how many calls husk made to the host, and which one failed."""
    with monkeypatch.context() as patch:
        patch.setenv("HUSK_CMD", f"{sys.executable} {PROGRAM}")
        failing = {"HUSK_FAIL_AT": str(at), "HUSK_FAIL_WITH": str(number), "HUSK_FAIL_LOG": str(place / "log")}
        options = ["--mount", f"{place / 'work'}:/work:rw"]
        env = {"HUSK_STATE": str(place / "state"), **failing}
        result = husk(["run", *options, "--", "sh", "-c", WORK], env=env, timeout=120)
    count, _, failed = (place / "log").read_text().split("\n", 1)[0].partition(" ")
    where = f"call {at} ({failed}) fails with {errno.errorcode.get(number, 'nothing')}: {result}"
    assert "Traceback" not in result.err, where
    assert set(result.out.split("\n")) <= {"x", "end", ""}, where
    assert result.status in (0, 125, 126, 127), where
    if result.status >= 125:
        assert result.err.startswith("husk: ") or "sh: " in result.err, where
    assert (place / "beside" / "file").read_text() == "nobody's business\n"
    assert {path.name for path in (place / "work").iterdir()} <= {"out", "done"}, where
    assert str(place / "state") not in Path("/proc/self/mountinfo").read_text(), where
    # What that run could not remove, the next one does.
    after = husk(["run", "--", "true"], env={"HUSK_STATE": str(place / "state")})
    assert (after.status, after.err) == (0, ""), where
    assert os.listdir(place / "state") == [], where
    return int(count), failed


@pytest.mark.parametrize(
    ("options", "where", "said"),
    [
        (("--limit", "cpu=60"), "start_new_thread in", "husk: the host fails husk: no more threads."),
        (("--limit", "cpu=60"), "open in husk.sandbox.limits.memory_use", "husk: the host fails husk: No space left"),
        (("--limit", "cpu=60"), "pread in husk.kernel.exec.program", "husk: /usr/bin/sh: cannot be executed"),
        (("--keep", "box"), "write in husk.sandbox.kept.kept_boxes.write", "husk: the box 'box' cannot be kept"),
        (("--keep", "box"), "open in husk.store.layout.write_file", "husk: the host fails husk: No space left"),
    ],
    ids=["thread", "meter", "program", "record", "running"],
)
def test_where_something_was_left(
    place: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], where: str, said: str
) -> None:
    """Control groups, layers and half-made boxes."""
    failing = {"HUSK_FAIL_AT": where, "HUSK_FAIL_WITH": str(errno.ENOSPC), "HUSK_FAIL_LOG": str(place / "log")}
    env = {"HUSK_STATE": str(place / "state"), **failing}
    with monkeypatch.context() as patch:
        patch.setenv("HUSK_CMD", f"{sys.executable} {PROGRAM}")
        command = ["run", *options, "--", "sh", "-c", "echo x >kept"]
        with husk_process(command, env=env, stdin=PIPE, stdout=PIPE, stderr=PIPE) as running:
            result = finish(running.process, "husk", b"", 60)
    assert result.err.startswith(said) and result.err.count("\n") == 1, result
    assert result.status in (125, 126), result
    left = {str(path.relative_to(place / "state")) for path in (place / "state").rglob("*")}
    assert left <= {"kept", "layers", "kept.lock"} and groups(running.process.pid) == [], "something was left behind"


# In parts, so that each ends in time and every failure is reported.
PARTS = 16 if ALL else 1


@pytest.mark.timeout(1800 if ALL else 120)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("turn", range(len(ERRNOS) if ALL else 1))
def test_every_so_often(place: Path, monkeypatch: pytest.MonkeyPatch, turn: int, part: int) -> None:
    count, failed = fails(place, monkeypatch, 0, 0)
    assert count > 100 and not failed, "the host was not asked through what this test puts in between"
    places = range(1 + part, count + 1, PARTS) if ALL else [count * step // PLACES + 1 for step in range(PLACES)]
    wrong = []
    for step, at in enumerate(places):
        try:
            made, failed = fails(place, monkeypatch, at, ERRNOS[(step + turn) % len(ERRNOS)])
            assert failed or made < at, "a call was to fail and did not"
        except AssertionError as error:
            wrong.append(str(error).split("\n", 1)[0])
            shutil.rmtree(place / "state")  # leftovers are reported once
            (place / "state").mkdir()
    assert not wrong, "\n".join(wrong)
