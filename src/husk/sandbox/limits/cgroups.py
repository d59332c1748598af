"""sandbox: a control group (v2) for one box, where the host lets this user make one.

Life of a group: made below the nearest ancestor of husk's own group that may be written to; given limits for the
controllers that ancestor hands down; the first guest is moved in while it still waits for its first answer, so that
every process of the box is born there; removed when the box is gone. The name holds husk's pid, so that the next husk
can remove what a killed one left. Everything here may fail: then there is no group, and husk measures itself (`meter`).
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.sandbox.limits.limits import Limits

PREFIX = "husk-"


class Group:
    """One box's group. `enforces` names the limits its controllers keep."""

    __slots__ = ("enforces", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.enforces: set[str] = set()

    def add(self, pid: int) -> bool:
        return _write(f"{self.path}/cgroup.procs", str(pid))

    def pids(self) -> list[int]:
        try:
            with open(f"{self.path}/cgroup.procs", "rb") as procs:
                return [int(word) for word in procs.read().split()]
        except OSError:
            return []

    def number(self, file: str, label: str) -> int:
        """A value from a file of `label value` lines; 0 where the kernel or the controller does not have it."""
        try:
            with open(f"{self.path}/{file}") as lines:
                for line in lines:
                    name, _, value = line.partition(" ")
                    if name == label:
                        return int(value)
        except (OSError, ValueError):
            pass
        return 0

    def value(self, file: str) -> int:
        """The value of a file that holds one number; 0 where the kernel or the controller does not have it."""
        try:
            with open(f"{self.path}/{file}") as lines:
                return int(lines.read())
        except (OSError, ValueError):
            return 0

    def kill(self) -> None:
        _write(f"{self.path}/cgroup.kill", "1")

    def remove(self) -> None:
        """The last process may still be exiting; if it takes too long, the next husk removes the group."""
        import time

        for _ in range(100):
            try:
                os.rmdir(self.path)
                return
            except FileNotFoundError:
                return
            except OSError:
                self.kill()
                time.sleep(0.005)


def make_group(limits: Limits) -> Group | None:
    """A new group with as many of `limits` as its controllers can enforce; None where no group can be made."""
    for parent in _parents():
        sweep(parent)
        path = f"{parent}/{PREFIX}{os.getpid()}-{int.from_bytes(os.urandom(4), 'big'):08x}"
        try:
            os.mkdir(path)
        except OSError:
            continue
        group = Group(path)
        memory, processes = limits["memory"], limits["processes"]
        if memory is not None and _write(f"{path}/memory.max", str(memory)):
            _write(f"{path}/memory.swap.max", "0")
            _write(f"{path}/memory.oom.group", "1")
            group.enforces.add("memory")
        if processes is not None and _write(f"{path}/pids.max", str(processes)):
            group.enforces.add("processes")
        return group
    return None


def delegation() -> tuple[str, list[str]] | None:
    """The directory in which groups can be made, and the controllers that work there; None: there is none."""
    for parent in _parents():
        try:
            with open(f"{parent}/cgroup.subtree_control") as control:
                return parent, control.read().split()
        except OSError:
            continue
    return None


def sweep(parent: str) -> None:
    """Remove the groups of husks that are gone. The host refuses to remove a group with processes, so none is hurt."""
    try:
        names = os.listdir(parent)
    except OSError:
        return
    for name in names:
        pid = name.removeprefix(PREFIX).partition("-")[0]
        if name.startswith(PREFIX) and pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
            try:
                os.rmdir(f"{parent}/{name}")
            except OSError:
                pass


def _parents() -> list[str]:
    """Directories to try: first those that hand down memory and pids, then the nearest.

    A group that hands controllers down holds no process itself, so husk's own group can usually only count. Its parent
    can do more, where a service manager gave it to this user.
    """
    root, own = _mount(), _own()
    if root is None or own is None:
        return []
    found = []
    while True:
        path = root + own.rstrip("/")
        if os.access(path, os.W_OK) and os.access(f"{path}/cgroup.procs", os.W_OK):
            found.append(path)
        if own in ("", "/"):
            break
        own = os.path.dirname(own)
    return sorted(found, key=_hands_down, reverse=True)


def _hands_down(path: str) -> int:
    try:
        with open(f"{path}/cgroup.subtree_control") as control:
            return len({"memory", "pids"} & set(control.read().split()))
    except OSError:
        return 0


def _mount() -> str | None:
    try:
        with open("/proc/self/mounts") as mounts:
            for line in mounts:
                words = line.split()
                if words[2] == "cgroup2":
                    return words[1]
    except OSError:
        pass
    return None


def _own() -> str | None:
    try:
        with open("/proc/self/cgroup") as groups:
            for line in groups:
                if line.startswith("0::"):
                    return line[3:].strip()
    except OSError:
        pass
    return None


def _write(path: str, text: str) -> bool:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.write(fd, text.encode())
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
