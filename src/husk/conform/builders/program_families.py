"""conform: the family of a test program of gVisor's suite, told from its name. A table of ours, for reports."""

from __future__ import annotations

import re

OTHER = "other"

# The first expression that fits a whole name, without `_test`, decides: the special come before the general.
_FAMILIES = [
    (re.compile(words), family)
    for words, family in (
        ("proc(_.*)?|sysinfo|syslog|uname|dev", "proc"),
        ("(host_)?pty(_.*)?", "terminals"),
        ("unshare|setns|network_namespace|mount(_fd)?|pivot_root|chroot|cgroup.*|landlock.*", "namespaces"),
        ("capabilities|uidgid|setgid|prctl_setuid|seccomp|keys", "credentials"),
        ("semaphore|shm|msgqueue|mq|futex|membarrier", "ipc"),
        ("sig.*|rtsignal|t?kill|tgkill|pause|fpsig.*|exceptions|fault", "signals"),
        (".*clock.*|time|timers|timerfd|itimer|alarm|vdso", "time"),
        ("ip6?tables|tuntap.*|netlink.*|packet.*|raw.*|ping.*", "sockets"),
        (".*socket.*|accept.*|bind.*|connect.*|udp.*|tcp.*", "sockets"),
        ("e?p?poll|p?select|eventfd|iouring|aio", "polling"),
        ("mmap.*|m(un|re)map|msync|mlock|madvise|mincore|mempolicy|brk|memory.*|memfd|32bit|process_vm.*", "memory"),
        ("fork|vfork|exec.*|exit|wait|processes|ptrace|pidfd|(arch_)?prctl|personality|sched.*|affinity", "processes"),
        ("priority|rlimits|getrusage|getcpu.*|rseq|concurrency|sysret|vsyscall|bad", "processes"),
        ("open.*|creat|stat.*|read.*|write|pread.*|pwrite.*|(un)?link|symlink|rename|truncate|getdents|lseek", "files"),
        ("chmod|chown|sticky|access|mkdir|mknod|f?chdir|xattr|posix_acl|utimes|inotify|fuse|deleted|ioctl", "files"),
        ("fcntl|flock|dup|close_range|fallocate|fadvise.*|f?sync.*|splice|sendfile|pipe.*|fifo|partial.*", "files"),
    )
]


def family_of(program: str) -> str:
    """`program` as it is called on disk, with or without the `_test` at its end."""
    name = program.removesuffix("_test")
    return next((family for pattern, family in _FAMILIES if pattern.fullmatch(name)), OTHER)
