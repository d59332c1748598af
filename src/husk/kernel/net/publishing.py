"""kernel: `--publish`: a host port that leads to a server inside the box.

husk listens on the host, connects into the box and relays bytes both ways. It looks the server up for each connection:
while none listens, husk closes the connection. Callers are strangers: whatever they and the guest do, husk's
descriptors, threads and memory stay bounded, one caller does not hold up the next, and nothing outlasts the box.
"""

from __future__ import annotations

import _socket
import _thread
import errno
import time

from husk.kernel.net.ports import FOUR, LOCALHOST, host_address
from husk.native._core import bind_address
from husk.native.threads import start_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.kernel.net.mapped import MappedNetwork

PIECE, BACKLOG = 1 << 15, 64
# For all ports of a box together. Each takes two descriptors, two threads and two pieces: at most some 40 MiB in all,
# and half of the 1024 descriptors that hosts usually give a process.
MOST_CONNECTIONS = 256
DIALLING = 10.0  # seconds for a server that listens, but whose queue is full
SHORT_OF = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


class Relays:
    """The connections of all published ports of a box. `close` ends them."""

    __slots__ = ("_closed", "_lock", "_open", "_places")

    def __init__(self) -> None:
        self._lock, self._places, self._closed = _thread.allocate_lock(), MOST_CONNECTIONS, False
        self._open: set[_socket.socket] = set()

    def enter(self) -> bool:
        """Take a place; False: there is none."""
        with self._lock:
            taken = self._places > 0 and not self._closed
            self._places -= taken
        return taken

    def leave(self) -> None:
        with self._lock:
            self._places += 1

    def hold(self, each: _socket.socket) -> None:
        """Until `drop`, `close` may shut it down. Raises where that has happened already."""
        with self._lock:
            if self._closed:
                raise OSError(errno.ESHUTDOWN, "the box ends")
            self._open.add(each)

    def serve(self, listener: _socket.socket, carry: Callable[[int], None]) -> None:
        """Gives each caller's descriptor to `carry`, in a thread of its own, until the listener is closed."""
        while True:
            try:
                fd, _ = listener._accept()  # type: ignore[attr-defined]  # unlike ours it continues after a signal
            except OSError as error:
                if error.errno in (errno.EBADF, errno.EINVAL):
                    return
                if error.errno in SHORT_OF:
                    time.sleep(0.1)  # the caller waits in the queue
                continue  # otherwise that one caller is gone
            if not self.enter():
                _socket.close(fd)
                continue
            try:
                start_thread(carry, fd)
            except OSError:
                _socket.close(fd)
                self.leave()

    def exchange(self, old: _socket.socket, new: _socket.socket) -> None:
        """`new` has taken over the descriptor of `old`."""
        with self._lock:
            self._open.discard(old)
            self._open.add(new)
        if self._closed:
            _shut_down(new)

    def drop(self, each: _socket.socket) -> None:
        with self._lock:
            self._open.discard(each)
        each.close()  # not before: `close` must not shut down another socket with the same number

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for each in self._open:
                _shut_down(each)


class Published:
    """One listening socket on the host."""

    __slots__ = ("_network", "_port", "_relays", "_socket", "host")

    def __init__(self, network: MappedNetwork, relays: Relays, host: str, host_port: int, guest_port: int) -> None:
        family = _socket.AF_INET6 if ":" in host else _socket.AF_INET
        self._network, self._relays, self._port = network, relays, guest_port
        self._socket = _socket.socket(family, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        try:
            self._socket.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
            self._socket.bind((host, host_port))
            self._socket.listen(BACKLOG)
        except BaseException:
            self._socket.close()
            raise
        self.host: tuple[str, int] = self._socket.getsockname()[:2]
        try:
            start_thread(relays.serve, self._socket, self._carry)
        except OSError:
            self._socket.close()
            raise

    def close(self) -> None:
        _shut_down(self._socket)  # wakes the thread that waits in it
        self._socket.close()

    def _carry(self, caller: int) -> None:
        outer = _socket.socket(fileno=caller)
        relays, inner = self._relays, None
        try:
            relays.hold(outer)
            outer.setsockopt(_socket.SOL_SOCKET, _socket.SO_KEEPALIVE, 1)  # a caller that vanished gives its place back
            inner = self._dial()
            if inner is not None:
                _relay(outer, inner)
        except OSError:
            pass
        finally:
            if inner is not None:
                relays.drop(inner)
            relays.drop(outer)
            relays.leave()

    def _dial(self) -> _socket.socket | None:
        where = self._network.listener(LOCALHOST, self._port)
        if where is None:
            return None
        inner = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        try:
            bind_address(inner.fileno(), host_address(_socket.AF_INET, self._network.ports.host_ip(FOUR), 0))
            self._relays.hold(inner)
            inner.settimeout(DIALLING)
            inner.connect((_socket.inet_ntop(_socket.AF_INET, where[4:8]), int.from_bytes(where[2:4], "big")))
            inner.settimeout(None)
        except BaseException:
            self._relays.drop(inner)
            raise
        return inner


def _relay(outer: _socket.socket, inner: _socket.socket) -> None:
    """Both ways, until both have ended."""
    done = _thread.allocate_lock()
    done.acquire()

    def back() -> None:
        _copy(inner, outer)
        done.release()

    start_thread(back)
    _copy(outer, inner)
    done.acquire()


def _copy(source: _socket.socket, target: _socket.socket) -> None:
    """Copy until one side ends, then shut the other down."""
    try:
        while piece := source.recv(PIECE):
            target.sendall(piece)
        target.shutdown(_socket.SHUT_WR)
    except OSError:
        _shut_down(source)
        _shut_down(target)


def _shut_down(each: _socket.socket) -> None:
    """Wakes the threads that wait in it."""
    try:
        each.shutdown(_socket.SHUT_RDWR)
    except OSError:
        pass
