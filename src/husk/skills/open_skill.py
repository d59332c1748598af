"""skills: open a skill, a folder or an archive: its front matter and the list of its files.

A `Skill` is read, never changed; `frozen` makes a copy first, so that all who read it see one state. Links may only
lead to files of the folder, because a box shows nothing else; a link that leads out or in a circle is reported, not
followed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat as st
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from husk.sandbox.errors import UsageError
from husk.skills.archive import unpack
from husk.skills.frontmatter import Head, read_head
from husk.skills.frozen_copy import copy_frozen, fingerprint

ARCHIVES = (".skill", ".zip")
MOST_FILES = 50_000
MOST_HEADER_FILE = 1 << 20
MOST_NAMED = 8
CIRCLE = "leads in a circle"
LEFT_OUT = {".git", "__pycache__", "node_modules", ".venv", "venv"}


@dataclass
class Skill:
    """`root` is a host directory; `source` is what the user named."""

    source: Path
    root: Path
    head: Head
    files: list[str]  # relative, sorted; links among them only where they lead to a file of the skill
    folder: str = ""  # the name of its folder, where that is known
    mark: str = ""  # of a folder that can change while the skill runs: what it was

    @property
    def name(self) -> str:
        return self.head.name or self.folder or self.root.name

    @property
    def passing(self) -> bool:
        """Is its folder a copy that is removed when the skill is closed?"""
        return self.root != self.source.resolve()

    @property
    def changed(self) -> bool:
        """Has its folder changed since it was opened?"""
        return bool(self.mark) and fingerprint(self.root) != self.mark

    def check(self) -> None:
        """Raise UsageError if the skill cannot be used."""
        wrong = self.head.fatalities
        if wrong:
            more = f" (and {len(wrong) - 1} more: husk skill inspect)" if len(wrong) > 1 else ""
            raise UsageError(f"{self.source}: {wrong[0]}{more}.")

    def digest(self) -> str:
        return tree_digest(self.root)

    def text(self, relative: str, most: int = 1 << 20) -> str:
        with open(self.root / relative, "rb") as file:
            return file.read(most).decode("utf-8", "replace")


def tree_digest(root: Path) -> str:
    """Of every file in the folder, with its name, whether it is executable, and where a link leads. What a box does
    not list counts too: a planted module below node_modules or a compiled one is code like the rest."""
    whole = hashlib.sha256()

    def unreadable(error: OSError) -> None:
        raise error  # a digest stands for every file; what husk cannot read now, another user may, or it later

    for folder, folders, names in os.walk(root, onerror=unreadable):
        folders[:] = sorted(name for name in folders if name != ".git")
        links = [name for name in folders if Path(folder, name).is_symlink()]
        for name in sorted([*names, *links]):
            path = Path(folder, name)
            mode = path.lstat().st_mode
            if st.S_ISLNK(mode):
                kind, content = "link", os.fsencode(os.readlink(path))
            elif st.S_ISREG(mode):
                kind, content = "program" if mode & 0o111 else "file", path.read_bytes()
            else:
                kind, content = "special", b""
            told = f"{kind}\0{path.relative_to(root)}\0{len(content)}\0"
            whole.update(told.encode("utf-8", "surrogateescape") + content)
    return f"sha256:{whole.hexdigest()}"


@contextmanager
def open_skill(source: Path, *, frozen: bool = False, watched: bool = False) -> Iterator[Skill]:
    """The skill at `source`: a directory, its SKILL.md, or an archive, whose unpacked copy is removed afterwards.
    `frozen`: of a directory, a copy as well, unless it is very large. `watched`: the skill says whether its folder has
    changed since."""
    if source.name.lower() == "skill.md" and source.is_file():
        source = source.parent
    if source.is_dir():
        root = source.resolve()
        mark = fingerprint(root) if watched else ""
        skill = replace(_read(source, root, root.name), mark=mark)  # before a copy: is it a skill at all?
        if not frozen:
            yield skill
            return
        with _private_folder() as place:
            if copy_frozen(root, place / "skill", source):
                yield _read(source, place / "skill", root.name)
            else:
                yield replace(skill, mark=mark or fingerprint(root))
    elif source.is_symlink() and not source.exists():
        raise UsageError(f"{source}: a link that leads nowhere (to {os.readlink(source)}).")
    elif not source.exists():
        raise UsageError(
            f"{source}: there is no such file or directory; name a folder with a SKILL.md, or a .skill file."
        )
    elif source.suffix.lower() not in ARCHIVES or not source.is_file():
        raise UsageError(f"{source}: not a skill; name a folder with a SKILL.md, or a {' or '.join(ARCHIVES)} file.")
    else:
        with _private_folder() as place:
            (place / "skill").mkdir()
            unpack(source, place / "skill")
            root, folder = _root_of(place / "skill", source)
            yield _read(source, root, folder)


@contextmanager
def _private_folder() -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="husk-skill-")).resolve()
    try:
        if os.geteuid() == 0:
            place.chmod(0o755)  # the guest of a husk run as root is another user
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _root_of(place: Path, source: Path) -> tuple[Path, str]:
    """An archive holds the folder, or only its content; then the name of the folder is unknown."""
    if (place / "SKILL.md").exists():
        return place, ""
    holders = [entry for entry in sorted(place.iterdir()) if (entry / "SKILL.md").is_file()]
    if len(holders) == 1:
        return holders[0], holders[0].name
    if holders:
        names = ", ".join(holder.name for holder in holders)
        raise UsageError(f"{source}: holds several skills ({names}); unpack it and name one of them.")
    raise UsageError(f"{source}: there is no SKILL.md in it, neither at the top nor in a folder at the top.")


def _read(source: Path, root: Path, folder: str) -> Skill:
    document = root / "SKILL.md"
    try:
        if not st.S_ISREG(os.stat(document).st_mode):
            raise UsageError(f"{source}: SKILL.md is not a file.")
        if document.resolve().parent != root:
            raise UsageError(f"{source}: SKILL.md leads out of the skill's folder.")
        raw = document.read_bytes()[:MOST_HEADER_FILE]
    except FileNotFoundError:
        if document.is_symlink():
            raise UsageError(
                f"{source}: SKILL.md is a link that leads nowhere (to {os.readlink(document)}); put the file there."
            ) from None
        near = [entry.name for entry in root.iterdir() if entry.name.lower() == "skill.md"]
        hint = f"; {near[0]} must be called SKILL.md" if near else _folder_hint(root)
        raise UsageError(f"{source}: there is no SKILL.md in it{hint}.") from None
    except OSError as error:
        raise UsageError(f"{source}: SKILL.md cannot be read ({error.strerror}).") from None
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        head = Head()
        head.fatal("SKILL.md is not UTF-8 text")
    else:
        head = read_head(text, folder)
    return Skill(source, root, head, sorted(_files(root, head)), folder)


def _folder_hint(root: Path) -> str:
    """One who names a folder of skills where one skill is wanted is told which there are."""
    found = [path.parent for depth in ("*", "*/*") for path in root.glob(f"{depth}/SKILL.md")]
    below = sorted(path.name for path in found if not path.is_symlink() and path.parent.name not in LEFT_OUT)
    if not below:
        return ""
    more = f" and {len(below) - MOST_NAMED} more" if len(below) > MOST_NAMED else ""
    return f"; it is a folder of skills: name one of {', '.join(below[:MOST_NAMED])}{more}"


def _files(root: Path, head: Head) -> Iterator[str]:
    count = 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT)
        for name in [*folders, *names]:
            path = Path(folder, name)
            relative = str(path.relative_to(root))
            count += 1
            if count > MOST_FILES:
                raise UsageError(f"{root}: more than {MOST_FILES} files; is this the skill's own folder?")
            if path.is_symlink() and (fault := _fault_of(path, root)):
                # husk does not follow it, but the skill's own scripts could loop for ever.
                say = head.fatal if fault == CIRCLE else head.warn
                say(f"the link {relative!r} {fault}; it will not work in a box")
            elif name in names and path.is_file():
                yield relative


def _fault_of(link: Path, root: Path) -> str:
    """What is wrong with a link; empty if it leads to a file of the skill, or to a folder that does not contain it."""
    try:
        end = Path(os.path.realpath(link, strict=True))
    except OSError as error:
        return CIRCLE if error.errno == errno.ELOOP else "leads nowhere"
    if not end.is_relative_to(root):
        return "leads out of the skill"
    return CIRCLE if Path(os.path.realpath(link.parent)).is_relative_to(end) else ""
