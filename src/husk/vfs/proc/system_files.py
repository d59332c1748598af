"""vfs: the files of /proc about the whole machine; /proc/sys is in `sysctl`.

Counters of the machine (cpu, memory, uptime) are the host's; names, processes, mounts and devices are the box's only.
"""

from __future__ import annotations

import os

from husk.vfs.synth.synth_tree import read_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.vfs.proc.view import Tasks
    from husk.vfs.synth.synth_tree import SynthDir, SynthTree


_SOFTIRQS = 10  # kinds of them


# -- files directly in /proc ------------------------------------------------------------------------------------------
def _loadavg(tasks: Tasks) -> bytes:
    pids = tasks.guest_pids() or [1]
    return b" ".join(read_host(b"/proc/loadavg").split()[:3]) + b" 1/%d %d\n" % (len(pids), max(pids))


def _stat(tasks: Tasks) -> bytes:
    made = []
    for line in read_host(b"/proc/stat").splitlines():
        key, _, value = line.partition(b" ")
        if key in (b"intr", b"softirq"):  # the total; the rest tells of the host's hardware and its network
            line = key + b" " + value.partition(b" ")[0] + b" 0" * _SOFTIRQS * (key == b"softirq")
        elif key == b"processes":
            line = b"processes %d" % max(tasks.guest_pids(), default=1)
        made.append(line + b"\n")
    return b"".join(made)


def _version() -> bytes:
    host = os.uname()
    return f"{host.sysname} version {host.release} (husk@husk) (gcc) {host.version}\n".encode()


_FILESYSTEMS = b"".join(
    b"nodev\t%s\n" % name
    for name in (b"sysfs", b"tmpfs", b"proc", b"devtmpfs", b"devpts", b"mqueue", b"pipefs", b"sockfs", b"overlay")
)
_DEVICES = b"Character devices:\n  1 mem\n  5 /dev/tty\n  5 /dev/ptmx\n136 pts\n\nBlock devices:\n"
_TTY_DRIVERS = (
    b"/dev/tty             /dev/tty        5       0 system:/dev/tty\n"
    b"pty_slave            /dev/pts      136 0-1048575 pty:slave\n"
)
_FIXED = {
    b"cgroups": b"#subsys_name\thierarchy\tnum_cgroups\tenabled\n",
    b"cmdline": b"quiet\n",
    b"devices": _DEVICES,
    b"diskstats": b"",
    b"execdomains": b"0-0\tLinux           \t[kernel]\n",
    b"filesystems": _FILESYSTEMS,
    b"locks": b"",
    b"misc": b"",
    b"partitions": b"major minor  #blocks  name\n\n",
    b"swaps": b"Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n",
}
# Numbers of the machine and nothing else: the host's own file, which stays live for tools that keep it open and rewind.
HOSTS_OWN = (b"cpuinfo", b"meminfo", b"uptime", b"vmstat", b"zoneinfo")


def fill_top(tree: SynthTree, top: SynthDir, tasks: Callable[[], Tasks], hostname: bytes) -> None:
    """Everything in /proc but the processes, self and thread-self."""
    for name in HOSTS_OWN:
        if os.path.exists(b"/proc/" + name):
            tree.add_file(top, name, b"/proc/" + name)
    for name, text in _FIXED.items():
        tree.add_file(top, name, _fixed(text))
    tree.add_file(top, b"loadavg", lambda: _loadavg(tasks()))
    tree.add_file(top, b"stat", lambda: _stat(tasks()))
    tree.add_file(top, b"version", _version)
    tree.add_link(top, b"mounts", b"self/mounts")
    tree.add_link(top, b"net", b"self/net")
    tree.add_dir(top, b"tty", fill=lambda tty: tree.add_file(tty, b"drivers", _fixed(_TTY_DRIVERS)))
    tree.add_dir(top, b"sys", fill=lambda sys: _fill_sys(tree, sys, hostname))


def _fill_sys(tree: SynthTree, sys: SynthDir, hostname: bytes) -> None:
    from husk.vfs.proc.sysctl import fill_sys

    fill_sys(tree, sys, hostname)


def _fixed(text: bytes) -> Callable[[], bytes]:
    return lambda: text
