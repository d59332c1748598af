"""kernel: netlink messages that husk sends in a guest's place: questions, and nothing else.

Linux judges a netlink message by its sender's capabilities, and by those of the socket's maker unless it carries an
address. husk may have more of both than its guest: it owns the box's user namespace, or is root. Where the box's names
are confined the guest's own thread sends (native/fastpath/messages.c). Elsewhere husk does, and only what Linux
answers to everybody. For anything else Linux says EPERM in an acknowledgement; husk says it at once, as the call's own
error.
"""

from __future__ import annotations

import errno
import struct

from husk.kernel.call import Refused

HEADER = struct.Struct("<IHHII")  # struct nlmsghdr: size with itself, type, flags, sequence number, port
# Of <linux/rtnetlink.h>, as of Linux 6.18. Not RTM_GETNSID: it takes process numbers and descriptors, and would take
# them for husk's.
QUESTIONS = {
    "RTM_GETLINK": 18,
    "RTM_GETADDR": 22,
    "RTM_GETROUTE": 26,
    "RTM_GETNEIGH": 30,
    "RTM_GETRULE": 34,
    "RTM_GETQDISC": 38,
    "RTM_GETTCLASS": 42,
    "RTM_GETTFILTER": 46,
    "RTM_GETMULTICAST": 58,
    "RTM_GETANYCAST": 62,
    "RTM_GETNEIGHTBL": 66,
    "RTM_GETADDRLABEL": 74,
    "RTM_GETNETCONF": 82,
    "RTM_GETSTATS": 94,
    "RTM_GETCHAIN": 102,
    "RTM_GETNEXTHOP": 106,
}
FIRST_TYPE = 16  # NLMSG_MIN_TYPE: those below are no requests, and Linux passes over them
_ALLOWED = frozenset(QUESTIONS.values())
# RTNLGRP_IPV4_MROUTE_R and RTNLGRP_IPV6_MROUTE_R: for CAP_NET_ADMIN alone, as bits of nl_groups.
ADMIN_GROUPS = 1 << 29 | 1 << 30


def must_only_ask(packet: bytes) -> None:
    """Raises for a packet that holds anything but questions. It is the very copy that is sent."""
    for message in messages_in(packet):
        kind = HEADER.unpack_from(message)[1]
        if kind >= FIRST_TYPE and kind not in _ALLOWED:
            raise Refused(errno.EPERM, "a guest has no capability over any network", f"netlink message of type {kind}")


def may_join(groups: int) -> None:
    if groups & ADMIN_GROUPS:
        raise OSError(errno.EPERM, "a group for administrators of the network")


def messages_in(packet: bytes) -> list[bytes]:
    """Each message with its header, in the order and with the steps of Linux's netlink_rcv_skb."""
    found, at = [], 0
    while len(packet) - at >= HEADER.size:
        (size,) = struct.unpack_from("<I", packet, at)
        if size < HEADER.size or size > len(packet) - at:
            break  # Linux, too, reads no further
        found.append(packet[at : at + size])
        at += (size + 3) & ~3
    return found
