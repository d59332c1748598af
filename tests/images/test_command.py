"""`husk image` as people meet it: output, JSON, exit codes, one sentence for what went wrong."""

from __future__ import annotations

import io
import json
import os
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from husk.cli.cmd_image import main
from husk.store.store import Store
from tests.images.archives import CONFIG, Layout, folder, member, saved, tar
from tests.lib.running import husk_command


class Done:
    """One command: what it wrote."""

    def __init__(self, stdout: str, stderr: str) -> None:
        self.stdout, self.stderr = stdout, stderr


def image(store: Store, *words: str, code: int = 0) -> Done:
    """In this process: starting Python for each of these would be most of the time."""
    # With a byte stream beneath: an archive goes to standard output as bytes.
    out, err = io.TextIOWrapper(io.BytesIO(), write_through=True), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        assert main([*words, "--store", store.place]) == code, (words, err.getvalue())
    done = Done(out.buffer.getvalue().decode("utf-8", "replace"), err.getvalue())
    assert code or done.stderr == "", done.stderr
    if code:
        assert done.stderr.startswith("husk image: ") and done.stderr.count("\n") == 1, done.stderr
    return done


def document(store: Store, *words: str) -> Any:
    return json.loads(image(store, *words, "--json").stdout)


@pytest.fixture
def archive(tmp_path: Path) -> str:
    (tmp_path / "web.tar").write_bytes(saved(tar(folder("a"), member("a/b", content=b"x")), tags=["web:1"]))
    return str(tmp_path / "web.tar")


def test_the_life_of_an_image(store: Store, archive: str, tmp_path: Path) -> None:
    assert document(store, "import", archive)["image"] == "web:1"
    assert image(store, "tag", "web:1", "mine/web").stdout == "web:1 is mine/web too\n"
    assert [one["name"] for one in document(store, "ls")] == ["mine/web", "web:1"]
    assert image(store, "ls").stdout.count("1 layer") == 2
    found = document(store, "inspect", "mine/web")
    assert (found["files"], found["directories"], found["bytes"]) == (1, 2, 1)
    assert found["config"]["cmd"] == CONFIG["Cmd"] and found["config"]["env"]["PATH"] == "/bin"
    assert "cmd         ['x', 'y']" in image(store, "inspect", "mine/web").stdout
    out = str(tmp_path / "out.tar")
    assert document(store, "export", "web:1", out, "--format", "oci")["bytes"] > 0
    assert document(store, "import", out, "--name", "again")["layers"] == found["layers"]
    assert image(store, "rm", "web:1", "again").stdout.startswith("removed web:1\nremoved again\n")
    assert [one["name"] for one in document(store, "ls")] == ["mine/web"]


def test_to_standard_output(store: Store, archive: str, tmp_path: Path) -> None:
    image(store, "import", archive)
    command = [*husk_command(), "image", "export", "web:1", "-", "--store", store.place]
    done = subprocess.run(command, capture_output=True, timeout=60)
    image(store, "export", "web:1", str(tmp_path / "file.tar"))
    assert done.stdout == (tmp_path / "file.tar").read_bytes() and len(done.stdout) == 10240


def test_mistakes(store: Store, archive: str, tmp_path: Path) -> None:
    image(store, "import", archive)
    for words, why in (
        (["import", str(tmp_path / "none")], "does not exist; name a directory or an archive"),
        (["import", "/dev/null", "--name", "x"], "neither directory nor file"),
        (["import", archive, "--name", "../x"], "cannot name an image"),
        (["import", archive, "--ref", "other"], "there is no image 'other' in it (web:1); choose one with --ref"),
        (["inspect", "none"], "there is no image 'none'"),
        (["tag", "none", "new"], "there is no image 'none'"),
        (["tag", "web:1", "x/.."], "cannot name an image"),
        (["rm", "web:1", "none"], "there is no image 'none'"),
        (["export", "web:1", archive], "is there already; name another"),
        (["export", "none", str(tmp_path / "x")], "there is no image 'none'"),
        (["export", "web:1", "-", "--format", "oci"], "only --format tar"),
        (["build", str(tmp_path / "none")], "No such file or directory; docs/images.md shows a build file"),
    ):
        assert why in image(store, *words, code=2).stderr, words
        assert why in json.loads(image(store, *words, "--json", code=2).stdout)["error"]
    assert store.images.list() == ["web:1"]  # rm took none, since one was wrong


def test_a_refusal_is_no_mistake_of_the_person(store: Store, tmp_path: Path) -> None:
    (tmp_path / "bad.tar").write_bytes(tar(member("../x")))
    done = image(store, "import", str(tmp_path / "bad.tar"), code=1)
    assert done.stderr == "husk image: the archive is refused at '../x': its name leads out of the archive.\n"
    assert os.listdir(tmp_path / "..") and not (tmp_path.parent / "x").exists()


def test_limits_can_be_raised(store: Store, tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar(*(folder(f"d{number}") for number in range(10))))
    words = ["import", "--data", str(tmp_path / "a.tar")]
    assert "--max-entries" in image(store, *words, "--max-entries", "5", code=1).stderr
    assert "--max-bytes" in image(store, *words, "--max-bytes", "1k", code=1).stderr
    image(store, *words, "--max-entries", "10", "--max-bytes", "1m")


def test_what_is_left_out_is_said(store: Store, tmp_path: Path) -> None:
    layout = Layout(tmp_path / "oci")
    plain = tar(member("dev/null", b"3"), member("dev/zero", b"3"))
    layout.index(layout.image((plain, plain)))
    words = ["import", str(layout.place), "--name", "x"]
    assert "left out, since a box has its own: dev/null and 1 more\n" in image(store, *words).stdout
    assert "left out, a device: dev/zero\n" in image(store, *words, "--show-left-out").stdout
    assert document(store, *words)["left_out"][0] == {"path": "dev/null", "why": "a device"}
