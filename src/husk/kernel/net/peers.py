"""kernel: who is at the other end of a Unix connection.

husk connects on the guest's behalf, so the host takes husk for the peer. husk notes who asked, by the number of the
connecting socket; asked about the accepted one, it finds its peer's number through the host's socket diagnosis.
"""

from __future__ import annotations

import _thread
import errno
import os
import struct

from husk.native._core import receive_message, send_message, socket_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_PEERS = 65536
SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, NLMSG_ERROR = 20, 1, 2
AF_UNIX, ANY_STATE, UDIAG_SHOW_PEER, UNIX_DIAG_PEER, NO_COOKIE = 1, 0xFFFFFFFF, 4, 2, 0xFFFFFFFF
REQUEST = struct.Struct("<IHHII BBHIIIII")
HEADERS, ATTRIBUTE = 16 + 16, struct.Struct("<HH")


class Peers:
    """`diagnosis` is a socket of the kind NETLINK_SOCK_DIAG in the box's network namespace, or -1."""

    __slots__ = ("_asked_by", "_callers", "_diagnosis", "_listeners", "_lock", "_sequence", "_told")

    def __init__(self, diagnosis: int) -> None:
        self._diagnosis = diagnosis
        self._asked_by: dict[int, bytes] = {}  # inode of a connecting socket -> struct ucred as the guest sees it
        self._callers: dict[bytes, bytes] = {}  # by the listener's text: the only one who ever called, or nothing
        self._told: dict[int, bytes] = {}  # inode of an accepted socket -> what was said of its peer
        self._listeners: dict[bytes, bytes] = {}  # by the host's text
        self._sequence = 0
        self._lock = _thread.allocate_lock()

    def close(self) -> None:
        if self._diagnosis >= 0:
            os.close(self._diagnosis)
            self._diagnosis = -1

    def note(self, fd: int, pid: int, uid: int, gid: int) -> None:
        _keep(self._asked_by, os.fstat(fd).st_ino, struct.pack("<III", pid, uid, gid))

    def note_listener(self, name: bytes, pid: int, uid: int, gid: int) -> None:
        """husk listens in the guest's place where `listen` is virtual. An accepted socket has its listener's name."""
        _keep(self._listeners, name, struct.pack("<III", pid, uid, gid))

    def note_caller(self, fd: int) -> None:
        """A connection stands. When its caller is gone before anybody asks, the listener's name is all that is left to
        go by: it tells who it was if nobody else has called there."""
        try:
            listener, caller = socket_name(fd, True), self._asked_by.get(os.fstat(fd).st_ino, b"")
        except OSError:
            return
        _keep(self._callers, listener, caller if self._callers.get(listener, caller) == caller else b"")

    def of(self, fd: int) -> bytes | None:
        """Who is at the other end of a connection husk made; None when that cannot be told any more."""
        try:
            if (server := self._listeners.get(socket_name(fd, True))) is not None:
                return server
        except OSError:
            pass
        try:
            own = os.fstat(fd).st_ino
            with self._lock:  # one question at a time: an answer to somebody else would be lost
                known = self._told.get(own) or self._asked_by.get(self._peer(own))
        except OSError:
            return self._callers.get(socket_name(fd, False))
        if known is not None:
            _keep(self._told, own, known)  # it stays true when the peer is gone
        return known

    def _peer(self, inode: int) -> int:
        self._sequence = self._sequence + 1 & 0xFFFFFFFF
        header = (REQUEST.size, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, self._sequence, 0)
        question = (AF_UNIX, 0, 0, ANY_STATE, inode, UDIAG_SHOW_PEER, NO_COOKIE, NO_COOKIE)
        send_message(self._diagnosis, b"", REQUEST.pack(*header, *question), b"", 0)
        while True:
            answer = receive_message(self._diagnosis, 4096, 0, 0)[0]
            kind, sequence = struct.unpack_from("<4xH2xI", answer)
            if sequence == self._sequence:
                break
        at = HEADERS
        while kind != NLMSG_ERROR and at + 4 <= len(answer):
            size, attribute = ATTRIBUTE.unpack_from(answer, at)
            if attribute == UNIX_DIAG_PEER and any(answer[at + 4 : at + 8]):  # 0 is one that is closed
                return int.from_bytes(answer[at + 4 : at + 8], "little")
            at += (size + 3) & ~3 or 4
        raise OSError(errno.ENOTCONN, "no peer")


def _keep(table: dict[Any, bytes], key: Any, who: bytes) -> None:
    if len(table) >= MOST_PEERS:
        del table[next(iter(table))]
    table[key] = who
