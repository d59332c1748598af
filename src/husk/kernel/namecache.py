"""kernel: teaching the C core which directories it may answer for, and taking that back in time.

A pure accelerator: without it every call takes the long way and gets the same answer.
"""

from __future__ import annotations

import errno
import os
import stat as st

from husk.vfs.hosttree import HostNode, HostRead
from husk.vfs.layer_copy import CopyUp
from husk.vfs.layer_nodes import LayerDir, LowerNode
from husk.vfs.node import Dir
from husk.vfs.unchanged import SAME, HostView, host_view, lower_view

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.kernel.call import Call
    from husk.kernel.program import Program
    from husk.native._core import ExactFile, Listener
    from husk.vfs.node import Node
    from husk.vfs.vfs import Vfs

MOST_REMEMBERED = 16384
NO_FILE = (-1, b"", 0, 0, 0, 0)


class NameCache:
    """Knows what was taught, so that nothing is taught twice and forgetting costs nothing where nothing was taught."""

    def __init__(
        self, listener: Listener, vfs: Vfs, uid: int, gid: int, host_uid: int, groups: list[int], *, cached: bool
    ) -> None:
        self._listener, self._vfs, self.cached = listener, vfs, cached
        self._settled: dict[tuple[int, bytes], None] = {}  # (start, key) of directories that were taught
        self._taught: set[int] = set()
        listener.cache_identity(uid, gid, host_uid, groups, vfs.state.path + b"/places/")
        vfs.changed = self.forget

    def learn(self, call: Call, start: Dir, name: bytes) -> None:
        """A name was looked up the long way. Teach the directory it lies in, and itself if it is one; where the
        directory is not the host's alone, teach what is known about this one name."""
        if not self.cached:
            return
        cut = name.rfind(b"/") + 1
        if name[cut:] in (b"", b".", b".."):
            return
        with self._vfs.lock:
            directory = self._directory(call, start, name[:cut])
            if directory is None or self._teach(start, name[:cut], directory):
                if directory is not None:
                    self._teach(start, name + b"/", self._directory(call, start, name + b"/"))
            elif isinstance(directory, LayerDir) and directory.lower is not None:
                self._teach_file(call, start, name, directory, name[cut:])

    def _directory(self, call: Call, start: Dir, key: bytes) -> Dir | None:
        number = 0 if key[:1] == b"/" else start.place
        if number is None or (number, key) in self._settled:
            return None
        try:
            directory = self._vfs.walk(call, start, key) if key else start
            if not isinstance(directory, Dir):
                return None
            self._vfs.access_node(call, directory, os.X_OK)
            return directory
        except OSError:
            return None

    def _teach(self, start: Dir, key: bytes, directory: Dir | None) -> bool:
        """True if there is nothing more to learn about this directory."""
        if directory is None:
            return True
        view = host_view(directory)
        if view is None:
            return False
        number = 0 if key[:1] == b"/" else start.place or 0
        if len(self._settled) >= MOST_REMEMBERED:
            self._settled.clear()
        self._settled[number, key] = None
        self._tell(number, key, directory, view, view.rel + b"/" if view.rel else b"")
        return True

    def _teach_file(self, call: Call, start: Dir, name: bytes, directory: LayerDir, last: bytes) -> None:
        number = 0 if name[:1] == b"/" else start.place
        if number is None:
            return
        try:
            node = directory.tree.lookup(call, directory, last)
        except OSError as error:
            if error.errno == errno.ENOENT:
                self._tell(number, name, directory, None, b"")
            return
        if isinstance(node, LowerNode) and node.kind == st.S_IFREG:
            view = lower_view(node)
            if view is not None:
                self._tell(number, name, directory, view, view.rel)

    def _tell(self, number: int, key: bytes, directory: Dir, view: HostView | None, rel: bytes) -> None:
        """`view` None: there is no such name."""
        self._taught.add(id(directory))
        if view is None:
            self._listener.cache_learn(number, key, id(directory), -1, rel, 0, 0, SAME, SAME, False, True)
        else:
            self._listener.cache_learn(
                number,
                key,
                id(directory),
                view.root_fd,
                rel,
                view.host_dev,
                view.dev,
                view.uids,
                view.gids,
                view.layered,
                False,
            )

    def learn_program(self, call: Call, name: bytes, program: Program, info: bytes) -> None:
        """`name` was resolved to an ELF file, the long way. Both its files must be the host's own, unchanged."""
        if not self.cached:
            return
        with self._vfs.lock:
            file = _exact(program.node, program.program_fd)
            interpreter: ExactFile | None = NO_FILE
            if program.interpreter is not None:
                interpreter = _exact(program.interpreter, program.interpreter_fd)
            link = _final_link(call, self._vfs, name)
            if file is not None and interpreter is not None and link is not None:
                self._listener.program_learn(name, file, interpreter, *link, info)

    def forget(self, directory: Dir, structural: bool) -> None:
        """Called by the vfs before a change becomes visible."""
        if structural:
            self._settled.clear()
            self._taught.clear()
            # One hard-linked file with a changed twin, and no hard link can be told from the host alone any more.
            self._listener.cache_forget(0, True, isinstance(directory.tree, CopyUp) and directory.tree.links_touched)
            return
        taught = id(directory) in self._taught
        if taught:
            self._taught.discard(id(directory))
            self._settled.clear()
        self._listener.cache_forget(id(directory), taught, False)


def _exact(node: Node | None, fd: int) -> ExactFile | None:
    """Where an unchanged host file is and what it is right now; None for a file of the box's own."""
    host = os.fstat(fd)
    if isinstance(node, LowerNode):
        return node.lower.fd, node.rel, host.st_dev, host.st_ino, host.st_size, host.st_ctime_ns
    if isinstance(node, HostNode) and node.tree.read_only and isinstance(node.tree, HostRead):
        return node.tree.fd, node.rel(), host.st_dev, host.st_ino, host.st_size, host.st_ctime_ns
    return None


def _final_link(call: Call, vfs: Vfs, name: bytes) -> tuple[bytes, bytes] | None:
    """(where, text) of a symbolic link at the end of `name`, empty where there is none; None: too winding to teach."""
    node = vfs.walk(call, vfs.root, name, follow=False)
    if node.kind != st.S_IFLNK:
        return b"", b""
    text = node.tree.readlink(call, node)
    if b"/" in text or len(text) > 255 or not isinstance(node, LowerNode):
        return None
    end = vfs.walk(call, vfs.root, name[: name.rfind(b"/") + 1] + text, follow=False)
    return (node.rel, text) if end.kind == st.S_IFREG else None
