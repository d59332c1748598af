"""Files and directories into a box and out of it, removing them, and applying some of the changes."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

import husk
from tests.lib.running import scratch


def tree(top: Path) -> None:
    (top / "d" / "empty").mkdir(parents=True)
    (top / "run").write_text("#!/bin/sh\necho ran\n")
    (top / "run").chmod(0o755)
    (top / "d" / "f").write_bytes(bytes(range(256)) * 1000)
    os.utime(top / "d" / "f", ns=(10**18, 10**18 + 5))
    (top / "d" / "link").symlink_to("../run")
    os.mkfifo(top / "d" / "fifo")


def test_a_directory_goes_in_and_comes_out(box: husk.Sandbox, tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    tree(source)
    copied = box.copy_in(source, "new/place")
    assert copied.files == ["d/f", "d/link", "run"] and copied.left == ["d/fifo: a FIFO"]
    look = "new/place/run; readlink new/place/d/link; stat -c %Y new/place/d/f"
    assert box.run(look, shell=True, capture_output=True).stdout == b"ran\n../run\n1000000000\n"
    assert box.read("new/place/d/f") == (source / "d" / "f").read_bytes() and box.listdir("new/place/d/empty") == []
    box.copy_in(source / "d", "new/place/d")  # once more: replaced
    copied = box.copy_out("new/place", out)
    assert copied.files == ["d/f", "run"] and copied.left == ["d/link: a link"]
    assert os.access(out / "run", os.X_OK) and (out / "d/empty").is_dir()
    assert (out / "d/f").stat().st_mtime_ns == 10**18 + 5
    assert box.copy_out("new/place", out, links=True).files == ["d/f", "d/link", "run"]
    assert os.readlink(out / "d/link") == "../run"


def test_single_files(box: husk.Sandbox, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    assert box.copy_in(tmp_path / "a", "b").files == ["a"] and box.read("b", text=True) == "one"
    box.copy_in(tmp_path / "a")
    assert box.read("a", text=True) == "one"
    assert box.copy_out("b", tmp_path / "c").files == ["b"] and (tmp_path / "c").read_text() == "one"
    box.copy_out("b", tmp_path)
    assert (tmp_path / "b").read_text() == "one"
    with pytest.raises(FileNotFoundError):
        box.copy_in(tmp_path / "nothing", "x")
    with pytest.raises(FileNotFoundError):
        box.copy_out("nothing", tmp_path / "x")
    with pytest.raises(OSError, match="not a regular file"):
        box.copy_in("/dev/null", "x")


def test_links_lead_no_copy_astray(box: husk.Sandbox) -> None:
    """A guest that can choose what is copied chooses no place on the host."""
    with scratch() as out, scratch() as elsewhere:
        box.run(f"mkdir -p t; ln -s {elsewhere} t/d; ln -s {elsewhere}/f t/f", shell=True, check=True)
        box.copy_out("t", out / "t", links=True)
        box.run("rm t/d t/f; mkdir t/d; echo guest > t/d/f; echo guest > t/f", shell=True, check=True)
        with pytest.raises(OSError):
            box.copy_out("t", out / "t")
        assert list(elsewhere.iterdir()) == []
        box.run("rm -r t/d", shell=True, check=True)
        box.copy_out("t", out / "t")
        assert list(elsewhere.iterdir()) == [] and (out / "t/f").read_text() == "guest\n"
        # Neither does what a guest put into a directory of the host.
        (elsewhere / "secret").write_text("host only")
        (out / "link").symlink_to(elsewhere)
        box.copy_in(out, "in")
        assert box.stat("in/link", follow=False).mode & 0o170000 == 0o120000 and not box.exists("in/link/secret")


def test_set_id_bits_stay_inside(box: husk.Sandbox, tmp_path: Path) -> None:
    box.run("echo > f; chmod 6755 f", shell=True, check=True)
    box.copy_out("f", tmp_path / "f")
    assert (tmp_path / "f").stat().st_mode & 0o7000 == 0


def test_removing(box: husk.Sandbox) -> None:
    box.run("mkdir -p a/b/c; echo > a/f; ln -s / a/b/root; echo > g; mkdir e; ln -s a l", shell=True, check=True)
    box.remove("g")
    box.remove("e")
    with pytest.raises(OSError, match="not empty"):
        box.remove("a")
    box.remove("l", recursive=True)  # the link alone
    assert box.exists("a/f")
    box.remove("a", recursive=True)
    assert box.listdir() == [] and box.exists("/usr/bin")
    box.remove("a", missing_ok=True, recursive=True)
    with pytest.raises(FileNotFoundError):
        box.remove("a")
    with pytest.raises(OSError):
        box.remove("/proc/version")


def test_applying_some_of_the_changes() -> None:
    with scratch() as project:
        (project / "old").write_text("old")
        with husk.Sandbox(mounts=[f"{project}:/work:cow"], cwd="/work") as box:
            box.run("echo new > new; echo also > also; rm old", shell=True, check=True)
            told = box.apply(paths=["new", Path("/work/old")], dry_run=True)
            assert sorted(change.path for change in told.changes) == ["/work/new", "/work/old"]
            assert box.apply(paths=["new"]).changes == [husk.Change("added", "/work/new")]
            assert sorted(path.name for path in project.iterdir()) == ["new", "old"]
            (project / "also").write_text("the host's")
            with pytest.raises(husk.Conflict):
                box.apply()
            box.apply(prefer="theirs")
        assert {path.name: path.read_text() for path in project.iterdir()} == {"new": "new\n", "also": "also\n"}


def test_the_same_for_an_event_loop(tmp_path: Path) -> None:
    async def main() -> None:
        (tmp_path / "d").mkdir()
        (tmp_path / "d" / "f").write_text("x")
        async with husk.AsyncSandbox() as box:
            assert (await box.copy_in(tmp_path / "d", "d")).files == ["f"]
            await box.symlink("f", "d/l")
            assert await box.readlink("d/l") == "f" and (await box.stat("d/l")).size == 1
            assert (await box.copy_out("d", tmp_path / "o")).left == ["l: a link"]
            await box.remove("d", recursive=True)
            assert await box.listdir() == []

    asyncio.run(main())
