"""kernel: emulated netlink sockets for boxes without a network namespace.

The guest holds one end of a socket pair, a thread of husk the other. The thread answers what is asked of routing
(husk.kernel.loopback.routes); a socket for device events gets none. Here: making such sockets, their ports (the number
that netlink has for an address), their groups and options.
"""

from __future__ import annotations

import _socket
import _thread
import errno
import os
import struct

from husk.kernel.loopback.routes import answers
from husk.kernel.net.netlink import check_groups
from husk.native.threads import start_thread
from husk.vfs.fd_reserve import is_in_reserve

AF_NETLINK, SOCK_DGRAM, SOCK_RAW = 16, 2, 3
NETLINK_ROUTE = 0
ADDRESS = struct.Struct("<HHII")  # struct sockaddr_nl: family, padding, port, groups
KERNEL = ADDRESS.pack(AF_NETLINK, 0, 0, 0)
SOL_SOCKET, SO_TYPE, SO_PROTOCOL, SO_DOMAIN = 1, 3, 38, 39
SOL_NETLINK, ADD_MEMBERSHIP, DROP_MEMBERSHIP, LIST_MEMBERSHIPS = 270, 1, 2, 9
SWITCHES = frozenset({3, 4, 5, 8, 10, 11, 12})  # NETLINK_PKTINFO and the like: what they switch, husk does not send
MOST_GROUPS = 64
MOST = 256  # sockets: each costs husk a descriptor and a thread, which one guest must not exhaust


class NetlinkSocket:
    """The guest's end is known by its inode number."""

    __slots__ = ("_all", "end", "groups", "inode", "kind", "port", "protocol", "switches")

    def __init__(self, box: NetlinkSockets, end: _socket.socket, inode: int, kind: int, protocol: int) -> None:
        self._all = box
        self.end, self.inode, self.kind, self.protocol = end, inode, kind, protocol
        self.port, self.groups = 0, 0
        self.switches: dict[int, bytes] = {}

    @property
    def name(self) -> bytes:
        return ADDRESS.pack(AF_NETLINK, 0, self.port, self.groups & 0xFFFFFFFF)

    def is_open(self) -> bool:
        """Whether the guest still holds its end: the thread may not have noticed yet."""
        try:
            return self.end.recv(1, _socket.MSG_PEEK | _socket.MSG_DONTWAIT) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def bind(self, address: bytes, own_pid: int) -> None:
        if len(address) < ADDRESS.size:
            raise OSError(errno.EINVAL, "too short for an address")
        family, _, port, groups = ADDRESS.unpack_from(address)
        if family != AF_NETLINK or (self.port and port != self.port and port):
            raise OSError(errno.EINVAL, "another family, or bound already")
        check_groups(groups)
        if not self.port:
            self._take_port(port, own_pid)
        self.groups = self.groups & ~0xFFFFFFFF | groups

    def _take_port(self, port: int, own_pid: int) -> None:
        with self._all.lock:
            taken = self._all.ports(self.protocol)
            if port in taken:
                raise OSError(errno.EADDRINUSE, "another socket has this port")
            port = port or own_pid
            while port in taken:  # as Linux does where the process has such a socket already
                port = 0xFFFFFFFF - 4096 - int.from_bytes(os.urandom(3), "little")
            self.port = port

    def option(self, level: int, name: int) -> bytes:
        if level == SOL_SOCKET:
            return {SO_TYPE: self.kind, SO_DOMAIN: AF_NETLINK, SO_PROTOCOL: self.protocol}[name].to_bytes(4, "little")
        if name == LIST_MEMBERSHIPS:
            return self.groups.to_bytes((max(32, self.groups.bit_length()) + 31) // 32 * 4, "little")
        if name in SWITCHES:
            return self.switches.get(name, bytes(4))
        raise OSError(errno.ENOPROTOOPT, "no such option of netlink")

    def set_option(self, name: int, value: bytes) -> None:
        number = int.from_bytes(value[:4], "little")
        if name in (ADD_MEMBERSHIP, DROP_MEMBERSHIP):
            if not 0 < number <= MOST_GROUPS:
                raise OSError(errno.EINVAL, "no such group")
            bit = 1 << (number - 1)
            check_groups(bit)
            self.groups = self.groups | bit if name == ADD_MEMBERSHIP else self.groups & ~bit
        elif name in SWITCHES:
            self.switches[name] = int(number != 0).to_bytes(4, "little")
        else:
            raise OSError(errno.ENOPROTOOPT, "no such option of netlink")


class NetlinkSockets:
    """Those of one box. Ports are the box's own, as in a network namespace; another box sees none of them."""

    __slots__ = ("_sockets", "lock")

    def __init__(self) -> None:
        self.lock = _thread.allocate_lock()
        self._sockets: dict[int, NetlinkSocket] = {}

    def find(self, fd: int) -> NetlinkSocket | None:
        return self._sockets.get(os.fstat(fd).st_ino)

    def ports(self, protocol: int) -> set[int]:
        """Those that are taken. The caller has the lock."""
        others = [each for each in self._sockets.values() if each.port and each.protocol == protocol]
        return {each.port for each in others if each.is_open()}

    def make(self, flags: int, kind: int = SOCK_RAW, protocol: int = NETLINK_ROUTE) -> int:
        """Return the guest's end. The thread ends when the guest closes it."""
        if kind not in (SOCK_RAW, SOCK_DGRAM):
            raise OSError(errno.ESOCKTNOSUPPORT, "netlink has no such type of socket")
        if len(self._sockets) >= MOST:
            raise OSError(errno.ENOBUFS, f"at most {MOST} netlink sockets at once")
        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET | _socket.SOCK_CLOEXEC)
        if is_in_reserve(theirs.fileno()):
            ours.close()
            theirs.close()
            raise OSError(errno.ENOBUFS, "husk has few descriptors left")
        if flags & _socket.SOCK_NONBLOCK:
            theirs.setblocking(False)
        made = NetlinkSocket(self, ours, os.fstat(theirs.fileno()).st_ino, kind, protocol)
        with self.lock:
            self._sockets[made.inode] = made
        try:
            start_thread(self._serve, made)
        except OSError:
            self._forget(made)
            raise OSError(errno.ENOBUFS, "no thread to answer it") from None
        return theirs.detach()

    def _serve(self, socket: NetlinkSocket) -> None:
        try:
            while question := socket.end.recv(65536):
                for answer in answers(question, socket.port) if socket.protocol == NETLINK_ROUTE else ():
                    socket.end.send(answer, _socket.MSG_NOSIGNAL)
        except OSError:
            pass  # closed in the middle
        finally:
            self._forget(socket)

    def _forget(self, socket: NetlinkSocket) -> None:
        with self.lock:
            self._sockets.pop(socket.inode, None)
        socket.end.close()
