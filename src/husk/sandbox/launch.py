"""sandbox: starting husk-init with a plan, and listening to what it reports (native/init/plan.h mirrors this)."""

from __future__ import annotations

import _socket
import fcntl
import os
import struct
from itertools import count

from husk.abi.registry.rules import Walls
from husk.native._core import landlock_abi
from husk.sandbox.errors import HuskError, NoNamespaces

NETLINK_SOCK_DIAG = 4
PLAN_MAGIC, SWITCH_USER, TERMINAL, WAIT, JOIN, PERSON = 0x334E4C50, 1, 2, 4, 8, 16
TERMINAL_FD, START_FD, JOIN_FD, PERSON_FD = 7, 8, 9, 14
SAID_GO, SAID_END = b"g", b"e"
JOINED = ("user", "mnt", "net", "ipc", "uts")  # namespaces that the runs of one box share, in the order of joining
CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
ALL_NAMESPACES = (
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET
)

PLAN = struct.Struct("<IIQIIQQQQIIIIIIIIII")
LIMIT = struct.Struct("<QQQ")  # resource, soft, hard
LIMITS_BYTES = 16 * LIMIT.size
REPORT = struct.Struct("<IiiIqqqq")
FAILED, MAP_IDS, LISTENER, EXEC_FAILED, ENDED, STOPPED = 1, 2, 3, 4, 5, 6
DIAGNOSIS, REAPER, STATE, GUEST = 7, 8, 9, 10
START = struct.Struct("<QII")
_SIGKILL = 9
SCOPES_SIGNALS = 6  # Landlock's version that does

# A box started by root runs as a host id of its own and as 1000 inside. The range is one that neither distributions nor
# systemd's containers hand out (systemd: docs/UIDS-GIDS). An id for each box, not one for all: what Linux counts or
# permits by user (signals, tracing, RLIMIT_NPROC, pipe buffers, message queues) then keeps boxes apart even where no
# other wall does. Husk's pid makes it unique among the husks of a machine, the counter among the boxes of one husk.
ROOTS_GUEST_IDS, PIDS, BOXES_OF_ONE, GUEST_ID = 1_900_000_000, 1 << 22, 58, 1000
_boxes = count()


def box_id() -> int:
    return ROOTS_GUEST_IDS + next(_boxes) % BOXES_OF_ONE * PIDS + os.getpid()


class Ids:
    """The guest's ids inside and on the host."""

    __slots__ = ("gid", "host_gid", "host_uid", "switch", "uid")

    def __init__(self, *, user_namespace: bool, keep_user: bool = False, wanted: tuple[int, int] | None = None) -> None:
        """`wanted`: the ids an image wants inside, which takes a user namespace."""
        self.switch = os.geteuid() == 0 and not keep_user
        if self.switch:
            self.host_uid = self.host_gid = box_id()
            self.uid = self.gid = GUEST_ID if user_namespace else self.host_uid
        else:
            self.host_uid = self.uid = os.geteuid()
            self.host_gid = self.gid = os.getegid()
        if wanted is not None and user_namespace:
            self.uid, self.gid = wanted


def may_switch_user(*, user_namespace: bool) -> str:
    """Which capability is missing for root to run a guest as somebody else; empty for none. A user namespace's owner
    may trace what is in it; without one, looking at another user's process takes a capability."""
    with open("/proc/self/status") as status:
        (line,) = [line for line in status if line.startswith("CapEff:")]
    held = int(line.split()[1], 16)
    wanted = {"CAP_SETGID": 6, "CAP_SETUID": 7} | ({} if user_namespace else {"CAP_SYS_PTRACE": 19})
    return ", ".join(name for name, bit in wanted.items() if not held >> bit & 1)


class Order:
    """What one run needs to be launched. `argv` empty: a run that is kept ready, and told later what to run."""

    __slots__ = (
        "argv",
        "env",
        "filter",
        "init",
        "joined",
        "loader_fd",
        "person",
        "program",
        "rlimits",
        "stdio",
        "terminal",
    )

    def __init__(self, init: str, loader_fd: int, program_filter: bytes, rlimits: list[tuple[int, int]]) -> None:
        self.init, self.loader_fd, self.filter, self.rlimits = init, loader_fd, program_filter, rlimits
        self.program = b""
        self.argv: list[bytes] = []
        self.env: list[bytes] = []
        self.stdio: list[int] = []
        self.terminal = -1
        self.person = -1  # the person's own terminal, where husk is going to change its modes
        self.joined: list[int] = []  # descriptors of the box's namespaces, where an earlier run made them


class Launch:
    """One husk-init: its control socket, and what it told. Call `listener`, then poll `control`; `close` and `reap`,
    or `abandon`, in any case."""

    def __init__(self, walls: Walls, ids: Ids, order: Order, workdir_fd: int) -> None:
        self.walls, self.ids = walls, ids
        self.builder = self.guest = self.reaper = 0
        self.state = -1  # the state directory in the box's mount namespace, where this run made one
        self.diagnosis = -1  # a diagnosis socket in the box's network namespace, where this run made one
        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET | _socket.SOCK_CLOEXEC)
        self.control = ours
        self.start: _socket.socket | None = None
        ours.setsockopt(_socket.SOL_SOCKET, _socket.SO_PASSCRED, 1)
        closing = [theirs.detach()]
        try:
            plan = os.memfd_create("husk-plan", os.MFD_CLOEXEC)
            closing.append(plan)
            os.write(plan, _pack(walls, ids, order))
            passed = dict(enumerate([*order.stdio, closing[0], plan, order.loader_fd, workdir_fd]))
            if order.terminal >= 0:
                passed[TERMINAL_FD] = order.terminal
            if not order.argv:
                self.start, waits = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET | _socket.SOCK_CLOEXEC)
                closing.append(waits.detach())
                passed[START_FD] = closing[-1]
            for number, fd in enumerate(order.joined, JOIN_FD):
                passed[number] = fd
            if order.person >= 0:
                passed[PERSON_FD] = order.person
            actions = []
            for number, fd in passed.items():
                # Moved out of the way first: a descriptor that already has its number would stay close-on-exec.
                closing.append(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 20))
                actions.append((os.POSIX_SPAWN_DUP2, closing[-1], number))
            # Not fork: the caller may have threads that hold locks.
            self.builder = os.posix_spawn(order.init, ["husk-init"], {}, file_actions=actions)
        except BaseException:
            self.close()
            raise
        finally:
            for fd in closing:
                os.close(fd)

    def listener(self) -> int:
        """Take husk-init through its steps until the guest is behind its filter. Returns the listener."""
        while True:
            kind, a, b, fds, pid = self._receive()
            if kind == MAP_IDS:
                self._map_ids()
            elif kind == REAPER:
                self.reaper = pid
            elif kind == GUEST:
                self.guest = pid
            elif kind == STATE:
                self.state = fds[0]
            elif kind == DIAGNOSIS:
                self.diagnosis = fds[0]
            elif kind == LISTENER:
                _reap(self.builder)
                self.builder = 0
                if not self.walls.net:
                    self.diagnosis = _diagnosis()
                return fds[0]
            elif kind == FAILED:
                from husk.sandbox.start_errors import explain

                raise explain(a, b)

    def run(self, program: bytes, argv: list[bytes], env: list[bytes], stdio: list[int], workdir_fd: int) -> None:
        """Tell a run that was kept ready what to run. OSError: it is dead."""
        assert self.start is not None
        text = program + b"\0" + b"".join(word + b"\0" for word in [*argv, *env])
        page = os.memfd_create("husk-start", os.MFD_CLOEXEC)
        try:
            os.write(page, text)
            fds = b"".join(fd.to_bytes(4, "little") for fd in [*stdio, workdir_fd, page])
            message = START.pack(len(text), len(argv), len(env))
            self.start.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fds)], _socket.MSG_NOSIGNAL)
        finally:
            os.close(page)
        self.start.close()
        self.start = None

    def _receive(self) -> tuple[int, int, int, list[int], int]:
        room = _socket.CMSG_SPACE(4) + _socket.CMSG_SPACE(12)
        data, ancillary, _flags, _address = self.control.recvmsg(REPORT.size, room, _socket.MSG_CMSG_CLOEXEC)
        if len(data) < REPORT.size:
            raise HuskError(
                "husk-init ended before the guest started; if nothing killed it, the host's log may tell why."
            )
        fds: list[int] = []
        pid = 0
        for level, kind, payload in ancillary:
            if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
                fds = [int.from_bytes(payload[:4], "little")]
            elif level == _socket.SOL_SOCKET and kind == 2:  # SCM_CREDENTIALS
                pid = int.from_bytes(payload[:4], "little")
        kind, a, b, *_ = REPORT.unpack(data)
        return kind, a, b, fds, pid

    def _map_ids(self) -> None:
        ids = self.ids
        try:
            if not ids.switch:
                _write(f"/proc/{self.builder}/setgroups", "deny")
            _write(f"/proc/{self.builder}/uid_map", f"{ids.uid} {ids.host_uid} 1")
            _write(f"/proc/{self.builder}/gid_map", f"{ids.gid} {ids.host_gid} 1")
        except OSError as error:
            self.end()
            raise NoNamespaces(f"user ids cannot be mapped ({error.strerror})") from None
        self.control.send(SAID_GO)

    def end(self) -> None:
        """Kill the box: the reaper notices that nobody listens, whoever hangs up. From any thread, more than once."""
        try:
            # With a word: a silent end is our death, after which the reaper puts the person's terminal back.
            self.control.send(SAID_END, _socket.MSG_NOSIGNAL | _socket.MSG_DONTWAIT)
        except OSError:
            pass  # it was hung up before
        try:
            self.control.shutdown(_socket.SHUT_RDWR)  # wakes a thread that waits on it, which closing does not
        except OSError:
            pass

    def close(self) -> None:
        self.end()
        self.forget()

    def forget(self) -> None:
        """Let go of the descriptors. In a forked child that is all: the box is the parent's."""
        self.control.close()
        if self.start is not None:
            self.start.close()
        for fd in (self.state, self.diagnosis):
            if fd >= 0:
                os.close(fd)
        self.state = self.diagnosis = -1

    def reap(self) -> None:
        """The reaper was told to end, or ended; from here on its number may be anybody's."""
        # Forgotten first: a signal's handler may run between the wait and whatever follows it, and signal that number.
        reaper, self.reaper = self.reaper, 0
        if reaper:
            _reap(reaper)

    def abandon(self) -> None:
        """It did not come to a running guest. Leaves no process behind, not even a dead one."""
        if self.builder:
            os.kill(self.builder, _SIGKILL)
            _reap(self.builder)
            self.builder = 0
        self.control.settimeout(0)
        try:
            while not self.reaper:
                kind, _a, _b, fds, pid = self._receive()
                if kind == REAPER:
                    self.reaper = pid
                for fd in fds:
                    os.close(fd)
        except (OSError, HuskError):
            pass  # there is none
        self.close()
        self.reap()


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        pass  # somebody waits for whatever child there is, or SIGCHLD is ignored


def _pack(walls: Walls, ids: Ids, order: Order) -> bytes:
    program, argv, env, rlimits, program_filter = order.program, order.argv, order.env, order.rlimits, order.filter
    namespaces = sum(
        bit
        for stands, bit in (
            (walls.user, CLONE_NEWUSER),
            (walls.mount, CLONE_NEWNS),
            (walls.pid, CLONE_NEWPID),
            (walls.net, CLONE_NEWNET),
            (walls.ipc, CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP),
        )
        if stands
    )
    at = PLAN.size + LIMITS_BYTES
    filter_at = at
    program_at = filter_at + len(program_filter)
    argv_at = program_at + len(program) + 1
    strings = b"".join(word + b"\0" for word in argv)
    env_at = argv_at + len(strings)
    head = PLAN.pack(
        PLAN_MAGIC,
        (SWITCH_USER if ids.switch else 0)
        | (TERMINAL if order.terminal >= 0 else 0)
        | (0 if argv else WAIT)
        | (JOIN if order.joined else 0)
        | (PERSON if order.person >= 0 else 0),
        namespaces,
        ids.uid,
        ids.gid,
        *landlock_rights(walls.landlock, own_network=walls.private_net),
        walls.landlock,
        len(program_filter) // 8,
        filter_at,
        program_at,
        len(argv),
        argv_at,
        len(env),
        env_at,
        len(rlimits),
        0,
    )
    limits = b"".join(LIMIT.pack(resource, value, value) for resource, value in rlimits)
    texts = program + b"\0" + strings + b"".join(word + b"\0" for word in env)
    return head + limits.ljust(LIMITS_BYTES, b"\0") + program_filter + texts


def landlock_rights(abi: int, *, own_network: bool = False) -> tuple[int, int, int, int]:
    """Rights to handle (all the kernel knows, so all are denied), network, scopes, and what the loader may. In a
    network of its own a guest connects by itself.

    ABI 9 (paths of Unix sockets) and 10 (UDP) are as linux/landlock.h of Linux 7.2 has them."""
    fs = (1 << (13 if abi < 2 else 14 if abi < 3 else 15 if abi < 5 else 16 if abi < 9 else 17)) - 1
    net = 0 if abi < 4 or own_network else 3 if abi < 10 else 15
    return fs, net, 3 if abi >= 6 else 0, 1 | 4


def _diagnosis() -> int:
    """Where the box has no network namespace, its sockets are in ours."""
    try:
        return _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW | _socket.SOCK_CLOEXEC, NETLINK_SOCK_DIAG).detach()
    except OSError:
        return -1


def walls_here(*, namespaces: bool, outside: bool = False) -> Walls:
    """The walls to try: all namespaces or none, and Landlock as this kernel has it."""
    return Walls(
        pid=namespaces,
        net=namespaces,
        mount=namespaces,
        ipc=namespaces,
        user=namespaces,
        landlock=landlock_abi(),
        places=namespaces,
        outside=outside,
    )


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
