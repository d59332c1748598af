"""images: the context of a build: the files of one directory that COPY may take, less what .dockerignore names.

Nothing outside of the directory is ever read: names that lead out of it are refused, links inside it are copied as
links.
"""

from __future__ import annotations

import os
import re
import stat as st
from typing import TYPE_CHECKING

from blake3 import blake3

from husk.store.store_errors import StoreError, StoreUsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from husk.images.dockerfile.dockerfile_syntax import Instruction

CHUNK = 1 << 20
IGNORE = ".dockerignore"


class ContextFile:
    """A file, directory or link of the context. `rel` is its path below the copied source."""

    __slots__ = ("digest", "kind", "mode", "path", "rel", "size", "target")

    def __init__(self, path: str, rel: str) -> None:
        self.path, self.rel = path, rel
        found = os.lstat(path)
        self.kind, self.mode, self.size = st.S_IFMT(found.st_mode), st.S_IMODE(found.st_mode), found.st_size
        self.target = os.readlink(path) if self.kind == st.S_IFLNK else ""
        self.digest = digest_of(path) if self.kind == st.S_IFREG else ""

    def key(self) -> list[object]:
        return [self.rel, self.kind, self.mode, self.target, self.digest]


def open_file(path: str) -> BinaryIO:
    """Open a file that was no link when it was listed."""
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")


def digest_of(path: str) -> str:
    hasher = blake3()
    with open_file(path) as file:
        while data := file.read(CHUNK):
            hasher.update(data)
    return hasher.hexdigest()


class BuildContext:
    """A directory to copy from."""

    def __init__(self, root: str, dockerfile: str) -> None:
        if not os.path.isdir(root):
            raise StoreUsageError(f"{root} is no directory; name the one that COPY takes files from.")
        self.root = os.path.realpath(root)
        own = f"{dockerfile}{IGNORE}"  # a file of its own goes before the directory's
        self._ignored = _read_ignored(own if os.path.exists(own) else os.path.join(self.root, IGNORE))

    def sources(self, said: Instruction, pattern: str) -> list[tuple[str, str]]:
        """(path, name in the context) of what a word of COPY means: it may be a pattern."""
        wanted = os.path.normpath("/" + pattern).lstrip("/")
        if ".." in pattern.split("/"):
            raise said.wrong(f"{pattern} leads out of the context; copy what is below {self.root}.")
        if not wanted:
            return [(self.root, "")]
        found = [""]
        for part in wanted.split("/"):
            if re.search(r"[*?\[]", part):
                rule = re.compile(_translate(part) + r"\Z")
                found = [os.path.join(where, name) for where in found for name in sorted(self._names(where))
                         if rule.match(name)]  # fmt: skip
            else:
                plain = part.replace("\\", "")
                found = [os.path.join(where, plain) for where in found]
        there = [(self._real(said, name), name) for name in found
                 if os.path.lexists(os.path.join(self.root, name)) and not self.ignores(name)]  # fmt: skip
        for path, name in there:
            if self.ignores(os.path.relpath(path, self.root)):
                raise said.wrong(f"{name} is a link to what .dockerignore leaves out; copy something else.")
        if not there:
            ignored = " (.dockerignore names it)" if any(map(self.ignores, found)) else ""
            raise said.wrong(f"there is no {pattern} in {self.root}{ignored}.")
        return there

    def _names(self, where: str) -> list[str]:
        try:
            return os.listdir(os.path.join(self.root, where))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _real(self, said: Instruction, name: str) -> str:
        """A source that is a link is followed, but not out of the context."""
        path = os.path.realpath(os.path.join(self.root, name))
        if path != self.root and not path.startswith(f"{self.root}/"):
            raise said.wrong(f"{name} is a link that leads out of the context; copy the file itself into it.")
        if not os.path.exists(path):
            raise said.wrong(f"{name} is a link that leads nowhere.")
        return path

    def files(self, said: Instruction, path: str, name: str) -> Iterator[ContextFile]:
        """What is copied for one source: it, and all below it. Behind a link the rules hold for both names."""
        yield self._file(said, path, "")
        if not os.path.isdir(path):
            return
        tops = {name, os.path.relpath(path, self.root)}
        for where, folders, files in os.walk(path):
            below = os.path.relpath(where, path)
            own = [os.path.join(top, below) for top in tops]
            if not self._has_exceptions:
                folders[:] = [one for one in folders if not self._leaves_out(own, one)]
            folders.sort()
            for one in sorted(folders + files):
                if not self._leaves_out(own, one):
                    yield self._file(said, os.path.join(where, one), os.path.normpath(os.path.join(below, one)))

    def _leaves_out(self, directories: list[str], name: str) -> bool:
        return any(self.ignores(os.path.normpath(os.path.join(one, name))) for one in directories)

    def _file(self, said: Instruction, path: str, rel: str) -> ContextFile:
        try:
            found = ContextFile(path, rel)
        except FileNotFoundError:
            raise StoreError(f"{path} was removed meanwhile; build again.") from None
        except OSError as error:
            raise said.wrong(f"{path} cannot be read: {error.strerror}; name it in {IGNORE}.") from None
        if found.kind not in (st.S_IFREG, st.S_IFDIR, st.S_IFLNK):
            raise said.wrong(f"{path} is neither file, directory nor link; name it in {IGNORE}.")
        return found

    @property
    def _has_exceptions(self) -> bool:
        return any(not ignored for _, ignored in self._ignored)

    def ignores(self, name: str) -> bool:
        """Is it left out? The last rule that fits it, or a directory above it, decides."""
        answer = False
        for rule, ignored in self._ignored:
            if ignored != answer and rule.match(name):
                answer = ignored
        return answer


def _read_ignored(path: str) -> list[tuple[re.Pattern[str], bool]]:
    try:
        with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
            lines = file.read(CHUNK).splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise StoreUsageError(f"{path} cannot be read: {error.strerror}.") from None
    rules = []
    for line in lines:
        text = line.strip()
        if not text or line.startswith("#"):
            continue
        ignored = not text.startswith("!")
        pattern = os.path.normpath("/" + text.removeprefix("!").strip()).lstrip("/")
        if pattern:
            rules.append((re.compile(rf"{_translate(pattern)}(?:/.*)?\Z", re.S), ignored))
    return rules


def _translate(pattern: str) -> str:
    """A pattern as Go's filepath.Match reads it, with `**` for any number of directories, as a regular expression."""
    made, at = "", 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "*" and pattern[at : at + 1] == "*":
            at += 1
            if pattern[at : at + 1] == "/":
                made, at = made + "(?:.*/)?", at + 1
            else:
                made += ".*"
        elif char == "*":
            made += "[^/]*"
        elif char == "?":
            made += "[^/]"
        elif char == "[" and (end := pattern.find("]", at + 1)) > 0:
            inside = pattern[at:end]
            inverted = "^" if inside[:1] in ("^", "!") else ""
            letters = re.escape(inside[len(inverted) :]).replace(r"\-", "-")
            made += f"[{inverted}{letters}]"
            at = end + 1
        elif char == "\\" and at < len(pattern):
            made, at = made + re.escape(pattern[at]), at + 1
        else:
            made += re.escape(char)
    return made
