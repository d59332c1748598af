"""kernel: which socket owns a port of the host's loopback, by the host's socket diagnosis (NETLINK_SOCK_DIAG)."""

from __future__ import annotations

import _socket
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, NLM_F_DUMP, NETLINK_SOCK_DIAG, NLMSG_ERROR, NLMSG_DONE = 20, 1, 0x300, 4, 2, 3
AF_INET, AF_INET6, SOCK_STREAM, IPPROTO_TCP, IPPROTO_UDP = 2, 10, 1, 6, 17
REQUEST = struct.Struct("<IHHII BBBBI 2s2s16s16sIII")
NO_COOKIE = 0xFFFFFFFF
# struct inet_diag_msg: family, state, timer, retrans, then the two ports and addresses
PEER_PORT_AT, SOURCE_AT, PEER_AT, INODE_AT = 16 + 4 + 2, 16 + 4 + 4, 16 + 4 + 20, 16 + 4 + 48 + 16
MAPPED_PREFIX = bytes(10) + b"\xff\xff"
NO_SENDER = bytes(4), 0


def find(kind: int, ips: list[bytes], port: int, sender: tuple[bytes, int] = NO_SENDER) -> Iterator[tuple[bytes, int]]:
    """For each address: bound address and inode number of the socket that would receive a packet for it and `port`;
    b"" and 0 for none. The host looks it up exactly as it would for a packet of this sender. A TCP socket counts if it
    listens."""
    diagnosis = _diagnosis()
    try:
        for ip in ips:
            yield _find(diagnosis, kind, (ip, port), sender)
    finally:
        diagnosis.close()


def _find(
    diagnosis: _socket.socket, kind: int, receiver: tuple[bytes, int], sender: tuple[bytes, int]
) -> tuple[bytes, int]:
    here, there = ((port.to_bytes(2, "big"), ip.ljust(16, b"\0")) for ip, port in (receiver, sender))
    # For UDP the host looks from the other side.
    (sport, source), (dport, target) = (here, there) if kind == SOCK_STREAM else (there, here)
    protocol = IPPROTO_TCP if kind == SOCK_STREAM else IPPROTO_UDP
    header = (REQUEST.size, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 1, 0, AF_INET, protocol, 0, 0, 0xFFFFFFFF)
    diagnosis.send(REQUEST.pack(*header, sport, dport, source, target, 0, NO_COOKIE, NO_COOKIE))
    answer = diagnosis.recv(4096)
    if len(answer) < INODE_AT + 4 or struct.unpack_from("<H", answer, 4)[0] == NLMSG_ERROR:
        return b"", 0
    family = answer[16]
    found = answer[SOURCE_AT : SOURCE_AT + 16]
    bound = found[:4] if family == AF_INET else found[12:] if found[:12] == MAPPED_PREFIX else bytes(4)
    return bound, struct.unpack_from("<I", answer, INODE_AT)[0]


def client_inode(client: tuple[bytes, int], server: tuple[bytes, int]) -> int:
    """Inode number of the TCP socket at the client's end of a connection on loopback; 0: there is none."""
    diagnosis = _diagnosis()
    try:
        return _find(diagnosis, SOCK_STREAM, client, server)[1]
    finally:
        diagnosis.close()


def connected_ports(block: bytes) -> set[int]:
    """The ports of addresses that begin with `block` to which datagram sockets are connected."""
    found: set[int] = set()
    for family in (AF_INET, AF_INET6):
        for peer, port in _connected(family):
            if (peer[:4] if family == AF_INET else peer[12:] if peer[:12] == MAPPED_PREFIX else b"").startswith(block):
                found.add(port)
    return found


def _connected(family: int) -> Iterator[tuple[bytes, int]]:
    """Address, in 16 bytes, and port of the peers of all datagram sockets of a family."""
    flags = NLM_F_REQUEST | NLM_F_DUMP
    header = (REQUEST.size, SOCK_DIAG_BY_FAMILY, flags, 1, 0, family, IPPROTO_UDP, 0, 0, 0xFFFFFFFF)
    diagnosis = _diagnosis()
    try:
        diagnosis.send(REQUEST.pack(*header, bytes(2), bytes(2), bytes(16), bytes(16), 0, NO_COOKIE, NO_COOKIE))
        while True:
            answer = memoryview(diagnosis.recv(1 << 16))
            while len(answer) >= 16:
                size, kind = struct.unpack_from("<IH", answer)
                if kind in (NLMSG_DONE, NLMSG_ERROR):
                    return
                port = int.from_bytes(answer[PEER_PORT_AT : PEER_PORT_AT + 2], "big")
                yield bytes(answer[PEER_AT : PEER_AT + 16]), port
                answer = answer[(size + 3) & ~3 :]
    finally:
        diagnosis.close()


def _diagnosis() -> _socket.socket:
    return _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW | _socket.SOCK_CLOEXEC, NETLINK_SOCK_DIAG)
