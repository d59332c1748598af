"""vfs: the sockets of a box in /proc/net: tcp, tcp6, udp, udp6 and unix.

The host's tables list every socket of its network. A box sees those that its processes hold, and its own connections
that no process holds any more, with the names it gave them: husk.kernel translates (SocketNames).
"""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from husk.vfs.node import SocketNames
    from husk.vfs.proc.view import Tasks

INET_TABLES = {b"tcp": (2, 1), b"tcp6": (10, 1), b"udp": (2, 2), b"udp6": (10, 2)}  # family and type of socket
UNIX_INODE, UNIX_PATH = 6, 7
LOCAL, REMOTE, STATE, UID, INODE, POINTER = 1, 2, 3, 7, 9, 11  # columns
NO_POINTER = b"0" * 16


def box_sockets(tasks: Tasks) -> set[bytes]:
    """The inode numbers of all sockets that processes of the box hold."""
    return {inode for guest_pid in tasks.guest_pids() for inode in _sockets_of(tasks.host_of(guest_pid))}


def _sockets_of(host_pid: int | None) -> Iterator[bytes]:
    if host_pid is None:
        return
    try:
        directory = os.open(b"/proc/%d/fd" % host_pid, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return  # it has ended
    try:
        for number in os.listdir(directory):
            try:
                link = os.readlink(os.fsencode(number), dir_fd=directory)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.ESRCH):
                    continue  # closed meanwhile
                raise
            if link.startswith(b"socket:["):
                yield link[8:-1]
    finally:
        os.close(directory)


def unix_table(text: bytes, held: set[bytes] | None, names: SocketNames | None) -> bytes:
    """`held` None: all of them are the box's, and the host's table has no others."""
    heading, *lines = text.splitlines()
    made = [heading]
    for line in lines:
        fields = line.split(None, UNIX_PATH)
        if len(fields) <= UNIX_INODE or (held is not None and fields[UNIX_INODE] not in held):
            continue
        shown = b"%s: %s %5s" % (NO_POINTER, b" ".join(fields[1:UNIX_INODE]), fields[UNIX_INODE])
        if len(fields) > UNIX_PATH:
            path = _guest_path(fields[UNIX_PATH], names)
            shown += b" " + path if path else b""
        made.append(shown)
    return b"\n".join(made) + b"\n"


def _guest_path(path: bytes, names: SocketNames | None) -> bytes:
    """A socket bound to a file is bound to a path of husk's on the host; an abstract name may be husk's, too."""
    if names is None:
        return path if path[:1] == b"@" else b""
    named = names.unix_name(b"\0" + path[1:] if path[:1] == b"@" else path + b"\0")
    if named[:1] == b"\0":
        return named.replace(b"\0", b"@")
    return named.rstrip(b"\0")


def inet_table(text: bytes, name: bytes, held: set[bytes] | None, names: SocketNames | None, uid: int) -> bytes:
    """`names` None: the host's table has no others, and they have the names that it says. All belong to `uid`."""
    family, kind = INET_TABLES[name]
    heading, *lines = text.splitlines()
    made = [heading]
    width = len(heading)
    for line in lines:
        fields = line.split()
        if len(fields) <= INODE:
            continue
        if names is not None and held is not None:
            own, peer = _sockaddr(family, fields[LOCAL]), _sockaddr(family, fields[REMOTE])
            inode = fields[INODE]
            if inode not in held and not (inode == b"0" and names.is_own(own)):
                continue
            own, peer = names.inet_names(kind, int(inode), own, peer)
            fields[LOCAL], fields[REMOTE] = _text(own), _text(peer)
        fields[0], fields[UID] = b"%4d:" % len(made[1:]), b"%5d" % uid
        if len(fields) > POINTER:
            fields[POINTER] = NO_POINTER
        made.append(b" ".join(fields).ljust(width))
    return b"\n".join(made) + b"\n"


def _sockaddr(family: int, text: bytes) -> bytes:
    """From hexadecimal words in the machine's order, a colon and the port."""
    words, _, port = text.partition(b":")
    ip = b"".join(bytes.fromhex(words[at : at + 8].decode())[::-1] for at in range(0, len(words), 8))
    head = family.to_bytes(2, "little") + int(port, 16).to_bytes(2, "big")
    return head + ip + bytes(8) if family == 2 else head + bytes(4) + ip + bytes(4)


def _text(address: bytes) -> bytes:
    ip = address[4:8] if address[:2] == b"\2\0" else address[8:24]
    words = "".join(ip[at : at + 4][::-1].hex() for at in range(0, len(ip), 4))
    return f"{words}:{address[2:4].hex()}".upper().encode()
