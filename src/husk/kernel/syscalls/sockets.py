"""socket(2), bind(2), connect(2), accept(2), getsockname(2), getpeername(2), getsockopt(2): naming and being named.

The address is copied once, judged, and used by husk on a duplicate of the guest's socket; letting the host read it from
guest memory would let a second thread change a harmless address into `../../run/docker.sock` in between.
"""

from __future__ import annotations

import errno
import os
import stat as st

from husk.abi.text import shown as readable
from husk.kernel.blocking import later, patiently
from husk.kernel.call import AT_FDCWD, CONTINUE, Call, GiveFd, Refused, Reply, duplicate, i32, open_link, start_dir
from husk.kernel.loopback.groups import OPTIONS as GROUP_OPTIONS
from husk.kernel.net.socket_filter import attach_filter
from husk.kernel.net.unix_sockets import unix_address
from husk.native._core import accept_address, connect_address, get_option, listen_on, make_as, socket_kind, socket_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.vfs.access.landlock_rules import Domain
    from husk.vfs.node import Node

AF_UNIX, AF_NETLINK = 1, 16
SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET = 1, 2, 3, 5
SOCK_CLOEXEC, SOCK_NONBLOCK = 0o2000000, 0o4000
SOL_SOCKET, SO_PASSCRED, SO_PEERCRED, UCRED_SIZE = 1, 16, 17, 12
SO_BINDTODEVICE = 25
AF_INET, AF_INET6, SOL_NETLINK = 2, 10, 270
ATTACH_FILTER, DETACH_FILTER = (SOL_SOCKET, 26), (SOL_SOCKET, 27)
SOCK_FPROG, MOST_INSTRUCTIONS = 16, 4096  # bytes of a struct sock_fprog; BPF_MAXINSNS
NETLINK_LIST_MEMBERSHIPS = SOL_NETLINK, 9
LONGEST_OPTION = 136  # struct group_req
LONGEST_ADDRESS, LONGEST_UNIX_ADDRESS = 128, 110

SO_PROTOCOL, TCP_PROTOCOL = 38, (6).to_bytes(4, "little")
TCP = ((2, SOCK_STREAM), (10, SOCK_STREAM))
BIND_TCP, CONNECT_TCP = 1, 2  # rights of Landlock

Kind = tuple[int, int]


def socket(call: Call) -> Reply:
    kind = i32(call, 1)
    wanted = i32(call, 0), kind & 0xF, i32(call, 2), kind & SOCK_NONBLOCK
    # The owner of a socket decides which other sockets may share its port, and firewalls have rules about owners.
    fd = _made_as_guest(call, lambda: call.kernel.network.socket(*wanted))
    return GiveFd(fd, cloexec=bool(kind & SOCK_CLOEXEC))


def bind(call: Call) -> Reply:
    fd = socket_of(call, i32(call, 0))
    try:
        address = copy_address(call, call.args[1], i32(call, 2))
        kind = kind_of(call, fd)
        if kind[0] == AF_UNIX:
            _bind_unix(call, fd, address)
        else:
            if call.domain is not None:
                _require_port(call.domain, fd, kind, address, BIND_TCP)
            call.kernel.network.bind(call, fd, kind, address)
    finally:
        os.close(fd)
    return 0


def connect(call: Call) -> Reply:
    fd = socket_of(call, i32(call, 0))
    try:
        address = copy_address(call, call.args[1], i32(call, 2))
        if call.kernel.network.is_netlink(fd):  # it has but one peer, and answers for the kernel already
            call.kernel.network.bind(call, fd, (AF_NETLINK, SOCK_RAW), address[:2].ljust(12, b"\0"))
            return 0
        kind = kind_of(call, fd)
        if call.domain is not None:
            _require_port(call.domain, fd, kind, address, CONNECT_TCP)
        if kind[0] == AF_UNIX and kind[1] != SOCK_DGRAM:
            call.kernel.peers.note_connect(fd, *_who(call))
        to, path_fd = destination(call, fd, kind, address)
        if kind[1] != SOCK_DGRAM and os.get_blocking(fd) and to[:2] != b"\0\0":
            waiting, fd = fd, -1
            return later(call, lambda: _connect_and_close(call, waiting, to, path_fd), waiting, also=path_fd)
        _connect_and_close(call, fd, to, path_fd)
    finally:
        if fd >= 0:
            os.close(fd)
    return 0


def listen(call: Call) -> Reply:
    fd = socket_of(call, i32(call, 0))
    try:
        kind = kind_of(call, fd)
        if kind[0] == AF_UNIX:
            call.kernel.peers.note_listener(socket_name(fd, False), *_who(call))
            listen_on(fd, i32(call, 1), *_seen_as(call))
        else:
            call.kernel.network.prepare_listen(fd, kind)
            listen_on(fd, i32(call, 1))
    finally:
        os.close(fd)
    return 0


def accept(call: Call) -> Reply:
    return _accept(call, 0)


def accept4(call: Call) -> Reply:
    return _accept(call, i32(call, 3))


def getsockname(call: Call) -> Reply:
    return _name(call, peer=False)


def getpeername(call: Call) -> Reply:
    return _name(call, peer=True)


def getsockopt(call: Call) -> Reply:
    """SO_PEERCRED, and options that the network in use answers in the host's place."""
    fd = socket_of(call, i32(call, 0))
    try:
        if (i32(call, 1), i32(call, 2)) != (SOL_SOCKET, SO_PEERCRED):
            if i32(call, 1) in (SOL_SOCKET, SOL_NETLINK) and not call.kernel.network.is_netlink(fd):
                return CONTINUE  # nothing was judged
            value = call.kernel.network.option(fd, i32(call, 1), i32(call, 2))
        else:
            credentials = get_option(fd, SOL_SOCKET, SO_PEERCRED, UCRED_SIZE)
            if socket_kind(fd)[0] != AF_UNIX or int.from_bytes(credentials[:4], "little") != os.getpid():
                return CONTINUE  # nothing was judged: the host knows who it is, in the guest's own numbers
            unknown = bytes(4) + call.creds.uid.to_bytes(4, "little") + call.creds.gid.to_bytes(4, "little")
            value = call.kernel.peers.credentials(fd) or unknown
    finally:
        os.close(fd)
    room = _room(call, call.args[4])
    if room:
        call.raw.write(call.args[3], value[:room])
    whole = (i32(call, 1), i32(call, 2)) == NETLINK_LIST_MEMBERSHIPS  # tells how much there is
    call.raw.write(call.args[4], (len(value) if whole else min(room, len(value))).to_bytes(4, "little"))
    return 0


def setsockopt(call: Call) -> Reply:
    """SO_PASSCRED, and options of a mapped network that husk keeps in the host's place."""
    fd = socket_of(call, i32(call, 0))
    try:
        if (i32(call, 1), i32(call, 2)) == (SOL_SOCKET, SO_PASSCRED):
            if socket_kind(fd)[0] == AF_UNIX:
                call.kernel.peers.note_asking(fd)
            return CONTINUE  # nothing was judged
        if (i32(call, 1), i32(call, 2)) in (ATTACH_FILTER, DETACH_FILTER):
            _set_filter(call, fd)
            return 0
        if not call.kernel.network.mapped and (i32(call, 1), i32(call, 2)) in GROUP_OPTIONS:
            raise OSError(errno.EPERM, "it would choose groups of the host's network")
        if not call.kernel.network.mapped or (i32(call, 1) == SOL_NETLINK and not call.kernel.network.is_netlink(fd)):
            return CONTINUE  # nothing was judged
        size = i32(call, 4)
        if size < (0 if (i32(call, 1), i32(call, 2)) == (SOL_SOCKET, SO_BINDTODEVICE) else 4):
            raise OSError(errno.EINVAL, "too short for an option")
        value = call.raw.read(call.args[3], min(size, LONGEST_OPTION))
        call.kernel.network.set_option(fd, i32(call, 1), i32(call, 2), value)
    finally:
        os.close(fd)
    return 0


# -- shared with sendmsg.py --------------------------------------------------------------------------------------------


def socket_of(call: Call, number: int) -> int:
    """A duplicate of the guest's socket: EBADF and ENOTSOCK come before anything about the address."""
    open_link(call, number)
    fd = duplicate(call, number)
    try:
        if not st.S_ISSOCK(os.fstat(fd).st_mode):
            raise OSError(errno.ENOTSOCK, "not a socket")
    except OSError:
        os.close(fd)
        raise
    return fd


def copy_address(call: Call, where: int, size: int) -> bytes:
    if not 0 <= size <= LONGEST_ADDRESS:
        raise OSError(errno.EINVAL, "an address of impossible length")
    hooked = call.address is not None and where == call.address_at  # then the handler acts on the hook's copy
    call.copied_address = call.address if hooked else call.raw.read(where, size)
    assert call.copied_address is not None
    return call.copied_address


def destination(call: Call, fd: int, kind: Kind, address: bytes) -> tuple[bytes, int]:
    """The host address of the socket that the guest named, and a descriptor that must stay open until then, or -1."""
    if kind[0] != AF_UNIX:
        return call.kernel.network.destination(call, fd, kind, address), -1
    text = address[2:]
    if address[:2] != b"\1\0" or not text or len(address) > LONGEST_UNIX_ADDRESS:
        return address, -1  # disconnecting, or an address the host has an errno for; neither names anything
    if text[:1] == b"\0":
        if call.domain is not None:
            domains = call.kernel.domains
            call.domain.require_abstract(domains.abstract.get(text) if domains is not None else None)
        return call.kernel.sockets.abstract_address(fd, text), -1
    path_fd = _socket_file(call, text.split(b"\0", 1)[0])
    return unix_address(b"/proc/self/fd/%d" % path_fd), path_fd


def kind_of(call: Call, fd: int) -> Kind:
    """Family and type as the guest knows them."""
    return (AF_NETLINK, SOCK_RAW) if call.kernel.network.is_netlink(fd) else socket_kind(fd)


def shown(call: Call, fd: int, address: bytes) -> bytes:
    """An address from the host, of a message that came to `fd`, as the guest knows it."""
    if address[:2] == b"\1\0" and not call.kernel.network.is_netlink(fd):
        return address[:2] + call.kernel.sockets.guest_name(address[2:])
    return call.kernel.network.guest_address(fd, address)


def give_address(call: Call, address: bytes, where: int, size_at: int) -> None:
    """Write the address, cut to the guest's room, and its true length. EINVAL for a negative room."""
    room = _room(call, size_at)
    call.raw.write(where, address[:room])
    call.raw.write(size_at, len(address).to_bytes(4, "little"))


# -- what they mean ----------------------------------------------------------------------------------------------------


def _who(call: Call) -> tuple[int, int, int]:
    return call.kernel.tasks.guest_of(call.raw.tgid()), call.creds.uid, call.creds.gid


def _seen_as(call: Call) -> tuple[int, int]:
    """The ids that a host process at the other end sees."""
    return call.kernel.identity.host_uid, call.kernel.identity.host_gid


def _made_as_guest(call: Call, make: Callable[[], int]) -> int:
    user, group = _seen_as(call)
    return make_as(user, group, make) if user != os.geteuid() else make()


def _set_filter(call: Call, fd: int) -> None:
    """A socket filter of the guest's own: not on a network socket, where husk has one (net/socket_filter.py)."""
    attach = i32(call, 2) == ATTACH_FILTER[1]
    if call.kernel.network.mapped and socket_kind(fd)[0] in (AF_INET, AF_INET6):
        raise OSError(errno.EPERM if attach else errno.ENOENT, "husk's own filter keeps out foreign senders")
    if not attach:
        attach_filter(fd, None)
        return
    if i32(call, 4) != SOCK_FPROG:
        raise OSError(errno.EINVAL, "no struct sock_fprog")
    head = call.raw.read(call.args[3], SOCK_FPROG)
    count = int.from_bytes(head[:2], "little")
    if not 0 < count <= MOST_INSTRUCTIONS:
        raise OSError(errno.EINVAL, "no such filter")
    attach_filter(fd, call.raw.read(int.from_bytes(head[8:], "little"), 8 * count))


def _room(call: Call, size_at: int) -> int:
    room = int.from_bytes(call.raw.read(size_at, 4), "little", signed=True)
    if room < 0:
        raise OSError(errno.EINVAL, "a negative size")
    return room


def _bind_unix(call: Call, fd: int, address: bytes) -> None:
    text, bound = address[2:], call.kernel.sockets
    if address[:2] != b"\1\0" or len(address) > LONGEST_UNIX_ADDRESS:
        raise OSError(errno.EINVAL, "not a Unix address")
    if not text or text[:1] == b"\0":
        bound.bind_abstract(fd, text)
        if call.kernel.domains is not None:
            call.kernel.domains.bound(text, call.domain)
        return
    name = text.split(b"\0", 1)[0]
    start = start_dir(call, AT_FDCWD, name)
    mode = os.fstat(fd).st_mode & 0o777  # the socket's own, which fchmod may have changed
    call.vfs.bind(call, start, name, mode, lambda directory, entry: bound.bind(fd, name, directory, entry))


def _require_port(domain: Domain, fd: int, kind: Kind, address: bytes, want: int) -> None:
    """What the program's own Landlock rules say about TCP ports. An address that is too short gets EINVAL later."""
    if kind not in TCP or len(address) < 4 or get_option(fd, SOL_SOCKET, SO_PROTOCOL, 4) != TCP_PROTOCOL:
        return
    # connect(2) to AF_UNSPEC disconnects; bind(2) to it means AF_INET.
    if address[:2] != b"\0\0" or want == BIND_TCP:
        domain.require_port(int.from_bytes(address[2:4], "big"), want)


def _connect_and_close(call: Call, fd: int, address: bytes, path_fd: int) -> int:
    try:
        if address[:2] == b"\1\0":
            patiently(call, lambda: connect_address(fd, address, *_seen_as(call)))
            call.kernel.peers.note_connected(fd)
            _note_host_server(call, fd)
        else:
            patiently(call, lambda: connect_address(fd, address))
    finally:
        if path_fd >= 0:
            os.close(path_fd)
    return 0


def _note_host_server(call: Call, fd: int) -> None:
    """A server that the box did not bind is the host's, and may ask for credentials. They must not be husk's."""
    try:
        text = socket_name(fd, True)[2:]
    except OSError:
        return  # not connected, or not any more
    if not call.kernel.sockets.guest_name(text):
        call.kernel.peers.note_asking(fd)


def _accept(call: Call, flags: int) -> Reply:
    if flags & ~(SOCK_CLOEXEC | SOCK_NONBLOCK):
        raise OSError(errno.EINVAL, "unknown flags")
    fd = socket_of(call, i32(call, 0))

    def take() -> Reply:
        taken, address = patiently(call, lambda: accept_address(fd, flags & SOCK_NONBLOCK | SOCK_CLOEXEC))
        try:
            unix = address[:2] == b"\1\0"
            named = shown(call, fd, address) if unix else call.kernel.network.guest_peer_address(taken, address)
            give_address(call, named, call.args[1], call.args[2])
        except BaseException:
            os.close(taken)  # as in Linux: the connection is lost
            raise
        return GiveFd(taken, cloexec=bool(flags & SOCK_CLOEXEC), alone=True)

    if os.get_blocking(fd):
        return later(call, take, fd)
    try:
        return take()
    finally:
        os.close(fd)


def _name(call: Call, *, peer: bool) -> Reply:
    fd = socket_of(call, i32(call, 0))
    try:
        address = call.kernel.network.guest_name(fd, peer) or shown(call, fd, socket_name(fd, peer))
    finally:
        os.close(fd)
    give_address(call, address, call.args[1], call.args[2])
    return 0


def _socket_file(call: Call, name: bytes) -> int:
    node = call.vfs.walk(call, start_dir(call, AT_FDCWD, name), name)
    call.vfs.access_node(call, node, os.W_OK)
    if node.kind != st.S_IFSOCK:
        raise OSError(errno.ECONNREFUSED, "not a socket")
    if (host_name := node.tree.host_name(node)) is not None:
        _may_reach_host(call, node, host_name)
    return node.tree.open(call, node, os.O_PATH)


def _may_reach_host(call: Call, node: Node, host_name: bytes) -> None:
    """A server of the host acts on what it is told, so `ro` and `cow` would promise too much if one could be reached
    there. Below `rw` box and host share what is there. By the host's name: below `cow` a guest can rename."""
    where = call.vfs.path_of_node(node)
    if (node.tree.read_only or not node.tree.writes_to_host) and host_name not in call.kernel.host_sockets:
        name = readable(where)
        why = "it is a socket of the host, and below ro and cow mounts none is reached unless it is named"
        raise Refused(errno.EACCES, why, name, None, f"--allow-socket {name}")
    call.kernel.events.reached_host(where)
