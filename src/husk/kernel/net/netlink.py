"""kernel: netlink messages that husk sends in a guest's place: queries only.

Linux checks a netlink message against its sender's capabilities, and against those of the socket's creator unless the
message carries an address. husk may have more of both than its guest: it owns the box's user namespace, or is root.
Where the box's names are confined the guest's own thread sends (native/fastpath/messages.c). Elsewhere husk sends, and
only queries that Linux answers for every user. For anything else Linux returns EPERM in an acknowledgement; husk
returns it at once, as the call's own error.
"""

from __future__ import annotations

import errno
import struct

from husk.kernel.call import Refused

HEADER = struct.Struct("<IHHII")  # struct nlmsghdr: size with itself, type, flags, sequence number, port
# From <linux/rtnetlink.h> of Linux 6.18. Not RTM_GETNSID: it takes pids and descriptors, and would read them as husk's.
QUERIES = {
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
FIRST_TYPE = 16  # NLMSG_MIN_TYPE: lower types are no requests, and Linux skips them
_ALLOWED = frozenset(QUERIES.values())
# RTNLGRP_IPV4_MROUTE_R and RTNLGRP_IPV6_MROUTE_R need CAP_NET_ADMIN; as bits of nl_groups.
ADMIN_GROUPS = 1 << 29 | 1 << 30


def check_only_queries(packet: bytes) -> None:
    """Raise for a packet that holds anything but queries. husk sends this same copy."""
    for message in messages_in(packet):
        kind = HEADER.unpack_from(message)[1]
        if kind >= FIRST_TYPE and kind not in _ALLOWED:
            raise Refused(errno.EPERM, "a guest has no capability over any network", f"netlink message of type {kind}")


def check_groups(groups: int) -> None:
    if groups & ADMIN_GROUPS:
        raise OSError(errno.EPERM, "a multicast group that needs CAP_NET_ADMIN")


def check_destination(address: bytes) -> None:
    """To the kernel: every other destination takes a capability."""
    if len(address) >= 12 and any(address[4:12]):
        raise OSError(errno.EPERM, "only the kernel is there to be asked")


def messages_in(packet: bytes) -> list[bytes]:
    """Each message with its header, split as Linux's netlink_rcv_skb does."""
    found, at = [], 0
    while len(packet) - at >= HEADER.size:
        (size,) = struct.unpack_from("<I", packet, at)
        if size < HEADER.size or size > len(packet) - at:
            break  # Linux stops here, too
        found.append(packet[at : at + size])
        at += (size + 3) & ~3
    return found
