"""The pytest plugin, in a pytest of its own: what a marked test starts runs in a box, and nothing slips past it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import husk

TESTS = """
import asyncio, os, subprocess, sys
import pytest

pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.husk
def test_in_a_box(tmp_path):
    words = "cat /etc/shadow; echo made > f; cat beside.txt"
    done = subprocess.run(["sh", "-c", words], capture_output=True, text=True)
    assert "No such file" in done.stderr and "Read-only" in done.stderr
    assert done.stdout == "of the project\\n"
    done = subprocess.run("echo made > f", shell=True, cwd=tmp_path)
    assert (tmp_path / "f").read_text() == "made\\n"


@pytest.mark.husk
def test_as_subprocess_does():
    where = subprocess.check_output([sys.executable, "-c", "import os; print(os.getcwd())"], text=True)
    assert where.strip() == os.getcwd()
    with pytest.raises(subprocess.CalledProcessError) as error:
        subprocess.run(["sh", "-c", "exit 3"], check=True)
    assert error.value.returncode == 3
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(["sleep", "60"], timeout=0.2)
    with pytest.raises(FileNotFoundError):
        subprocess.run(["nonesuch"])
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.poll() is None
        assert process.communicate(b"through")[0] == b"through"
    assert process.returncode == 0
    assert subprocess.run(["printenv", "NAME"], env={"NAME": "x"}, capture_output=True).stdout == b"x\\n"
    assert subprocess.run(["printenv", "HUSK_OUTSIDE"]).returncode == 1


@pytest.mark.husk
def test_nothing_slips_past():
    with pytest.raises(RuntimeError, match="outside the box"):
        os.system("true")

    async def start():
        await asyncio.create_subprocess_exec("true")

    with pytest.raises(RuntimeError, match="outside the box"):
        asyncio.run(start())
    for option in ({"executable": "/bin/sh"}, {"preexec_fn": print}, {"pass_fds": (1,)}, {"user": 0}):
        with pytest.raises(ValueError, match="means nothing in a box"):
            subprocess.run(["true"], **option)
    with pytest.raises(TypeError):
        subprocess.Popen(["true"], -1, "/bin/sh")


@pytest.mark.husk(project=None, limits={"file-size": "1K"}, env={"GIVEN": "1"})
def test_options(husk_box):
    assert not husk_box.exists(os.getcwd())
    assert subprocess.check_output("echo $GIVEN; pwd", shell=True, text=True) == "1\\n/workspace\\n"
    assert subprocess.run("head -c 4096 /dev/zero > big", shell=True).returncode != 0
    assert [change.path for change in husk_box.diff()] == ["/workspace/big"]


def test_outside():
    assert subprocess.run(["printenv", "HUSK_OUTSIDE"], capture_output=True).stdout == b"yes\\n"


@pytest.mark.husk(nonesuch=1)
def test_unknown_option():
    pass


@pytest.mark.husk
def test_fails():
    assert subprocess.run(["cat", "/etc/shadow"]).returncode == 0
"""


def test_marked_tests_run_in_boxes(tmp_path: Path) -> None:
    (tmp_path / "test_marked.py").write_text(TESTS)
    (tmp_path / "beside.txt").write_text("of the project\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    source = str(Path(husk.__file__).resolve().parents[1])
    environment = os.environ | {
        "PYTHONPATH": source,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # the installed plugin is this one
        "HUSK_OUTSIDE": "yes",
        "HUSK_STATE": str(tmp_path / "state"),
    }
    words = [sys.executable, "-m", "pytest", "-p", "husk.pytest_plugin", "-p", "no:cacheprovider", "--strict-markers"]
    done = subprocess.run([*words, "-q"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=110)
    assert "1 failed, 5 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert "mark.husk takes" in done.stdout and "nonesuch" in done.stdout
    # A failure shows what was refused.
    assert "Captured husk call" in done.stdout and "/etc/shadow: nothing is mounted there" in done.stdout
    left = list((tmp_path / "state").glob("box-*"))
    assert left == []
