"""Reads the case files: scripts as data, each under a `## name` line, so that they look like what they are."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).resolve().parent


def load(name: str) -> dict[str, str]:
    """{case: script} of cases/NAME.txt. Lines before the first case are a comment."""
    found: dict[str, str] = {}
    for part in ("\n" + (HERE / "cases" / f"{name}.txt").read_text()).split("\n## ")[1:]:
        title, _, script = part.partition("\n")
        assert title not in found, f"two cases are called {title!r}"
        found[title] = script.strip("\n") + "\n"
    return found


def folder(name: str) -> dict[str, str]:
    """The files of a folder beside this module, as a tree for `differential`."""
    return {path.name: path.read_text() for path in sorted((HERE / name).iterdir())}
