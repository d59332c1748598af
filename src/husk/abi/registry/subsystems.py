"""Layer abi, registry: which part of the host's kernel a native call reaches. Data only, for docs/threat-model.md.

One entry for each call that is native under some walls and arguments, and no other; a test compares them with the rows.
A hole in one of these parts is within a guest's reach. Calls that husk answers are not here: husk makes host calls in
their place, and docs/design/012-credentials.md lists those.
"""

from __future__ import annotations


class Subsystem:
    """`source`: where it lies in Linux's source tree. `offers`: what a guest does there."""

    __slots__ = ("calls", "name", "offers", "source")

    def __init__(self, name: str, source: str, offers: str, calls: str) -> None:
        self.name, self.source, self.offers = name, source, offers
        self.calls = tuple(calls.split())


SUBSYSTEMS = (
    Subsystem(
        "open files",
        "fs/read_write.c, fs/splice.c, fs/sync.c, and the file system of each file",
        "reads, writes and copies through descriptors that husk handed out",
        "read write pread64 pwrite64 readv writev preadv pwritev preadv2 pwritev2 sendfile splice tee vmsplice "
        "copy_file_range lseek ftruncate fsync fdatasync sync syncfs sync_file_range readahead fadvise64 cachestat",
    ),
    Subsystem(
        "descriptor tables",
        "fs/file.c, fs/fcntl.c, fs/locks.c",
        "copies, closes and marks descriptors; record locks on the box's own files",
        "close close_range dup dup2 dup3 fcntl",
    ),
    Subsystem(
        "device commands and terminals",
        "fs/ioctl.c, drivers/tty/",
        "listed commands only: pseudo-terminals of the box, queue lengths, clones of files",
        "ioctl",
    ),
    Subsystem("file-system context", "fs/fs_struct.c", "the working directory, by descriptor, and the umask",
              "fchdir umask"),
    Subsystem(
        "waiting for descriptors",
        "fs/select.c, fs/eventpoll.c, fs/eventfd.c",
        "waits for descriptors it holds; counters",
        "poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd "
        "eventfd2",
    ),
    Subsystem("pipes", "fs/pipe.c", "makes pipes without a name", "pipe pipe2"),
    Subsystem(
        "asynchronous I/O",
        "fs/aio.c",
        "queues reads, writes and polls on descriptors it holds; io_uring is refused",
        "io_setup io_destroy io_getevents io_pgetevents io_submit io_cancel",
    ),
    Subsystem(
        "path look-ups",
        "fs/namei.c, fs/stat.c, fs/open.c, and the file system of /usr",
        "looks up and opens, for reading, names of the host's /usr in the box's own root, which has nothing else",
        "openat newfstatat readlinkat fstat",
    ),
    Subsystem("inotify", "fs/notify/", "queues of events; husk adds the watches",
              "inotify_init inotify_init1 inotify_rm_watch"),
    Subsystem(
        "memory",
        "mm/",
        "maps its own memory, and files it holds, with no more rights than their descriptors",
        "mmap munmap mremap mprotect brk remap_file_pages msync mincore madvise mlock mlock2 munlock mlockall "
        "munlockall mseal map_shadow_stack pkey_mprotect pkey_alloc pkey_free memfd_create",
    ),
    Subsystem(
        "memory policy",
        "mm/mempolicy.c, mm/migrate.c",
        "places its own pages on memory nodes",
        "mbind set_mempolicy get_mempolicy set_mempolicy_home_node migrate_pages move_pages",
    ),
    Subsystem(
        "futexes",
        "kernel/futex/",
        "waits on words of its own memory",
        "futex futex_waitv futex_wake futex_wait futex_requeue set_robust_list get_robust_list",
    ),
    Subsystem(
        "threads",
        "kernel/rseq.c, kernel/sched/membarrier.c, arch/x86/kernel/process_64.c",
        "registers and restartable sequences of its own threads",
        "set_tid_address rseq membarrier arch_prctl getcpu",
    ),
    Subsystem(
        "time and timers",
        "kernel/time/, fs/timerfd.c",
        "reads clocks, sleeps, sets its own timers; setting a clock takes a capability that no guest has",
        "time gettimeofday clock_gettime clock_getres adjtimex clock_adjtime clock_settime nanosleep clock_nanosleep "
        "alarm getitimer setitimer timer_create timer_settime timer_gettime timer_getoverrun timer_delete "
        "timerfd_create timerfd_settime timerfd_gettime",
    ),
    Subsystem("random numbers", "drivers/char/random.c", "reads them", "getrandom"),
    Subsystem("system information", "kernel/sys.c", "the machine's name, load and memory; its own use of time",
              "uname sysinfo getrusage times"),
    Subsystem(
        "processes",
        "kernel/fork.c, kernel/exit.c, fs/exec.c, kernel/pid.c",
        "makes threads and processes of the box, in no new namespace; executes husk's loader",
        "clone fork vfork execve execveat exit exit_group wait4 waitid getpid gettid getppid getpgrp setpgid setsid "
        "getpgid getsid pidfd_open unshare personality",
    ),
    Subsystem(
        "signals",
        "kernel/signal.c, fs/signalfd.c",
        "its own handlers and masks; signals to processes of the box, where a wall keeps them inside",
        "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend pause sigaltstack "
        "restart_syscall kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal signalfd signalfd4",
    ),
    Subsystem(
        "scheduler",
        "kernel/sched/, block/ioprio.c",
        "priorities and processors of its own processes",
        "sched_yield sched_get_priority_max sched_get_priority_min sched_setparam sched_getparam sched_setscheduler "
        "sched_getscheduler sched_rr_get_interval sched_setaffinity sched_getaffinity sched_setattr sched_getattr "
        "getpriority setpriority ioprio_set ioprio_get",
    ),
    Subsystem(
        "credentials and limits",
        "kernel/cred.c, kernel/sys.c, kernel/capability.c, security/",
        "its one uid, its empty capability sets, its own limits",
        "getuid getgid geteuid getegid getresuid getresgid getgroups setfsuid setfsgid setgroups capget capset "
        "getrlimit setrlimit prlimit64 prctl",
    ),
    Subsystem("seccomp and BPF", "kernel/seccomp.c, net/core/filter.c",
              "adds classic BPF filters of its own to husk's; eBPF is refused", "seccomp"),
    Subsystem(
        "tracing",
        "kernel/ptrace.c, mm/process_vm_access.c, kernel/kcmp.c",
        "traces and reads processes of the box, where Landlock keeps it out of others",
        "ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd",
    ),
    Subsystem("probes", "kernel/events/uprobes.c", "returns from a probe that the host's root has set",
              "uretprobe uprobe"),
    Subsystem(
        "sockets",
        "net/socket.c, net/unix/, net/ipv4/, net/ipv6/, net/netlink/",
        "Unix sockets; IP sockets where a private network namespace is all the network; connecting, binding and "
        "messages with an address are husk's",
        "socket socketpair listen accept accept4 sendto recvfrom recvmsg shutdown setsockopt getsockopt",
    ),
    Subsystem(
        "System V IPC",
        "ipc/sem.c, ipc/msg.c",
        "semaphores and message queues of the box's own ipc namespace, or that husk made for it",
        "semget semop semtimedop semctl msgget msgsnd msgrcv msgctl",
    ),
    Subsystem(
        "POSIX message queues",
        "ipc/mqueue.c",
        "queues of the box's own ipc namespace, or that husk made for it",
        "mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr",
    ),
)


def subsystem(call: str) -> Subsystem | None:
    """What a native call reaches; None: it is never native."""
    return next((one for one in SUBSYSTEMS if call in one.calls), None)
