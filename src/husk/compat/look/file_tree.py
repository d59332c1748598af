"""compat: where a program's files are looked up: on this machine, or in an image of the store.

Names inside a tree are absolute paths as the program would spell them; `find` says which host file stands for one. Not
here: what is in the files.
"""

from __future__ import annotations

import fnmatch
import os
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from husk.store.store import Store

MOST_LINKS = 40


class FileTree(Protocol):
    def find(self, path: str) -> str | None:
        """The host file for a path of the tree, links followed; None if there is no such regular file."""

    def real(self, path: str) -> str:
        """The path with its links followed, inside the tree."""

    def listing(self, path: str) -> list[str]:
        """The names in a directory; none if it is not there."""


class HostTree:
    def find(self, path: str) -> str | None:
        return path if os.path.isfile(path) else None

    def real(self, path: str) -> str:
        return os.path.realpath(path)

    def listing(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except OSError:
            return []


class ImageTree:
    """The flat manifest of an image: nothing is unpacked, files are read where the store has them."""

    def __init__(self, store: Store, manifest: str) -> None:
        self._store = store
        self._manifest = store.open_manifest(manifest)

    def find(self, path: str) -> str | None:
        entry = self._manifest.lookup(os.fsencode(self.real(path)).lstrip(b"/"))
        return self._store.blob_path(entry.hash) if entry is not None and entry.is_file else None

    def real(self, path: str) -> str:
        left = [part for part in path.split("/") if part not in ("", ".")][::-1]
        done: list[str] = []
        links = 0
        while left:
            part = left.pop()
            if part == "..":
                del done[-1:]
                continue
            entry = self._manifest.lookup(os.fsencode("/".join([*done, part])))
            if entry is not None and entry.is_link and links < MOST_LINKS:
                links += 1
                target = os.fsdecode(entry.target)
                if target.startswith("/"):
                    done = []
                left += [one for one in target.split("/") if one not in ("", ".")][::-1]
                continue
            done.append(part)
        return "/" + "/".join(done)

    def listing(self, path: str) -> list[str]:
        try:
            return sorted(map(os.fsdecode, self._manifest.listdir(os.fsencode(self.real(path)).lstrip(b"/"))))
        except (KeyError, OSError):
            return []


_USUAL = ("/lib64", "/usr/lib64", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/usr/local/lib", "/lib",
          "/usr/lib")  # fmt: skip
_CONFIGURED = ("/etc/ld.so.conf", "/etc/ld-musl-x86_64.path")
_MOST_INCLUDED = 100


class LibrarySearch:
    """Finds libraries as the dynamic loader does: the file's own path, then the configured and the usual places.

    LD_LIBRARY_PATH is not asked: it belongs to a run, not to the file."""

    def __init__(self, tree: FileTree) -> None:
        self._tree = tree
        self._places: list[str] | None = None

    def find(self, name: str, origin: str, search: list[str]) -> str | None:
        """The path in the tree of the library `name` that a file at `origin` needs."""
        if "/" in name:
            return name if self._tree.find(name) else None
        here = os.path.dirname(self._tree.real(origin))
        own = [part.replace("$ORIGIN", here).replace("${ORIGIN}", here) for part in search]
        for place in [*own, *self._configured()]:
            path = os.path.normpath(os.path.join(place, name))
            if self._tree.find(path):
                return path
        return None

    def _configured(self) -> list[str]:
        if self._places is None:
            places = [place for name in _CONFIGURED for place in self._read(name, 0)]
            self._places = list(dict.fromkeys([*places, *_USUAL]))
        return self._places

    def _read(self, path: str, depth: int) -> list[str]:
        found = self._tree.find(path)
        if found is None or depth > 4:
            return []
        try:
            with open(found, "rb") as file:
                text = file.read(1 << 16).decode("utf-8", "replace")
        except OSError:
            return []
        places: list[str] = []
        for line in text.replace(":", "\n").splitlines():
            words = line.split("#", 1)[0].split()
            if words[:1] == ["include"]:
                for pattern in words[1:]:
                    for name in self._matching(os.path.join(os.path.dirname(path), pattern)):
                        places += self._read(name, depth + 1)
            elif words:
                places.append(words[0])
        return places

    def _matching(self, pattern: str) -> list[str]:
        folder, name = os.path.split(pattern)
        return [f"{folder}/{one}" for one in self._tree.listing(folder) if fnmatch.fnmatch(one, name)][:_MOST_INCLUDED]
