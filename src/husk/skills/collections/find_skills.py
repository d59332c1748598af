"""skills/collections: find the skills of a folder, however deep they lie: directories with a SKILL.md, and archives.

Nothing is followed that could lead elsewhere: a link is named in the notes, not entered, so that a circle of links ends
and a collection shows only what is in it. What cannot be read is named too. Skills are only found here, not opened.
"""

from __future__ import annotations

import errno
import os
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from husk.sandbox.errors import UsageError
from husk.skills.open_skill import ARCHIVES, LEFT_OUT, MOST_NAMED

MOST_FOLDERS = 100_000
MOST_DEPTH = 100


@dataclass
class Collection:
    """`skills` in the order of their paths. `notes` says what was left out, and why."""

    root: Path
    skills: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def is_skill(path: Path) -> bool:
    """Is it meant as one skill: a folder with a SKILL.md in any spelling, that file itself, or an archive?"""
    if not path.is_dir():
        return True
    try:
        return any(name.lower() == "skill.md" for name in os.listdir(path))
    except OSError:
        return True  # opening it says what is wrong


def find_skills(root: Path) -> Collection:
    """The skills below a directory. A skill's own folder is not searched for more."""
    found, seen = Collection(root), 0
    waiting = [(root, 0)]
    while waiting:
        folder, depth = waiting.pop()
        seen += 1
        if seen > MOST_FOLDERS:
            raise UsageError(f"{root}: more than {MOST_FOLDERS:,} folders; name the folder that holds the skills.")
        try:
            with os.scandir(folder) as entries:
                inside = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            found.notes.append(f"{folder}: cannot be read ({error.strerror}).")
            continue
        if folder != root and any(entry.name.lower() == "skill.md" for entry in inside):
            found.skills.append(folder)
            continue
        for entry in inside:
            path = Path(entry.path)
            if entry.is_symlink():
                found.notes += _note_on_link(path, root)
            elif entry.is_dir(follow_symlinks=False):
                if entry.name in LEFT_OUT:
                    continue
                if depth < MOST_DEPTH:
                    waiting.append((path, depth + 1))
                else:
                    found.notes.append(f"{path}: more than {MOST_DEPTH} folders deep, and not searched.")
            elif _is_packed_skill(path):
                found.skills.append(path)
    found.skills.sort()
    return found


def skills_in(paths: Iterable[Path]) -> tuple[list[Path], list[str]]:
    """The skills that paths name, each a skill or a folder of skills, each once; and notes on what was left out."""
    chosen, notes = dict[Path, None](), list[str]()
    for path in paths:
        if is_skill(path):
            chosen[path] = None
            continue
        found = find_skills(path)
        if not found.skills:
            raise UsageError(
                f"{path}: there is no skill in it: no folder with a SKILL.md, and no {' or '.join(ARCHIVES)} file."
                + (f" {found.notes[0]}" if found.notes else "")
            )
        chosen |= dict.fromkeys(found.skills)
        notes += found.notes
    return list(chosen), notes


def named(paths: list[Path]) -> str:
    """A few of the names, for a sentence."""
    more = f" and {len(paths) - MOST_NAMED} more" if len(paths) > MOST_NAMED else ""
    return ", ".join(path.name for path in paths[:MOST_NAMED]) + more


def _note_on_link(link: Path, root: Path) -> list[str]:
    """Files are a skill's own matter. A link to a folder may have been meant as a skill."""
    try:
        end = Path(os.path.realpath(link, strict=True))
    except OSError as error:
        return [f"{link}: a link that leads {'in a circle' if error.errno == errno.ELOOP else 'nowhere'}; left out."]
    if not end.is_dir() and end.suffix.lower() not in ARCHIVES:
        return []
    if not end.is_relative_to(root.resolve()):
        return [f"{link}: a link that leads out of {root}; left out: name {end} too if you want it."]
    return []  # what it leads to is found where it is


def _is_packed_skill(path: Path) -> bool:
    suffix = path.suffix.lower()
    if suffix != ".zip":
        return suffix in ARCHIVES
    # Any zip may lie in a folder of skills; only one that holds a SKILL.md is meant.
    try:
        with zipfile.ZipFile(path) as packed:
            return any(name.rstrip("/").split("/")[-1] == "SKILL.md" for name in packed.namelist())
    except Exception:  # damaged in one of many ways: not a skill
        return False
