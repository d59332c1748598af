"""What the probe finds and what was expected, where these differ: each with its explanation.

`NATIVE`: checks that do not find Linux's full answer on a plain Linux, because of how it was built or of the machine.
`IN_HUSK`: checks of native and virtual rows that find something else in a box than outside. An entry that no longer
differs fails the test: then it must go.
`GVISOR`: checks that find in a real runsc what its profile, made from gVisor's sources, does not say.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Accepted:
    call: str
    case: str  # its beginning; empty: every case
    outside: str  # the whole text of the result, natively
    inside: str  # and in husk
    reason: str
    setting: str = ""  # "walled" or "bare"; empty: both
    who: str = ""  # only where husk is started by "root" or by a "user"; empty: by either


# (call, result): why a Linux may answer so. A call newer than the kernel is not listed: ENOSYS is its right answer.
NATIVE = {
    ("kexec_load", "errno ENOSYS"): "built without kexec",
    ("kexec_file_load", "errno ENOSYS"): "built without kexec",
    ("init_module", "errno ENOSYS"): "built without modules",
    ("finit_module", "errno ENOSYS"): "built without modules",
    ("delete_module", "errno ENOSYS"): "built without modules",
    ("iopl", "errno ENOSYS"): "built without access to ports",
    ("ioperm", "errno ENOSYS"): "built without access to ports",
    ("map_shadow_stack", "errno ENOSYS"): "built without shadow stacks",
}

IN_HUSK = (
    Accepted("fchmod", "of a file without a name", "works",
             "no-effect fstat(fd, &status) == 0 && (status.st_mode & 07777) == 0700",
             "a file without a name may be the caller's, as standard input: its mode stays"),
    Accepted("/sys/fs/cgroup", "", "works", "no-effect count > 0", "the box's own group has no files to show"),
    Accepted("fcntl", "cmd=F_SET_RW_HINT", "works", "errno EPERM",
             "Linux wants the file's owner, and files that husk makes are root's on the host", who="root"),
    Accepted("setpriority", "which=PRIO_PGRP", "works", "errno EPERM",
             "without a pid namespace a group may reach beyond the box", setting="bare"),
    Accepted("seccomp", "op=SECCOMP_SET_MODE_STRICT", "works", "errno EINVAL",
             "Linux lets no process that has a filter change to the strict mode, and every guest has one"),
    Accepted("seccomp", "op=SECCOMP_SET_MODE_FILTER flags=8", "works", "works EBUSY",
             "Linux lets a process tree have one listener, and it is husk's"),
    Accepted("/proc/self/timerslack_ns", "", "works", "errno EPERM",
             "Linux wants CAP_SYS_NICE to show it of another process, and husk reads it for the guest",
             setting="bare", who="user"),
    Accepted("setsockopt", "level=SOL_SOCKET optname=26", "works", "errno EPERM",
             "a network socket has husk's own filter there, which keeps out foreign senders", setting="bare"),
    Accepted("fcntl", "cmd=F_SETOWN_EX", "works", "errno EPERM",
             "a thread as owner stands behind a pointer, and without a pid namespace its number could be another's",
             setting="bare"),
    Accepted("renameat2", "flags=RENAME_WHITEOUT", "works", "works EPERM",
             "a whiteout is a device node, and no guest makes one; old kernels gave this errno too"),
)  # fmt: skip

# Files of a Linux that a box does not have (docs/trees.md lists those it has).
_REASONS = {
    "they tell about the host, or would change it": (
        "/proc/buddyinfo /proc/consoles /proc/crypto /proc/interrupts /proc/kallsyms /proc/kcore /proc/keys /proc/kmsg "
        "/proc/modules /proc/pressure /proc/slabinfo /proc/softirqs /proc/sysrq-trigger "
        "/proc/sys/kernel/yama/ptrace_scope /sys/module"
    ),
    "they tell what the host's kernel and its security modules do with a process": (
        "/proc/self/attr /proc/self/autogroup /proc/self/numa_maps /proc/self/stack /proc/self/syscall "
        "/proc/self/timers"
    ),
    "they lead to memory past every check; process_vm_readv and ptrace are there": (
        "/proc/self/clear_refs /proc/self/map_files /proc/self/pagemap"
    ),
    "devices of the host": (
        "/dev/console /dev/fuse /dev/kmsg /dev/kvm /dev/loop-control /dev/mapper/control /dev/mem /dev/net/tun"
    ),
}
NOT_SHOWN = {path: reason for reason, paths in _REASONS.items() for path in paths.split()}

# The runsc that Debian 12 packages. (call, beginning of the case): why the profile says otherwise.
GVISOR_PROFILE = "gvisor-20221219"
GVISOR = {
    ("open", "flags=O_TMPFILE"): "O_DIRECTORY is a part of the flag, so a directory is opened for writing: EISDIR",
    ("openat", "flags=O_TMPFILE"): "as open",
    ("statx", "mask=STATX_MNT_ID"): "Linux allows it: a mask asks, and the answer says what is known",
    ("mq_unlink", "the name is gone"): "a user who is not root makes a queue, and may not remove it: EACCES",
    ("ioctl", "cmd=FIONREAD: of a file"): "only pipes, terminals, sockets and queues have it, as its text says",
    ("ioctl", "cmd=TIOCOUTQ"): "only sockets have it, as the profile's text says; a terminal gives ENOTTY",
    ("ioctl", "cmd=TIOCSPTLCK"): "accepted; TIOCGPTLCK, which would tell, is missing",
    ("ioctl", "cmd=TIOCSCTTY"): "the session has its terminal; /dev/tty does not lead to it",
    ("ioctl", "cmd=TIOCNOTTY"): "without a terminal /dev/tty is EIO, where Linux gives ENXIO",
    ("ioctl", "cmd=SIOCGIFDSTADDR"): "success, and the address is left empty",
    ("ioctl", "cmd=SIOCGIFBRDADDR"): "as SIOCGIFDSTADDR",
    ("socket", "family=AF_UNIX type=SOCK_RDM"): "EINVAL, where Linux gives ESOCKTNOSUPPORT",
    ("socketpair", "family=AF_INET"): "ESOCKTNOSUPPORT, where Linux gives EOPNOTSUPP",
    ("sendto", "flags=MSG_FASTOPEN"): "a flag that it does not know: the socket is not connected, so EPIPE",
    ("sendmsg", "flags=MSG_FASTOPEN"): "a flag that it does not know",
    ("sendmmsg", "flags=MSG_FASTOPEN"): "a flag that it does not know",
    ("setsockopt", "level=SOL_SOCKET optname=60"): "options that it does not know are accepted without effect",
    ("setsockopt", "level=SOL_SOCKET optname=76"): "as option 60",
    ("setsockopt", "level=SOL_SOCKET optname=26"): "accepted, and datagrams arrive all the same",
    ("setsockopt", "level=IPPROTO_TCP optname=23"): "as option 60",
    ("setsockopt", "level=IPPROTO_TCP optname=31"): "as option 60",
    ("getsockopt", "level=SOL_SOCKET optname=59"): "an option that it does not know",
    ("getsockopt", "level=SOL_SOCKET optname=77"): "an option that it does not know",
    ("getsockopt", "level=IPPROTO_IPV6 optname=17"): "an option that it does not know",
    ("getsockopt", "level=SOL_NETLINK optname=11"): "an option that it does not know",
    ("setsockopt", "level=SOL_NETLINK optname=11"): "an option that it does not know",
    ("unshare", "an unknown flag"): "flags that it does not know are passed over",
    ("/proc/self/cgroup", ""): "empty, since no cgroups are mounted",
    ("/proc/self/io", ""): 'its first line is "char:" where Linux has "rchar:"',
    ("/dev/shm", ""): "a new file there is EACCES for a user who is not root",
    ("/dev/tty", ""): "EIO without a terminal, where Linux gives ENXIO",
}
