"""cli: is a caller's process what a run of the resident would be? Everything is compared that a process inherits and
that a guest or its walls could notice. What the kernel does not show is taken for different.

A run in the resident has the resident's credentials, namespaces, cgroup, limits and security label. A confined process
of the same user must not shed its own that way, so each fact comes from the kernel, never from the caller.
"""

from __future__ import annotations

import _socket
import os
import select
import sys

SO_PEERPIDFD = 77  # Linux 6.5; without it a process id could be that of another process by now
COMPARED_VARIABLES = ("LANG", "LC_ALL", "LC_CTYPE", "TZ")  # Python and the C library have read them when they started
_STATUS = frozenset(
    b"Uid Gid Groups CapInh CapPrm CapEff CapBnd CapAmb NoNewPrivs Seccomp Speculation_Store_Bypass"
    b" SpeculationIndirectBranch Cpus_allowed Mems_allowed THP_enabled TracerPid SigBlk".split()
)
# By these the resident serves only where neither side is confined: two filters, or two Landlock domains, cannot be
# compared. An unprivileged process cannot get either without no_new_privs.
_MUST_BE = {b"NoNewPrivs": b"0", b"Seccomp": b"0", b"TracerPid": b"0", b"SigBlk": b"0000000000000000"}
_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "time", "time_for_children", "user", "uts")
# Those that every process of the same user may read, also where Yama restricts ptrace.
_FILES = ("cgroup", "limits", "oom_score_adj", "loginuid", "sessionid", "attr/current")
_STAT = (16, 37, 38)  # of the fields after the name: nice, real-time priority, policy

Facts = tuple[object, ...]


def facts(directory: int) -> Facts | None:
    """What the kernel says about a process; `directory` is its folder in /proc. None: it is confined, or traced, or not
    all of it can be read."""
    try:
        status = {}
        for line in _read(directory, "status").splitlines():
            name, _, value = line.partition(b":")
            if name in _STATUS:
                status[name] = value.strip()
        if any(status.get(name) != value for name, value in _MUST_BE.items()):
            return None
        numbers = _read(directory, "stat").rpartition(b")")[2].split()
        root = os.stat("root", dir_fd=directory)
        return (
            status,
            [numbers[at] for at in _STAT],
            [os.readlink(f"ns/{name}", dir_fd=directory) for name in _NAMESPACES],
            (root.st_dev, root.st_ino),
            [_read_if_there(directory, name) for name in _FILES],
        )
    except (OSError, IndexError):
        return None


def own_facts() -> Facts | None:
    directory = os.open("/proc/self", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return facts(directory)
    finally:
        os.close(directory)


def client_program() -> tuple[int, int]:
    """native/client, which lies beside the script that this process runs."""
    return _identity(os.stat(os.path.join(os.path.dirname(os.path.realpath(sys.argv[0])), "husk")))


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def facts_of_peer(connection: _socket.socket, client: tuple[int, int]) -> Facts | None:
    """Of the process that connected; None also if it does not run the program `client`. No other has a reason to ask:
    not a husk, for one, that connects a socket in its guest's place. The process must be alive when its folder is open:
    then the folder is its own."""
    try:
        pidfd = connection.getsockopt(_socket.SOL_SOCKET, SO_PEERPIDFD)
    except OSError:
        return None
    try:
        pid = int.from_bytes(connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)[:4], "little")
        if pid <= 0:
            return None  # in another pid namespace
        directory = os.open(f"/proc/{pid}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            asked = select.poll()
            asked.register(pidfd, select.POLLIN)
            if asked.poll(0) or client != _identity(os.stat("exe", dir_fd=directory)):
                return None
            return facts(directory)
        finally:
            os.close(directory)
    except OSError:
        return None
    finally:
        os.close(pidfd)


class StartVariables:
    """The compared variables as this process was started with them, and what Python made of them: where they name no
    locale, it sets LC_CTYPE. Made before the environment becomes a caller's."""

    __slots__ = ("_given", "_made")

    def __init__(self) -> None:
        self._given = {}
        with open("/proc/self/environ", "rb") as environment:
            for text in environment.read().split(b"\0"):
                name, _, value = os.fsdecode(text).partition("=")
                if name in COMPARED_VARIABLES:
                    self._given[name] = value
        self._made = {name: os.environ[name] for name in COMPARED_VARIABLES if name in os.environ}

    def are_those_of(self, environment: dict[str, str]) -> bool:
        """Also those that Python made: a caller written in Python hands them on."""
        theirs = {name: environment[name] for name in COMPARED_VARIABLES if name in environment}
        return theirs in (self._given, self._made)

    def apply(self) -> None:
        os.environ.update(self._made)


def _read(directory: int, name: str) -> bytes:
    fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
    try:
        return os.read(fd, 1 << 16)
    finally:
        os.close(fd)


def _read_if_there(directory: int, name: str) -> bytes | None:
    """Not every kernel has every file, and a file of a security module may have no answer."""
    try:
        return _read(directory, name)
    except OSError as error:
        return b"errno %d" % (error.errno or 0)
