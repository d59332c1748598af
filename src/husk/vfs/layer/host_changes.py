"""vfs: what host programs change below a `cow` mount, repeated in the mirrors of watched directories, so that guests
hear of it.

husk watches the host's directory of each mirror. What the guest sees of the host is repeated: for a file without a copy
its stand-in is touched, removed or renamed; a file that was copied only because it is watched gets the new content.
What is the box's own (copied up, deleted, put in its place) is not. An event comes late, so it is held against what is
there when it is read. docs/design/005-inotify.md. This module is not loaded before the first watch below a cow mount.

Life: made with the first watch, with a thread that waits. `end`, when the tree goes, returns when the thread has closed
the descriptors.
"""

from __future__ import annotations

import os
import stat as st
import struct
from _thread import allocate_lock, start_new_thread
from select import POLLIN, poll

from husk.native._core import new_watches, open_beneath, set_times, stat_beneath, stat_fd, watch
from husk.vfs.layer.content_copy import copy_content
from husk.vfs.layer.inodes import Inode, LayerDir
from husk.vfs.node import error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.native._core import HostStat
    from husk.vfs.layer.copy_up import CopyUp
    from husk.vfs.layer.layered_tree import LayeredTree
    from husk.vfs.layer.watch_mirror import MirrorDir, WatchMirror

    Event = tuple[int, int, int, bytes]  # watch, mask, cookie, name

MODIFY, ATTRIB, CLOSE_WRITE, MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x2, 0x4, 0x8, 0x40, 0x80, 0x100, 0x200
OVERFLOW, IGNORED, ONLYDIR = 0x4000, 0x8000, 0x01000000
WANTED = MODIFY | ATTRIB | CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE | ONLYDIR
HEAD = struct.Struct("iIII")
QUEUE = 1 << 16
COPY_MAX = 64 << 20
READABLE = 0o444
SETTLE = 10  # milliseconds: a program that writes a file makes several events, and its content is read once
LOOK_UP = 0.1  # seconds to wait for the lock before looking whether it is over


class HostChanges:
    """For one tree. `_directories`: by watch."""

    __slots__ = (
        "_copy_up", "_directories", "_done", "_lock", "_mirror", "_over", "_process", "_queue", "_state", "_tree",
        "_wake",
    )  # fmt: skip

    def __init__(self, tree: LayeredTree, mirror: WatchMirror, copy_up: CopyUp) -> None:
        self._tree, self._mirror, self._copy_up, self._state = tree, mirror, copy_up, tree.state
        self._lock = tree.state.lock
        self._directories: dict[int, LayerDir] = {}
        self._over = False
        self._process = os.getpid()
        self._done = allocate_lock()
        self._done.acquire()
        self._queue = new_watches()
        try:
            self._wake = os.eventfd(0)
        except OSError:
            os.close(self._queue)
            raise
        try:
            start_new_thread(self._run, ())
        except RuntimeError:
            os.close(self._queue)
            os.close(self._wake)
            raise error(11) from None  # EAGAIN: no more threads

    def follow(self, directory: LayerDir) -> None:
        """The caller holds the lock."""
        lower = directory.lower
        assert lower is not None
        fd = open_beneath(lower.fd, directory.rel, os.O_PATH | os.O_DIRECTORY)
        try:
            self._directories[watch(self._queue, fd, WANTED)] = directory
        finally:
            os.close(fd)

    def end(self) -> None:
        with self._lock:
            if self._over:
                return
            self._over = True
        if os.getpid() == self._process:
            os.write(self._wake, (1).to_bytes(8, "little"))
            self._done.acquire()  # the caller may hold the lock, so the thread does not insist on it
        else:
            # In a forked child there is no thread, and what is written would wake the parent's, for ever.
            os.close(self._queue)
            os.close(self._wake)

    def _run(self) -> None:
        either, end = poll(), poll()
        either.register(self._queue, POLLIN)
        for waiting in (either, end):
            waiting.register(self._wake, POLLIN)
        try:
            while not self._over:
                either.poll()
                end.poll(SETTLE)
                if self._lock.acquire(timeout=LOOK_UP):
                    try:
                        if not self._over:
                            self._repeat()
                    finally:
                        self._lock.release()
        finally:
            os.close(self._queue)
            os.close(self._wake)
            self._done.release()

    def _repeat(self) -> None:
        try:
            events = _events(os.read(self._queue, QUEUE))
        except BlockingIOError:
            return
        closed = {(number, name): at for at, (number, mask, _, name) in enumerate(events) if mask & CLOSE_WRITE}
        at = 0
        while at < len(events):
            number, mask, cookie, name = events[at]
            at += 1
            try:
                if mask & OVERFLOW:
                    self._look_again()
                elif mask & IGNORED:
                    self._directories.pop(number, None)
                elif mask & MOVED_FROM and at < len(events) and events[at][2] == cookie and events[at][1] & MOVED_TO:
                    self._renamed(number, name, events[at])
                    at += 1
                else:
                    self._happened(number, mask, name, closes=closed.get((number, name), -1) >= at)
            except OSError:
                pass  # the host changes on, or has no room: the next event tells more

    def _happened(self, number: int, mask: int, name: bytes, *, closes: bool = False) -> None:
        """`closes`: the writer closes it in a later event."""
        directory = self._directories.get(number)
        if directory is None or directory.removed or directory.mirror is None or not _shows_host(directory, name):
            return
        there = _host_stat(directory, name)
        known = name in directory.mirror.names
        if there is None:
            if known:
                self._gone(directory, directory.mirror, name, moved=bool(mask & MOVED_FROM))
        elif not known:
            if directory.mirror.complete:
                self._appeared(directory, directory.mirror, name, moved=bool(mask & MOVED_TO))
        elif not mask & (DELETE | MOVED_FROM):
            if mask & MOVED_TO and name not in directory.names:
                self._appeared(directory, directory.mirror, name, moved=True)
            else:
                # A watch may be on the copy behind the name, so a file that took the name shows as a change of it.
                replaced = MODIFY | CLOSE_WRITE if mask & MOVED_TO else 0
                self._changed(directory, directory.mirror, name, mask | replaced, closes)

    # -- one name --------------------------------------------------------------------------------------------------
    def _changed(self, directory: LayerDir, mirror: MirrorDir, name: bytes, mask: int, closes: bool) -> None:
        node, path, at = directory.names.get(name), mirror.entry(name), self._state.fd
        kind = stat_beneath(at, path).mode
        if st.S_ISDIR(kind):
            if mask & ATTRIB:
                os.chmod(path, kind & 0o777, dir_fd=at)
            return
        if not st.S_ISREG(kind):
            return
        full = b"/proc/self/fd/%d/%s" % (at, path)
        if isinstance(node, Inode) and node.origin is not None:
            if mask & (MODIFY | CLOSE_WRITE) and not closes:
                self._copy_again(node, path)
        else:
            if mask & MODIFY:
                os.truncate(full, 0)  # it is empty, and this opens nothing
            if mask & CLOSE_WRITE:
                os.close(open_beneath(at, path, os.O_WRONLY | os.O_NONBLOCK))
        if mask & ATTRIB:
            os.chmod(path, 0o600, dir_fd=at)

    def _copy_again(self, inode: Inode, path: bytes) -> None:
        """The watched copy gets the host's content. If another owner's file has come there, or one that not all may
        read who could read the old one, its content is not the guest's to see."""
        assert inode.origin is not None
        lower, rel = inode.origin
        seen = self._copy_up.origins.get(inode)
        source = lower.content(rel)
        try:
            now = stat_fd(source)
            if seen is None or (now.uid, now.gid) != (seen.uid, seen.gid) or seen.mode & READABLE & ~now.mode:
                return
            if now.size > COPY_MAX:
                return
            at = self._state.fd
            # A reader must not find it empty between two writes of ours, so it is cut at the end only.
            target = open_beneath(at, path, os.O_WRONLY)
            try:
                copy_content(source, target)
                os.ftruncate(target, stat_fd(source).size)
                set_times(at, path, None, now.mtime, False)  # of this one alone: for a watcher that is no attribute
            finally:
                os.close(target)
            made = stat_beneath(at, path)
            inode.plain_mtime, inode.host_ctime = made.mtime, made.ctime
            inode.mtime = now.mtime
            if inode.key is not None and inode.key != (now.dev, now.ino):
                self._copy_up.inodes.pop(inode.key, None)
                inode.key = now.dev, now.ino
                self._copy_up.inodes[inode.key] = inode
        finally:
            os.close(source)

    def _appeared(self, directory: LayerDir, mirror: MirrorDir, name: bytes, *, moved: bool) -> None:
        node = self._tree.lookup(None, directory, name)  # FileNotFoundError: a rule hides it
        before = mirror.numbers.get(name)
        if isinstance(node, LayerDir) or not moved or self._mirror.shown_number(node) == before:
            mirror.show(name, node)
        else:
            at, through = self._state.fd, b"files/%d" % self._state.new_number()
            os.link(self._mirror.stand_in_path(node), through, src_dir_fd=at, dst_dir_fd=at)
            os.rename(through, mirror.entry(name), src_dir_fd=at, dst_dir_fd=at)
            mirror.numbers[name] = self._mirror.shown_number(node)
            mirror.names.add(name)
        if before is not None and before != mirror.numbers.get(name):
            self._mirror.drop_unused(before)

    def _gone(self, directory: LayerDir, mirror: MirrorDir, name: bytes, *, moved: bool) -> None:
        node, at = directory.names.get(name), self._state.fd
        if isinstance(node, LayerDir):
            if not _is_untouched(node):
                return  # the box has something in it
            mirror.remove(name, node)
            directory.names.pop(name, None)
            node.removed = True
            return
        if isinstance(node, Inode):
            mirror.let_go(name, node)
            directory.names.pop(name, None)
            node.drop_name(directory, name)
            self._copy_up.origins.pop(node, None)
            if node.key is not None:
                self._copy_up.inodes.pop(node.key, None)
        if moved:
            through = b"files/%d" % self._state.new_number()
            os.rename(mirror.entry(name), through, src_dir_fd=at, dst_dir_fd=at)
            os.unlink(through, dir_fd=at)
            mirror.names.discard(name)
        else:
            mirror.clear(name)
        if (number := mirror.numbers.pop(name, None)) is not None:
            self._mirror.drop_unused(number)

    def _renamed(self, number: int, name: bytes, target: Event) -> None:
        """Both names are in watched directories. If the host's own files are behind both, it is a rename here, too."""
        old, new, new_name = self._directories.get(number), self._directories.get(target[0]), target[3]
        plain = old is not None and new is not None and all(
            each.mirror is not None and not each.removed and _shows_host(each, called) and called not in each.names
            for each, called in ((old, name), (new, new_name))
        )  # fmt: skip
        source = old.mirror if old is not None else None
        goal = new.mirror if new is not None else None
        if (
            not plain or source is None or goal is None or old is None or new is None or name not in source.names
            or not goal.complete or _host_stat(old, name) is not None or _host_stat(new, new_name) is None
        ):  # fmt: skip
            self._happened(number, MOVED_FROM, name)
            self._happened(target[0], target[1], new_name)
            return
        at = self._state.fd
        replaced = goal.numbers.pop(new_name, None)
        os.rename(source.entry(name), goal.entry(new_name), src_dir_fd=at, dst_dir_fd=at)
        source.names.discard(name)
        goal.names.add(new_name)
        if (moved := source.numbers.pop(name, None)) is not None:
            goal.numbers[new_name] = moved
        if replaced is not None and replaced != moved:
            self._mirror.drop_unused(replaced)

    def _look_again(self) -> None:
        """Events were lost: names that came and went are found by looking."""
        for number, directory in list(self._directories.items()):
            if directory.mirror is None or directory.removed or directory.lower is None:
                continue
            names = {name for name, _, _ in directory.lower.names(directory.rel)}
            for name in names ^ directory.mirror.names:
                self._happened(number, CREATE, name)


def _events(data: bytes) -> list[Event]:
    found: list[Event] = []
    at = 0
    while at < len(data):
        number, mask, cookie, size = HEAD.unpack_from(data, at)
        at += HEAD.size + size
        found.append((number, mask, cookie, data[at - size : at].rstrip(b"\0")))
    return found


def _shows_host(directory: LayerDir, name: bytes) -> bool:
    """Is what the guest sees under this name the host's own content?"""
    if not name or not directory.shows_lower(name):
        return False
    node, own = directory.names.get(name), (directory.lower, directory.below(name))
    if node is None:
        return True
    if isinstance(node, Inode):
        return (node.source or node.origin) == own
    return isinstance(node, LayerDir) and (node.lower, node.rel) == own


def _host_stat(directory: LayerDir, name: bytes) -> HostStat | None:
    assert directory.lower is not None
    try:
        return directory.lower.stat(directory.below(name))
    except OSError:
        return None


def _is_untouched(directory: LayerDir) -> bool:
    waiting = [directory]
    while waiting:
        here = waiting.pop()
        if here.copied_up or here.mounted is not None:
            return False
        for name, node in here.names.items():
            if not isinstance(node, LayerDir) or (node.lower, node.rel) != (here.lower, here.below(name)):
                return False
            waiting.append(node)
    return True
