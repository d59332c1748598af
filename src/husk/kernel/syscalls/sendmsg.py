"""sendto(2), sendmsg(2), sendmmsg(2), recvfrom(2), recvmsg(2), recvmmsg(2): messages that carry or tell an address.

husk sends in the guest's place, on a duplicate of its socket, to the address it copied: a Unix datagram's path would be
looked up by the host, and only husk knows what it means. Messages without an address come here too where they are
hidden behind a pointer (sendmsg). If the receiver asks for the sender's credentials, the guest's own thread sends them,
with a header that husk keeps (native/remote/sealed_send.c). Receiving comes here only when an address is to be
translated (native/fastpath/messages.c).
"""

from __future__ import annotations

import errno
import os
import struct
import time

from husk.abi.registry import number
from husk.kernel.blocking import later, patiently
from husk.kernel.call import ANSWERED, Call, Reply, i32, signal_caller, u32
from husk.kernel.net import msghdr as messages
from husk.kernel.net.msghdr import Header, copy_header
from husk.kernel.net.netlink import check_destination, check_only_queries
from husk.kernel.syscalls.sockets import (
    AF_NETLINK,
    AF_UNIX,
    SOCK_DGRAM,
    SOCK_SEQPACKET,
    SOCK_STREAM,
    copy_address,
    destination,
    give_address,
    shown,
    socket_of,
)
from husk.native._core import get_option, receive_message, send_message, socket_kind, socket_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MSG_DONTWAIT, MSG_TRUNC, MSG_NOSIGNAL = 0x40, 0x20, 0x4000
MSG_WAITALL, MSG_WAITFORONE, MSG_FASTOPEN, MSG_ZEROCOPY = 0x100, 0x10000, 0x20000000, 0x4000000
MSG_ERRQUEUE = 0x2000
SOL_SOCKET, SO_SNDTIMEO = 1, 21
SIGPIPE, MOST_MESSAGES, SENDMSG, SENDTO = 13, 1024, number("sendmsg"), number("sendto")
CONNECTED = (SOCK_STREAM, SOCK_SEQPACKET)
TRANSLATED = 256  # bytes that control messages of a mapped network may grow by
PIECE = 1 << 18  # of a stream, copied and sent at once
WAITING_PIECE = 1 << 16  # the same while the socket is full: as many as calls may wait are held at a time


def sendto(call: Call) -> Reply:
    simple = Header(call.args[4], i32(call, 5), [(call.args[1], min(call.args[2], 0x7FFFF000))], 0, 0)
    return _send(call, lambda: simple, i32(call, 3))


def sendmsg(call: Call) -> Reply:
    return _send(call, lambda: copy_header(call, call.args[1]), i32(call, 2))


def sendmmsg(call: Call) -> Reply:
    count = min(u32(call, 2), MOST_MESSAGES)
    return _send_several(call, count, i32(call, 3))


def recvfrom(call: Call) -> Reply:
    simple = Header(call.args[4], 0, [(call.args[1], min(call.args[2], 0x7FFFF000))], 0, 0)

    def take(fd: int, flags: int) -> int:
        size = min(simple.total, messages.MOST_AT_ONCE)
        data, address, _, told, length = patiently(call, lambda: receive_message(fd, size, 0, flags))
        messages.put_data(call, simple, data)
        give_address(call, shown(call, fd, address), simple.name_at, call.args[5])
        return length if told & MSG_TRUNC and flags & MSG_TRUNC else len(data)

    return _receive(call, i32(call, 3), take)


def recvmsg(call: Call) -> Reply:
    flags = i32(call, 2)
    return _receive(call, flags, lambda fd, more: _take_message(call, fd, copy_header(call, call.args[1]), more))


def recvmmsg(call: Call) -> Reply:
    flags, count = i32(call, 3), min(u32(call, 2), MOST_MESSAGES)
    deadline = _deadline(call)
    done = 0

    def take(fd: int, wait: int) -> int:
        nonlocal done
        while done < count and (done == 0 or deadline is None or time.monotonic() < deadline):
            where = call.args[1] + done * messages.MMSG_SIZE
            alone = wait | (MSG_DONTWAIT if done and flags & MSG_WAITFORONE else 0)
            try:
                length = _take_message(call, fd, copy_header(call, where), alone & ~MSG_WAITFORONE)
            except OSError:
                if done and (alone & MSG_DONTWAIT == flags & MSG_DONTWAIT or flags & MSG_WAITFORONE):
                    return done
                raise
            call.raw.write(where + messages.LENGTH_AT, length.to_bytes(4, "little"))
            done += 1
        return done

    return _receive(call, flags, take)


# -- sending -----------------------------------------------------------------------------------------------------------


class _Sending:
    """One message on its way. A stream's may go in several pieces, and only the first carries the control messages."""

    __slots__ = ("address", "call", "control", "data", "fd", "flags", "further", "header", "held", "kind", "sent",
                 "silent", "user")

    def __init__(self, call: Call, fd: int, header: Header, flags: int) -> None:
        self.call, self.fd, self.header = call, fd, header
        self.data: bytes | None = None  # of a datagram: copied before its destination is looked at, as in Linux
        self.flags = (flags | MSG_NOSIGNAL) & ~MSG_ZEROCOPY  # husk's buffer is not the guest's to keep
        self.silent = bool(flags & MSG_NOSIGNAL)
        self.kind = socket_kind(fd)
        self.sent = 0
        self.held: list[int] = []
        self.address, path_fd = b"", -1
        self.further: list[bytes] = []  # the other members of a group
        try:
            if header.name_room and self.kind[1] in CONNECTED:
                # Connected kinds look nowhere: a Unix stream fails with any address, the others ignore it.
                given = copy_address(call, header.name_at, header.name_room)
                if call.kernel.network.is_netlink(fd):
                    check_destination(given)
                self.address = b"\1\0" if self.kind[0] == AF_UNIX else b""
            elif header.name_room:
                given = copy_address(call, header.name_at, header.name_room)
                if header.total > messages.MOST_AT_ONCE:
                    raise OSError(errno.EMSGSIZE, "no datagram is that long")
                self.data = messages.copy_data(call, header, 0, messages.MOST_AT_ONCE)
                self.address, path_fd = destination(call, fd, self.kind, given)
                self.further = call.kernel.network.further_destinations(fd, self.kind, given)
                if path_fd >= 0:
                    self.held.append(path_fd)
            added = call.kernel.network.source_control(fd, self.kind, self.address) if self.address else []
            before = len(self.held)
            self.control = messages.control_out(call, header, added, unix=self.kind[0] == AF_UNIX, fds=self.held)
            # The user that the host charges for descriptors in flight. It also checks this user's rights for what the
            # control messages ask (native/host/credentials.c).
            judged = len(self.held) > before or (self.control and self.kind[0] != AF_UNIX)
            self.user = call.kernel.identity.host_uid if judged or self.kind[0] == AF_NETLINK else -1
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for fd in self.held:
            os.close(fd)
        self.held = []

    def go_on(self, extra: int) -> int:
        stream = self.kind[1] == SOCK_STREAM
        if not stream and self.header.total > messages.MOST_AT_ONCE:
            raise OSError(errno.EMSGSIZE, "no datagram is that long")
        while True:
            piece = self.data
            if piece is None:
                most = messages.MOST_AT_ONCE if not stream else PIECE if extra & MSG_DONTWAIT else WAITING_PIECE
                piece = messages.copy_data(self.call, self.header, self.sent, most)
            control = b"" if self.sent else self.control
            try:
                self.sent += self._send(piece, control, self.flags | extra)
            except OSError as error:
                if error.errno != errno.EAGAIN and self.sent:
                    return self.sent
                if error.errno == errno.EPIPE and stream:
                    self._broken_pipe()
                raise  # after EAGAIN `sent` tells how far it got
            for address in self.further:
                self._send_further(address, piece)
            if not stream or self.sent >= self.header.total:
                return self.sent

    @property
    def weight(self) -> int:
        """How many bytes husk holds while this waits."""
        return WAITING_PIECE if self.kind[1] == SOCK_STREAM else self.header.total

    def _send(self, piece: bytes, control: bytes, flags: int) -> int:
        if self.kind[0] == AF_NETLINK:
            check_only_queries(piece)
        user = self.user if control or self.kind[0] == AF_NETLINK else -1
        return patiently(self.call, lambda: send_message(self.fd, self.address, piece, control, flags, user))

    def _send_further(self, address: bytes, piece: bytes) -> None:
        try:
            send_message(self.fd, address, piece, self.control, self.flags | MSG_DONTWAIT, self.user)
        except OSError:
            pass  # lost: this is how datagrams are

    def _broken_pipe(self) -> None:
        if not self.silent:
            signal_caller(self.call, SIGPIPE)


def _control_for_guest(call: Call, fd: int, header: Header) -> bytes | None:
    """The control messages of a message that the guest's own thread has to send, because it carries credentials or its
    receiver asks for them. None if husk can send it."""
    if header.name_room or header.control_room > messages.MOST_CONTROL or socket_kind(fd)[0] != AF_UNIX:
        return None
    if call.kernel.network.is_netlink(fd):
        return None
    own = messages.control_of_guest(call, header)
    return own[0] if own is not None and (own[1] or call.kernel.peers.wants_credentials(fd)) else None


def _named_for_guest(call: Call, fd: int, header: Header) -> tuple[bytes, bytes, int] | None:
    """Control messages, host address, and a descriptor that must stay open, of a datagram with a name that the guest's
    own thread has to send. None if husk can send it, or has to: the thread sends by another socket, which has neither
    the name nor the time limit of this one."""
    if not header.name_room or header.control_room > messages.MOST_CONTROL or call.nr not in (SENDTO, SENDMSG):
        return None
    if socket_kind(fd) != (AF_UNIX, SOCK_DGRAM) or call.kernel.network.is_netlink(fd):
        return None
    if not call.kernel.peers.may_want_credentials(fd) or len(socket_name(fd, False)) > 2:
        return None
    own = messages.control_of_guest(call, header)
    if own is None or any(get_option(fd, SOL_SOCKET, SO_SNDTIMEO, 16)):
        return None
    given = copy_address(call, header.name_at, header.name_room)
    return own[0], *destination(call, fd, (AF_UNIX, SOCK_DGRAM), given)


def _send_by_guest(call: Call, fd: int, header: Header, flags: int, control: bytes, to: bytes = b"") -> Reply:
    parts = b"".join([struct.pack("<Qq", *part) for part in header.parts])
    waits = not flags & MSG_DONTWAIT and os.get_blocking(fd)
    theirs, sent, stream = i32(call, 0), False, socket_kind(fd)[1] == SOCK_STREAM
    try:
        sent = patiently(call, lambda: call.raw.send(theirs, fd, parts, control, flags, waits, stream, to))
        if sent:
            return ANSWERED
        # The host is too old, or another process traces the thread: husk sends, and the credentials show husk.
        sending = _Sending(call, fd, header, flags)
        try:
            return sending.go_on(0)
        except OSError:
            if sending.sent:
                return sending.sent
            raise
        finally:
            sending.close()
    finally:
        if not sent:
            os.close(fd)


def _send(call: Call, header: Callable[[], Header], flags: int) -> Reply:
    fd = socket_of(call, i32(call, 0))
    try:
        if flags & MSG_FASTOPEN:
            raise OSError(errno.EOPNOTSUPP, "MSG_FASTOPEN connects as well")
        copied = header()
        control = _control_for_guest(call, fd, copied) if call.nr == SENDMSG else None
        if control is not None:
            own, fd, carried = fd, -1, control
            # In a thread of its own: a receiver has to let the guest's sendmsg continue meanwhile.
            return later(call, lambda: _send_by_guest(call, own, copied, flags, carried), -1, also=own)
        named = _named_for_guest(call, fd, copied)
        if named is not None:
            own, fd = fd, -1
            carried, to, path_fd = named
            return later(call, lambda: _send_by_guest(call, own, copied, flags, carried, to), path_fd, also=own)
        sending = _Sending(call, fd, copied, flags)
        try:
            return sending.go_on(MSG_DONTWAIT)
        except OSError as error:
            if error.errno != errno.EAGAIN or flags & MSG_DONTWAIT or not os.get_blocking(fd):
                if sending.sent:
                    return sending.sent
                raise
            waiting, fd, patient = fd, -1, sending
            sending = None  # type: ignore[assignment]

            def wait() -> Reply:
                try:
                    return patient.go_on(0)
                except OSError:
                    if patient.sent:
                        return patient.sent
                    raise
                finally:
                    patient.close()

            try:
                return later(call, wait, waiting, weight=patient.weight)
            except BaseException:
                patient.close()
                raise
        finally:
            if sending is not None:
                sending.close()
    finally:
        if fd >= 0:
            os.close(fd)


def _give_up(sending: _Sending | None) -> int:
    """Close it. Returns how much of it was sent."""
    if sending is None:
        return 0
    sending.close()
    return sending.sent


def _send_several(call: Call, count: int, flags: int) -> Reply:
    fd = socket_of(call, i32(call, 0))
    done = 0
    current: _Sending | None = None  # kept while it waits: a part of a stream's message may be on its way already

    def go_on(extra: int, which: int) -> int:
        nonlocal done, current
        while done < count:
            where = call.args[1] + done * messages.MMSG_SIZE
            waits = False
            try:
                if current is None:
                    current = _Sending(call, which, copy_header(call, where), flags)
                current.fd = which
                sent = current.go_on(extra)
                call.raw.write(where + messages.LENGTH_AT, sent.to_bytes(4, "little"))
            except OSError as error:
                waits = error.errno == errno.EAGAIN and bool(extra & ~flags)
                if waits or not (done or (current is not None and current.sent)):
                    raise
                if current is None or not current.sent:
                    return done
                call.raw.write(where + messages.LENGTH_AT, current.sent.to_bytes(4, "little"))
                return done + 1
            finally:
                if current is not None and not waits:
                    current.close()
                    current = None
            done += 1
        return done

    try:
        if flags & MSG_FASTOPEN:
            raise OSError(errno.EOPNOTSUPP, "MSG_FASTOPEN connects as well")
        try:
            return go_on(MSG_DONTWAIT, fd)
        except OSError as error:
            if error.errno != errno.EAGAIN or flags & MSG_DONTWAIT or not os.get_blocking(fd):
                sent = _give_up(current)
                if sent:
                    where = call.args[1] + done * messages.MMSG_SIZE + messages.LENGTH_AT
                    call.raw.write(where, sent.to_bytes(4, "little"))
                if done or sent:
                    return done + bool(sent)
                raise
            waiting, fd = fd, -1
            try:
                weight = current.weight if current is not None else 0
                return later(call, lambda: go_on(0, waiting), waiting, weight=weight)
            except BaseException:
                _give_up(current)
                raise
    finally:
        if fd >= 0:
            os.close(fd)


# -- receiving ---------------------------------------------------------------------------------------------------------


def _receive(call: Call, flags: int, take: Callable[[int, int], int]) -> Reply:
    fd = socket_of(call, i32(call, 0))
    patient = not flags & (MSG_DONTWAIT | MSG_ERRQUEUE) and os.get_blocking(fd)
    try:
        try:
            if not (patient and flags & MSG_WAITALL):
                return take(fd, flags | MSG_DONTWAIT)
        except OSError as error:
            if error.errno != errno.EAGAIN or not patient:
                raise
        waiting, fd = fd, -1
        return later(call, lambda: take(waiting, flags), waiting)
    finally:
        if fd >= 0:
            os.close(fd)


def _take_message(call: Call, fd: int, header: Header, flags: int) -> int:
    size = min(header.total, messages.MOST_AT_ONCE)
    room = min(header.control_room, messages.MOST_CONTROL)
    if room and call.kernel.network.mapped and socket_kind(fd)[0] != AF_UNIX:
        room += TRANSLATED  # what becomes longer by translation is cut afterwards
    wanted = flags | messages.MSG_CMSG_CLOEXEC
    data, address, control, told, length = patiently(call, lambda: receive_message(fd, size, room, wanted))
    control = call.kernel.network.guest_control(fd, address, control) if control else b""
    control, told = messages.control_in(call, header, control, flags, told)
    control, told = messages.fit_control(control, header.control_room, told)
    messages.put_data(call, header, data)
    if header.name_at:
        named = shown(call, fd, address)
        call.raw.write(header.name_at, named[: header.name_room])
        call.raw.write(header.address_at + 8, len(named).to_bytes(4, "little"))
    if header.control_room:
        call.raw.write(header.control_at, control)
    told = told & ~messages.MSG_CMSG_CLOEXEC | flags & messages.MSG_CMSG_CLOEXEC
    call.raw.write(
        header.address_at + 40, len(control).to_bytes(8, "little") + (told & 0xFFFFFFFF).to_bytes(4, "little")
    )
    return length if told & MSG_TRUNC and flags & MSG_TRUNC else len(data)


def _deadline(call: Call) -> float | None:
    if not call.args[4]:
        return None
    when = call.raw.read(call.args[4], 16)
    seconds, rest = int.from_bytes(when[:8], "little", signed=True), int.from_bytes(when[8:], "little", signed=True)
    if seconds < 0 or not 0 <= rest < 1_000_000_000:
        raise OSError(errno.EINVAL, "no time")
    return time.monotonic() + seconds + rest / 1e9
