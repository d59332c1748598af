"""What is measured: the host itself, husk, and the sandboxes that people use instead; how each runs a command.

Every sandbox shows the host's own tree at its own paths and lets the command write below one directory, the place.
That is the least work for each of them, and the same work for all. One that is not there, or that does not start here,
says why.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from measure import BUILD, ENVIRONMENT, HERE, Command

PEERS = BUILD / "peers"  # what comes from package indexes; install_peers.py fills it
PEER_PYTHON = str(PEERS / "venv" / "bin" / "python")
SRT = PEERS / "node_modules" / "@anthropic-ai" / "sandbox-runtime"
PROGRAM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


class Subject:
    """One column: its name, its version, and the command that runs a command in it."""

    def __init__(self, name: str, version: str, wrap: Callable[[Command], Command], missing: str = "") -> None:
        self.name, self.version, self.wrap, self.missing = name, version, wrap, missing


class Place:
    """The directory that commands work in, and beside it what sandboxes keep for themselves."""

    def __init__(self, root: Path) -> None:
        self.root, self.home = root, root.with_name(root.name + ".home")
        self.root.mkdir(mode=0o755)
        self.home.mkdir(mode=0o755)
        self.made = 0
        # The place itself may not hold the state of a box: no guest may reach that.
        ENVIRONMENT.update(HOME=str(self.home), HUSK_STATE=str(self.home / "husk"), XDG_RUNTIME_DIR=str(self.home))

    def fresh(self) -> str:
        """A name in the place that was not used before. Nothing is removed until the end: ext4 looks at every inode
        that was freed in the last minutes before it gives out a new one."""
        self.made += 1
        return str(self.root / f"new{self.made}")

    def remove(self) -> None:
        for directory in (self.root, self.home):
            subprocess.run(["chmod", "-R", "u+w", str(directory)], stderr=subprocess.DEVNULL, check=False)
            shutil.rmtree(directory, ignore_errors=True)


def find_subjects(husk: Command, place: Place) -> list[Subject]:
    """All columns in the order of the table."""
    found = [Subject("native", os.uname().release, list)]
    found += [bubblewrap(), sandbox_runtime(place), nono(place), runc(place), runsc(), sandlock(place), proot()]
    return [*found, *husk_subjects(husk, place)]


def husk_subjects(husk: Command, place: Place) -> list[Subject]:
    version = first_line([*husk, "--version"])

    def subject(mode: str) -> Subject:
        start = [*husk, "run", "--mount", f"{place.root}:{place.root}:{mode}", "--mount", f"{BUILD}:{BUILD}:ro", "--"]
        return Subject(f"husk {mode}", version, lambda command: [*start, *command])

    return [subject("rw"), subject("cow")]


def program(name: str, version: Command, wrap: Callable[[Command], Command]) -> Subject:
    path = shutil.which(name, path=PROGRAM_PATH)
    if path is None:
        return Subject(name, "", list, "not installed")
    return Subject(name, first_line([path, *version]), lambda command: [path, *wrap(command)])


def bubblewrap() -> Subject:
    return program("bwrap", ["--version"], lambda command: ["--unshare-all", "--dev-bind", "/", "/", "--", *command])


def proot() -> Subject:
    return program("proot", ["--version"], list)


def runsc() -> Subject:
    # No overlay: what it wrote would be in memory, where the others write to disk.
    flags = ["--rootless", "--network=none", "--ignore-cgroups", "do", "-force-overlay=false"]
    return program("runsc", ["--version"], lambda command: [*flags, *command])


def runc(place: Place) -> Subject:
    """A bundle for each command, because the command is part of it; written before the clock starts."""
    made = 0

    def wrap(command: Command) -> Command:
        nonlocal made
        made += 1
        bundle = place.home / f"bundle{made}"
        (bundle / "rootfs").mkdir(parents=True)
        subprocess.run(["runc", "spec", "--rootless"], cwd=bundle, env={"PATH": PROGRAM_PATH}, check=True)
        file = bundle / "config.json"
        spec = json.loads(file.read_text())
        spec["process"] |= {"args": command, "terminal": False, "cwd": "/"}
        spec["process"]["env"] = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
        spec["root"] = {"path": "rootfs", "readonly": False}
        shown = [name for name in ("usr", "etc", "opt", "tmp", "proc", "dev", "bin", "lib", "lib64") if exists(name)]
        shown += [str(BUILD.relative_to("/"))]
        spec["mounts"] = [
            {"destination": f"/{name}", "type": "none", "source": os.path.realpath(f"/{name}"), "options": ["rbind"]}
            for name in shown
        ]
        spec["linux"] |= {"maskedPaths": [], "readonlyPaths": []}
        spec["linux"].pop("resources", None)
        file.write_text(json.dumps(spec))
        return ["--root", str(place.home / "runc"), "run", "--bundle", str(bundle), f"bench{os.getpid()}-{made}"]

    return program("runc", ["--version"], wrap)


def sandlock(place: Place) -> Subject:
    return python_peer("sandlock", "sandlock", "run_sandlock.py", place)


def nono(place: Place) -> Subject:
    return python_peer("nono", "nono-py", "run_nono.py", place)


def python_peer(name: str, package: str, script: str, place: Place) -> Subject:
    asked = f"import importlib.metadata as m; print(m.version({package!r}))"
    version = first_line([PEER_PYTHON, "-c", asked])
    start = [PEER_PYTHON, str(HERE / script), str(place.root)]
    return Subject(name, version, lambda command: [*start, *command], "" if version else "not installed")


def sandbox_runtime(place: Place) -> Subject:
    node, package = shutil.which("node", path=PROGRAM_PATH), SRT / "package.json"
    if node is None or not package.exists():
        return Subject("srt", "", list, "not installed" if node else "needs node")
    described = json.loads(package.read_text())
    settings = place.home / "srt.json"
    rules = {"denyRead": [], "allowWrite": [str(place.root), "/tmp"], "denyWrite": []}
    settings.write_text(json.dumps({"network": {"allowedDomains": [], "deniedDomains": []}, "filesystem": rules}))
    # As one line for its shell: it does not quote the words of a command.
    start = [node, str(SRT / described["bin"]["srt"]), "-s", str(settings), "-c"]
    return Subject("srt", described["version"], lambda command: [*start, shlex.join(command)])


def exists(name: str) -> bool:
    return os.path.exists(f"/{name}")


def first_line(command: Command) -> str:
    """The version in what a command prints first; empty if it does not run."""
    try:
        text = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    number = re.search(r"\d+\.\d[\w.~+-]*", text)
    return number[0] if number else text.strip().partition("\n")[0]


def husk_command() -> Command:
    return [f"{sys.prefix}/bin/husk"]
