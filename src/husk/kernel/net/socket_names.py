"""kernel: how a box knows its sockets that stand in the host's tables, for /proc/net (vfs/proc/socket_tables.py)."""

from __future__ import annotations

from husk.vfs.node import SocketNames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.kernel.net.network import Network
    from husk.kernel.net.unix_sockets import UnixSockets


class BoxSocketNames(SocketNames):
    __slots__ = ("_network", "_sockets", "mapped")

    def __init__(self, network: Network, sockets: UnixSockets) -> None:
        self._network, self._sockets, self.mapped = network, sockets, network.mapped

    def unix_name(self, host_text: bytes) -> bytes:
        return self._sockets.guest_name(host_text)

    def is_own(self, address: bytes) -> bool:
        return self._network.is_own(address)

    def inet_names(self, kind: int, inode: int, own: bytes, peer: bytes) -> tuple[bytes, bytes]:
        return self._network.guest_names(kind, inode, own, peer)
