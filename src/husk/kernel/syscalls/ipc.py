"""semget(2), semop(2), semtimedop(2), semctl(2), msgget(2), msgsnd(2), msgrcv(2), msgctl(2), mq_open(2), mq_unlink(2):
semaphores and message queues, where the box has no ipc namespace."""

from __future__ import annotations

import errno
import os
import struct

from husk.kernel.call import CONTINUE, Call, GiveFd, Reply, i32, text, u32
from husk.kernel.ipc.ipc_objects import MOST_NAMES, QUEUE, SEMAPHORES, NamedQueue
from husk.native._core import ipc_limits, make_as, new_queue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.kernel.ipc.ipc_objects import IpcObject, IpcObjects

IPC_CREAT, IPC_EXCL = 0o1000, 0o2000
IPC_RMID, IPC_SET, IPC_STAT, IPC_INFO = range(4)
# The commands of each kind that ask for one object, for its place in the list, and for all of them.
STATS = {SEMAPHORES: (18, 20), QUEUE: (11, 13)}  # SEM_STAT, SEM_STAT_ANY; MSG_STAT, MSG_STAT_ANY
INFOS = {SEMAPHORES: 19, QUEUE: 12}  # SEM_INFO, MSG_INFO
COMMANDS = {SEMAPHORES: {0, 1, 2, 3, *range(11, 21)}, QUEUE: {0, 1, 2, 3, 11, 12, 13}}
# struct ipc64_perm begins both: key, uid, gid, creator's uid and gid, mode
OWNER = struct.Struct("<iIIIII")
NSEMS, QNUM, CBYTES = 80, 80, 72  # offsets of sem_nsems; of msg_qnum and msg_cbytes
SEMUSZ, SEMAEM = 28, 36  # offsets in struct seminfo: sets in use, semaphores in them
NAME_MAX = 255


def semget(call: Call) -> Reply:
    return _get(call, SEMAPHORES, i32(call, 0), i32(call, 1), i32(call, 2))


def msgget(call: Call) -> Reply:
    return _get(call, QUEUE, i32(call, 0), 0, i32(call, 1))


def semop(call: Call) -> Reply:
    return _use(call, SEMAPHORES)


def semtimedop(call: Call) -> Reply:
    return _use(call, SEMAPHORES)


def msgsnd(call: Call) -> Reply:
    return _use(call, QUEUE)


def msgrcv(call: Call) -> Reply:
    return _use(call, QUEUE)


def semctl(call: Call) -> Reply:
    return _control(call, SEMAPHORES, i32(call, 0), i32(call, 2), call.args[3])


def msgctl(call: Call) -> Reply:
    return _control(call, QUEUE, i32(call, 0), i32(call, 1), call.args[2])


def mq_open(call: Call) -> Reply:
    flags = i32(call, 1)
    attributes = call.raw.read(call.args[3], 64) if flags & os.O_CREAT and call.args[3] else b""
    return _open_queue(call, _name(call), flags, u32(call, 2) & 0o777, attributes)


def mq_unlink(call: Call) -> Reply:
    name, objects = _name(call), _objects(call)
    with objects.lock:
        queue = objects.names.pop(name, None)
        if queue is None:
            raise OSError(errno.ENOENT, "no queue has this name")
        os.close(queue.fd)
    return 0


# -- System V ----------------------------------------------------------------------------------------------------------


def _objects(call: Call) -> IpcObjects:
    return call.kernel.ipc_objects


def _get(call: Call, kind: int, key: int, count: int, flags: int) -> Reply:
    objects = _objects(call)
    with objects.lock:
        found = objects.with_key(kind, key)
        if found is None:
            if key and not flags & IPC_CREAT:
                raise OSError(errno.ENOENT, "no object has this key")
            return objects.make(kind, key, count, flags & 0o777).id
        if flags & IPC_CREAT and flags & IPC_EXCL:
            raise OSError(errno.EEXIST, "the key is taken")
        told = found.describe() or b""
        _permits(call, told, flags >> 6 | flags >> 3 | flags)
        if kind == SEMAPHORES and count > int.from_bytes(told[NSEMS : NSEMS + 8], "little"):
            raise OSError(errno.EINVAL, "the set is smaller")
        return found.id


def _permits(call: Call, told: bytes, wanted: int) -> None:
    """All processes in a box have the same user, and only IPC_SET gives an object to another."""
    _, uid, gid, creator, _, mode = OWNER.unpack_from(told)
    own = call.kernel.identity.host_uid
    shift = 6 if own in (uid, creator) else 3 if gid == call.kernel.identity.host_gid else 0
    if wanted & ~(mode >> shift) & 7:
        raise OSError(errno.EACCES, "its mode does not allow it")


def _use(call: Call, kind: int) -> Reply:
    objects = _objects(call)
    with objects.lock:
        objects.find(kind, i32(call, 0))
    return CONTINUE  # the id is no pointer: what husk looked at cannot change


def _control(call: Call, kind: int, number: int, command: int, address: int) -> Reply:
    if command not in COMMANDS[kind] or (number < 0 and command not in (IPC_INFO, INFOS[kind])):
        raise OSError(errno.EINVAL, "no such id or command")
    objects = _objects(call)
    with objects.lock:
        if command in (IPC_INFO, INFOS[kind]):
            return _tell_of_all(call, objects.all(kind), kind, command, address)
        if command in STATS[kind]:
            every = objects.all(kind)
            if number >= len(every):
                raise OSError(errno.EINVAL, "nothing has this index")
            return _tell(call, every[number], address, ask=command == STATS[kind][0])
        found = objects.find(kind, number)
        if command == IPC_STAT:
            _tell(call, found, address, ask=True)
            return 0
    return CONTINUE


def _tell(call: Call, one: IpcObject, address: int, *, ask: bool) -> int:
    """Only the key differs from what the host knows. The result is the id."""
    told = one.describe()
    if told is None:
        raise OSError(errno.EINVAL, "it is removed")
    if ask:
        _permits(call, told, 4)
    identity = call.kernel.identity
    _, uid, gid, creator, group, mode = OWNER.unpack_from(told)
    owner = OWNER.pack(
        one.key, identity.guest_uid(uid), identity.guest_gid(gid),
        identity.guest_uid(creator), identity.guest_gid(group), mode,
    )  # fmt: skip
    call.raw.write(address, owner + told[OWNER.size :])
    return one.id


def _tell_of_all(call: Call, every: list[IpcObject], kind: int, command: int, address: int) -> Reply:
    """Tell the limits, and with the kind's own command what the box uses. The result is the highest index."""
    told = bytearray(ipc_limits(kind))
    if command != IPC_INFO:
        sizes = [one.describe() or bytes(120) for one in every]

        def total(offset: int) -> int:
            return sum(int.from_bytes(size[offset : offset + 8], "little") for size in sizes)

        if kind == SEMAPHORES:
            struct.pack_into("<i", told, SEMUSZ, len(every))
            struct.pack_into("<i", told, SEMAEM, total(NSEMS))
        else:
            struct.pack_into("<ii", told, 0, len(every), total(QNUM))  # msgpool, msgmap
            struct.pack_into("<i", told, 24, total(CBYTES))  # msgtql
    call.raw.write(address, bytes(told))
    return max(len(every) - 1, 0)


# -- POSIX -------------------------------------------------------------------------------------------------------------


def _name(call: Call) -> bytes:
    name = text(call, 0)
    if not name:
        raise OSError(errno.ENOENT, "no name")
    if len(name) > NAME_MAX:
        raise OSError(errno.ENAMETOOLONG, "the name is too long")
    if b"/" in name or name in (b".", b".."):
        raise OSError(errno.EACCES, "no name for a queue")
    return name


def _open_queue(call: Call, name: bytes, flags: int, mode: int, attributes: bytes) -> Reply:
    objects = _objects(call)
    with objects.lock:
        queue = objects.names.get(name)
        if queue is None:
            if not flags & os.O_CREAT:
                raise OSError(errno.ENOENT, "no queue has this name")
            queue = _new_queue(call, objects, mode & ~call.umask(), attributes)
            objects.names[name] = queue
        elif flags & os.O_CREAT and flags & os.O_EXCL:
            raise OSError(errno.EEXIST, "the name is taken")
        else:
            access = flags & os.O_ACCMODE
            wanted = 4 * (access != os.O_WRONLY) | 2 * (access != os.O_RDONLY)
            if access == os.O_ACCMODE:
                raise OSError(errno.EINVAL, "no such access")
            if wanted & ~(queue.mode >> 6) & 7:
                raise OSError(errno.EACCES, "the queue's mode does not allow it")
        fd = queue.open(flags & (os.O_ACCMODE | os.O_NONBLOCK))
    return GiveFd(fd, cloexec=bool(flags & os.O_CLOEXEC))


def _new_queue(call: Call, objects: IpcObjects, mode: int, attributes: bytes) -> NamedQueue:
    if len(objects.names) >= MOST_NAMES:
        raise OSError(errno.ENOSPC, "the box has as many as it may have")
    messages = size = 0
    if attributes:
        _, messages, size = struct.unpack_from("<qqq", attributes)
        # Linux lets root have larger ones, and husk may be root.
        if not 0 < messages <= _limit("msg_max") or not 0 < size <= _limit("msgsize_max"):
            raise OSError(errno.EINVAL, "no size for a queue")
    own = call.kernel.identity
    if own.host_uid == os.geteuid():
        return NamedQueue(new_queue(messages, size), mode)
    return NamedQueue(make_as(own.host_uid, own.host_gid, lambda: new_queue(messages, size)), mode)


def _limit(name: str) -> int:
    with open(f"/proc/sys/fs/mqueue/{name}") as file:
        return int(file.read())
