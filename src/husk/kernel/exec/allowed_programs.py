"""kernel: the list of programs that a box may start, if its policy has one. execve of any other program is refused.

Entries are guest paths, directories (with a trailing slash: everything below), or bare names, which are looked up in
PATH. They are resolved once, before any guest runs. A file that a guest makes later does not count as listed, be it in
another directory of PATH or in the place of a listed file. Everything below a listed directory counts. The list names
files, not code: a listed program may be an interpreter, and an interpreter runs any script.
"""

from __future__ import annotations

import errno

from husk.abi.text import shown
from husk.kernel.call import Refused
from husk.vfs.node import Dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from husk.kernel.exec.program import Executable, Program
    from husk.vfs.node import Node
    from husk.vfs.vfs import Vfs

    Stamp = tuple[Any, ...]

LAUNCHER = b"/usr/bin/env"  # the program that it starts is checked in turn


class AllowedPrograms:
    """Real paths, with symbolic links resolved, and the identity of the file there."""

    __slots__ = ("_below", "_files", "_vfs")

    def __init__(self, vfs: Vfs, entries: Iterable[bytes], path: bytes) -> None:
        self._vfs = vfs
        self._files: dict[bytes, Stamp] = {}
        self._below: list[bytes] = []
        launcher = _find(vfs, LAUNCHER)
        if launcher is not None and vfs.path_of_node(launcher) == LAUNCHER:  # a multi-call program has another path
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
        """`first` is the file named in execve: `program` itself, or a script that `program` interprets. A listed script
        may use its interpreter."""
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
        """`node` is None for a descriptor's name below /proc, which may be any file."""
        listed = self._files.get(path)
        if listed is not None and node is not None and (node.tree.read_only or self._stamp(node) == listed):
            return True
        return any(path.startswith(folder) for folder in self._below)

    def _stamp(self, node: Node) -> Stamp:
        """Identity of a file. No guest has changed a lower file, and the host may replace its own programs: for those
        the path in the lower tree counts."""
        unchanged = node.tree.unchanged_file(node)
        if unchanged is not None:
            return unchanged
        info = node.tree.stat(self._vfs.context, node)
        return info.dev, info.ino, info.ctime


def _find(vfs: Vfs, name: bytes) -> Node | None:
    try:
        return vfs.walk(vfs.context, vfs.root, name)
    except OSError:
        return None
