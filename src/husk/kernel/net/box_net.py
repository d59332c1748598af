"""kernel/net: what the socket calls of a box share. Made when the first of them is made: most programs need none."""

from __future__ import annotations

from husk.kernel.net.network import Network
from husk.kernel.net.peers import Peers
from husk.kernel.net.unix_sockets import UnixSockets


class BoxNet:
    """`network` None: the box's own namespace with its loopback, where addresses mean what they say. `diagnosis` is a
    NETLINK_SOCK_DIAG socket in the box's network namespace, or -1; it is closed with this."""

    __slots__ = ("network", "peers", "sockets")

    def __init__(self, network: Network | None, diagnosis: int, *, own_abstract_names: bool) -> None:
        self.network = network or Network()
        self.peers = Peers(diagnosis)
        self.sockets = UnixSockets(own_abstract_names=own_abstract_names)

    def close(self) -> None:
        self.peers.close()
