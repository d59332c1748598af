"""kernel: `--publish`: a host port that leads to a server inside the box.

husk listens on the host, connects into the box and relays bytes both ways. It looks the server up for each connection:
while none listens, husk closes the connection.
"""

from __future__ import annotations

import _socket
import _thread

from husk.kernel.net.ports import FOUR, LOCALHOST, host_address
from husk.native._core import bind_address, connect_address
from husk.native.threads import start_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.kernel.net.mapped import MappedNetwork

PIECE, BACKLOG, MOST_CONNECTIONS = 1 << 16, 64, 1024


class Published:
    """One listening socket on the host."""

    __slots__ = ("_busy", "_network", "_port", "_socket", "host")

    def __init__(self, network: MappedNetwork, host: str, host_port: int, guest_port: int) -> None:
        family = _socket.AF_INET6 if ":" in host else _socket.AF_INET
        self._network, self._port, self._busy = network, guest_port, 0
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
            start_thread(self._serve)
        except OSError:
            self._socket.close()
            raise

    def close(self) -> None:
        try:
            self._socket.shutdown(_socket.SHUT_RDWR)
        except OSError:
            pass
        self._socket.close()

    def _serve(self) -> None:
        try:
            while True:
                fd, _ = self._socket._accept()  # type: ignore[attr-defined]  # unlike ours it continues after a signal
                outer = _socket.socket(fileno=fd)
                try:
                    inner = self._dial() if self._busy < MOST_CONNECTIONS else None
                except OSError:
                    inner = None
                if inner is None:
                    outer.close()
                    continue
                self._busy += 1
                try:
                    start_thread(self._carry, outer, inner)
                except OSError:
                    self._hang_up(outer, inner)
        except OSError:
            pass  # closed

    def _dial(self) -> _socket.socket | None:
        where = self._network.listener(LOCALHOST, self._port)
        if where is None:
            return None
        inner = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        try:
            bind_address(inner.fileno(), host_address(_socket.AF_INET, self._network.ports.host_ip(FOUR), 0))
            connect_address(inner.fileno(), where)
        except BaseException:
            inner.close()
            raise
        return inner

    def _carry(self, outer: _socket.socket, inner: _socket.socket) -> None:
        done = _thread.allocate_lock()
        done.acquire()

        def back() -> None:
            _copy(inner, outer)
            done.release()

        try:
            start_thread(back)
        except OSError:
            self._hang_up(outer, inner)
            return
        _copy(outer, inner)
        done.acquire()
        self._hang_up(outer, inner)

    def _hang_up(self, outer: _socket.socket, inner: _socket.socket) -> None:
        outer.close()
        inner.close()
        self._busy -= 1


def _copy(source: _socket.socket, target: _socket.socket) -> None:
    """Copy until one side ends, then shut the other down."""
    try:
        while piece := source.recv(PIECE):
            target.sendall(piece)
        target.shutdown(_socket.SHUT_WR)
    except OSError:
        for each in (source, target):
            try:
                each.shutdown(_socket.SHUT_RDWR)
            except OSError:
                pass
