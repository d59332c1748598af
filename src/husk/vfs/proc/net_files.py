"""vfs: /proc/PID/net — the box's own network where it has one, otherwise the box's own sockets and `lo`.

A guest that shares the host's network must not see the host's connections. So the host's text is shown only when the
task is in a network namespace of its own; else the tables of sockets show the box's own (socket_tables.py), every other
table has its heading and no rows, and there is only `lo`.
"""

from __future__ import annotations

import os

from husk.vfs.proc.socket_tables import INET_TABLES, box_sockets, inet_table, unix_table
from husk.vfs.synth.synth_tree import read_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.node import Context
    from husk.vfs.proc.view import HostTask

_SOCKETS4 = b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"
_SOCKETS6 = (
    b"  sl  local_address                         remote_address                        st"
    b" tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"
)
_DATAGRAM = b" ref pointer drops"
_DEV = (
    b"Inter-|   Receive                                                |  Transmit\n"
    b" face |bytes    packets errs drop fifo frame compressed multicast"
    b"|bytes    packets errs drop fifo colls carrier compressed\n"
    b"    lo:       0       0    0    0    0     0          0         0"
    b"        0       0    0    0    0     0       0          0\n"
)
_ROUTES = b"Iface\tDestination\tGateway \tFlags\t\tRefCnt\tUse\tMetric\tSource\t\tMTU\tWindow\tIRTT"
_SOCKSTAT = b"sockets: used 0\nTCP: inuse 0 orphan 0 tw 0 alloc 0 mem 0\nUDP: inuse 0 mem 0\n"

# What a box without a network of its own sees.
NET_TEXT: dict[bytes, bytes] = {
    b"arp": b"IP address       HW type     Flags       HW address            Mask     Device\n",
    b"dev": _DEV,
    b"dev_mcast": b"",
    b"fib_trie": b"",
    b"icmp": b" " + _SOCKETS4 + _DATAGRAM + b"\n",
    b"icmp6": _SOCKETS6 + _DATAGRAM + b"\n",
    b"if_inet6": b"00000000000000000000000000000001 01 80 10 80       lo\n",
    b"igmp": b"Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n",
    b"igmp6": b"",
    b"ipv6_route": b"",
    b"netlink": b"sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n",
    b"psched": b"000003e8 00000040 000f4240 3b9aca00\n",
    b"packet": b"sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n",
    b"raw": _SOCKETS4 + _DATAGRAM + b"\n",
    b"raw6": _SOCKETS6 + _DATAGRAM + b"\n",
    b"route": b"Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n",
    b"rt_cache": _ROUTES + b"\tTOS\tHHRef\tHHUptod\tSpecDst\n",
    b"sockstat": _SOCKSTAT,
    b"sockstat6": b"TCP6: inuse 0\nUDP6: inuse 0\n",
    b"tcp": _SOCKETS4 + b"\n",
    b"tcp6": _SOCKETS6 + b"\n",
    b"udp": b" " + _SOCKETS4 + _DATAGRAM + b"\n",
    b"udp6": _SOCKETS6 + _DATAGRAM + b"\n",
    b"udplite": b" " + _SOCKETS4 + _DATAGRAM + b"\n",
    b"udplite6": _SOCKETS6 + _DATAGRAM + b"\n",
    b"unix": b"Num       RefCount Protocol Flags    Type St Inode Path\n",
}
# netstat, snmp and snmp6 are counters by name, and the kernel's version decides which: see _zeroed.
_NEVER_HOST = frozenset({b"netlink", b"packet"})  # they show host process numbers


def net_text(ctx: Context, task: HostTask, name: bytes) -> bytes:
    names = ctx.socket_names()
    if name in INET_TABLES and names is not None and names.mapped:  # husk makes them, on its own network
        text, view = read_host(b"/proc/thread-self/net/" + name), task.view
        return inet_table(text, name, box_sockets(view.tasks), names, view.creds.uid)
    own = _own_network(task)
    if name == b"unix" and (own or names is not None):
        return unix_table(task.read(b"net/unix"), None if own else box_sockets(task.view.tasks), names)
    if name in _NEVER_HOST or not own:
        return NET_TEXT[name] if name in NET_TEXT else _zeroed(task.read(b"net/" + name))
    text = task.read(b"net/" + name)
    return inet_table(text, name, None, None, task.view.creds.uid) if name in INET_TABLES else text


def _zeroed(text: bytes) -> bytes:
    lines = (line.split(b" ") for line in text.replace(b"\t", b"\t ").split(b"\n"))
    shown = (b" ".join(b"0" if word.lstrip(b"-").isdigit() else word for word in words) for words in lines)
    # IcmpMsg lists the kinds of messages that were sent and received: that is the host's, too.
    return b"\n".join(line for line in shown if not line.startswith(b"IcmpMsg")).replace(b"\t ", b"\t")


def _own_network(task: HostTask) -> bool:
    try:
        return os.stat(b"ns/net", dir_fd=task.fd).st_ino != os.stat(b"/proc/self/ns/net").st_ino
    except OSError:
        return False
