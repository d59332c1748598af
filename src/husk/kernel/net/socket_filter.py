"""kernel: socket filters for guest sockets on the host's network: they accept packets from allowed sources only.

Every such socket starts with a filter that drops everything. When husk binds or connects it, the filter admits the
box's own loopback and the peers that the policy allowed. A datagram socket that the host binds implicitly on a send
thus receives from no other source.
"""

from __future__ import annotations

import ctypes
import struct

from husk.native._core import set_option, socket_kind

SOL_SOCKET, SO_ATTACH_FILTER, SO_DETACH_FILTER, SOCK_STREAM = 1, 26, 27, 1
NETWORK_HEADER = 0xFFF00000  # SKF_NET_OFF: offsets from the IP header, whatever the protocol above
LOAD_BYTE, LOAD_WORD, AND, EQUAL, RETURN = 0x30, 0x20, 0x54, 0x15, 0x06
SOURCE4, SOURCE6 = 12, 8  # offset of the source address in each header
ACCEPT, DROP = 0xFFFFFFFF, 0


def set_source_filter(fd: int, loopback: bytes, peers: list[bytes]) -> None:
    """Accept packets from these sources only. `loopback`: the first three bytes of the box's addresses, or empty."""
    code: list[tuple[int, int, int, int]] = [(LOAD_BYTE, 0, 0, NETWORK_HEADER), (AND, 0, 0, 0xF0)]
    ipv4 = _match_ipv4(loopback, [peer for peer in peers if len(peer) == 4])
    code.append((EQUAL, 0, len(ipv4), 0x40))
    code += ipv4
    for peer in peers:
        if len(peer) == 16:
            code += _match_ipv6(peer)
    code.append((RETURN, 0, 0, DROP))
    try:
        attach_filter(fd, b"".join(struct.pack("<HBBI", *line) for line in code))
    except PermissionError:
        # Newer kernels allow filters on TCP for root only. A TCP socket listens only where husk bound it, so the
        # filter is a second wall.
        if socket_kind(fd)[1] != SOCK_STREAM:
            raise


def attach_filter(fd: int, program: bytes | None) -> None:
    """Attach a program of 8-byte instructions, or detach the one that is there."""
    if program is None:
        set_option(fd, SOL_SOCKET, SO_DETACH_FILTER, bytes(4))
        return
    buffer = ctypes.create_string_buffer(program, len(program))
    set_option(fd, SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("<H6xQ", len(program) // 8, ctypes.addressof(buffer)))


def _match_ipv4(loopback: bytes, peers: list[bytes]) -> list[tuple[int, int, int, int]]:
    code = [(LOAD_WORD, 0, 0, NETWORK_HEADER + SOURCE4)]
    for peer in peers:
        code += [(EQUAL, 0, 1, int.from_bytes(peer, "big")), (RETURN, 0, 0, ACCEPT)]
    if loopback:
        block = int.from_bytes(loopback + b"\0", "big")
        code += [(AND, 0, 0, 0xFFFFFF00), (EQUAL, 0, 1, block), (RETURN, 0, 0, ACCEPT)]
    return [*code, (RETURN, 0, 0, DROP)]


def _match_ipv6(peer: bytes) -> list[tuple[int, int, int, int]]:
    code: list[tuple[int, int, int, int]] = []
    for word in range(4):
        value = int.from_bytes(peer[4 * word : 4 * word + 4], "big")
        left = 2 * (3 - word) + 1  # jump over the rest of this comparison
        code += [(LOAD_WORD, 0, 0, NETWORK_HEADER + SOURCE6 + 4 * word), (EQUAL, 0, left, value)]
    return [*code, (RETURN, 0, 0, ACCEPT)]
