"""landlock_create_ruleset(2), landlock_add_rule(2), landlock_restrict_self(2), personality(2) of restricted threads.

A ruleset's descriptor is a stand-in whose number names it. The host keeps a thread's domain as a mark in its
personality (`native/remote/restrict.c`), so that clone and execve pass it on; here is which mark means which domain.
What a domain allows is in `vfs/access/landlock_rules.py`. Signals, tracing and what an open file may do later are the
host's business: there the thread, or husk when it opens the file, is in a Landlock domain of the host's.
"""

from __future__ import annotations

import _thread
import errno
import os
import stat as st
import struct

from husk.kernel.blocking import later
from husk.kernel.call import ANSWERED, CONTINUE, Call, GiveFd, Refused, Reply, held_node, i32, open_link, u32
from husk.native._core import landlock_ruleset, open_without
from husk.vfs.access.landlock_rules import IOCTL_DEV, MAKE_BLOCK, OF_FILES, READ_FILE, Domain, Ruleset, key_of
from husk.vfs.node import Dir, Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.native._core import Listener

NEWEST = 6  # the ABI that is served here, on a host that has it
FS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16, 6: 16}  # ABI -> number of rights
VERSION = 1
PAGE = 4096
PATH_BENEATH, NET_PORT = 1, 2
PATH_RULE, PORT_RULE = struct.Struct("<Qi"), struct.Struct("<QQ")
MOST_LAYERS = 15  # Linux has 16 in all, and one is husk's own
MOST_NAMES = 65536
MOST_RULES = 1 << 16  # of one ruleset
MARK = 0xF001FF00  # as in native/remote/remote.h
MARK_BITS = tuple(bit for bit in range(32) if MARK >> bit & 1)
PTMX = os.makedev(5, 2)


class Domains:
    """The domains of one run, by their mark. Marks are not used again: a thread may have one that husk does not see."""

    __slots__ = ("_by_mark", "_entering", "_listener", "abstract")

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._entering = _thread.allocate_lock()  # no two domains may get one mark
        self._by_mark: dict[int, Domain] = {}
        self.abstract: dict[bytes, Domain] = {}  # who bound an abstract name, if it was a thread with a domain
        listener.use_marks()

    def mark_of(self, tid: int) -> tuple[int, int]:
        """(mark, other bits) of a thread's personality."""
        persona = self._listener.mark(tid)
        return persona & MARK, persona & ~MARK

    def of(self, tid: int) -> Domain | None:
        mark, _ = self.mark_of(tid)
        return self._by_mark[mark] if mark else None  # a mark without a domain is a fault of ours: EIO

    def bound(self, name: bytes, domain: Domain | None) -> None:
        """An abstract name was bound. Names of threads without a domain need no entry: nothing scoped reaches them."""
        self.abstract.pop(name, None)
        if domain is not None:
            self.abstract[name] = domain
            if len(self.abstract) > MOST_NAMES:
                del self.abstract[next(iter(self.abstract))]

    def enter(self, parent: Domain | None, ruleset: Ruleset) -> int:
        """The mark of `parent` with one more layer. A program that is started again and again with the same rules gets
        the same mark, unless its layers confine signals or sockets: then each start is apart."""
        with self._entering:
            return self._enter(parent, ruleset)

    def _enter(self, parent: Domain | None, ruleset: Ruleset) -> int:
        above = parent.layers if parent is not None else ()
        if not ruleset.scoped:
            for mark, domain in self._by_mark.items():
                if domain.layers[:-1] == above and domain.layers[-1].grants(ruleset):
                    return mark
        number = len(self._by_mark) + 1
        if number >= 1 << len(MARK_BITS):
            raise Refused(errno.ENOMEM, "programs of this box have restricted themselves in too many ways")
        mark = sum(1 << bit for place, bit in enumerate(MARK_BITS) if number >> place & 1)
        self._by_mark[mark] = Domain((*above, ruleset.frozen()), self.of)
        return mark


def landlock_create_ruleset(call: Call) -> Reply:
    abi, size, flags = _abi(call), call.args[1], u32(call, 2)
    if flags:
        if flags != VERSION or call.args[0] or size:
            raise OSError(errno.EINVAL, "unknown flags, or flags with a ruleset")
        return abi
    if size < 8:
        raise OSError(errno.EINVAL, "struct landlock_ruleset_attr is too small")
    if size > PAGE:
        raise OSError(errno.E2BIG, "struct landlock_ruleset_attr is too large")
    given = call.raw.read(call.args[0], size)
    known = 24 if abi >= 6 else 16 if abi >= 4 else 8
    if any(given[known:]):
        raise OSError(errno.E2BIG, "struct landlock_ruleset_attr has fields that this version does not know")
    fs, net, scoped = struct.unpack("<QQQ", given[:known].ljust(24, b"\0"))
    if fs >> FS[abi] or net & ~3 or scoped & ~3:
        raise OSError(errno.EINVAL, "unknown rights")
    if not (fs or net or scoped):
        raise OSError(errno.ENOMSG, "nothing is handled")
    return GiveFd(call.vfs.state.ruleset_fd(Ruleset(fs, net, scoped)), cloexec=True)


def landlock_add_rule(call: Call) -> Reply:
    _abi(call)
    if u32(call, 3):
        raise OSError(errno.EINVAL, "unknown flags")
    ruleset, kind = _ruleset(call, i32(call, 0)), u32(call, 1)
    if kind == PATH_BENEATH:
        rights, fd = PATH_RULE.unpack(call.raw.read(call.args[2], PATH_RULE.size))
        _check_rights(rights, ruleset.fs)
        _add_path(call, ruleset, _beneath(call, fd), rights)
    elif kind == NET_PORT:
        rights, port = PORT_RULE.unpack(call.raw.read(call.args[2], PORT_RULE.size))
        _check_rights(rights, ruleset.net)
        if port > 0xFFFF:
            raise OSError(errno.EINVAL, "not a port")
        ruleset.ports[port] = ruleset.ports.get(port, 0) | rights
    else:
        raise OSError(errno.EINVAL, "an unknown kind of rule")
    return 0


def landlock_restrict_self(call: Call) -> Reply:
    _abi(call)
    # A guest may always do this: husk has set no_new_privs for it.
    if u32(call, 1):
        raise OSError(errno.EINVAL, "unknown flags")
    ruleset = _ruleset(call, i32(call, 0))
    with call.vfs.lock:  # two threads may be the first
        domains = call.kernel.domains
        if domains is None:
            domains = call.kernel.domains = Domains(call.kernel.listener)
    parent = domains.of(call.tid)
    if parent is not None and len(parent.layers) >= MOST_LAYERS:
        raise OSError(errno.E2BIG, "too many layers")
    _, persona = domains.mark_of(call.tid)
    persona |= domains.enter(parent, ruleset)
    if ruleset.fs & READ_FILE and call.kernel.walls.direct:
        # Files of /usr guests can open themselves. The host reads the loader when it executes it: that stays allowed.
        host = landlock_ruleset(READ_FILE, ruleset.scoped, (call.kernel.loader_fd,))
    else:
        # Of files the host has nothing to judge. It wants one right all the same, and no guest can make a block device.
        host = landlock_ruleset(0 if ruleset.scoped else MAKE_BLOCK, ruleset.scoped)
    return later(call, lambda: _answered(call.raw.restrict(host, persona)), host)


def personality(call: Call) -> Reply:
    """Only what sets it comes here. The mark must stay."""
    domains = call.kernel.domains
    mark, _ = domains.mark_of(call.tid) if domains is not None else (0, 0)
    if not mark:
        return CONTINUE  # the filter judged a register, which nothing can change meanwhile
    return later(call, lambda: _answered(call.raw.restrict(-1, u32(call, 0) | mark)), -1)


def reopen_without(call: Call, node: Node, fd: int, rights: int) -> int:
    """The same file, opened so that the host refuses what the guest's rules do not allow later. Takes over `fd`."""
    import fcntl

    try:
        if rights & IOCTL_DEV and node.kind == st.S_IFCHR and os.fstat(fd).st_rdev == PTMX:
            raise OSError(errno.EACCES, "opened a second time it would be another terminal")
        flags = fcntl.fcntl(fd, fcntl.F_GETFL) & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC | os.O_NOFOLLOW | os.O_TMPFILE)
        return open_without(b"/proc/self/fd/%d" % fd, flags, rights)
    finally:
        os.close(fd)


# -- arguments ---------------------------------------------------------------------------------------------------------


def _abi(call: Call) -> int:
    abi = min(NEWEST, call.kernel.walls.landlock)
    if not abi:
        raise OSError(errno.EOPNOTSUPP, "the host has no Landlock")
    return abi


def _ruleset(call: Call, fd: int) -> Ruleset:
    found = call.vfs.state.ruleset_of(open_link(call, fd))
    if found is None:
        raise OSError(errno.EBADFD, "not a ruleset")
    assert isinstance(found, Ruleset)
    return found


def _check_rights(rights: int, handled: int) -> None:
    if not rights:
        raise OSError(errno.ENOMSG, "a rule that allows nothing")
    if rights & ~handled:
        raise OSError(errno.EINVAL, "rights that the ruleset does not handle")


def _beneath(call: Call, fd: int) -> Node:
    if call.vfs.state.ruleset_of(call.raw.fd_link(fd)) is not None:
        raise OSError(errno.EBADFD, "a ruleset")
    node = held_node(call, fd)
    if node is None or node.holder() is not None:
        raise OSError(errno.EBADFD, "not a file of a tree")
    return node


def _add_path(call: Call, ruleset: Ruleset, node: Node, rights: int) -> None:
    if node.kind != st.S_IFDIR and rights & ~OF_FILES:
        raise OSError(errno.EINVAL, "rights of a directory for a file")
    if len(ruleset.rules) >= MOST_RULES:
        raise OSError(errno.E2BIG, "too many rules")
    with call.vfs.lock:
        key = key_of(call, node)
        call.vfs.state.pin(key, lambda: _pin(call, node))
        ruleset.rules[key] = ruleset.rules.get(key, 0) | rights


def _pin(call: Call, node: Node) -> int | None:
    """A descriptor of the host's file behind a node, as long as which no other file gets its number."""
    if isinstance(node, Dir):
        return node.tree.host_directory_fd(node)
    return node.tree.open(call, node, os.O_PATH) if node.tree.host_backed else None


def _answered(error: int) -> Reply:
    if error == -errno.EBUSY:
        raise Refused(errno.EPERM, "husk has to stop the thread for this, and another process traces it already")
    return ANSWERED
