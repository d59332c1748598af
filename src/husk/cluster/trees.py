"""cluster: files that work needs on another machine, known by a mark of their content.

A worker that finds the same tree under the same path uses it there: machines that share a file system send nothing.
Else it asks for the tree, and a small one is sent and unpacked in the worker's own directory, which goes when the
worker ends. What is too large to send is said with its path.

Life of a tree: `look` marks it where it lies; `here` finds it on a worker or raises NotHere; `packed` reads it where it
lies; `unpack` writes it on the worker that lacked it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from husk.sandbox.errors import UsageError

LARGEST_SENT = 32 << 20  # bytes of a tree that is sent to workers; larger ones have to be there
MOST_ENTRIES = 100_000

Entry = tuple[str, int, bytes]  # path below the tree, mode, content or target of a link


class NotHere(Exception):
    """This worker lacks a tree."""

    def __init__(self, tree: Tree) -> None:
        super().__init__(str(tree.path))
        self.tree = tree


@dataclass(frozen=True)
class Tree:
    """`mark` is empty where the tree is used by the process that named it."""

    path: Path
    mark: str = ""
    size: int = 0

    @property
    def name(self) -> str:
        """Kept where it is sent: a skill is called as its directory."""
        return self.path.name or "root"

    def here(self, scratch: Path | None) -> Path:
        """Where it lies for this process: as it was named, or below `scratch`. NotHere: nowhere, or changed."""
        if not self.mark:
            return self.path
        key = (str(self.path), self.mark)
        if key not in _FOUND:
            sent = scratch / self.mark / self.name if scratch is not None else None
            if _same(self):
                _FOUND[key] = self.path
            elif sent is not None and os.path.lexists(sent):
                _FOUND[key] = sent
            else:
                raise NotHere(self)
        return _FOUND[key]


_FOUND: dict[tuple[str, str], Path] = {}  # of this process, which is not asked about the same tree for each item


def look(path: Path) -> Tree:
    """UsageError: it is not there, or holds too much."""
    path = Path(os.path.abspath(path))
    try:
        entries = _entries(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; name something that can be read here.") from None
    size = sum(status.st_size for _, status in entries if stat.S_ISREG(status.st_mode))
    return Tree(path, _mark(path, entries, by_content=size <= LARGEST_SENT), size)


def _same(tree: Tree) -> bool:
    try:
        return look(tree.path).mark == tree.mark
    except UsageError:
        return False


def _entries(path: Path) -> list[tuple[str, os.stat_result]]:
    """What is there, without following links, in an order that depends on the names only."""
    found = [("", os.lstat(path))]
    folders = [""] if stat.S_ISDIR(found[0][1].st_mode) else []
    while folders:
        folder = folders.pop()
        with os.scandir(path / folder) as entries:
            for entry in entries:
                name = os.path.join(folder, entry.name)
                found.append((name, entry.stat(follow_symlinks=False)))
                if entry.is_dir(follow_symlinks=False):
                    folders.append(name)
        if len(found) > MOST_ENTRIES:
            raise UsageError(f"{path}: it holds more than {MOST_ENTRIES} names; name a smaller directory.")
    return sorted(found)


def _mark(path: Path, entries: list[tuple[str, os.stat_result]], *, by_content: bool) -> str:
    """Of large trees by size and time instead of content: reading them would take longer than running them."""
    whole = hashlib.sha256()
    for name, status in entries:
        mode = status.st_mode
        content = ""
        if stat.S_ISLNK(mode):
            content = os.readlink(path / name if name else path)
        elif stat.S_ISREG(mode):
            content = f"{status.st_size} {status.st_mtime_ns}"
            if by_content:
                with open(path / name if name else path, "rb") as file:
                    content = hashlib.file_digest(file, "sha256").hexdigest()
        whole.update(os.fsencode(f"{len(name)} {name} {stat.S_IFMT(mode):o} {mode >> 6 & 1} {content}\n"))
    return whole.hexdigest()


def packed(tree: Tree) -> list[Entry]:
    """What it holds: directories before what is in them. Sockets, FIFOs and devices are left out."""
    found: list[Entry] = []
    for name, status in _entries(tree.path):
        place = tree.path / name if name else tree.path
        if stat.S_ISLNK(status.st_mode):
            found.append((name, status.st_mode, os.fsencode(os.readlink(place))))
        elif stat.S_ISREG(status.st_mode):
            found.append((name, status.st_mode, place.read_bytes()))
        elif stat.S_ISDIR(status.st_mode):
            found.append((name, status.st_mode, b""))
    return found


def unpack(tree: Tree, entries: list[Entry], scratch: Path) -> None:
    """Whole or not at all, whoever else unpacks the same there."""
    scratch.mkdir(exist_ok=True)
    scratch.chmod(0o755)  # guests of a husk run as root are another user
    beside = Path(tempfile.mkdtemp(dir=scratch))
    beside.chmod(0o755)
    try:
        for name, mode, content in entries:
            place = beside / tree.name / name if name else beside / tree.name
            if stat.S_ISDIR(mode):
                place.mkdir()
            elif stat.S_ISLNK(mode):
                place.symlink_to(os.fsdecode(content))
            else:
                place.write_bytes(content)
                place.chmod(0o755 if mode & 0o100 else 0o644)
        beside.rename(scratch / tree.mark)
    except FileExistsError:
        shutil.rmtree(beside)  # another thread was quicker
    except OSError:
        shutil.rmtree(beside, ignore_errors=True)
        if not (scratch / tree.mark).exists():
            raise
