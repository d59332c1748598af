"""Calls `husk skill` as a person does, with state and cache of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.guest import running

HEAD = "---\nname: {name}\ndescription: For a test.\n---\n"


class Answer:
    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def husk_skill(place: Path, *arguments: str | Path, stdin: str = "", timeout: float = 100) -> Answer:
    """`place` holds state and cache, and is the working directory. In the bare setting boxes go without namespaces."""
    (place / "state").mkdir(exist_ok=True)
    keep = {key: value for key, value in os.environ.items() if key in ("PYTHONPATH", "PATH", "LANG")}
    env = keep | {"HOME": str(place), "HUSK_STATE": str(place / "state"), "HUSK_CACHE": str(place / "cache")}
    words = [str(word) for word in arguments]
    if running.BARE in running.OPTIONS and words[0] != "inspect":
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
    assert not list((place / "state").iterdir()), "the box left state behind"
    assert "Traceback" not in done.stderr, done.stderr
    return Answer(done)


def make_skill(place: Path, name: str, files: dict[str, str], head: str = HEAD) -> Path:
    root = place / name
    for relative, text in {"SKILL.md": head.format(name=name), **files}.items():
        path = root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root
