"""kernel: socket filters that keep strangers away from a guest's socket on the host's network.

Every such socket is born deaf. What it may hear is added when husk binds or connects it: the box's own loopback, and
the peers the policy allowed. A datagram socket that the host binds in passing, when it sends, thus hears nobody else.
"""

from __future__ import annotations

import ctypes
import struct

from husk.native._core import set_option, socket_kind

SOL_SOCKET, SO_ATTACH_FILTER, SOCK_STREAM = 1, 26, 1
NETWORK_HEADER = 0xFFF00000  # SKF_NET_OFF: offsets from the IP header, whatever the protocol above
LOAD_BYTE, LOAD_WORD, AND, EQUAL, RETURN = 0x30, 0x20, 0x54, 0x15, 0x06
SOURCE4, SOURCE6 = 12, 8  # where the sender's address stands in each header
ALL, NOTHING = 0xFFFFFFFF, 0


def hear_only(fd: int, loopback: bytes, peers: list[bytes]) -> None:
    """`loopback` is the first three bytes of the box's own addresses, or empty; peers have 4 or 16 bytes."""
    code: list[tuple[int, int, int, int]] = [(LOAD_BYTE, 0, 0, NETWORK_HEADER), (AND, 0, 0, 0xF0)]
    four = _sources4(loopback, [peer for peer in peers if len(peer) == 4])
    code.append((EQUAL, 0, len(four), 0x40))
    code += four
    for peer in peers:
        if len(peer) == 16:
            code += _source6(peer)
    code.append((RETURN, 0, 0, NOTHING))
    program = b"".join(struct.pack("<HBBI", *line) for line in code)
    buffer = ctypes.create_string_buffer(program, len(program))
    try:
        set_option(fd, SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("<H6xQ", len(code), ctypes.addressof(buffer)))
    except PermissionError:
        # Newer kernels keep filters on TCP for root. It listens only where husk bound it, so this is a second wall.
        if socket_kind(fd)[1] != SOCK_STREAM:
            raise


def _sources4(loopback: bytes, peers: list[bytes]) -> list[tuple[int, int, int, int]]:
    code = [(LOAD_WORD, 0, 0, NETWORK_HEADER + SOURCE4)]
    for peer in peers:
        code += [(EQUAL, 0, 1, int.from_bytes(peer, "big")), (RETURN, 0, 0, ALL)]
    if loopback:
        block = int.from_bytes(loopback + b"\0", "big")
        code += [(AND, 0, 0, 0xFFFFFF00), (EQUAL, 0, 1, block), (RETURN, 0, 0, ALL)]
    return [*code, (RETURN, 0, 0, NOTHING)]


def _source6(peer: bytes) -> list[tuple[int, int, int, int]]:
    code: list[tuple[int, int, int, int]] = []
    for word in range(4):
        value = int.from_bytes(peer[4 * word : 4 * word + 4], "big")
        left = 2 * (3 - word) + 1  # over the rest of this comparison
        code += [(LOAD_WORD, 0, 0, NETWORK_HEADER + SOURCE6 + 4 * word), (EQUAL, 0, left, value)]
    return [*code, (RETURN, 0, 0, ALL)]
