"""cli: where residents of this user listen, which run, and how one is stopped. native/client/resident_place.c finds the
same place; its names say which installation a resident belongs to."""

from __future__ import annotations

import _socket
import os
import signal
import stat

from husk.cli.resident.same_caller import SO_PEERPIDFD

PREFIX = "resident-"


def open_place() -> int:
    """A descriptor of the directory; -1 where there is none."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    above = _open_private(runtime, None) if runtime.startswith("/") else -1
    if above < 0:
        return -1
    try:
        return _open_private("husk", above)
    finally:
        os.close(above)


def _open_private(name: str, above: int | None) -> int:
    try:
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    except OSError:
        return -1
    found = os.fstat(fd)
    if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) & 0o777 == 0o700:
        return fd
    os.close(fd)
    return -1


def residents(place: int) -> dict[str, int]:
    """Name of the socket -> pidfd of the process that listens there. The caller closes them."""
    found = {}
    for name in sorted(os.listdir(place)):
        if name.startswith(PREFIX) and not name.endswith(".lock"):
            pidfd = _listener(place, name)
            if pidfd >= 0:
                found[name] = pidfd
    return found


def _listener(place: int, name: str) -> int:
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    connection.settimeout(1.0)
    try:
        connection.connect(f"/proc/self/fd/{place}/{name}")
        uid = int.from_bytes(connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)[4:8], "little")
        return connection.getsockopt(_socket.SOL_SOCKET, SO_PEERPIDFD) if uid == os.geteuid() else -1
    except OSError:
        return -1
    finally:
        connection.close()


def pid_of(pidfd: int) -> int:
    with open(f"/proc/self/fdinfo/{pidfd}") as lines:
        for line in lines:
            if line.startswith("Pid:"):
                return int(line.split()[1])
    return -1


def stop(place: int, name: str, pidfd: int) -> None:
    """Runs that it began go on."""
    try:
        os.unlink(name, dir_fd=place)
    except FileNotFoundError:
        pass
    signal.pidfd_send_signal(pidfd, signal.SIGTERM)
