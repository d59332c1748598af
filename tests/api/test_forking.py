"""Snapshots and forks of an open box, and its changes written back to the host."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import husk

SCRIPT = """
import os, signal, sys
import husk
from husk.sandbox.apply import journal as apply_journal

rename, left = apply_journal.rename_with_flags, [int(sys.argv[2])]

def killed(*args):
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1
    rename(*args)

apply_journal.rename_with_flags = killed
with husk.Sandbox(mounts=[sys.argv[1] + ":/p:cow"]) as box:
    box.run("rm /p/a; echo changed > /p/b; echo new > /p/c", shell=True, check=True)
    box.apply()
"""


def sh(box: husk.Sandbox, text: str) -> str:
    return str(box.run(text, shell=True, check=True, capture_output=True, text=True).stdout)


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


def state() -> Path:
    return Path(os.environ["HUSK_STATE"])


def large_files() -> set[int]:
    """The host files that hold large contents, of all boxes."""
    return {path.stat().st_ino for path in state().glob("**/files/*") if path.stat().st_size >= 1_000_000}


def test_a_fork_has_everything_and_shares_nothing(box: husk.Sandbox) -> None:
    sh(box, "mkdir -m 700 d; echo one > d/f; ln d/f hard; ln -s d/f soft; mkfifo p; echo gone > x; rm x; touch -d @5 t")
    look = "ls -li --time-style=+%s . d | grep -v ^total; cat soft hard; stat -c %h hard"
    before, changes = sh(box, look), box.diff()
    with box.fork() as other:
        assert sh(other, look) == before == sh(box, look)
        assert other.diff() == box.diff() == changes
        sh(other, "echo two > d/f; rm t")
        sh(box, "echo three >> hard; mkdir e")
        assert (other.read("hard"), box.read("d/f")) == (b"two\n", b"one\nthree\n")
        assert box.exists("t") and not other.exists("t") and not other.exists("e")
        with other.fork() as third, third.fork() as fourth:
            assert fourth.read("hard") == b"two\n"
    assert sh(box, "cat hard") == "one\nthree\n"


def test_of_an_idle_box_nothing_is_copied(box: husk.Sandbox) -> None:
    box.write("big", b"x" * 5_000_000)
    files = large_files()
    assert len(files) == 1
    with box.fork() as other, box.fork() as third:
        assert other.read("big") == third.read("big") == b"x" * 5_000_000
        assert large_files() == files
        other.write("big", b"y", append=True)
        assert len(large_files()) == 2 and box.read("big") == b"x" * 5_000_000


def test_a_program_that_goes_on_writing_does_not_reach_the_fork(box: husk.Sandbox) -> None:
    script = "echo early > f; exec 3>>f; echo; read go; echo late >&3; echo; read go"
    with box.popen(["sh", "-c", script], stdin=husk.PIPE, stdout=husk.PIPE, text=True) as writer:
        assert writer.stdin is not None and writer.stdout is not None
        writer.stdout.readline()
        with box.fork() as other:
            writer.stdin.write("go\n")
            writer.stdout.readline()
            assert (box.read("f"), other.read("f")) == (b"early\nlate\n", b"early\n")
            assert other.run(["sh", "-c", "echo mine >> f"]).returncode == 0
            assert box.read("f") == b"early\nlate\n"


def test_a_snapshot_outlives_its_box() -> None:
    with husk.Sandbox(env={"WHO": "me"}, limits={"disk-files": 1000}) as box:
        sh(box, "echo 1 > f")
        snapshot = box.snapshot()
        sh(box, "echo 2 > f")
        assert box.read("f") == b"2\n"
    with snapshot:
        for _ in range(2):
            with snapshot.open() as again:
                assert sh(again, "cat f; echo $WHO") == "1\nme\n"
                sh(again, "echo 3 > f")
        last = snapshot.open()
    with pytest.raises(ValueError, match="closed"):
        snapshot.open()
    with last:
        assert sh(last, "cat f") == "1\n"


def test_hooks_go_along() -> None:
    with husk.Sandbox() as box:
        box.write("secret", "s")

        @box.on("openat")
        def refuse(call: husk.Seen) -> None:
            if call.path == "secret":
                raise PermissionError

        with box.fork() as other:
            done = other.run(["cat", "secret"], capture_output=True)
            assert done.returncode == 1 and "secret" in done.denials[0].what


def test_of_an_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUSK_STORE", str(tmp_path / "store"))
    with husk.Sandbox() as box:
        sh(box, "echo one > f")
        box.commit("base")
    with husk.Sandbox("base") as box:
        sh(box, "echo more > g; rm f")
        box.commit("both")  # upon the host's own programs, so one layer of two
        with box.fork() as other:
            assert other.listdir() == ["g"]
    with husk.Sandbox("both") as box:
        assert box.listdir() == ["g"] and box.diff() == []


def test_a_fork_can_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUSK_STATE", str(tmp_path / "kept"))
    with husk.Sandbox(keep="first") as box:
        sh(box, "echo 1 > f; echo same > g")
        with box.fork(keep="second") as other:
            sh(other, "echo 2 > f")
        sh(box, "echo 3 > f")
        with pytest.raises(husk.UsageError, match="second"):
            box.fork(keep="second")
        with pytest.raises(husk.UsageError, match="in use"):
            box.fork(keep="first")
        with box.snapshot():
            pass  # at the end the box has settled and nothing was built since
    for name, text in (("first", "3\nsame\n"), ("second", "2\nsame\n")):
        with husk.Sandbox(keep=name) as box:
            assert sh(box, "cat f g") == text


def test_apply_is_all_or_nothing(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a").write_text("one\n")
    (project / "b").write_text("two\n")
    with husk.Sandbox(mounts=[f"{project}:/p:cow"]) as box:
        sh(box, "echo more >> /p/a; rm /p/b; mkdir /p/d; echo new > /p/d/c; echo own > f")
        planned = box.apply(dry_run=True)
        assert {(one.kind, one.path) for one in planned.changes} == {
            ("changed", "/p/a"),
            ("deleted", "/p/b"),
            ("added", "/p/d"),
        }
        assert (project / "b").exists()
        with box.fork() as other:
            with box.popen(["sleep", "100"]) as running:
                with pytest.raises(husk.UsageError, match="runs in the box"):
                    box.apply()
                running.kill()
            assert box.apply() == planned and planned.directory == str(project)
            assert (project / "a").read_text() == "one\nmore\n" and (project / "d" / "c").read_text() == "new\n"
            assert not (project / "b").exists()
            assert [one.path for one in box.diff()] == ["/workspace/f"] and box.apply().changes == []
            (project / "a").write_text("somebody else\n")
            with pytest.raises(husk.Conflict, match="a: changed on the host"):
                other.apply("/p")
            assert sh(other, "cat /p/a /p/d/c f") == "one\nmore\nnew\nown\n"
        assert sh(box, "cat /p/a; echo last > /p/a; cat f") == "somebody else\nown\n"
        box.apply()
    assert (project / "a").read_text() == "last\n"


def test_apply_says_what_it_needs(tmp_path: Path) -> None:
    mounts = [f"{tmp_path}:/x:cow", f"{tmp_path}:/y:cow", f"{tmp_path}:/z"]
    with husk.Sandbox(mounts=mounts) as box:
        with pytest.raises(husk.UsageError, match="say which: /x, /y"):
            box.apply()
        with pytest.raises(husk.UsageError, match="no cow mount at /z"):
            box.apply("/z")
        assert box.apply("/x").changes == []
    with pytest.raises(ValueError, match="closed"):
        box.apply("/x")


def test_a_kept_box_that_was_applied_has_nothing_left_to_apply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUSK_STATE", str(tmp_path / "kept"))
    project = tmp_path / "project"
    project.mkdir()
    with husk.Sandbox(keep="work", mounts=[f"{project}:/p:cow"]) as box:
        sh(box, "echo 1 > /p/f; echo 2 > g")
        assert [one.path for one in box.apply().changes] == ["/p/f"]
    with husk.Sandbox(keep="work") as box:
        assert [one.path for one in box.diff()] == ["/workspace/g"] and sh(box, "cat /p/f g") == "1\n2\n"


@pytest.mark.parametrize("steps", [0, 2, 3])
def test_killed_while_it_applies(tmp_path: Path, steps: int) -> None:
    """The next husk of this user puts the host directory right."""
    project = tmp_path / "project"
    project.mkdir()
    for name in ("a", "b"):
        (project / name).write_text(name)
    whole = contents(project)
    words = [sys.executable, "-c", SCRIPT, str(project), str(steps)]
    done = subprocess.run(words, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, timeout=120)
    assert done.returncode == -signal.SIGKILL
    with husk.Sandbox() as box:
        box.snapshot().close()  # collects what it left
        assert contents(project) == whole


def test_awaited(tmp_path: Path) -> None:
    async def main() -> None:
        async with husk.AsyncSandbox(mounts=[f"{tmp_path}:/p:cow"]) as box:
            await box.write("/p/f", "1")
            async with await box.fork() as other, await box.snapshot() as snapshot:
                await other.write("/p/f", "2")
                async with await snapshot.open() as third:
                    assert await third.read("/p/f") == await box.read("/p/f") == b"1"
                assert [one.path for one in (await other.apply()).changes] == ["/p/f"]

    asyncio.run(main())
    assert (tmp_path / "f").read_text() == "2"
