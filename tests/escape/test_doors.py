"""Every way out of a sandbox that a kernel offers, tried once (doors.c): natively open, in a box shut.

The table names the wall that closes each one. It also says where an ordinary user cannot open it natively either, or
not on every host (privileges, kernel configuration): there the test proves less.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.escape.test_escape import boxed, unprotected
from tests.lib.harness import NATIVE_ONLY, guest_ids

pytestmark = pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for")

FILTER, VFS, TREE = "seccomp: the row is refused", "vfs: nothing has that name", "vfs: the walk ends at the box's root"
PROC = "vfs: /proc shows the box's processes only"
OTHERS = "pid namespace: it has no number; else Landlock: it is outside the domain"
NET = "network namespace; else husk makes the connection, and maps loopback"

# Open to an ordinary user on any host.
OPEN = {
    "modify_ldt": FILTER,
    "host file": VFS,
    "host file by ..": TREE,
    "host file O_PATH": VFS,
    "host file by root": TREE,
    "host file by cwd": TREE,
    "host file by openat": TREE,
    "host file by fd": TREE,
    "host file stat": VFS,
    "host file access": VFS,
    "host file statx": TREE,
    "proc/PID/environ": PROC,
    "proc/PID/maps": PROC,
    "proc/PID/root/etc/hostname": PROC,
    "proc/PID/cwd/.": PROC,
    "proc/PID/fd/0": PROC,
    "proc/PID/exe": PROC,
    "proc/PID/auxv": PROC,
    "proc/PID/task": PROC,
    "proc/PID/ns/user": PROC,
    "proc/PID/status": PROC,
    "proc/PID/stat": PROC,
    "signal": OTHERS,
    "setpriority": "pid namespace: it has no number; else husk: it is no process of the box",
    "sched_setaffinity": "pid namespace: it has no number; else husk: it is no process of the box",
    "prlimit": "pid namespace: it has no number; else husk: it is no process of the box",
    "robust list": "pid namespace: it has no number; else husk: it is no process of the box",
    "pidfd signal": OTHERS,
    "loopback": NET,
    "address 0": NET,
    "other loopback": NET,
    "mapped loopback": NET,
    "abstract socket": "network namespace and Landlock's scope; else husk's own table of abstract names",
    "second listener": "Linux: one listener for a tree of processes, and husk has it",
    "read implies exec": FILTER,
    "undumpable": "husk: shows what was set and does nothing",
    "directory notices": "seccomp: the command is not on the list",
    "groups of the peer": "seccomp: the option is refused; the peer may be husk",
}

# Natively shut too, everywhere or on some hosts: by privileges, by configuration, by a system-wide setting.
MAYBE = {
    "io_uring": FILTER,
    "userfaultfd": FILTER,
    "bpf": FILTER,
    "perf_event_open": FILTER,
    "kexec_load": FILTER,
    "init_module": FILTER,
    "finit_module": FILTER,
    "delete_module": FILTER,
    "mount": FILTER,
    "umount": FILTER,
    "fsopen": FILTER,
    "open_tree clone": FILTER,
    "move_mount": FILTER,
    "mount_setattr": FILTER,
    "fsmount": FILTER,
    "fspick": FILTER,
    "open_tree_attr": FILTER,
    "listmount": FILTER,
    "statmount": FILTER,
    "number by clone3": "husk: it hands no such wish on",
    "control group by clone3": "husk: it hands no such wish on",
    "process_madvise": FILTER,
    "map_files": "vfs: /proc shows no such directory",
    "lease": "seccomp: the command is not on the list",
    "mark": "husk: sends in the guest's place, and asks what the guest may",
    "pivot_root": FILTER,
    "chroot": FILTER,
    "setns": FILTER,
    "fanotify": FILTER,
    "quotactl": FILTER,
    "swapon": FILTER,
    "acct": FILTER,
    "iopl": FILTER,
    "ioperm": FILTER,
    "memfd_secret": FILTER,
    "syslog": FILTER,
    "sethostname": FILTER,
    "TIOCSTI": "seccomp: the command is not on the list",
    "TIOCLINUX": "seccomp: the command is not on the list",
    "forged loader": "husk: no program waits for this process",
    "host directory chdir": PROC,
    "name_to_handle_at": VFS,
    "open_by_handle_at": FILTER,
    "dev mem": VFS,
    "dev kmsg": VFS,
    "proc kcore": VFS,
    "proc kallsyms": VFS,
    "sysrq": VFS,
    "core_pattern": "vfs: /proc/sys is text for reading",
    "mknod device": "vfs: no devices but its own",
    "debugfs": VFS,
    "cgroup": VFS,
    "proc/PID/mem": PROC,
    "process_vm_readv": OTHERS,
    "process_vm_writev": OTHERS,
    "ptrace another": OTHERS,
    "pidfd_getfd": OTHERS,
    "fast open": "seccomp: the flag is refused",
    "raw socket": "seccomp: the type is refused",
    "packet socket": "seccomp: the family is refused",
    "vsock": "seccomp: the family is refused",
    "alg socket": "seccomp: the family is refused",
    "audit netlink": "seccomp: the protocol is refused",
    "user namespace": FILTER,
    "mount namespace": FILTER,
    "user namespace by clone": FILTER,
    "user namespace by clone3": "husk: asks clone's row; and seccomp judges the clone that it makes of it",
    "int 0x80": "seccomp: calls of another architecture kill",
    "x32": "seccomp: calls of another architecture kill",
    "setuid 0": "Linux: no capability",
    "prctl mm": FILTER,
    "page zero": "Linux: vm.mmap_min_addr, and no capability",
    "signal process 1": OTHERS,
}

# Open inside too, and harmless: a descriptor that only names, of the box's own root; processes of the same box; rules
# that bind the caller alone; and device events: in a network namespace of the box's own Linux shows none of the host's,
# and elsewhere the socket is a stand-in to which nothing comes.
OWN = {"open_tree", "kcmp", "ptrace me", "ptrace child", "Landlock domain", "uevent netlink"}
DEADLY = {"int 0x80", "x32"}


@pytest.fixture
def outside(place: Path) -> Iterator[tuple[str, str, Path]]:
    """A TCP server and an abstract one on the host, and a file that every host user may read."""
    name = f"husk-doors-{os.getpid()}-{os.urandom(4).hex()}"
    file = place / "host-file"
    file.write_text("of the host\n")
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as unix:
        tcp.bind(("0.0.0.0", 0))
        unix.bind("\0" + name)
        for each in (tcp, unix):
            each.listen(64)
        yield str(tcp.getsockname()[1]), name, file


def stranger() -> subprocess.Popen[bytes]:
    """A process outside, with the uid that a guest would have natively."""
    uid, gid = guest_ids()
    user = [] if os.geteuid() else ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups"]
    process = subprocess.Popen([*user, "sleep", "1000"])
    # Before it executes sleep it is undumpable, since it has just changed its uid: no process may trace it.
    while Path("/proc", str(process.pid), "comm").read_text() != "sleep\n":
        time.sleep(0.01)
    return process


def knock(lines: str) -> dict[str, str]:
    return dict(line.rsplit(": ", 1) for line in lines.splitlines())


@pytest.mark.both_settings
def test_all_doors_are_shut(programs: Path, outside: tuple[str, str, Path]) -> None:
    port, name, file = outside
    other = stranger()
    try:
        found = knock(boxed(programs, ["doors", str(other.pid), port, name, str(file)]).out)
        assert set(found) == set(OPEN) | set(MAYBE) | OWN, "the program and the table disagree"
        opened = {door for door, answer in found.items() if answer == "open"}
        assert opened == OWN
        assert {door: found[door] for door in DEADLY} == dict.fromkeys(DEADLY, "signal 31")
        assert other.poll() is None, "a signal reached a process outside"
    finally:
        other.kill()
        other.wait()


def test_they_are_open_without_husk(programs: Path, place: Path, outside: tuple[str, str, Path]) -> None:
    port, name, file = outside
    other = stranger()
    try:
        if os.getuid() == 0:
            os.chown(place, *guest_ids())
        found = knock(unprotected(programs, ["doors", str(other.pid), port, name, str(file)], place).out)
        assert {door for door in OPEN if found[door] != "open"} == set()
        assert other.wait(timeout=60) == -12, "the signal to the owner of a descriptor, SIGUSR2"
    finally:
        other.kill()
        other.wait()
