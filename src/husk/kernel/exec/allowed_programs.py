"""kernel: which programs a box may start, where somebody listed them. What is not listed is refused at execve.

Entries are guest paths, directories (with a slash at their end: all below), or bare names, which mean what PATH finds.
They are resolved once, before any guest runs: what a guest makes later under a listed name elsewhere, in a directory
of PATH that did not have it, or in the place of a listed file, is not what was listed. Below a listed directory
anything is. It is files that are held against the list, not code: a program that is listed may be an interpreter, and
an interpreter runs what it is given.
"""

from __future__ import annotations

import errno

from husk.abi.text import shown
from husk.kernel.call import Refused
from husk.vfs.layer.inodes import LowerNode
from husk.vfs.node import Dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from husk.kernel.exec.program import Executable, Program
    from husk.vfs.node import Node
    from husk.vfs.vfs import Vfs

    Stamp = tuple[Any, ...]

LAUNCHER = b"/usr/bin/env"  # starts what is then held against the list itself


class AllowedPrograms:
    """True paths, symbolic links resolved, and what was there."""

    __slots__ = ("_below", "_files", "_vfs")

    def __init__(self, vfs: Vfs, entries: Iterable[bytes], path: bytes) -> None:
        self._vfs = vfs
        self._files: dict[bytes, Stamp] = {}
        self._below: list[bytes] = []
        launcher = _find(vfs, LAUNCHER)
        if launcher is not None and vfs.path_of_node(launcher) == LAUNCHER:  # not where one program has many names
            self._files[LAUNCHER] = self._stamp(launcher)
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
            self._files[where] = self._stamp(node)
        elif name[-1:] == b"/":
            self._below.append(where.rstrip(b"/") + b"/")

    def check(self, program: Program, first: Executable) -> None:
        """`first` is what was named, which is `program` itself unless that is an interpreter. A listed script brings
        its interpreter with it."""
        if self._has(program.exe, program.node) or self._has(first.path, first.node):
            return
        what = shown(first.path)
        raise Refused(
            errno.EACCES,
            "it is not among the programs that this box may start",
            what,
            None,
            f'"{what}" in [programs] allow',
        )

    def _has(self, path: bytes, node: Node | None) -> bool:
        """A node is missing where a guest goes by a descriptor's name below /proc: that may be any file."""
        listed = self._files.get(path)
        if listed is not None and node is not None and (node.tree.read_only or self._stamp(node) == listed):
            return True
        return any(path.startswith(folder) for folder in self._below)

    def _stamp(self, node: Node) -> Stamp:
        """What still is the host's no guest has touched, and the host may replace its own programs: there the place is
        what counts."""
        if isinstance(node, LowerNode):
            return id(node.lower), node.rel
        info = node.tree.stat(self._vfs.context, node)
        return info.dev, info.ino, info.ctime


def _find(vfs: Vfs, name: bytes) -> Node | None:
    try:
        return vfs.walk(vfs.context, vfs.root, name)
    except OSError:
        return None
