"""docs/howto/use-a-notebook-kernel.md: a kernel in a box. With Jupyter's own client and ipykernel where they are
installed, and everywhere with a stand-in for ipykernel that answers at each of the five ports."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from husk.cli.agents.own_command import own_command
from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import BARE, scratch, until
from tests.recipes.pages import commands, husk

PAGE = "use-a-notebook-kernel.md"
PORTS = ("shell_port", "iopub_port", "stdin_port", "hb_port", "control_port")
STAND_IN = """
import json, os, selectors, socket, sys
info = json.load(open(sys.argv[sys.argv.index("-f") + 1]))
chosen = selectors.DefaultSelector()
for name, port in info.items():
    if name.endswith("_port"):
        chosen.register(socket.create_server((info["ip"], port)), selectors.EVENT_READ, name)
while True:
    for key, _ in chosen.select():
        there, _ = key.fileobj.accept()
        with there:
            there.sendall(f"{key.data} {sorted(os.listdir())}".encode())
            if key.data == "control_port":
                sys.exit(3)
"""
pytestmark = pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for")
jupyter = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("jupyter_client", "ipykernel"))),
    reason="jupyter_client and ipykernel are not installed",
)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with scratch() as found:
        (found / "state").mkdir(mode=0o700)
        (found / "notes").mkdir()
        (found / "notes" / "data.txt").write_text("data\n")
        monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
        for name, value in {"HOME": "", "HUSK_STATE": "state", "JUPYTER_DATA_DIR": "jupyter"}.items():
            monkeypatch.setenv(name, str(found / value))
        monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(found / "runtime"))
        yield found


def install(place: Path, *words: str) -> dict[str, Any]:
    """By the first command of the page."""
    ran = husk([*commands(PAGE)[0], "--python", sys.executable, "--json", *words], place)
    assert ran.returncode == 0, ran.stderr
    told: dict[str, Any] = json.loads(ran.stdout)
    return told


@pytest.mark.parametrize("bare", [False, True])
def test_the_five_ports_lead_into_the_box(place: Path, bare: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "modules").mkdir()
    (place / "modules" / "ipykernel.py").write_text("")
    (place / "modules" / "ipykernel_launcher.py").write_text(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", str(place / "modules"))
    shown = ["--mount", f"{place}/modules:/modules", "--env", "PYTHONPATH=/modules"]
    told = install(place, "--", *shown, *([BARE] if bare else []))
    assert Path(told["file"]) == place / "jupyter" / "kernels" / "husk" / "kernel.json"
    spec = json.loads(Path(told["file"]).read_text())
    assert (spec["language"], spec["interrupt_mode"]) == ("python", "message")
    ports = dict(zip(PORTS, free_ports(), strict=True))
    info = {"transport": "tcp", "ip": "127.0.0.1", "key": "k", **ports}
    (place / "connection.json").write_text(json.dumps(info))
    (place / "connection.json").chmod(0o600)
    words = [word.replace("{connection_file}", str(place / "connection.json")) for word in spec["argv"]]
    with subprocess.Popen(words, cwd=place / "notes") as kernel:
        try:
            for name in PORTS[:4]:
                assert until(lambda name=name: said(ports[name]) == f"{name} ['data.txt']"), name  # type: ignore[misc]
            said(ports["control_port"])
            assert kernel.wait(60) == 3
        finally:
            kernel.kill()


def test_no_module_of_the_project_runs_on_the_host(place: Path) -> None:
    (place / "ipykernel.py").write_text(f"open({str(place / 'ran')!r}, 'w')")
    husk([*commands(PAGE)[0], "--python", sys.executable], place)
    assert not (place / "ran").exists()


def test_a_package_of_the_project_is_not_taken_for_husk(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no file `husk` to call, it is called as a module."""
    (place / "husk").mkdir()
    (place / "husk" / "__init__.py").touch()
    (place / "husk" / "cli.py").write_text(f"open({str(place / 'ran')!r}, 'w')")
    real = sys.executable
    monkeypatch.setattr(sys, "argv", ["-m"])
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    _, *words = own_command()
    subprocess.run([real, *words, "--version"], cwd=place, capture_output=True, check=False)
    assert not (place / "ran").exists()


def free_ports() -> list[int]:
    """As Jupyter chooses them."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in PORTS]
    ports = [int(one.getsockname()[1]) for one in held]
    for one in held:
        one.close()
    return ports


def said(port: int) -> str:
    try:
        with socket.create_connection(("127.0.0.1", port), 60) as there:
            return there.makefile().read()
    except OSError:
        return ""


@pytest.mark.parametrize(
    ("info", "why"),
    [
        ({"transport": "ipc", "ip": "/tmp/k"}, "TCP ports of 127.0.0.1"),
        ({"ip": "0.0.0.0"}, "TCP ports of 127.0.0.1"),
        ({"ip": "127.0.0.1", "shell_port": 0}, "lacks ports"),
        ([], "is not JSON"),
    ],
)
def test_a_file_that_is_none(place: Path, info: object, why: str) -> None:
    (place / "c.json").write_text(json.dumps(info) if info else "x")
    ran = husk(["husk", "kernel", "run", "c.json"], place)
    assert ran.returncode == 2 and why in ran.stderr and ran.stderr.count("\n") == 1


def test_a_python_without_ipykernel(place: Path) -> None:
    ran = husk(["husk", "kernel", "install", "--python", "/usr/bin/true"], place)
    assert ran.returncode == 2 and "it has no ipykernel" in ran.stderr
    ran = husk(["husk", "kernel", "install", "--name", "../x"], place)
    assert ran.returncode == 2 and "--name" in ran.stderr


@jupyter
@pytest.mark.parametrize("bare", [False, True])
def test_a_notebook(place: Path, bare: bool) -> None:
    install(place, *(["--", BARE] if bare else []))
    manager = importlib.import_module("jupyter_client.manager").KernelManager(kernel_name="husk")
    manager.start_kernel(cwd=str(place / "notes"))
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=120)
        printed: list[str] = []

        def run(code: str) -> str:
            printed.clear()
            told = client.execute_interactive(
                code, timeout=60, output_hook=lambda message: printed.append(message["content"].get("text", ""))
            )
            return str(told["content"]["status"])

        assert run("print(open('data.txt').read(), end=''); open('new', 'w').write('x')") == "ok"
        assert "".join(printed) == "data\n"
        assert run("open('/etc/shadow')") == "error"
        client.execute("import time; print('go', flush=True); time.sleep(1000)")
        while not client.get_iopub_msg(timeout=60)["content"].get("text", "").startswith("go"):
            pass
        manager.interrupt_kernel()
        while client.get_shell_msg(timeout=60)["content"].get("ename") != "KeyboardInterrupt":
            pass  # answers to what ran before
        manager.restart_kernel(now=False)
        client.wait_for_ready(timeout=120)
        assert run("new") == "error"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=False)
    assert os.listdir(place / "notes") == ["data.txt"]
    assert not manager.is_alive()
