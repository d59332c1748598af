"""sandbox: the third phase of a start: husk-init gets its order, and the guest comes to stand behind its filter.

Not here: the layout of plan and reports (husk.walls.init_plan), and what happens once the guest runs (`serve`, `run`).
"""

from __future__ import annotations

import _socket
import fcntl
import os
import time

from husk.sandbox.errors import HuskError, NoNamespaces
from husk.sandbox.orphans import Watch, end_run, kill_stopped, marked_children
from husk.walls.init_plan import (
    DIAGNOSIS,
    FAILED,
    GUEST,
    JOIN_FD,
    LISTENER,
    MAP_IDS,
    NAMES,
    PERSON_FD,
    REAPER,
    REPORT,
    SAID_END,
    SAID_GO,
    START,
    START_FD,
    STATE,
    TERMINAL_FD,
    Order,
    pack,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.abi.registry.rules import Walls
    from husk.sandbox.limits.limits import Exceeded
    from husk.walls.ids import Ids

NETLINK_SOCK_DIAG = 4
SILENT = 1.0  # seconds without a report after which husk looks whether husk-init is stopped
_SIGKILL, _SIGUSR1 = 9, 10
_PASSED_ON = 1000  # milliseconds that the reaper may take to pass a signal on


class Guest:
    """A guest behind its filter, and the descriptors that husk-init handed over for it: the listener; the state
    directory and the root in the box's mount namespace and a diagnosis socket in its network namespace, where this run
    made those (else -1). Take what you keep, then `close`."""

    __slots__ = ("_diagnosis", "_listener", "_root", "pid", "state")

    def __init__(self, pid: int, listener: int, state: int, diagnosis: int, root: int) -> None:
        self.pid, self._listener, self.state, self._diagnosis, self._root = pid, listener, state, diagnosis, root

    def take_listener(self) -> int:
        fd, self._listener = self._listener, -1
        return fd

    def take_state(self) -> int:
        fd, self.state = self.state, -1
        return fd

    def take_diagnosis(self) -> int:
        fd, self._diagnosis = self._diagnosis, -1
        return fd

    def take_root(self) -> int:
        """The empty root, in a mount that can be written to."""
        fd, self._root = self._root, -1
        return fd

    def close(self) -> None:
        for fd in (self.take_listener(), self.take_state(), self.take_diagnosis(), self.take_root()):
            if fd >= 0:
                os.close(fd)


class Launch:
    """One husk-init and its control socket. Call `guest`, then poll `control`; `close` and `reap`, or `abandon`, in any
    case."""

    def __init__(self, walls: Walls, ids: Ids, order: Order, workdir_fd: int) -> None:
        self.walls, self.ids = walls, ids
        self.builder = self.reaper = 0
        self._mark = order.mark
        self._watch: Watch | None = None
        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET | _socket.SOCK_CLOEXEC)
        self.control = ours
        self.start: _socket.socket | None = None
        ours.setsockopt(_socket.SOL_SOCKET, _socket.SO_PASSCRED, 1)
        closing = [theirs.detach()]
        try:
            plan = os.memfd_create("husk-plan", os.MFD_CLOEXEC)
            closing.append(plan)
            os.write(plan, pack(walls, ids, order))
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

    def guest(self) -> Guest:
        """Take husk-init through its steps until the guest is behind its filter."""
        guest_pid, handed = 0, {STATE: -1, DIAGNOSIS: -1, NAMES: -1}
        self.control.settimeout(SILENT)
        try:
            while True:
                kind, a, b, fds, pid = self._receive()
                if kind == MAP_IDS:
                    self._map_ids()
                elif kind == REAPER:
                    self.reaper = pid
                    self._watch = Watch(pid, self._mark)
                elif kind == GUEST:
                    guest_pid = pid
                elif kind in handed:
                    handed[kind] = fds[0]
                elif kind == LISTENER:
                    _reap(self.builder)
                    self.builder = 0
                    if not self.walls.net:
                        handed[DIAGNOSIS] = _diagnosis()
                    return Guest(guest_pid, fds[0], handed[STATE], handed[DIAGNOSIS], handed[NAMES])
                elif kind == FAILED:
                    from husk.sandbox.start_errors import explain

                    raise explain(a, b)
        except BaseException:
            for fd in handed.values():
                if fd >= 0:
                    os.close(fd)
            raise

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
        while True:
            try:
                data, ancillary, _flags, _address = self.control.recvmsg(REPORT.size, room, _socket.MSG_CMSG_CLOEXEC)
                break
            except TimeoutError:
                kill_stopped(self._mark)
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
        """Kill the run: the reaper notices that the control socket is hung up. From any thread, more than once."""
        try:
            # With a word: a silent end means that husk died, and then the reaper puts the person's terminal back.
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
        """Close the descriptors. In a forked child that is all: the box is the parent's."""
        self.control.close()
        if self.start is not None:
            self.start.close()

    def reap(self) -> None:
        """The reaper was told to end, or ended. From here on the host may give its pid to another process."""
        if self._watch is not None:
            self._watch.wait()
        # Forgotten first: a signal handler may run right after the wait, and signal that pid.
        reaper, self.reaper = self.reaper, 0
        if reaper:
            _reap(reaper)

    def abandon(self) -> None:
        """The guest never ran. Leaves no process behind, not even a dead one."""
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
        if self.reaper:
            os.kill(self.reaper, _SIGKILL)  # it may be stopped
        end_run(self._mark)  # a reaper that has not reported yet, too
        for child in marked_children(self._mark):
            if child != self.reaper:
                _reap(child)
        self.reap()


class Stop:
    """Ends one run: from any thread and from signal handlers, also while it is being launched. Keeps why."""

    __slots__ = ("_launch", "ended_by", "met")

    def __init__(self) -> None:
        self._launch: Launch | None = None
        self.ended_by: int | None = None  # a signal that husk itself got
        self.met: list[Exceeded] = []  # limits, in the order they were noticed

    def reaches(self, launch: Launch) -> None:
        """From now on this is what ends."""
        self._launch = launch

    def end(self, signal: int) -> None:
        """The run ends now, as if by `signal`."""
        self.ended_by = signal
        if self._launch is not None:
            self._launch.end()

    def exceeded(self, limit: Exceeded) -> None:
        """A limit was met. If it is one that ends boxes, this one ends now."""
        self.met.append(limit)
        if limit.ended and self._launch is not None:
            self._launch.end()

    def signal(self, number: int) -> None:
        """Pass a signal on to the guest, through the reaper."""
        launch = self._launch
        if launch is not None and launch.reaper:
            os.kill(launch.reaper, number)

    def hang_up(self) -> None:
        """The guest's terminal is about to go away: send SIGHUP. Returns when the reaper has passed it on. A stopped
        reaper does not; the host kernel tells it later."""
        launch = self._launch
        reaper = launch.reaper if launch is not None else 0
        if not reaper:
            return
        try:
            os.kill(reaper, _SIGUSR1)
        except OSError:
            return  # it is gone, or another user's
        for _ in range(_PASSED_ON):
            if _ignores(reaper, _SIGUSR1):
                return
            time.sleep(0.001)

    @property
    def limit_ended(self) -> bool:
        return any(limit.ended for limit in self.met)


def _ignores(pid: int, signal: int) -> bool:
    """Does this process ignore the signal? Yes for one that is gone: there is nothing to wait for."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
            lines = status.read().splitlines()
    except OSError:
        return True
    ignored = next((line for line in lines if line.startswith("SigIgn:")), "SigIgn: -1")
    return bool(int(ignored.split()[1], 16) >> (signal - 1) & 1) or any(line.startswith("State:\tZ") for line in lines)


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        pass  # the application waits for any child, or ignores SIGCHLD


def _diagnosis() -> int:
    """A diagnosis socket of husk's own network namespace: without one of its own the box is in that."""
    try:
        return _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW | _socket.SOCK_CLOEXEC, NETLINK_SOCK_DIAG).detach()
    except OSError:
        return -1


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
