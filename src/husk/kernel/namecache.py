"""kernel: teaching the C core which directories it may answer for, and taking that back in time.

A pure accelerator: without it every call takes the long way and gets the same answer.
"""

from __future__ import annotations

import os

from husk.vfs.node import Dir
from husk.vfs.unchanged import host_view

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.kernel.call import Call
    from husk.native._core import Listener
    from husk.vfs.vfs import Vfs

MOST_REMEMBERED = 16384


class NameCache:
    """Knows what was taught, so that nothing is taught twice and forgetting costs nothing where nothing was taught."""

    def __init__(self, listener: Listener, vfs: Vfs, uid: int, gid: int, host_uid: int, groups: list[int]) -> None:
        self._listener, self._vfs = listener, vfs
        self._asked: dict[tuple[int, bytes], None] = {}  # (start, key) taught, or found not to be teachable
        self._taught: set[int] = set()
        listener.cache_identity(uid, gid, host_uid, groups, vfs.state.path + b"/places/")
        vfs.changed = self.forget

    def learn(self, call: Call, start: Dir, name: bytes) -> None:
        """A name was looked up the long way. Teach the directory it lies in, and itself if it is one."""
        cut = name.rfind(b"/") + 1
        self._teach(call, start, name[:cut])
        if name[cut:] not in (b"", b".", b".."):
            self._teach(call, start, name + b"/")

    def _teach(self, call: Call, start: Dir, key: bytes) -> None:
        number = 0 if key[:1] == b"/" else start.place
        if number is None or (number, key) in self._asked:
            return
        with self._vfs.lock:
            if len(self._asked) >= MOST_REMEMBERED:
                self._asked.clear()
            self._asked[number, key] = None
            try:
                directory = self._vfs.walk(call, start, key) if key else start
                if not isinstance(directory, Dir):
                    return
                self._vfs.access_node(call, directory, os.X_OK)
                view = host_view(directory)
            except OSError:
                return
            if view is None:
                return
            rel = view.rel + b"/" if view.rel else b""
            self._taught.add(id(directory))
            self._listener.cache_learn(number, key, id(directory), view.root_fd, rel, view.host_dev, view.dev, view.uids,
                                       view.gids, view.layered)

    def forget(self, directory: Dir, structural: bool) -> None:
        """Called by the vfs before a change becomes visible."""
        if structural:
            self._asked.clear()
            self._taught.clear()
            self._listener.cache_forget(0, True)
            return
        taught = id(directory) in self._taught
        self._taught.discard(id(directory))
        self._listener.cache_forget(id(directory), taught)
