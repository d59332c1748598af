"""compat: what a person names to be checked: a program, a script, a directory, a skill, an image. Each becomes a look.

Not here: commands that are run (measure.py), and verdicts.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from husk.compat.look.elf_file import Unreadable
from husk.compat.look.facts import Look
from husk.compat.look.file_tree import ImageTree
from husk.compat.look.look_at import look_at
from husk.sandbox.errors import UsageError
from husk.sandbox.policy import DEFAULT_PATH
from husk.skills.open_skill import ARCHIVES

MOST_PROGRAMS = 40  # of one skill


def subjects_in(word: str) -> list[str]:
    """What a word names: itself, or for a folder of skills each of them. Any other directory is one subject."""
    folder = Path(word)
    if not folder.is_dir() or (folder / "SKILL.md").exists():
        return [word]
    if not any(next(folder.glob(f"{depth}/SKILL.md"), None) for depth in ("*", "*/*", "*/*/*")):
        return [word]
    from husk.skills.collections.find_skills import skills_in

    return [str(path) for path in skills_in([folder])[0]]


def look_at_subject(word: str, store: str = "") -> Look:
    """Raises UsageError: there is nothing of that name, or nothing in it that could run."""
    if os.path.isdir(word) and os.path.isfile(os.path.join(word, "SKILL.md")):
        return _skill(word)
    if os.path.isfile(word) and (word.lower().endswith(ARCHIVES) or os.path.basename(word) == "SKILL.md"):
        return _skill(word)
    if os.path.lexists(word):
        return look_at(word)
    image = _image(word, store)
    if image is not None:
        return image
    program = shutil.which(word, path=DEFAULT_PATH) if "/" not in word else None
    if program is None:
        raise UsageError(f"{word}: there is no such file, image or program; `husk check --help` says what to name.")
    return look_at(program)


def _skill(word: str) -> Look:
    """A skill is what it starts: the interpreters of its scripts, the programs that they name, its own programs."""
    from husk.skills.open_skill import open_skill
    from husk.skills.scan.describe import describe
    from husk.skills.scan.languages import INTERPRETERS

    with open_skill(Path(word)) as skill:
        found = describe(skill)
        look = Look(word, "skill", kind=skill.name)
        programs: dict[str, None] = {}
        for script in found.scripts:
            if script.language == "elf":
                _add_part(look, str(skill.root / script.path))
            elif script.interpreter:
                by_env = os.path.basename(script.interpreter[0]) == "env"
                programs[os.path.basename(script.interpreter[-1 if by_env else 0])] = None
            elif script.language in INTERPRETERS:
                programs[INTERPRETERS[script.language][0][0]] = None
        programs |= dict.fromkeys(found.programs)
        for name in list(programs)[:MOST_PROGRAMS]:
            path = shutil.which(name, path=DEFAULT_PATH)
            if path is None:
                look.unseen.append(f"the program {name} is not on this machine")
                look.blind = True
            else:
                _add_part(look, path)
        look.programs = sorted(programs)
        packages = sorted([*found.pip, *found.npm])
        if packages:
            look.unseen.append(f"packages that it needs ({', '.join(packages[:8])}): name their directory, too")
        look.unseen.append("what its scripts ask of their interpreters: all of one counts; trace them to know")
        if not look.parts and not programs:
            look.unseen.append("it starts no program")
        return look


def _add_part(look: Look, path: str) -> None:
    try:
        look.parts.append(look_at(path))
    except Unreadable as error:
        look.problems.append(str(error))
        look.blind = True


def _image(word: str, place: str) -> Look | None:
    """The program that an image starts, in the image's own files."""
    from husk.store.images import check_name
    from husk.store.store import Store
    from husk.store.store_errors import StoreError

    try:
        store = Store.open(place or None)
        if check_name(word) not in store.images.list():
            return None
    except (StoreError, OSError):
        return None
    lease, image = store.lease_image(word)
    try:
        words = [*image.config.entrypoint, *image.config.cmd]
        if not words:
            raise UsageError(f"{word}: the image names no program to start; export it and name the file.")
        tree = ImageTree(store, image.flat)
        path = words[0]
        if "/" not in path:
            folders = image.config.env.get("PATH", DEFAULT_PATH).split(":")
            path = next((f"{folder}/{path}" for folder in folders if tree.find(f"{folder}/{path}")), path)
        elif not path.startswith("/"):
            path = os.path.normpath(os.path.join("/", image.config.workdir, path))
        look = Look(word, "image", kind=" ".join(words), parts=[look_at(path, tree)])
        if os.path.basename(path) in ("sh", "bash", "dash") and len(words) > 1:
            look.unseen.append("what the shell starts: name it, or trace it")
        return look
    finally:
        lease.close()
