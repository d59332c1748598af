"""kernel: what an emulated NETLINK_ROUTE answers: there is `lo` and nothing else.

Queries about links, addresses, routes and rules are answered as Linux would in an empty namespace. Nothing of the host
is read, and nothing changed.
"""

from __future__ import annotations

import errno
import struct

from husk.kernel.net.netlink import HEADER, messages_in

AF_INET, AF_INET6 = 2, 10
NLMSG_ERROR, NLMSG_DONE, NLM_F_MULTI, NLM_F_ACK, NLM_F_DUMP = 2, 3, 2, 4, 0x300
RTM_NEWLINK, RTM_GETLINK, RTM_NEWADDR, RTM_GETADDR = 16, 18, 20, 22
RTM_NEWROUTE, RTM_GETROUTE, RTM_NEWRULE, RTM_GETRULE = 24, 26, 32, 34
IFLA_IFNAME, IFLA_ALT_IFNAME = 3, 53
ARPHRD_LOOPBACK, LO_FLAGS, PERMANENT, SCOPE_HOST, SCOPE_LINK = 772, 0x10049, 0x80, 254, 253
RTA_DST, RTA_OIF, RTA_PRIORITY, RTA_PREFSRC, RTA_TABLE, RTA_PREF = 1, 4, 6, 7, 15, 20
TABLE_MAIN, TABLE_LOCAL, PROTOCOL_KERNEL, LOCAL, BROADCAST = 254, 255, 2, 2, 3
RTM_F_CLONED, RTM_F_LOOKUP_TABLE, ROUTE_IS_LOCAL = 0x200, 0x1000, 0x80000000
FRA_PRIORITY, FRA_SUPPRESS, FRA_TABLE, FRA_PROTOCOL = 6, 14, 15, 21
LOCALHOST, LOCALHOST6 = b"\x7f\0\0\1", bytes(15) + b"\1"
# Destination, length of its prefix, kind and scope.
ROUTES = (
    (b"\x7f\0\0\0", 8, LOCAL, SCOPE_HOST),
    (LOCALHOST, 32, LOCAL, SCOPE_HOST),
    (b"\x7f\xff\xff\xff", 32, BROADCAST, SCOPE_LINK),
    (LOCALHOST6, 128, LOCAL, 0),
)
RULES = {AF_INET: ((0, 255), (32766, 254), (32767, 253)), AF_INET6: ((0, 255), (32766, 254))}  # priority, table
NUMBER = struct.Struct("<I")


def answers(packet: bytes, port: int = 0) -> list[bytes]:
    """The replies Linux would send to the queries in a packet. `port` is the asking socket's; 0: not bound."""
    return [answer for question in messages_in(packet) for answer in _answers(question, port)]


def _answers(question: bytes, port: int) -> list[bytes]:
    """One message with all entries, and NLMSG_DONE in a second, as Linux does."""
    if len(question) < HEADER.size + 1:
        return []
    _, kind, flags, sequence, pid = HEADER.unpack_from(question)
    pid = port or pid
    try:
        if flags & NLM_F_DUMP:
            found = _all(kind, question)
            listed = b"".join(_message(what, NLM_F_MULTI, sequence, pid, body) for what, body in found)
            done = _message(NLMSG_DONE, NLM_F_MULTI, sequence, pid, bytes(4))
            return [listed, done] if listed else [done]
        what, body = _one(kind, question)
        made = [_message(what, 0, sequence, pid, body)]
    except OSError as error:
        return [_message(NLMSG_ERROR, 0, sequence, pid, struct.pack("<i", -(error.errno or 0)) + question)]
    if flags & NLM_F_ACK:
        made.append(_message(NLMSG_ERROR, 0, sequence, pid, bytes(4) + question[: HEADER.size]))
    return made


def _all(kind: int, question: bytes) -> list[tuple[int, bytes]]:
    family = question[HEADER.size]
    if kind == RTM_GETLINK:
        return [(RTM_NEWLINK, _link())]
    if kind == RTM_GETADDR:
        return [(RTM_NEWADDR, _address(each)) for each in (AF_INET, AF_INET6) if family in (0, each)]
    if kind == RTM_GETROUTE:
        return [(RTM_NEWROUTE, _route(*each)) for each in ROUTES if family in (0, _family(each[0]))]
    if kind == RTM_GETRULE:
        return [(RTM_NEWRULE, _rule(each, *rule)) for each in RULES if family in (0, each) for rule in RULES[each]]
    raise _unknown(kind)


def _one(kind: int, question: bytes) -> tuple[int, bytes]:
    if kind == RTM_GETLINK:
        return RTM_NEWLINK, _link_asked(question)
    if kind == RTM_GETADDR:
        return RTM_NEWADDR, _address(AF_INET6 if question[HEADER.size] == AF_INET6 else AF_INET)
    if kind == RTM_GETROUTE:
        return RTM_NEWROUTE, _route_asked(question)
    raise _unknown(kind)


def _unknown(kind: int) -> OSError:
    if kind & 3 == 2:  # only such types ask; the others change something
        return OSError(errno.EOPNOTSUPP, "nothing of this kind is here")
    return OSError(errno.EPERM, "it takes CAP_NET_ADMIN")


def _attributes(question: bytes, at: int) -> dict[int, bytes]:
    found = {}
    while at + 4 <= len(question):
        size, kind = struct.unpack_from("<HH", question, at)
        if size < 4 or at + size > len(question):
            break
        found[kind & 0x3FFF] = question[at + 4 : at + size]
        at += (size + 3) & ~3
    return found


def _message(kind: int, flags: int, sequence: int, pid: int, body: bytes) -> bytes:
    return HEADER.pack(HEADER.size + len(body), kind, flags, sequence, pid) + body + bytes(-len(body) % 4)


def _pack(attributes: tuple[tuple[int, bytes], ...]) -> bytes:
    return b"".join(
        struct.pack("<HH", 4 + len(value), kind) + value + bytes(-len(value) % 4) for kind, value in attributes
    )


def _link_asked(question: bytes) -> bytes:
    """By number or by name. A question of one byte is what very old programs ask for the only interface."""
    index = question[HEADER.size + 4 : HEADER.size + 8]
    named = _attributes(question, HEADER.size + 16)
    name = named.get(IFLA_IFNAME, named.get(IFLA_ALT_IFNAME))
    if any(index):
        known = NUMBER.unpack(index.ljust(4, b"\0"))[0] == 1
    else:
        known = name is None or name.partition(b"\0")[0] == b"lo"
    if not known:
        raise OSError(errno.ENODEV, "the box has only lo")
    return _link()


def _link() -> bytes:
    head = struct.pack("<BBHiII", 0, 0, ARPHRD_LOOPBACK, 1, LO_FLAGS, 0)
    number = NUMBER.pack
    told = (3, b"lo\0"), (13, number(1000)), (16, b"\0"), (4, number(65536)), (1, bytes(6)), (2, bytes(6))
    return head + _pack(told)


def _address(family: int) -> bytes:
    ip, bits = (LOCALHOST, 8) if family == AF_INET else (LOCALHOST6, 128)
    head = struct.pack("<BBBBI", family, bits, PERMANENT, SCOPE_HOST, 1)
    own = ((1, ip), (2, ip), (3, b"lo\0")) if family == AF_INET else ((1, ip),)
    return head + _pack((*own, (8, NUMBER.pack(PERMANENT))))


def _family(ip: bytes) -> int:
    return AF_INET if len(ip) == 4 else AF_INET6


def _route(ip: bytes, bits: int, kind: int, scope: int) -> bytes:
    head = struct.pack("<BBBBBBBBI", _family(ip), bits, 0, 0, TABLE_LOCAL, PROTOCOL_KERNEL, scope, kind, 0)
    four = ((RTA_PREFSRC, LOCALHOST), (RTA_OIF, NUMBER.pack(1)))
    six = ((RTA_PRIORITY, NUMBER.pack(0)), (RTA_OIF, NUMBER.pack(1)), (RTA_PREF, b"\0"))
    return head + _pack(((RTA_TABLE, NUMBER.pack(TABLE_LOCAL)), (RTA_DST, ip), *(four if len(ip) == 4 else six)))


def _route_asked(question: bytes) -> bytes:
    """Which route leads to an address."""
    family = question[HEADER.size]
    if family not in (AF_INET, AF_INET6):
        raise OSError(errno.EOPNOTSUPP, "no such family has routes")
    (flags,) = NUMBER.unpack(question[HEADER.size + 8 : HEADER.size + 12].ljust(4, b"\0"))
    to = _attributes(question, HEADER.size + 12).get(RTA_DST, LOCALHOST if family == AF_INET else LOCALHOST6)
    if len(to) != (4 if family == AF_INET else 16):
        raise OSError(errno.EINVAL, "no address of this family")
    if to != LOCALHOST6 and to[:1] != b"\x7f":
        raise OSError(errno.ENETUNREACH, "no route leads there")
    table = TABLE_LOCAL if flags & RTM_F_LOOKUP_TABLE else TABLE_MAIN
    bits, source = len(to) * 8, LOCALHOST if len(to) == 4 else LOCALHOST6
    head = struct.pack("<BBBBBBBBI", family, bits, 0, 0, table, 0, 0, LOCAL, RTM_F_CLONED | ROUTE_IS_LOCAL)
    return head + _pack(
        ((RTA_TABLE, NUMBER.pack(table)), (RTA_DST, to), (RTA_OIF, NUMBER.pack(1)), (RTA_PREFSRC, source))
    )


def _rule(family: int, priority: int, table: int) -> bytes:
    head = struct.pack("<BBBBBBBBI", family, 0, 0, 0, table, 0, 0, 1, 0)
    suppress = (FRA_SUPPRESS, b"\xff\xff\xff\xff")
    priorities = ((FRA_PRIORITY, NUMBER.pack(priority)),) if priority else ()
    return head + _pack(((FRA_TABLE, NUMBER.pack(table)), suppress, *priorities, (FRA_PROTOCOL, b"\x02")))
