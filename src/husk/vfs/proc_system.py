"""vfs: the files of /proc that speak of the whole machine, and /proc/sys.

Counters of the machine (cpu, memory, uptime) are the host's; names, processes, mounts and devices are the box's alone.
"""

from __future__ import annotations

import os

from husk.vfs.synth import read_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.vfs.node import Tree
    from husk.vfs.proc_view import Tasks
    from husk.vfs.synth import SynthDir, SynthTree

_FIRST_MOUNT_ID = 20
_OPTIONS = {b"proc": b",nosuid,nodev,noexec", b"sysfs": b",nosuid,nodev,noexec", b"devtmpfs": b",nosuid"}


# -- mounts -----------------------------------------------------------------------------------------------------------
def _escaped(path: bytes) -> bytes:
    for char in (b"\\", b" ", b"\t", b"\n"):  # the backslash first: the others add some
        path = path.replace(char, b"\\%03o" % ord(char))
    return path


def _options(tree: Tree) -> bytes:
    return (b"ro" if tree.read_only else b"rw") + _OPTIONS.get(tree.fstype, b",nosuid,nodev") + b",relatime"


def mounts_text(mounts: list[tuple[bytes, Tree]]) -> bytes:
    return b"".join(
        b"%s %s %s %s 0 0\n" % (tree.fstype, _escaped(path), tree.fstype, _options(tree)) for path, tree in mounts
    )


def mount_id(mounts: list[tuple[bytes, Tree]], tree: Tree) -> int:
    for index, (_, mounted) in enumerate(mounts):
        if mounted is tree:
            return _FIRST_MOUNT_ID + index
    return _FIRST_MOUNT_ID


def mountinfo_text(mounts: list[tuple[bytes, Tree]]) -> bytes:
    numbers = {path: _FIRST_MOUNT_ID + index for index, (path, _) in enumerate(mounts)}
    made = []
    for index, (path, tree) in enumerate(mounts):
        above, parent = path, 1  # 1: the parent of the root mount, which nobody sees
        while above not in (b"/", b""):
            above = above.rpartition(b"/")[0] or b"/"
            if above in numbers:
                parent = numbers[above]
                break
        made.append(
            b"%d %d %d:%d / %s %s - %s %s %s\n"
            % (
                _FIRST_MOUNT_ID + index,
                parent,
                os.major(tree.dev),
                os.minor(tree.dev),
                _escaped(path),
                _options(tree),
                tree.fstype,
                tree.fstype,
                b"ro" if tree.read_only else b"rw",
            )
        )
    return b"".join(made)


# -- files directly in /proc ------------------------------------------------------------------------------------------
def _loadavg(tasks: Tasks) -> bytes:
    pids = tasks.guest_pids() or [1]
    return b" ".join(read_host(b"/proc/loadavg").split()[:3]) + b" 1/%d %d\n" % (len(pids), max(pids))


def _stat(tasks: Tasks) -> bytes:
    made = []
    for line in read_host(b"/proc/stat").splitlines():
        key, _, value = line.partition(b" ")
        if key in (b"intr", b"softirq"):
            line = key + b" " + value.partition(b" ")[0]  # the total; the rest maps the host's hardware
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
    b"filesystems": _FILESYSTEMS,
    b"locks": b"",
    b"misc": b"",
    b"partitions": b"major minor  #blocks  name\n\n",
    b"swaps": b"Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n",
}
# Numbers of the machine and nothing else: the host's own file, which stays live for tools that keep it open and rewind.
HOSTS_OWN = (b"cpuinfo", b"meminfo", b"uptime", b"vmstat")


def fill_top(tree: SynthTree, top: SynthDir, tasks: Tasks, hostname: bytes) -> None:
    """Everything in /proc but the processes, self and thread-self."""
    for name in HOSTS_OWN:
        tree.add_file(top, name, b"/proc/" + name)
    for name, text in _FIXED.items():
        tree.add_file(top, name, _fixed(text))
    tree.add_file(top, b"loadavg", lambda: _loadavg(tasks))
    tree.add_file(top, b"stat", lambda: _stat(tasks))
    tree.add_file(top, b"version", _version)
    tree.add_link(top, b"mounts", b"self/mounts")
    tree.add_link(top, b"net", b"self/net")
    tree.add_dir(top, b"tty").fill = lambda tty: tree.add_file(tty, b"drivers", _fixed(_TTY_DRIVERS))
    tree.add_dir(top, b"sys").fill = lambda sys: _fill_sys(tree, sys, hostname)


def _host(path: bytes) -> Callable[[], bytes]:
    return lambda: read_host(path)


def _fixed(text: bytes) -> Callable[[], bytes]:
    return lambda: text


# -- /proc/sys --------------------------------------------------------------------------------------------------------
# Read-only for everybody inside. These are the host's values, where the host has the file: native calls obey them.
_SYS_HOST = {
    b"crypto": (b"fips_enabled",),
    b"fs": (
        b"aio-max-nr",
        b"file-max",
        b"lease-break-time",
        b"leases-enable",
        b"mount-max",
        b"nr_open",
        b"pipe-max-size",
        b"pipe-user-pages-hard",
        b"pipe-user-pages-soft",
        b"protected_fifos",
        b"protected_hardlinks",
        b"protected_regular",
        b"protected_symlinks",
        b"suid_dumpable",
    ),
    b"fs/epoll": (b"max_user_watches",),
    b"fs/inotify": (b"max_queued_events", b"max_user_instances", b"max_user_watches"),
    b"fs/mqueue": (b"msg_default", b"msg_max", b"msgsize_default", b"msgsize_max", b"queues_max"),
    b"kernel": (
        b"arch",
        b"auto_msgmni",
        b"cap_last_cap",
        b"msgmax",
        b"msgmnb",
        b"msgmni",
        b"ngroups_max",
        b"osrelease",
        b"ostype",
        b"pid_max",
        b"randomize_va_space",
        b"sched_rr_timeslice_ms",
        b"sem",
        b"shmall",
        b"shmmax",
        b"shmmni",
        b"threads-max",
        b"version",
    ),
    b"kernel/pty": (b"max",),
    b"net/core": (
        b"somaxconn",
        b"rmem_default",
        b"rmem_max",
        b"wmem_default",
        b"wmem_max",
        b"netdev_max_backlog",
        b"optmem_max",
    ),
    b"net/ipv4": (
        b"ip_local_port_range",
        b"ip_unprivileged_port_start",
        b"tcp_fin_timeout",
        b"tcp_keepalive_intvl",
        b"tcp_keepalive_probes",
        b"tcp_keepalive_time",
        b"tcp_max_syn_backlog",
        b"tcp_rmem",
        b"tcp_sack",
        b"tcp_syncookies",
        b"tcp_timestamps",
        b"tcp_window_scaling",
        b"tcp_wmem",
        b"tcp_fastopen",
        b"tcp_mem",
        b"udp_mem",
        b"tcp_congestion_control",
        b"tcp_available_congestion_control",
    ),
    b"net/ipv6/conf/all": (b"disable_ipv6",),
    b"net/unix": (b"max_dgram_qlen",),
    b"vm": (
        b"max_map_count",
        b"mmap_min_addr",
        b"nr_hugepages",
        b"overcommit_kbytes",
        b"overcommit_memory",
        b"overcommit_ratio",
        b"page-cluster",
        b"swappiness",
        b"legacy_va_layout",
    ),
}


def _fill_sys(tree: SynthTree, sys: SynthDir, hostname: bytes) -> None:
    boot_id = _uuid()
    made: dict[bytes, Callable[[], bytes]] = {
        b"fs/file-nr": _fixed(b"0\t0\t9223372036854775807\n"),
        b"fs/overflowgid": _fixed(b"65534\n"),
        b"fs/overflowuid": _fixed(b"65534\n"),
        b"kernel/core_pattern": _fixed(b"core\n"),
        b"kernel/core_uses_pid": _fixed(b"0\n"),
        b"kernel/dmesg_restrict": _fixed(b"1\n"),
        b"kernel/domainname": _fixed(b"(none)\n"),
        b"kernel/hostname": _fixed(hostname + b"\n"),
        b"kernel/io_uring_disabled": _fixed(b"2\n"),
        b"kernel/kptr_restrict": _fixed(b"2\n"),
        b"kernel/overflowgid": _fixed(b"65534\n"),
        b"kernel/overflowuid": _fixed(b"65534\n"),
        b"kernel/perf_event_paranoid": _fixed(b"4\n"),
        b"kernel/random/boot_id": _fixed(boot_id),
        b"kernel/random/entropy_avail": _fixed(b"256\n"),
        b"kernel/random/poolsize": _fixed(b"256\n"),
        b"kernel/random/uuid": _uuid,
        b"kernel/seccomp/actions_avail": _fixed(b"kill_process kill_thread trap errno user_notif trace log allow\n"),
        b"kernel/tainted": _fixed(b"0\n"),
        b"kernel/unprivileged_bpf_disabled": _fixed(b"2\n"),
        b"kernel/yama/ptrace_scope": _fixed(b"1\n"),
        b"user/max_user_namespaces": _fixed(b"0\n"),
    }
    for folder, names in _SYS_HOST.items():
        for name in names:
            path = folder + b"/" + name
            if os.path.exists(b"/proc/sys/" + path):
                made[path] = _host(b"/proc/sys/" + path)
    for path in sorted(made):
        here = sys
        *folders, name = path.split(b"/")
        for folder in folders:
            below = here.children.get(folder)
            here = below if isinstance(below, type(sys)) else tree.add_dir(here, folder)
        tree.add_file(here, name, made[path])


def _uuid() -> bytes:
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:])).encode() + b"\n"
