"""kernel: one notified call as handlers see it, and the helpers that copy its arguments out of the guest.

Each helper copies once; what a handler judged is what it acts on. A handler returns an int, or one of the replies
below, or raises OSError; it never answers by itself (exec and chdir hand the answer to the C core and say ANSWERED).
"""

from __future__ import annotations

import errno

from husk.native._core import open_interruptible
from husk.vfs.node import Context, Dir, Node, SocketNames
from husk.vfs.pinned import Orphan, identify
from husk.vfs.synth.synth_tree import read_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os

    from husk.kernel.kernel import Kernel
    from husk.native._core import Call as RawCall
    from husk.vfs.vfs import Vfs

AT_FDCWD = -100
SIGXFSZ = 25


class GiveFd:
    """The call returns a new descriptor. `fd` is husk's, handed over by the dispatcher.

    `alone`: husk's own copy must be closed before the guest runs on, because it would be observable: by the other end
    of a FIFO, by an execve that asks whether the file is open for writing, or by a watcher of closes.
    """

    __slots__ = ("alone", "cloexec", "fd")

    def __init__(self, fd: int, *, cloexec: bool, alone: bool = False) -> None:
        self.fd, self.cloexec, self.alone = fd, cloexec, alone


class Refused(OSError):
    """An errno from husk's own policy, not from Linux's rules: its reason is reported outside the box. A third argument
    says what was asked for, where the call alone does not tell; a fifth (OSError ignores the fourth) what would allow
    it."""


NOTHING: dict[int, bytes] = {}  # never written to


class Special:
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


CONTINUE = Special("continue")  # the host kernel runs it; only for calls whose pointers husk did not judge
ANSWERED = Special("answered")  # a remote call has answered already
LATER = Special("later")  # a thread of its own answers, because the host may keep it waiting

Reply = int | GiveFd | Special


def answered_remotely(error: int) -> Reply:
    """The reply after a remote call, which has answered the guest itself if it could begin."""
    if error == -errno.EBUSY:
        raise Refused(errno.EPERM, "husk has to stop the thread for this, and another process traces it already")
    return ANSWERED


class Call(Context):
    """A call, and as such the context of what the vfs does for it."""

    __slots__ = (
        "address",
        "address_at",
        "args",
        "copied_address",
        "found",
        "given",
        "kernel",
        "looked_up",
        "made",
        "made_directory",
        "nr",
        "raw",
        "start",
        "texts",
    )

    def __init__(self, raw: RawCall, kernel: Kernel) -> None:
        self.raw, self.kernel = raw, kernel
        self.texts: dict[int, bytes] = {}  # string arguments by position, for events
        self.address: bytes | None = None  # of connect, bind or sendto, once a hook has seen it
        self.address_at = 0  # where the guest has it
        self.copied_address: bytes | None = None  # the last address that a handler took, for events
        self.given: dict[int, bytes] = NOTHING  # string arguments as the guest has them, where a hook changed them
        self.start: Dir | None = None  # where walking a relative name began
        self.looked_up: tuple[Dir, bytes] | None = None  # what the name cache may learn from
        self.found: Dir | None = None  # the directory that `looked_up` led to, where it is known
        # A name that came or went, where C could do the same next time: its start, and the name.
        self.made: tuple[Dir, bytes] | None = None
        self.made_directory: tuple[Dir, bytes, Dir] | None = None  # likewise, and what was made
        self.creds, self.tid, self.domain = kernel.credentials(raw.tid), raw.tid, None
        self.nr, self.args = raw.nr, raw.args

    @property
    def vfs(self) -> Vfs:
        return self.kernel.vfs

    def umask(self) -> int:
        return self.raw.umask()

    def own_root(self) -> Dir | None:
        return self.kernel.root_of(self.tid)

    def socket_names(self) -> SocketNames:
        return self.kernel.socket_names()

    def open_fifo(self, pin: int, flags: int) -> int:
        # The host charges its buffer to the user that opens it first (native/host/credentials.c).
        return open_interruptible(b"/proc/self/fd/%d" % pin, flags, self.kernel.identity.host_uid)

    def changed(self, change: str, node: Node, name: bytes = b"") -> None:
        self.kernel.note_changes()
        self.kernel.events.changed(self, change, node, name)

    def opened_for_writing(self, node: Node, modified: int) -> None:
        self.kernel.note_changes()
        self.kernel.events.opened_for_writing(self, node, modified)

    def renamed(self, old: Dir, old_name: bytes, new: Dir, new_name: bytes, moved: Node, *, replaced: bool) -> None:
        self.kernel.note_changes()
        self.kernel.events.renamed(self, (old, old_name), (new, new_name), moved, replaced=replaced)

    def exchanged(self, old: Dir, old_name: bytes, new: Dir, new_name: bytes) -> None:
        self.kernel.note_changes()
        self.kernel.events.exchanged(self, (old, old_name), (new, new_name))

    def may_grow(self, size: int) -> None:
        # Not prlimit(2): for another user's process it takes CAP_SYS_RESOURCE, which root in a container may lack.
        limits = read_host(b"/proc/%d/limits" % self.tid)
        if not self.raw.valid():
            raise OSError(errno.ESRCH, "the caller is gone")
        soft = limits.partition(b"\nMax file size")[2].split()[:1]
        if soft and soft[0].isdigit() and size > int(soft[0]):
            signal_caller(self, SIGXFSZ)
            raise OSError(errno.EFBIG, "beyond RLIMIT_FSIZE")


def signal_caller(call: Call, number: int) -> None:
    """Send the signal that goes with an errno. By descriptor: the caller may be killed meanwhile, and the host may give
    its number to another process."""
    import os
    import signal

    try:
        process = os.pidfd_open(call.raw.tgid())
    except OSError:
        return  # gone
    try:
        if call.raw.valid():
            signal.pidfd_send_signal(process, number)
    except ProcessLookupError:
        pass
    finally:
        os.close(process)


def u32(call: Call, n: int) -> int:
    return call.args[n] & 0xFFFFFFFF


def i32(call: Call, n: int) -> int:
    value = call.args[n] & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def i64(call: Call, n: int) -> int:
    value = call.args[n]
    return value - (1 << 64) if value & (1 << 63) else value


def path(call: Call, n: int) -> bytes:
    """A path argument: EFAULT, or ENAMETOOLONG when no NUL comes within PATH_MAX."""
    text = call.texts.get(n)
    if text is None:  # else a hook has seen it: the handler acts on the same copy
        text = call.texts[n] = call.raw.cstring(call.args[n])
    return text


def text(call: Call, n: int, limit: int = 4096) -> bytes:
    """A string that is no path. It is kept in front of the paths: a refusal speaks of the string copied last."""
    value = call.raw.cstring(call.args[n], limit)
    call.texts = {n: value, **call.texts}
    return value


def working_directory(call: Call) -> Dir:
    node = call.vfs.node_of_link(call.raw.cwd_link(), 0, 0)
    if not isinstance(node, Dir):
        raise OSError(errno.ENOENT, "the working directory is not one of this box")
    return node


def start_dir(call: Call, dirfd: int, name: bytes) -> Dir:
    """Where walking `name` begins. An absolute name never looks at dirfd: a bad one must not fail."""
    if name[:1] == b"/" or not name:  # the walker says ENOENT for an empty name, whatever dirfd is
        return call.vfs.root
    return held_dir(call, dirfd)


def held_dir(call: Call, dirfd: int) -> Dir:
    """The directory behind a descriptor, or the working directory."""
    if dirfd == AT_FDCWD:
        call.start = working_directory(call)
        return call.start
    node = call.vfs.node_of_link(call.raw.fd_link(dirfd), 0, 0)
    if not isinstance(node, Dir):
        raise OSError(errno.ENOTDIR, "not a directory")
    call.start = node
    return node


def open_link(call: Call, fd: int) -> bytes:
    """The host's name of a guest descriptor that is open for more than its path: EBADF for an O_PATH one."""
    link = call.raw.fd_link(fd)
    if call.vfs.state.is_path_only(link):
        raise OSError(errno.EBADF, "only a path")
    return link


def duplicate(call: Call, fd: int) -> int:
    """The guest's own open file, for husk to act on; the caller closes it."""
    try:
        return call.raw.get_fd(fd)
    except PermissionError:
        raise Refused(
            errno.EPERM,
            "husk needs the guest's own descriptor for it, and the host does not let it take one (pidfd_getfd; before"
            " Linux 6.9 also where a thread has a table of its own, or the first thread has ended)",
        ) from None


def held_node(call: Call, fd: int) -> Node | None:
    """The vfs node behind a guest descriptor; None for what has no name (pipes, sockets, memfds, the host's stdio)."""
    return identified(call, fd)[0]


def identified(call: Call, fd: int) -> tuple[Node | None, bytes, os.stat_result]:
    """The same, and name and attributes that the host gives the file."""
    via, before = b"/proc/%d/fd/%d" % (call.tid, fd), b""
    while True:
        try:
            link, host = identify(via)
        except FileNotFoundError:
            raise OSError(errno.EBADF, "no such descriptor") from None
        if not call.raw.valid():
            raise OSError(errno.ESRCH, "the caller is gone")
        if link[:1] != b"/":
            return None, link, host
        node = call.vfs.node_of_link(link, host.st_dev, host.st_ino, via)
        # Another thread of husk may have renamed the file's mirror after the link was read. Then that name leads
        # nowhere, and the link is another one by now. A file that has lost its last name keeps the link it has.
        if not isinstance(node, Orphan) or link == before:
            return node, link, host
        before = link
