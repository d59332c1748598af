"""kernel: multicast groups and broadcasts inside a box whose loopback is mapped.

No socket of the host ever joins a group, and no packet for one is ever sent. husk notes which guest socket has joined
which group, and sends a datagram for a group as one to each socket of the box that Linux would deliver it to: bound to
the port, and to the group's address or to any. Sockets that share one address and port are told apart by the slot of
the loopback they are bound at, if they joined before they were bound; else one of them gets the datagram.
"""

from __future__ import annotations

import errno

from husk.vfs.synth.synth_tree import read_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BROADCASTS = frozenset((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff"))
SOL_IP, MULTICAST_IF, ADD, DROP, JOIN, LEAVE = 0, 32, 35, 36, 42, 45
SOL_IPV6, MULTICAST_IF6, ADD6, DROP6 = 41, 17, 20, 21
OPTIONS = frozenset(
    [(SOL_IP, each) for each in (MULTICAST_IF, ADD, DROP, JOIN, LEAVE)]
    + [(SOL_IPV6, each) for each in (MULTICAST_IF6, ADD6, DROP6, JOIN, LEAVE)]
)
LO = 1  # the number of lo
MOST_MEMBERS, MOST_GROUPS = 65536, 20  # of a box; of a socket: net.ipv4.igmp_max_memberships


def is_group(ip: bytes) -> bool:
    """A multicast or broadcast address, 4 or 16 bytes."""
    return (ip[0] >> 4 == 14 or ip in BROADCASTS) if len(ip) == 4 else ip[0] == 255


class Groups:
    __slots__ = ("_interfaces", "_joined")

    def __init__(self) -> None:
        self._joined: dict[int, list[bytes]] = {}  # inode of a socket -> groups
        self._interfaces: dict[tuple[int, int], bytes] = {}  # inode and level -> what IP_MULTICAST_IF was set to

    def is_member(self, inode: int) -> bool:
        return bool(self._joined.get(inode))

    def is_joined(self, ip: bytes) -> bool:
        """Whether a socket that is still there has joined the group. A broadcast needs none."""
        if ip in BROADCASTS:
            return True
        members = [inode for inode, groups in self._joined.items() if ip in groups]
        return bool(members) and not _bound_sockets().isdisjoint(members)

    def interface(self, inode: int, level: int) -> bytes:
        return self._interfaces.get((inode, level), bytes(4))

    def set_option(self, inode: int, level: int, name: int, value: bytes) -> None:
        if name in (MULTICAST_IF, MULTICAST_IF6):
            self._set_interface(inode, level, value)
        elif name in (ADD, JOIN, ADD6):
            self._join(inode, _group(level, name, value))
        else:
            self._leave(inode, _group(level, name, value))

    def _set_interface(self, inode: int, level: int, value: bytes) -> None:
        if level == SOL_IPV6:
            index, address = value[:4], b""
        elif len(value) >= 12:  # struct ip_mreqn
            index, address = value[8:12], value[4:8]
        else:  # struct ip_mreq, or the address alone
            index, address = bytes(4), value[4:8] if len(value) >= 8 else value[:4]
        number = int.from_bytes(index, "little", signed=True)
        if number not in (0, LO):
            raise OSError(errno.ENODEV if level == SOL_IPV6 else errno.EADDRNOTAVAIL, "the box has only lo")
        if not number and address[:1] not in (b"\x7f", b"\0", b""):
            raise OSError(errno.EADDRNOTAVAIL, "no address of this box")
        _store(self._interfaces, (inode, level), index if level == SOL_IPV6 else address)

    def _join(self, inode: int, ip: bytes) -> None:
        joined = self._joined.get(inode, [])
        if ip in joined:
            raise OSError(errno.EADDRINUSE, "a member already")
        if len(joined) >= MOST_GROUPS:
            raise OSError(errno.ENOBUFS, "in too many groups")
        _store(self._joined, inode, [*joined, ip])

    def _leave(self, inode: int, ip: bytes) -> None:
        joined = self._joined.get(inode, [])
        if ip not in joined:
            raise OSError(errno.EADDRNOTAVAIL, "no member")
        self._joined[inode] = [each for each in joined if each != ip]


def _group(level: int, name: int, value: bytes) -> bytes:
    """The group in a struct ip_mreq, ip_mreqn, ipv6_mreq or group_req, which also names an interface."""
    if name in (JOIN, LEAVE):
        if len(value) < 136:
            raise OSError(errno.EINVAL, "no struct group_req")
        index, ip = value[:4], value[12:16] if level == SOL_IP else value[16:32]
        if value[8:10] != (b"\2\0" if level == SOL_IP else b"\n\0"):
            raise OSError(errno.EINVAL if level == SOL_IP else errno.EADDRNOTAVAIL, "another family")
    elif level == SOL_IPV6:
        if len(value) < 20:
            raise OSError(errno.EINVAL, "no struct ipv6_mreq")
        index, ip = value[16:20], value[:16]
    else:
        if len(value) < 8:
            raise OSError(errno.EINVAL, "no struct ip_mreq")
        index, ip = value[8:12] if len(value) >= 12 else bytes(4), value[:4]
    if not is_group(ip) or ip in BROADCASTS:
        raise OSError(errno.EINVAL, "no multicast address")
    number = int.from_bytes(index, "little", signed=True)
    plain = level == SOL_IP and name not in (JOIN, LEAVE)
    if number not in (0, LO) or (not number and plain and value[4] not in (0, 127)):
        raise OSError(errno.ENODEV, "the box has only lo")
    return ip


def _bound_sockets() -> set[int]:
    """The inode numbers of all datagram sockets on the host's network that are bound."""
    found: set[int] = set()
    for table in (b"udp", b"udp6"):
        lines = read_host(b"/proc/thread-self/net/" + table).splitlines()[1:]
        found.update(int(fields[9]) for fields in map(bytes.split, lines) if len(fields) > 9)
    return found


def _store(table: dict[Any, Any], key: object, value: object) -> None:
    """Sockets are closed without husk's knowledge: the oldest are forgotten."""
    if key not in table and len(table) >= MOST_MEMBERS:
        del table[next(iter(table))]
    table[key] = value
