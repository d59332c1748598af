"""vfs: /dev/pts — the pseudo-terminals of one box, and no other.

A pseudo-terminal is the host's own: husk makes it with the host's /dev/ptmx, and guests use its two sides natively.
Here lives what a *name* means: which numbers exist, what stat says of them, and opening one. docs/design/006 argues it.

Life of a terminal: `make` opens a master and pins the slave's inode with an O_PATH descriptor, which does not count as
open. When the guest closes its last master, the host removes the name (st_nlink falls to 0), and the next look-up
forgets it. The host may then give the number to another program; the pin stays with the old inode, and opening it is
EIO.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat as st

from husk.vfs.fd_reserve import is_in_reserve
from husk.vfs.node import Entry, Node, Stat
from husk.vfs.synth.synth_tree import FIRST_COOKIE, SynthTree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from husk.vfs.node import Context, Credentials, Dir, Tree

TERMINALS_MAX = 256  # of a few thousand that all programs on the host share (/proc/sys/kernel/pty/max)
TTY_GROUP, SLAVE_MAJOR, PTMX = 5, 136, (5, 2)
KEPT_FLAGS = os.O_ACCMODE | os.O_APPEND | os.O_NONBLOCK | os.O_SYNC | os.O_DSYNC
_TIOCGPTN, _TIOCGPTPEER, _TIOCGEXCL = 0x80045430, 0x5441, 0x80045440
_FIRST_INO = 3  # devpts: the root is 1, ptmx is 2


class Slave(Node):
    """The side of a pseudo-terminal that has a name. Owns its pin."""

    __slots__ = ("gid", "mode", "number", "pin", "uid")

    is_terminal = True

    def __init__(self, tree: Tree, number: int, pin: int, uid: int) -> None:
        super().__init__(tree, st.S_IFCHR)
        self.number, self.pin = number, pin
        self.uid, self.gid, self.mode = uid, TTY_GROUP, 0o620

    def __del__(self) -> None:
        os.close(self.pin)

    def lives(self) -> bool:
        return os.fstat(self.pin).st_nlink > 0


class Ptmx(Node):
    """The name `ptmx` in /dev/pts, which Linux shows but does not let users open; they open /dev/ptmx."""

    __slots__ = ()


class PtsTree(SynthTree):
    """Guests change it by opening /dev/ptmx and closing what they got, so every look-up asks the host."""

    fstype = b"devpts"
    read_only = False

    def __init__(self, creds: Credentials, *, dev: int) -> None:
        super().__init__(dev, mode=0o755)
        self._creds = creds
        self._slaves: dict[int, Slave] = {}
        self._ptmx = Ptmx(self, st.S_IFCHR)

    # -- terminals -------------------------------------------------------------------------------------------------
    def make(self, flags: int) -> int:
        """The master of a new pseudo-terminal. Linux's answer to too many is ENOSPC."""
        if len(self._slaves) >= TERMINALS_MAX and len(self._living()) >= TERMINALS_MAX:
            raise OSError(errno.ENOSPC, f"a box has at most {TERMINALS_MAX} terminals")
        master = os.open(b"/dev/ptmx", flags & KEPT_FLAGS | os.O_CLOEXEC | os.O_NOCTTY)
        try:
            number = int.from_bytes(fcntl.ioctl(master, _TIOCGPTN, bytes(4)), "little")
            # Asked of the master, not of a path: the host may have several devpts, and this is the right one.
            pin = fcntl.ioctl(master, _TIOCGPTPEER, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            os.close(master)
            raise
        if is_in_reserve(pin):
            os.close(master)
            os.close(pin)
            raise OSError(errno.ENOSPC, "husk has few descriptors left")
        self._slaves[number] = Slave(self, number, pin, self._creds.uid)
        return master

    def terminal(self, number: int) -> Slave | None:
        slave = self._slaves.get(number)
        if slave is not None and not slave.lives():
            del self._slaves[number]
            return None
        return slave

    def _living(self) -> list[Slave]:
        self._slaves = {number: slave for number, slave in self._slaves.items() if slave.lives()}
        return list(self._slaves.values())

    def controlling(self, tid: int) -> Slave:
        """What /dev/tty means to a thread: ENXIO without a terminal. All of a box's terminals are here, so an unknown
        number belongs to none of its threads."""
        with open(f"/proc/{tid}/stat", "rb") as text:
            device = int(text.read().rpartition(b")")[2].split()[4])
        slave = self.terminal(os.minor(device)) if os.major(device) == SLAVE_MAJOR else None
        if slave is None:
            raise OSError(errno.ENXIO, "no controlling terminal")
        return slave

    # -- the interface of a tree -----------------------------------------------------------------------------------
    def lookup(self, ctx: Context, directory: Dir, name: bytes) -> Node:
        if name == b"ptmx":
            return self._ptmx
        if name.isdigit() and len(name) <= 7 and (name == b"0" or name[:1] != b"0"):
            slave = self.terminal(int(name))
            if slave is not None:
                return slave
        raise OSError(errno.ENOENT, "no such terminal")

    def entries(self, ctx: Context, directory: Dir, after: int) -> Iterable[Entry]:
        found = [Entry(b"ptmx", 2, st.S_IFCHR, FIRST_COOKIE)]
        for slave in sorted(self._living(), key=lambda each: each.number):
            found.append(Entry(b"%d" % slave.number, self.ino_of(slave), st.S_IFCHR, FIRST_COOKIE + 1 + slave.number))
        return [entry for entry in found if entry.cookie > after]

    def ino_of(self, node: Node) -> int:
        if isinstance(node, Slave):
            return _FIRST_INO + node.number
        return 2 if node is self._ptmx else super().ino_of(node)

    def name_of(self, node: Node) -> tuple[Dir, bytes] | None:
        if isinstance(node, Slave):
            return (self.root, b"%d" % node.number) if node.lives() else None
        return (self.root, b"ptmx") if node is self._ptmx else super().name_of(node)

    def old_name_of(self, node: Node) -> tuple[Dir, bytes] | None:
        return (self.root, b"%d" % node.number) if isinstance(node, Slave) else None

    def stat(self, ctx: Context, node: Node) -> Stat:
        if node is self._ptmx:
            return self.made_stat(2, st.S_IFCHR, rdev=os.makedev(*PTMX))
        if not isinstance(node, Slave):
            return super().stat(ctx, node)
        made = self.made_stat(
            self.ino_of(node),
            st.S_IFCHR | node.mode,
            uid=node.uid,
            gid=node.gid,
            rdev=os.makedev(SLAVE_MAJOR, node.number),
        )
        host = os.fstat(node.pin)  # the host notes when it was last read and written: `w` and `finger` show that
        made.nlink, made.atime, made.mtime = host.st_nlink, host.st_atime_ns, host.st_mtime_ns
        return made

    def open(self, ctx: Context, node: Node, flags: int) -> int:
        if not isinstance(node, Slave) or flags & os.O_PATH:
            return super().open(ctx, node, flags)
        # O_NOCTTY: it must not become husk's controlling terminal. Whether it becomes the guest's, kernel/ decides.
        fd = os.open(b"/proc/self/fd/%d" % node.pin, flags & KEPT_FLAGS | os.O_CLOEXEC | os.O_NOCTTY)
        if int.from_bytes(fcntl.ioctl(fd, _TIOCGEXCL, bytes(4)), "little"):
            os.close(fd)
            raise OSError(errno.EBUSY, "exclusive: the host opened it only because husk has more rights than the guest")
        return fd

    def set_mode(self, ctx: Context, node: Node, mode: int) -> None:
        """`mesg n`. Kept here: on the host the name stays as it was made, closed to others."""
        if not isinstance(node, Slave):
            super().set_mode(ctx, node, mode)
        else:
            node.mode = mode & 0o7777

    def set_owner(self, ctx: Context, node: Node, uid: int, gid: int) -> None:
        if not isinstance(node, Slave):
            super().set_owner(ctx, node, uid, gid)
        else:
            node.uid, node.gid = (node.uid if uid == -1 else uid), (node.gid if gid == -1 else gid)

    def set_times(self, ctx: Context, node: Node, atime: int | None, mtime: int | None) -> None:
        if not isinstance(node, Slave):
            super().set_times(ctx, node, atime, mtime)
