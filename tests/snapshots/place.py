"""A place of its own for each test: state, store, a project directory, and the commands that work on them."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

from tests.lib import running
from tests.lib.running import husk_command

GUESTS = Path(__file__).resolve().parent.parent / "guests"


class Place:
    """Everything below one directory that unprivileged guests can enter."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.state, self.store, self.project = top / "state", top / "store", top / "project"
        for path in (self.state, self.project):
            path.mkdir()

    def environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if key in ("PYTHONPATH", "PATH", "LANG")}
        return {**kept, "HOME": "/", "HUSK_STATE": str(self.state), "HUSK_STORE": str(self.store)}

    def start(self, *words: str, **more: str) -> subprocess.Popen[str]:
        command = [*husk_command(), *_with_options(words)]
        return subprocess.Popen(
            command,
            env=self.environment() | more,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="surrogateescape",
        )

    def call(self, *words: str, **more: str) -> tuple[int, str, str]:
        process = self.start(*words, **more)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def husk(self, *words: str) -> str:
        code, out, err = self.call(*words)
        assert code == 0, f"{words}: {code}\n{out}\n{err}"
        return out

    def refused(self, code: int, *words: str) -> str:
        """The one sentence that gives the reason."""
        found, out, err = self.call(*words)
        assert found == code, (found, out, err)
        assert err.count("\n") == 1 and err.endswith(".\n"), err
        return err

    def json(self, *words: str) -> Any:
        return json.loads(self.husk(*words, "--json"))

    def sh(self, name: str, script: str, *options: str) -> str:
        """A shell script in the kept box `name`."""
        return self.husk("run", "--keep", name, *options, "--", "sh", "-ec", script)

    def python(self, name: str, script: str, *options: str) -> str:
        return self.husk("run", "--keep", name, *options, "--", "python3", "-c", script)

    @property
    def cow(self) -> tuple[str, str]:
        return "--mount", f"{self.project}:/p:cow"

    def changes(self, name: str, *paths: str) -> list[tuple[str, str]]:
        return [(one["change"], one["path"]) for one in self.json("diff", name, *paths)["changes"]]

    def boxes(self) -> list[str]:
        return [box["name"] for box in self.json("ps", "-a")]

    def leftovers(self) -> list[str]:
        """What is in the state directory besides kept boxes and their layers."""
        needed: set[str] = set()
        wrong = []
        kept = self.state / "kept"
        for box in kept.iterdir() if kept.exists() else ():
            if box.name.startswith(".") or not (box / "record").exists():
                wrong.append(str(box))
                continue
            record = json.loads((box / "record").read_text().splitlines()[0])
            needed.update(record["layers"])
            wrong += [str(path) for path in box.iterdir() if path.name not in ("record", "root", "log")]
        layers = self.state / "layers"
        wrong += [str(layer) for layer in (layers.iterdir() if layers.exists() else ()) if layer.name not in needed]
        wrong += [str(path) for path in self.state.iterdir() if path.name not in ("kept", "layers", "kept.lock")]
        return wrong


def _with_options(words: tuple[str, ...]) -> list[str]:
    return ["run", *running.OPTIONS, *words[1:]] if words[:1] == ("run",) else list(words)


def picture(top: Path) -> dict[str, tuple[object, ...]]:
    """All of a host tree that an apply may change: kinds, modes, times, links, contents, attributes."""
    found: dict[str, tuple[object, ...]] = {}
    first: dict[int, str] = {}
    for where, folders, files in os.walk(top):
        folders.sort()  # which of a file's names is the first must not depend on the order the host lists them in
        for name in [*folders, *sorted(files), "."]:
            path = os.path.join(where, name)
            info = os.lstat(path)
            kind = stat.S_IFMT(info.st_mode)
            short = os.path.relpath(path, top)
            content: object = None
            if kind == stat.S_IFREG:
                content = Path(path).read_bytes(), first.setdefault(info.st_ino, short) if info.st_nlink > 1 else ""
            elif kind == stat.S_IFLNK:
                content = os.readlink(path)
            attributes = {} if kind == stat.S_IFLNK else {key: os.getxattr(path, key) for key in os.listxattr(path)}
            found[short] = info.st_mode, info.st_mtime_ns, info.st_uid, info.st_gid, content, tuple(attributes.items())
    return found
