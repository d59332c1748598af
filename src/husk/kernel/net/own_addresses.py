"""kernel/net: is an address one of this machine? By the host's own routes (rtnetlink), else by a bind.

A bind alone does not tell: IPv6 anycast addresses and networks that are routed to this machine as a whole
(`ip -6 route add local NET dev lo`) lead here, and cannot be bound.
"""

from __future__ import annotations

import _socket
import struct

RTM_NEWROUTE, RTM_GETROUTE, NLM_F_REQUEST, RTA_DST, NLMSG_ERROR = 24, 26, 1, 1, 2
RTN_LOCAL, RTN_BROADCAST, RTN_ANYCAST = 2, 3, 4
HEADER, ROUTE, ATTRIBUTE = struct.Struct("<IHHII"), struct.Struct("<BBBBBBBBI"), struct.Struct("<HH")
TYPE_AT = HEADER.size + 7  # rtm_type in struct rtmsg


def is_own_address(ip: bytes) -> bool:
    """`ip` has 4 or 16 bytes."""
    family = _socket.AF_INET if len(ip) == 4 else _socket.AF_INET6
    try:
        return route_type(family, ip) in (RTN_LOCAL, RTN_BROADCAST, RTN_ANYCAST)
    except OSError:
        return _can_bind(family, ip)


def route_type(family: int, ip: bytes) -> int:
    """How the host would route a packet to it: RTN_UNICAST and so on; 0 if it has no route there."""
    body = ROUTE.pack(family, 8 * len(ip), 0, 0, 0, 0, 0, 0, 0) + ATTRIBUTE.pack(4 + len(ip), RTA_DST) + ip
    asking = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW | _socket.SOCK_CLOEXEC, _socket.NETLINK_ROUTE)
    try:
        asking.send(HEADER.pack(HEADER.size + len(body), RTM_GETROUTE, NLM_F_REQUEST, 1, 0) + body)
        answer = asking.recv(8192)
    finally:
        asking.close()
    if len(answer) <= TYPE_AT or struct.unpack_from("<H", answer, 4)[0] != RTM_NEWROUTE:
        return 0
    return answer[TYPE_AT]


def _can_bind(family: int, ip: bytes) -> bool:
    probe = _socket.socket(family, _socket.SOCK_DGRAM | _socket.SOCK_CLOEXEC)
    try:
        probe.bind((_socket.inet_ntop(family, ip), 0))
    except OSError:
        return False
    finally:
        probe.close()
    return True
