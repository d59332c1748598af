"""kernel: an emulated NETLINK_ROUTE for boxes without a network namespace: it shows `lo` and nothing else.

The guest holds one end of a socket pair, a thread of husk the other. The thread answers queries about links, addresses
and routes as Linux would in an empty namespace. It reads nothing of the host and changes nothing.
"""

from __future__ import annotations

import _socket
import errno
import struct

from husk.kernel.net.netlink import HEADER, messages_in
from husk.native.threads import start_thread
from husk.vfs.fd_reserve import is_in_reserve

AF_INET, AF_INET6, AF_NETLINK = 2, 10, 16
ADDRESS = struct.pack("<HHII", AF_NETLINK, 0, 0, 0)  # the kernel's own address
NLMSG_ERROR, NLMSG_DONE, NLM_F_MULTI, NLM_F_ACK, NLM_F_DUMP = 2, 3, 2, 4, 0x300
RTM_NEWLINK, RTM_GETLINK, RTM_NEWADDR, RTM_GETADDR, RTM_GETROUTE, RTM_GETRULE = 16, 18, 20, 22, 26, 34
ARPHRD_LOOPBACK, LO_FLAGS, PERMANENT, SCOPE_HOST = 772, 0x10049, 0x80, 254


MOST = 256  # each costs husk a descriptor and a thread, which one guest must not exhaust
_serving: set[_socket.socket] = set()


def emulated_socket(flags: int) -> int:
    """Return the guest's end. The thread ends when the guest closes it."""
    if len(_serving) >= MOST:
        raise OSError(errno.ENOBUFS, f"at most {MOST} netlink sockets at once")
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET | _socket.SOCK_CLOEXEC)
    if is_in_reserve(theirs.fileno()):
        ours.close()
        theirs.close()
        raise OSError(errno.ENOBUFS, "husk has few descriptors left")
    if flags & _socket.SOCK_NONBLOCK:
        theirs.setblocking(False)
    _serving.add(ours)
    try:
        start_thread(_serve, ours)
    except OSError:
        _serving.discard(ours)
        raise OSError(errno.ENOBUFS, "no thread to answer it") from None
    return theirs.detach()


def _serve(end: _socket.socket) -> None:
    try:
        while question := end.recv(65536):
            for answer in answers(question):
                end.send(answer, _socket.MSG_NOSIGNAL)
    except OSError:
        pass  # closed in the middle
    finally:
        _serving.discard(end)
        end.close()


def answers(packet: bytes) -> list[bytes]:
    """The replies Linux would send to the queries in a packet."""
    return [answer for question in messages_in(packet) for answer in _answers(question)]


def _answers(question: bytes) -> list[bytes]:
    """One message with all entries, and NLMSG_DONE in a second, as Linux does."""
    if len(question) < HEADER.size + 1:
        return []
    _, kind, flags, sequence, pid = HEADER.unpack_from(question)
    family = question[HEADER.size]
    if kind == RTM_GETLINK:
        found = [(RTM_NEWLINK, _link())]
    elif kind == RTM_GETADDR:
        found = [(RTM_NEWADDR, _address(each)) for each in (AF_INET, AF_INET6) if family in (0, each)]
    elif kind in (RTM_GETROUTE, RTM_GETRULE):
        found = []
    else:
        return [_message(NLMSG_ERROR, 0, sequence, pid, struct.pack("<i", -errno.EPERM) + question[: HEADER.size])]
    if flags & NLM_F_DUMP != NLM_F_DUMP:
        if not found:
            body = struct.pack("<i", -errno.ENETUNREACH) + question[: HEADER.size]
            return [_message(NLMSG_ERROR, 0, sequence, pid, body)]
        made = [_message(*found[0][:1], 0, sequence, pid, found[0][1])]
        if flags & NLM_F_ACK:
            made.append(_message(NLMSG_ERROR, 0, sequence, pid, bytes(4) + question[: HEADER.size]))
        return made
    listed = b"".join(_message(what, NLM_F_MULTI, sequence, pid, body) for what, body in found)
    done = _message(NLMSG_DONE, NLM_F_MULTI, sequence, pid, bytes(4))
    return [listed, done] if listed else [done]


def _message(kind: int, flags: int, sequence: int, pid: int, body: bytes) -> bytes:
    return HEADER.pack(HEADER.size + len(body), kind, flags, sequence, pid) + body + bytes(-len(body) % 4)


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("<HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def _link() -> bytes:
    head = struct.pack("<BBHiII", 0, 0, ARPHRD_LOOPBACK, 1, LO_FLAGS, 0)
    number = struct.Struct("<I").pack
    attributes = ((3, b"lo\0"), (13, number(1000)), (16, b"\0"), (4, number(65536)), (1, bytes(6)), (2, bytes(6)))
    return head + b"".join(_attribute(*each) for each in attributes)


def _address(family: int) -> bytes:
    ip = b"\x7f\0\0\1" if family == AF_INET else bytes(15) + b"\1"
    bits = 8 if family == AF_INET else 128
    head = struct.pack("<BBBBI", family, bits, PERMANENT, SCOPE_HOST, 1)
    own = [(1, ip), (2, ip), (3, b"lo\0")] if family == AF_INET else [(1, ip)]
    return head + b"".join(_attribute(*each) for each in (*own, (8, struct.pack("<I", PERMANENT))))
