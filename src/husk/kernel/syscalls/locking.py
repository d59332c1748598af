"""flock(2), and the commands of fcntl(2) that lock: advisory locks (docs/design/016-locks.md).

Locks on the box's own files and below `rw` mounts are the host's. flock and F_OFD_* locks belong to the open file, so
husk makes them on a duplicate: what was judged is what is locked. Record locks (F_SETLK) belong to the process, so the
host continues the guest's own call. On every other file a lock would reach the host's programs and other boxes. There
flock is private to the box, and a range can be locked for reading only, which nothing in the box can conflict with.
"""

from __future__ import annotations

import errno
import os
import stat as st
import struct
from fcntl import F_GETFL
from fcntl import fcntl as host_fcntl

from husk.kernel.call import CONTINUE, Call, Refused, Reply, duplicate, i32
from husk.kernel.locks.shared_files import shared_name
from husk.native._core import lock_file, lock_range

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.kernel.locks.private_locks import Patiently

    Wait = Callable[[Patiently], None]  # what may take long

LOCK_SH, LOCK_EX, LOCK_NB, LOCK_UN = 1, 2, 4, 8
F_GETLK, F_SETLK, F_SETLKW = 5, 6, 7
F_SETOWN, F_SETOWN_EX = 8, 15
F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW = 36, 37, 38
RANGE = struct.Struct("<hh4xqqi4x")  # struct flock
AT_ONCE = {F_SETLKW: F_SETLK, F_OFD_SETLKW: F_OFD_SETLK}

def flock(call: Call) -> Reply:
    fd, operation = i32(call, 0), i32(call, 1)
    try:
        file = duplicate(call, fd)
    except OSError as error:
        if error.errno == errno.EBADF:
            lock_file(-1, operation)  # Linux looks at the operation first
        raise
    return _and_close(call, file, lambda: _flock(call, file, operation))


def fcntl(call: Call) -> Reply:
    """Only its commands for locks and owners come here."""
    if i32(call, 1) in (F_SETOWN, F_SETOWN_EX):
        from husk.kernel.syscalls.processes import set_owner, set_owner_of_kind

        set_by = set_owner if i32(call, 1) == F_SETOWN else set_owner_of_kind
        return set_by(call, i32(call, 0))
    file = duplicate(call, i32(call, 0))
    return _and_close(call, file, lambda: _lock_range(call, file, i32(call, 1)))


# -- what they mean ----------------------------------------------------------------------------------------------------


def _and_close(call: Call, file: int, act: Callable[[], Reply | Wait]) -> Reply:
    """husk's copy of the descriptor is closed before the guest goes on: a lock ends with the last one."""
    try:
        reply = act()
    except BaseException:
        os.close(file)
        raise
    if not callable(reply):
        os.close(file)
        return reply
    from husk.kernel.blocking import later, patiently

    wait = reply

    def operate() -> Reply:
        wait(lambda lock: patiently(call, lock))
        return 0

    return later(call, operate, file)


def _flock(call: Call, file: int, operation: int) -> Reply | Wait:
    key = _shared_file(call, file)
    if key is None:
        try:
            lock_file(file, operation | LOCK_NB)
        except BlockingIOError:
            if operation & LOCK_NB:
                raise
            return lambda patiently: patiently(lambda: lock_file(file, operation))
        return 0
    kind = operation & ~LOCK_NB
    if kind not in (LOCK_SH, LOCK_EX, LOCK_UN):
        lock_file(-1, operation)
        return 0
    try:
        if kind != LOCK_UN:
            return call.kernel.private_locks.lock(key, file, operation) or 0
        call.kernel.private_locks.unlock(key, file)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.ENOSYS):
            raise Refused(errno.ENOLCK, "husk must compare descriptors for it, and the host forbids kcmp") from None
        raise
    return 0


def _lock_range(call: Call, file: int, command: int) -> Reply | Wait:
    shared = _shared_file(call, file) is not None
    if not shared and command in (F_GETLK, F_SETLK, F_SETLKW):
        if command != F_GETLK:
            call.kernel.record_locks.expect(call.kernel.events.refused)
        return CONTINUE
    wanted = call.raw.read(call.args[2], RANGE.size)
    if shared:
        _tell(call, command, wanted, _nobody_else(file, command, wanted))
        return 0
    try:
        found = lock_range(file, AT_ONCE.get(command, command), wanted)
    except BlockingIOError:
        if command not in AT_ONCE:
            raise
        return lambda patiently: patiently(lambda: _locked(file, command, wanted))
    _tell(call, command, wanted, found)
    return 0


def _locked(file: int, command: int, wanted: bytes) -> None:
    lock_range(file, command, wanted)


def _tell(call: Call, command: int, wanted: bytes, found: bytes) -> None:
    if command not in (F_GETLK, F_OFD_GETLK):
        return
    kind, whence, start, length, pid = RANGE.unpack(found)
    if found != wanted and pid > 0:  # a process with a record lock, by the host's number
        found = RANGE.pack(kind, whence, start, length, call.kernel.tasks.guest_of(pid))
    call.raw.write(call.args[2], found)


def _nobody_else(file: int, command: int, wanted: bytes) -> bytes:
    """What Linux says if the process is the only one with the file: it has the checks and their order."""
    mode = host_fcntl(file, F_GETFL) & os.O_ACCMODE
    alone = os.memfd_create("lock")
    try:
        os.ftruncate(alone, os.fstat(file).st_size)  # SEEK_END begins there
        same = os.open(b"/proc/self/fd/%d" % alone, mode | os.O_CLOEXEC)
        try:
            if st.S_ISREG(os.fstat(file).st_mode):
                os.lseek(same, os.lseek(file, 0, os.SEEK_CUR), os.SEEK_SET)
            return lock_range(same, AT_ONCE.get(command, command), wanted)
        finally:
            os.close(same)
    finally:
        os.close(alone)


def _shared_file(call: Call, file: int) -> bytes | None:
    """A name for the file if locks on it must be private to the box; else None."""
    link = os.readlink(b"/proc/self/fd/%d" % file)
    if call.vfs.state.is_path_only(link):
        raise OSError(errno.EBADF, "only a path")
    found = os.fstat(file)
    name = shared_name(call.vfs, b"/proc/self/fd/%d" % file, link, found, host_fcntl(file, F_GETFL))
    if name is not None and not (st.S_ISREG(found.st_mode) or st.S_ISCHR(found.st_mode)):
        raise Refused(errno.ENOLCK, "husk would have to hold it open, which its other end could notice")
    return name
