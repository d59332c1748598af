"""Calls `husk skill` as a person does, with state, cache and store of its own."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from husk.store.store import Store
from tests.lib import running

NO_BOX = ("inspect", "diff")  # they run nothing
HEAD = "---\nname: {name}\ndescription: For a test.\n---\n"


class Answer:
    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def husk_skill(
    place: Path,
    *arguments: str | Path,
    stdin: str = "",
    timeout: float = 100,
    more_env: dict[str, str] | None = None,
    kept: bool = False,
) -> Answer:
    """`place` holds state and cache, and is the working directory. In the bare setting boxes go without namespaces.
    `kept`: the box is to stay."""
    (place / "state").mkdir(exist_ok=True)
    keep = {key: value for key, value in os.environ.items() if key in ("PYTHONPATH", "PATH", "LANG")}
    env = keep | {"HOME": str(place), "HUSK_STATE": str(place / "state"), "HUSK_CACHE": str(place / "cache")}
    env |= {"HUSK_STORE": str(place / "store"), **(more_env or {})}
    words = [str(word) for word in arguments]
    if running.BARE in running.OPTIONS and words[0] not in NO_BOX and "--setting" not in words:
        words.insert(1, running.BARE)
    done = subprocess.run(
        [*running.husk_command(), "skill", *words],
        cwd=place,
        env=env,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert kept or not list((place / "state").iterdir()), "the box left state behind"
    assert "Traceback" not in done.stderr, done.stderr
    return Answer(done)


def husk_box(place: Path, *arguments: str | Path) -> Answer:
    """A command for kept boxes: `diff`, `apply`, `drop`."""
    env = os.environ | {"HOME": str(place), "HUSK_STATE": str(place / "state")}
    words = [*running.husk_command(), *map(str, arguments)]
    return Answer(subprocess.run(words, env=env, capture_output=True, text=True, timeout=100))


def make_skill(place: Path, name: str, files: dict[str, str], head: str = HEAD) -> Path:
    root = place / name
    for relative, text in {"SKILL.md": head.format(name=name), **files}.items():
        path = root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def refused(answer: Answer, text: str) -> None:
    """One sentence, exit code 2, and no sign of the script."""
    assert answer.code == 2 and answer.out == "", answer.err
    assert text in answer.err and "RAN" not in answer.err
    assert len([line for line in answer.err.splitlines() if line.startswith("husk skill:")]) == 1, answer.err


def layers_of(place: Path) -> list[str]:
    return [name for name in Store.open(str(place / "store")).images.list() if name.startswith("packages/")]


@contextmanager
def serving(folder: Path) -> Iterator[int]:
    """A web server on the host's loopback: its port."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
