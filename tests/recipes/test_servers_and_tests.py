"""docs/howto/run-a-dev-server.md and test-pull-requests.md, followed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import BARE, husk_command, scratch, until
from tests.recipes.pages import blocks, commands, husk

SERVER, REQUESTS = "run-a-dev-server.md", "test-pull-requests.md"
pytestmark = pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for")


@pytest.fixture
def project(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with scratch() as place:
        (place / "state").mkdir(mode=0o700)
        (place / "project").mkdir()
        monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
        monkeypatch.setenv("HOME", str(place))
        monkeypatch.setenv("HUSK_STATE", str(place / "state"))
        yield place / "project"


@pytest.mark.parametrize("bare", [False, True])
def test_a_development_server(project: Path, bare: bool) -> None:
    (project / "husk.toml").write_text(blocks(SERVER, "toml")[0])
    (project / "page.txt").write_text("one\n")
    trust, start, ps, logs, execute, stop = commands(SERVER)
    assert husk([*trust, "--yes"], project).returncode == 0
    if bare:
        start.insert(2, BARE)
    try:
        started = husk(start, project)
        assert started.stdout == "my-site\n", started.stderr
        (port,) = re.findall(r"^husk: 127\.0\.0\.1:(\d+) leads to port 8000 of the box\.$", started.stderr, re.M)
        assert until(lambda: fetched(port) == "one\n")
        (project / "page.txt").write_text("two\n")  # as an editor saves
        assert until(lambda: fetched(port) == "two\n")
        assert f"127.0.0.1:{port}" in husk(ps, project).stdout
        assert "GET /page.txt" in husk(logs, project).stdout
        assert husk(execute, project).stdout == "husk.toml\npage.txt\n"
    finally:
        stopped = husk(stop, project)
    assert stopped.returncode == 0 and fetched(port) == ""


def fetched(port: str) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/page.txt", timeout=60) as page:
            return str(page.read().decode())
    except OSError:
        return ""


def test_a_pull_request(project: Path) -> None:
    script = project.parent / "test-pull-request.sh"
    script.write_text(blocks(REQUESTS, "sh")[0])
    (project / "test_it.py").write_text(
        "import pathlib, socket, pytest\n"
        "def test_good(): pathlib.Path('test_it.py').unlink()\n"
        "def test_evil():\n"
        "    with pytest.raises(OSError): socket.create_connection(('192.0.2.1', 80), 5)\n"
        "    assert not pathlib.Path.home().joinpath('secret').exists()\n"
        "def test_bad(): assert False\n"
    )
    (project.parent / "secret").write_text("x")
    path = f"{Path(husk_command()[0]).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PACKAGES": sys.prefix}

    ran = subprocess.run(
        ["sh", str(script), "-q"], cwd=project, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 1 and "1 failed, 2 passed" in ran.stdout, ran.stdout + ran.stderr
    assert (project / "test_it.py").exists()


def test_the_workflow_is_one() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    (workflow,) = blocks(REQUESTS, "yaml")
    found = yaml.safe_load(workflow)
    steps = found["jobs"]["tests"]["steps"]
    assert found["permissions"] == {"contents": "read"}
    assert found[True] == "pull_request"  # with the request's own, few rights; YAML reads `on` as true
    assert "test-pull-request.sh" in steps[-1]["run"] and "github.base_ref" in steps[-1]["run"]
