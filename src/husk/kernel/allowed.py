"""kernel: which programs a box may start, where somebody listed them. What is not listed is refused at execve.

Entries are guest paths, directories (with a slash at their end: all below), or bare names, which mean what PATH finds.
They are resolved once, before any guest runs: what a guest makes later under a listed name elsewhere, or in a directory
of PATH that did not have it, is not what was listed. It is files that are held against the list, not code: a program
that is listed may be an interpreter, and an interpreter runs what it is given.
"""

from __future__ import annotations

import errno

from husk.abi.text import shown
from husk.kernel.call import Refused
from husk.vfs.node import Dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from husk.kernel.program import Program
    from husk.vfs.node import Node
    from husk.vfs.vfs import Vfs

LAUNCHER = b"/usr/bin/env"  # starts what is then held against the list itself


class AllowedPrograms:
    """True paths, symbolic links resolved."""

    __slots__ = ("_below", "_files")

    def __init__(self, vfs: Vfs, entries: Iterable[bytes], path: bytes) -> None:
        self._files: set[bytes] = {LAUNCHER}
        self._below: list[bytes] = []
        folders = [folder for folder in path.split(b":") if folder[:1] == b"/"]
        for entry in entries:
            if b"/" not in entry:
                for folder in folders:
                    self._add(vfs, folder + b"/" + entry)
            elif entry[:1] == b"/":
                self._add(vfs, entry)

    def _add(self, vfs: Vfs, name: bytes) -> None:
        node = _find(vfs, name)
        if node is None:
            return
        where = vfs.path_of_node(node)
        if not isinstance(node, Dir):
            self._files.add(where)
        elif name[-1:] == b"/":
            self._below.append(where.rstrip(b"/") + b"/")

    def check(self, program: Program, script: bytes) -> None:
        """`script` is what was named, which is `program` itself unless that is an interpreter. A listed script brings
        its interpreter with it."""
        if any(self._has(path) for path in (program.exe, script)):
            return
        what = shown(script)
        raise Refused(
            errno.EACCES,
            "it is not among the programs that this box may start",
            what,
            None,
            f'"{what}" in [programs] allow',
        )

    def _has(self, path: bytes) -> bool:
        return path in self._files or any(path.startswith(folder) for folder in self._below)


def _find(vfs: Vfs, name: bytes) -> Node | None:
    try:
        return vfs.walk(vfs.context, vfs.root, name)
    except OSError:
        return None
