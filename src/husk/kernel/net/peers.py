"""kernel: peer credentials (SO_PEERCRED) of Unix connections that husk made, and who asks for those of messages.

husk connects in the guest's place, so the host reports husk as the peer. husk notes which guest process connected, by
the inode of the connecting socket. For an accepted socket it finds the peer's inode by the host's socket diagnosis.

Credentials of messages (SO_PASSCRED) come from the host, which attaches those of the process that sends. husk notes
which sockets ask for them: then the guest's own thread has to send (syscalls/sendmsg.py).
"""

from __future__ import annotations

import _thread
import errno
import os
import struct

from husk.native._core import get_option, receive_message, send_message, socket_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_PEERS = 65536
SOL_SOCKET, SO_ACCEPTCONN = 1, 30
SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, NLMSG_ERROR = 20, 1, 2
AF_UNIX, ANY_STATE, UDIAG_SHOW_PEER, UNIX_DIAG_PEER, NO_COOKIE = 1, 0xFFFFFFFF, 4, 2, 0xFFFFFFFF
REQUEST = struct.Struct("<IHHII BBHIIIII")
HEADERS, ATTRIBUTE = 16 + 16, struct.Struct("<HH")


class Peers:
    """`diagnosis` is a NETLINK_SOCK_DIAG socket in the box's network namespace, or -1."""

    __slots__ = ("_answered", "_any_asks", "_asking", "_connectors", "_diagnosis", "_listeners", "_lock",
                 "_only_connectors", "_sequence")

    def __init__(self, diagnosis: int) -> None:
        self._diagnosis = diagnosis
        self._connectors: dict[int, bytes] = {}  # inode of a connecting socket -> struct ucred as the guest sees it
        self._only_connectors: dict[bytes, bytes] = {}  # host address of a listener -> its only connector, or empty
        self._answered: dict[int, bytes] = {}  # inode of an accepted socket -> its peer
        self._listeners: dict[bytes, bytes] = {}  # host address -> the listening process
        self._asking: dict[int, bytes] = {}  # inodes of connected sockets that ask for credentials of messages
        self._any_asks = False  # an unconnected socket asks: any sender may reach it, or one that it accepts
        self._sequence = 0
        self._lock = _thread.allocate_lock()

    def close(self) -> None:
        if self._diagnosis >= 0:
            os.close(self._diagnosis)
            self._diagnosis = -1

    def note_connect(self, fd: int, pid: int, uid: int, gid: int) -> None:
        _store(self._connectors, os.fstat(fd).st_ino, struct.pack("<III", pid, uid, gid))

    def note_listener(self, name: bytes, pid: int, uid: int, gid: int) -> None:
        """husk listens for the guest where `listen` is virtual. An accepted socket has the listener's address."""
        _store(self._listeners, name, struct.pack("<III", pid, uid, gid))

    def note_connected(self, fd: int) -> None:
        """The connection is established. If its connector closes before the server asks, only the listener's address is
        left: it identifies the connector if no other process has connected there."""
        try:
            listener, connector = socket_name(fd, True), self._connectors.get(os.fstat(fd).st_ino, b"")
        except OSError:
            return
        only = self._only_connectors.get(listener, connector) == connector
        _store(self._only_connectors, listener, connector if only else b"")

    def credentials(self, fd: int) -> bytes | None:
        """struct ucred of the other end of a connection that husk made; None when it is not known any more."""
        try:
            if get_option(fd, SOL_SOCKET, SO_ACCEPTCONN, 4) != bytes(4):
                return self._listeners.get(socket_name(fd, False))  # a listening socket tells who listens
            if (server := self._listeners.get(socket_name(fd, True))) is not None:
                return server
        except OSError:
            pass
        try:
            own = os.fstat(fd).st_ino
            with self._lock:  # one query at a time: another thread would lose its answer
                known = self._answered.get(own) or self._connectors.get(self._peer_inode(own))
        except OSError:
            return self._only_connectors.get(socket_name(fd, False))
        if known is not None:
            _store(self._answered, own, known)  # stays true after the peer is gone
        return known

    def note_asking(self, fd: int) -> None:
        """A socket may have SO_PASSCRED from now on."""
        try:
            socket_name(fd, True)
        except OSError:
            self._any_asks = True
        _store(self._asking, os.fstat(fd).st_ino, b"")
        self._any_asks |= len(self._asking) == MOST_PEERS  # from here on some are forgotten

    def wants_credentials(self, fd: int) -> bool:
        """Will the host attach credentials to what is sent on this Unix socket? True if that is not known."""
        if self._any_asks or not self._asking:
            return self._any_asks
        own = os.fstat(fd).st_ino
        try:
            with self._lock:
                return own in self._asking or self._peer_inode(own) in self._asking
        except OSError:
            return True

    def may_want_credentials(self, fd: int) -> bool:
        """The same for what this socket sends to a name. A sender that asks itself is given a name by the host."""
        return self._any_asks and os.fstat(fd).st_ino not in self._asking

    def _peer_inode(self, inode: int) -> int:
        self._sequence = self._sequence + 1 & 0xFFFFFFFF
        header = (REQUEST.size, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, self._sequence, 0)
        query = (AF_UNIX, 0, 0, ANY_STATE, inode, UDIAG_SHOW_PEER, NO_COOKIE, NO_COOKIE)
        send_message(self._diagnosis, b"", REQUEST.pack(*header, *query), b"", 0)
        while True:
            answer = receive_message(self._diagnosis, 4096, 0, 0)[0]
            kind, sequence = struct.unpack_from("<4xH2xI", answer)
            if sequence == self._sequence:
                break
        at = HEADERS
        while kind != NLMSG_ERROR and at + 4 <= len(answer):
            size, attribute = ATTRIBUTE.unpack_from(answer, at)
            if attribute == UNIX_DIAG_PEER and any(answer[at + 4 : at + 8]):  # 0: it is closed
                return int.from_bytes(answer[at + 4 : at + 8], "little")
            at += (size + 3) & ~3 or 4
        raise OSError(errno.ENOTCONN, "no peer")


def _store(table: dict[Any, bytes], key: Any, credentials: bytes) -> None:
    if len(table) >= MOST_PEERS:
        del table[next(iter(table))]
    table[key] = credentials
