"""ioctl(2) where it opens a file or tells of the host's network or processes, or of a guest's mappings. And what
open(2) of a terminal does besides opening it."""

from __future__ import annotations

import errno
import os

from husk.abi.ioctls import INTERFACE, MAPS, OWNER, PROCESS
from husk.kernel.call import CONTINUE, Call, GiveFd, Reply, answered_remotely, held_node, i32, u32
from husk.vfs.synth.synth_tree import read_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.node import Node


def ioctl(call: Call) -> Reply:
    command = u32(call, 1)
    if command in INTERFACE.values():
        return _ask_interface(call, i32(call, 0), command)
    if command in PROCESS.values():
        from husk.kernel.cred.pidfd_info import answer_pidfd_info

        return answer_pidfd_info(call, i32(call, 0), command, call.args[2])
    if command in MAPS.values():
        return _ask_maps(call, i32(call, 0), call.args[2])
    if command in OWNER.values():
        from husk.kernel.syscalls.processes import set_owner_of_socket

        return set_owner_of_socket(call, i32(call, 0))
    return _open_slave(call)


def _ask_interface(call: Call, fd: int, command: int) -> Reply:
    if not call.kernel.network.mapped:
        return CONTINUE  # the box uses the host's network as it is; husk judged no pointer
    from husk.kernel.loopback.loopback_interface import answer_interface_ioctl

    return answer_interface_ioctl(call, fd, command, call.args[2])


def _ask_maps(call: Call, fd: int, address: int) -> Reply:
    """PROCMAP_QUERY. The guest's descriptor is a copy of the text that was there when it was opened; the answer is made
    from the text that is there now."""
    node = None if call.vfs.state.is_path_only(call.raw.fd_link(fd)) else held_node(call, fd)
    place = None if node is None else node.tree.name_of(node)
    if node is None or place is None or place[1] != b"maps" or node.tree.fstype != b"proc":
        raise OSError(errno.ENOTTY, "no list of mappings")
    from husk.vfs.proc.map_query import LARGEST, SMALLEST, MapQuery

    size = int.from_bytes(call.raw.read(address, 8), "little")
    if size > LARGEST:
        raise OSError(errno.E2BIG, "the question is too long")
    if size < SMALLEST:
        raise OSError(errno.EINVAL, "the question is too short")
    query = MapQuery(call.raw.read(address, size))
    with call.vfs.lock:
        maps = node.tree.open(call, node, os.O_RDONLY)
    with open(maps, "rb") as file:
        answer, name = query.answer(file.read())
    if name:
        call.raw.write(query.name_at, name)
    call.raw.write(address, answer)
    return 0


def _open_slave(call: Call) -> Reply:
    """TIOCGPTPEER: the slave of a master the guest holds. As in Linux its name plays no part, so neither do mode and
    owner."""
    slave, flags = _slave_of(call, i32(call, 0)), u32(call, 2)
    with call.vfs.lock:
        fd = slave.tree.open(call, slave, flags)
    return hand_over(call, slave, fd, flags)


def _slave_of(call: Call, master: int) -> Node:
    link = call.raw.fd_link(master)  # EBADF
    # The host tells a master's number, and this box's tree knows the numbers of all terminals a guest can hold.
    fields = read_host(b"/proc/%d/fdinfo/%d" % (call.tid, master)) if link.startswith(b"/") else b""
    number = fields.partition(b"\ntty-index:")[2].split()[:1]
    if not call.raw.valid():
        raise OSError(errno.ESRCH, "the caller is gone")
    with call.vfs.lock:
        directory = call.vfs.walk(call.vfs.context, call.vfs.root, b"/dev/pts")
        slave = directory.tree.terminal(int(number[0])) if number else None
    if slave is None:
        raise OSError(errno.EIO if link.startswith(b"/dev/pts/") else errno.ENOTTY, "not the master of a terminal")
    return slave


def hand_over(call: Call, node: Node, fd: int, flags: int) -> Reply:
    """Give the guest the terminal. It also becomes the controlling terminal of a session leader that has none and did
    not say O_NOCTTY: the host would do that, but husk opened the file."""
    cloexec = bool(flags & os.O_CLOEXEC)
    try:
        controlling = not flags & os.O_NOCTTY and node.is_terminal and _wants_terminal(call)
    except OSError:
        os.close(fd)
        raise
    if not controlling:
        return GiveFd(fd, cloexec=cloexec, alone=True)
    return answered_remotely(call.raw.give_terminal(fd, cloexec))


def _wants_terminal(call: Call) -> bool:
    """Saves the remote call where it could not succeed; the host decides."""
    fields = read_host(b"/proc/%d/stat" % call.tid).rpartition(b")")[2].split()
    return int(fields[3]) == call.raw.tgid() and fields[4] == b"0"
