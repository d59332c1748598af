"""sandbox: sockets among the guest's descriptors 0, 1 and 2.

A socket stays in the network in which it was made, and Linux lets its holder disconnect it and connect it to another
peer (connect with AF_UNSPEC). A guest that holds a network socket of the host would be on the host's network, whatever
its namespace: inetd, `nc -e` and systemd's Accept= start programs like that. So a guest never gets a connected network
stream itself: it gets one end of a socket pair, and threads copy bytes between the other end and the stream. Unix
streams that are connected, or listen, cannot be connected elsewhere and are handed over as they are. Datagram sockets
and listening network sockets cannot be relayed; they are refused before anything runs.

Life of a `SocketRelay`: made before the guest, `begin` once the guest has its end, `finish` when the box is gone.
"""

from __future__ import annotations

import _socket
import _thread
import os
import select
import stat as st

from husk.native.threads import start_thread
from husk.sandbox.errors import UsageError

SO_DOMAIN, PIECE, LINGER_MS = 39, 1 << 16, 5000
NAMES = ("input", "output", "error")


def must_be_relayed(fd: int, number: int) -> bool:
    """False: a guest may hold this socket. UsageError: it may not, and the socket cannot be relayed."""
    end = _socket.socket(fileno=os.dup(fd))
    try:
        unix = end.getsockopt(_socket.SOL_SOCKET, SO_DOMAIN) == _socket.AF_UNIX
        if end.type == _socket.SOCK_STREAM or (unix and end.type == _socket.SOCK_SEQPACKET):
            if unix and end.getsockopt(_socket.SOL_SOCKET, _socket.SO_ACCEPTCONN):
                return False
            try:
                end.getpeername()
                return not unix
            except OSError:
                pass  # it has no peer, and could get any
    finally:
        end.close()
    raise UsageError(
        f"standard {NAMES[number]} is a socket that a guest could turn to other peers; "
        "give a pipe, a file, or a connected stream."
    )


class SocketRelay:
    """One of the caller's streams. `guest` is the end for the guest; `reads`: the guest also reads from it."""

    def __init__(self, fd: int, *, reads: bool) -> None:
        self._given = _socket.socket(fileno=os.dup(fd))
        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        self._ours, self.guest = ours, theirs.detach()
        self._reads = reads
        self._stop, self._stop_in = os.pipe()
        self._threads: list[_thread.LockType] = []

    def begin(self) -> None:
        self._close_guest()
        self._start(self._outward)
        if self._reads:
            self._start(self._inward)

    def _start(self, body: object) -> None:
        over = _thread.allocate_lock()
        over.acquire()
        start_thread(self._thread, body, over)
        self._threads.append(over)

    def _thread(self, body: object, over: _thread.LockType) -> None:
        try:
            body()  # type: ignore[operator]
        except OSError:
            pass  # one end is broken; the other notices by itself
        finally:
            over.release()

    def finish(self) -> None:
        """The box is gone, and every other holder of the guest's end with it: copy what it still wrote. Safe to call
        twice."""
        self._close_guest()
        if self._stop_in >= 0:
            os.close(self._stop_in)  # the threads see that as a hang-up
            self._stop_in = -1
            for over in self._threads:
                over.acquire()
            os.close(self._stop)
            self._ours.close()
            self._given.close()

    def _close_guest(self) -> None:
        if self.guest >= 0:
            os.close(self.guest)
            self.guest = -1

    # -- the two directions ----------------------------------------------------------------------------------------
    def _outward(self) -> None:
        while True:
            wait = select.poll()
            wait.register(self._ours, select.POLLIN)
            hung_up = wait.poll()[0][1] & select.POLLHUP
            data = self._ours.recv(PIECE)
            if not data:
                if not hung_up:  # the guest is alive and has shut down writing
                    self._given.shutdown(_socket.SHUT_WR)
                return
            while data:
                data = data[self._send(self._given, data) :]

    def _inward(self) -> None:
        while self._ready(self._given, select.POLLIN):
            try:
                data = self._given.recv(PIECE, _socket.MSG_DONTWAIT)
            except BlockingIOError:
                continue  # another holder of the stream was faster
            if not data:
                self._ours.shutdown(_socket.SHUT_WR)
                return
            while data:
                if not self._ready(self._ours, select.POLLOUT):
                    return
                data = data[self._send(self._ours, data) :]

    def _ready(self, end: _socket.socket, event: int) -> bool:
        """Wait for one end; False when the box is gone."""
        wait = select.poll()
        wait.register(end, event)
        wait.register(self._stop, 0)  # poll always reports a hang-up
        return all(fd != self._stop for fd, _ in wait.poll())

    def _send(self, end: _socket.socket, data: bytes) -> int:
        """Send without blocking in the call: other holders of the stream choose whether it blocks. A peer that reads
        nothing may delay the box while it runs, and its end for LINGER_MS."""
        while True:
            try:
                return end.send(data, _socket.MSG_DONTWAIT | _socket.MSG_NOSIGNAL)
            except BlockingIOError:
                if self._ready(end, select.POLLOUT):
                    continue
            wait = select.poll()
            wait.register(end, select.POLLOUT)
            if not wait.poll(LINGER_MS):
                raise OSError("the peer reads nothing")


def relay_sockets(given: list[int]) -> tuple[list[int], list[SocketRelay]]:
    """The three descriptors for the guest, and the relays behind those that were replaced. Descriptors of one socket
    share one relay."""
    by_inode: dict[int, list[int]] = {}
    for number, fd in enumerate(given):
        facts = os.fstat(fd)
        if st.S_ISSOCK(facts.st_mode) and must_be_relayed(fd, number):
            by_inode.setdefault(facts.st_ino, []).append(number)
    guest, made = list(given), []
    try:
        for numbers in by_inode.values():
            relay = SocketRelay(given[numbers[0]], reads=0 in numbers)
            made.append(relay)
            for number in numbers:
                guest[number] = relay.guest
    except BaseException:
        for each in made:
            each.finish()
        raise
    return guest, made
