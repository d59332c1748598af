"""kernel: messages that husk sends and receives in a guest's place: headers, buffers and control messages.

Here: struct msghdr, iovec and cmsghdr, copied from and to the guest. Not here: where a message may go
(syscalls/sendmsg.py asks the network and the vfs). A header is copied once; data is not judged, so it is copied late.
"""

from __future__ import annotations

import errno
import os
import struct

from husk.kernel.call import Call, duplicate
from husk.native._core import send_message

HEADER = struct.Struct("<QiIQQQQI4x")  # struct msghdr: name, its size, iovec and count, control and size, flags
HEADER_SIZE, MMSG_SIZE, LENGTH_AT = HEADER.size, HEADER.size + 8, HEADER.size
CONTROL = struct.Struct("<Qii")  # struct cmsghdr: size with itself, level, type
MOST_PARTS, MOST_CONTROL, LONGEST_ADDRESS = 1024, 65536, 128
MOST_AT_ONCE = 1 << 22  # no datagram is longer; a stream goes in pieces

SOL_SOCKET, SCM_RIGHTS, SCM_CREDENTIALS = 1, 1, 2
SO_PRIORITY, SO_MARK = 12, 36
ANY_USERS_PRIORITIES = frozenset(struct.pack("<i", priority) for priority in range(7))
SOL_IP, SOL_IPV6 = 0, 41
MSG_CMSG_CLOEXEC, MSG_CTRUNC = 0x40000000, 8


class Header:
    """One copied struct msghdr, or the same built from the arguments of sendto and recvfrom."""

    __slots__ = ("address_at", "control_at", "control_room", "name_at", "name_room", "parts", "total")

    def __init__(self, name_at: int, name_room: int, parts: list[tuple[int, int]], control_at: int, room: int) -> None:
        self.name_at, self.name_room, self.parts = name_at, name_room, parts
        self.control_at, self.control_room = control_at, room
        self.address_at = 0  # of the guest's struct, 0 if there is none
        self.total = sum(size for _, size in parts)


def copy_header(call: Call, where: int) -> Header:
    name_at, name_room, _, parts_at, count, control_at, room, _ = HEADER.unpack(call.raw.read(where, HEADER_SIZE))
    if name_at == 0:
        name_room = 0
    if name_room < 0:
        raise OSError(errno.EINVAL, "a negative size")
    if count > MOST_PARTS:
        raise OSError(errno.EMSGSIZE, "too many parts")
    raw = call.raw.read(parts_at, 16 * count)
    parts = [(at, size) for at, size in struct.iter_unpack("<Qq", raw)]
    if any(size < 0 for _, size in parts):
        raise OSError(errno.EINVAL, "a negative size")
    header = Header(name_at, min(name_room, LONGEST_ADDRESS), parts, control_at, room if control_at else 0)
    header.address_at = where
    return header


def copy_data(call: Call, header: Header, start: int, most: int) -> bytes:
    """At most `most` bytes of the parts, from `start` on."""
    made = []
    for at, size in header.parts:
        if start >= size:
            start -= size
            continue
        piece = min(size - start, most)
        made.append(call.raw.read(at + start, piece))
        start, most = 0, most - piece
        if not most:
            break
    return made[0] if len(made) == 1 else b"".join(made)


def put_data(call: Call, header: Header, data: bytes) -> None:
    start = 0
    for at, size in header.parts:
        if start >= len(data):
            return
        call.raw.write(at, data[start : start + size])
        start += size


# -- control messages --------------------------------------------------------------------------------------------------


def control_messages(control: bytes) -> list[tuple[int, int, bytes]]:
    found, at = [], 0
    while at + CONTROL.size <= len(control):
        size, level, kind = CONTROL.unpack_from(control, at)
        if size < CONTROL.size or at + size > len(control):
            raise OSError(errno.EINVAL, "a broken control message")
        found.append((level, kind, control[at + CONTROL.size : at + size]))
        at += (size + 7) & ~7
    return found


def pack_control(messages: list[tuple[int, int, bytes]]) -> bytes:
    made = b""
    for level, kind, value in messages:
        made += CONTROL.pack(CONTROL.size + len(value), level, kind) + value + bytes(-len(value) % 8)
    return made


def fit_control(control: bytes, room: int, message_flags: int) -> tuple[bytes, int]:
    """Cut to the guest's room as Linux does: also in the middle of a message, and without padding that has no room."""
    made = b""
    for level, kind, value in control_messages(control):
        left = room - len(made)
        if left < CONTROL.size:
            return made, message_flags | MSG_CTRUNC
        size = CONTROL.size + len(value)
        if size > left:
            size, message_flags = left, message_flags | MSG_CTRUNC
        made += (CONTROL.pack(size, level, kind) + value)[:size].ljust(min((size + 7) & ~7, left), b"\0")
    return made, message_flags


def control_out(
    call: Call, header: Header, added: list[tuple[int, int, bytes]], *, unix: bool, fds: list[int]
) -> bytes:
    """The guest's control messages as husk sends them, after the `added` ones. husk's copies of passed descriptors are
    appended to `fds`."""
    if header.control_room > MOST_CONTROL:
        raise OSError(errno.ENOBUFS, "too much control data")
    control = call.raw.read(header.control_at, header.control_room) if header.control_room else b""
    made = list(added)
    sends_credentials = False
    for level, kind, value in control_messages(control):
        if level == SOL_SOCKET and kind == SCM_RIGHTS:
            numbers = [number for (number,) in struct.iter_unpack("<i", value[: len(value) // 4 * 4])]
            for number in numbers:
                fds.append(duplicate(call, number))
            value = struct.pack(f"<{len(numbers)}i", *fds[len(fds) - len(numbers) :])
        elif level == SOL_SOCKET and kind == SCM_CREDENTIALS:
            _check_own_credentials(call, value)
            sends_credentials = True
            continue
        elif level in (SOL_IP, SOL_IPV6):
            made += call.kernel.network.host_control(level, kind, value)
            continue
        elif level == SOL_SOCKET and (kind == SO_MARK or (kind == SO_PRIORITY and value not in ANY_USERS_PRIORITIES)):
            # Linux would check the sender's capabilities: husk's, which may be root's.
            raise OSError(errno.EPERM, "it needs CAP_NET_ADMIN")
        made.append((level, kind, value))
    if unix and os.geteuid() == 0:
        # Only root may send other credentials than its own. Without, a receiver with SO_PASSCRED sees husk.
        pid = call.raw.tgid()
        pid = pid if _may_claim_pid(pid) else os.getpid()
        own = struct.pack("<III", pid, call.kernel.identity.host_uid, call.kernel.identity.host_gid)
        made.append((SOL_SOCKET, SCM_CREDENTIALS, own))
    elif sends_credentials and not unix:
        raise OSError(errno.EINVAL, "credentials on a network socket")
    return pack_control(made)


def control_of_guest(call: Call, header: Header) -> tuple[bytes, bool] | None:
    """The guest's control messages as its own thread sends them, and whether credentials are among them. None if some
    are of another kind, or broken: the host must see none of those before husk."""
    control = call.raw.read(header.control_at, header.control_room) if header.control_room else b""
    try:
        found = control_messages(control)
    except OSError:
        return None
    if any(level != SOL_SOCKET or kind not in (SCM_RIGHTS, SCM_CREDENTIALS) for level, kind, _ in found):
        return None
    return pack_control(found), any(kind == SCM_CREDENTIALS for _, kind, _ in found)


_pid_is_free: bool | None = None


def _may_claim_pid(pid: int) -> bool:
    """Whether the host accepts another process's pid in SCM_CREDENTIALS. Root in a container may lack that capability,
    or hold it over another namespace than the one that counts, so the host is asked, once."""
    global _pid_is_free
    if _pid_is_free is None:
        import _socket

        one, other = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_DGRAM | _socket.SOCK_CLOEXEC)
        try:
            credentials = struct.pack("<III", pid, os.getuid(), os.getgid())
            send_message(one.fileno(), b"", b"", pack_control([(SOL_SOCKET, SCM_CREDENTIALS, credentials)]), 0)
            _pid_is_free = True
        except PermissionError:
            _pid_is_free = False
        finally:
            one.close()
            other.close()
    return _pid_is_free


def _check_own_credentials(call: Call, value: bytes) -> None:
    if len(value) != 12:
        raise OSError(errno.EINVAL, "not a struct ucred")
    pid, uid, gid = struct.unpack("<III", value)
    if (pid, uid, gid) != (call.kernel.tasks.guest_of(call.raw.tgid()), call.creds.uid, call.creds.gid):
        raise OSError(errno.EPERM, "credentials of another process or user")


def control_in(call: Call, header: Header, control: bytes, flags: int, message_flags: int) -> tuple[bytes, int]:
    """Received control messages in the guest's ids and descriptors, and the message's flags."""
    made: list[tuple[int, int, bytes]] = []
    for level, kind, value in control_messages(control):
        if level == SOL_SOCKET and kind == SCM_RIGHTS:
            value, message_flags = _inject_descriptors(call, value, flags, message_flags)
            if not value:
                continue
        elif level == SOL_SOCKET and kind == SCM_CREDENTIALS:
            pid, uid, gid = struct.unpack("<III", value)
            identity = call.kernel.identity
            guest_pid = call.kernel.tasks.guest_of(pid) if pid else 0
            value = struct.pack("<III", guest_pid, identity.guest_uid(uid), identity.guest_gid(gid))
        made.append((level, kind, value))
    return pack_control(made), message_flags


def _inject_descriptors(call: Call, value: bytes, flags: int, message_flags: int) -> tuple[bytes, int]:
    ours = [number for (number,) in struct.iter_unpack("<i", value)]
    theirs: list[int] = []
    try:
        for fd in ours:
            theirs.append(call.raw.add_fd(fd, bool(flags & MSG_CMSG_CLOEXEC)))
    except OSError:
        message_flags |= MSG_CTRUNC  # the descriptor table is full: the rest is lost, as in Linux
    finally:
        for fd in ours:
            os.close(fd)
    return struct.pack(f"<{len(theirs)}i", *theirs), message_flags
