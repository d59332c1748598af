/* The kinds of each call's arguments. A call without a shape here gets six arguments of any kind: so new rows of the
 * registry are fuzzed from the first day, and better once they have a shape.
 *   p name   f descriptor   d directory   k socket   j epoll and its kin   | pipe   y terminal   i number   g flags   m mode
 *   s structure   Z one of zeros   o room for a result   n its length   w parts   W their count   q what to poll
 *   a socket address   l its length   L pointer to a length   M message   P process   S signal   X name of an attribute
 *   V address that may be unmapped   v length of that   h open_how   x vector of strings   t time-out   T times   I interval
 *   H header of capabilities   G arguments for an attribute   U name of a queue
 *    0 to 4 one number of a set   A to E some of a set, or-ed
 */
#ifndef FUZZ_SHAPES_H
#define FUZZ_SHAPES_H

#include "sets.h"

static const struct {
    const char *call, *shape;
    const uint64_t *sets[5];
} SHAPES[] = {
    /* names */
    {"open", "pAm", {OPEN}}, {"openat", "dpAm", {OPEN}}, {"openat2", "dph0", {OPEN_HOW_SIZE}}, {"creat", "pm", {0}},
    {"stat", "po", {0}}, {"lstat", "po", {0}}, {"newfstatat", "dpoA", {STAT_FLAGS}}, {"statx", "dpA1o", {STAT_FLAGS, STATX_MASK}},
    {"access", "p0", {ACCESS_MODES}}, {"faccessat", "dp0", {ACCESS_MODES}}, {"faccessat2", "dp0B", {ACCESS_MODES, ACCESS_FLAGS}},
    {"readlink", "pon", {0}}, {"readlinkat", "dpon", {0}}, {"rename", "pp", {0}}, {"renameat", "dpdp", {0}},
    {"renameat2", "dpdp0", {RENAME_FLAGS}}, {"link", "pp", {0}}, {"linkat", "dpdp0", {LINK_FLAGS}}, {"symlink", "pp", {0}},
    {"symlinkat", "pdp", {0}}, {"unlink", "p", {0}}, {"unlinkat", "dp0", {UNLINK_FLAGS}}, {"mkdir", "pm", {0}},
    {"mkdirat", "dpm", {0}}, {"rmdir", "p", {0}}, {"mknod", "p01", {NODE_KINDS, DEVICES}}, {"mknodat", "dp01", {NODE_KINDS, DEVICES}},
    {"chmod", "pm", {0}}, {"fchmod", "fm", {0}}, {"fchmodat", "dpm", {0}}, {"fchmodat2", "dpm0", {FOLLOW_FLAGS}},
    {"chown", "p00", {IDS}}, {"lchown", "p00", {IDS}}, {"fchown", "f00", {IDS}}, {"fchownat", "dp001", {IDS, FOLLOW_FLAGS}},
    {"truncate", "pn", {0}}, {"utime", "pT", {0}}, {"utimes", "pT", {0}}, {"futimesat", "dpT", {0}},
    {"utimensat", "dpT0", {FOLLOW_FLAGS}}, {"chdir", "p", {0}}, {"fchdir", "d", {0}}, {"getcwd", "on", {0}}, {"chroot", "p", {0}},
    {"statfs", "po", {0}}, {"setxattr", "pXon0", {XATTR_FLAGS}}, {"lsetxattr", "pXon0", {XATTR_FLAGS}},
    {"fsetxattr", "fXon0", {XATTR_FLAGS}}, {"getxattr", "pXon", {0}}, {"lgetxattr", "pXon", {0}}, {"fgetxattr", "fXon", {0}},
    {"listxattr", "pon", {0}}, {"llistxattr", "pon", {0}}, {"flistxattr", "fon", {0}}, {"removexattr", "pX", {0}},
    {"lremovexattr", "pX", {0}}, {"fremovexattr", "fX", {0}}, {"setxattrat", "dp0XG1", {FOLLOW_FLAGS, ARGUMENT_SIZE}},
    {"getxattrat", "dp0XG1", {FOLLOW_FLAGS, ARGUMENT_SIZE}}, {"listxattrat", "dp0on", {FOLLOW_FLAGS}}, {"removexattrat", "dp0X", {FOLLOW_FLAGS}},
    {"execve", "pxx", {0}}, {"execveat", "dpxx0", {FOLLOW_FLAGS}}, {"inotify_add_watch", "jp0", {WATCH}},
    {"name_to_handle_at", "dpso0", {HANDLE_FLAGS}}, {"open_by_handle_at", "dsA", {OPEN}}, {"fanotify_mark", "fgifp", {0}},
    {"open_tree", "dp0", {OPEN_TREE}}, {"move_mount", "dpdpg", {0}}, {"fsopen", "pg", {0}}, {"fspick", "dpg", {0}},
    {"mount_setattr", "dpgsn", {0}}, {"mount", "pppAs", {MOUNT_FLAGS}}, {"umount2", "p0", {UMOUNT_FLAGS}}, {"pivot_root", "pp", {0}},
    {"swapon", "pg", {0}}, {"acct", "p", {0}}, {"quotactl", "ipis", {0}}, {"file_getattr", "dpong", {0}}, {"file_setattr", "dpsng", {0}},
    {"memfd_create", "p0", {MEMFD}}, {"mq_open", "U0ms", {QUEUE_OPEN}}, {"mq_unlink", "U", {0}}, {"sethostname", "pn", {0}},
    {"setdomainname", "pn", {0}}, {"statmount", "song", {0}},

    /* descriptors */
    {"fstat", "fo", {0}}, {"fstatfs", "fo", {0}}, {"ftruncate", "fn", {0}}, {"fallocate", "f0nn", {FALLOCATE}},
    {"getdents", "don", {0}}, {"getdents64", "don", {0}}, {"inotify_rm_watch", "j0", {WATCHES}}, {"read", "fon", {0}},
    {"write", "fon", {0}}, {"pread64", "fonn", {0}}, {"pwrite64", "fonn", {0}}, {"readv", "fwW", {0}}, {"writev", "fwW", {0}},
    {"preadv", "fwWii", {0}}, {"pwritev", "fwWii", {0}}, {"preadv2", "fwWii0", {RW_FLAGS}}, {"pwritev2", "fwWii0", {RW_FLAGS}},
    {"lseek", "f01", {OFFSETS, SEEKS}}, {"dup", "f", {0}}, {"dup2", "ff", {0}}, {"dup3", "ff0", {DUP_FLAGS}}, {"fcntl", "f0s", {FCNTL}},
    {"ioctl", "y0s", {IOCTL}}, {"flock", "f0", {FLOCK}}, {"sendfile", "ffgn", {0}}, {"splice", "|g|gnA", {SPLICE}},
    {"tee", "||nA", {SPLICE}}, {"vmsplice", "|wWA", {SPLICE}}, {"copy_file_range", "fgfgng", {0}}, {"close", "f", {0}},
    {"close_range", "ff0", {CLOSE_RANGE}}, {"fsync", "f", {0}}, {"fdatasync", "f", {0}}, {"syncfs", "f", {0}},
    {"readahead", "fin", {0}}, {"fadvise64", "fin0", {ADVICE}}, {"sync_file_range", "fnnA", {SYNC_RANGE}}, {"cachestat", "fIog", {0}},
    {"pipe", "o", {0}}, {"pipe2", "oA", {PIPE_FLAGS}}, {"eventfd2", "iA", {NEW_FD}}, {"epoll_create1", "0", {DUP_FLAGS}},
    {"epoll_ctl", "j0fs", {EPOLL_OPS}}, {"epoll_wait", "joWi", {0}}, {"epoll_pwait", "joWiZ0", {EIGHT}},
    {"epoll_pwait2", "joWtZ0", {EIGHT}}, {"inotify_init1", "0", {NEW_FD}}, {"poll", "qWi", {0}}, {"ppoll", "qWtZ0", {EIGHT}},
    {"select", "WZZZt", {0}}, {"pselect6", "WZZZtg", {0}}, {"signalfd", "js0", {EIGHT}}, {"signalfd4", "js0B", {EIGHT, NEW_FD}},
    {"io_setup", "WZ", {0}}, {"io_submit", "sis", {0}}, {"timerfd_create", "0B", {CLOCKS, NEW_FD}}, {"timerfd_settime", "jgIo", {0}},
    {"timerfd_gettime", "jo", {0}}, {"open_tree_attr", "dpgsn", {0}},

    /* sockets */
    {"socket", "012", {FAMILIES, TYPES, PROTOCOLS}}, {"socketpair", "012o", {FAMILIES, TYPES, PROTOCOLS}}, {"bind", "kal", {0}},
    {"connect", "kal", {0}}, {"sendto", "kon0al", {SEND_FLAGS}}, {"recvfrom", "kon0oL", {RECEIVE_FLAGS}}, {"sendmsg", "kM0", {SEND_FLAGS}},
    {"recvmsg", "kM0", {RECEIVE_FLAGS}}, {"sendmmsg", "kMW0", {SEND_FLAGS}}, {"recvmmsg", "kMW0t", {RECEIVE_FLAGS}},
    {"accept", "koL", {0}}, {"accept4", "koL0", {ACCEPT_FLAGS}}, {"listen", "ki", {0}}, {"getsockname", "koL", {0}},
    {"getpeername", "koL", {0}}, {"setsockopt", "k01s2", {LEVELS, OPTIONS, OPTION_SIZES}}, {"getsockopt", "k01oL", {LEVELS, OPTIONS}},
    {"shutdown", "k0", {HOW}},

    /* processes and signals */
    {"kill", "PS", {0}}, {"tkill", "PS", {0}}, {"tgkill", "PPS", {0}}, {"rt_sigqueueinfo", "P0Z", {SIGNALS_SENT}},
    {"rt_tgsigqueueinfo", "PP0Z", {SIGNALS_SENT}}, {"pidfd_open", "Pg", {0}}, {"pidfd_getfd", "jfg", {0}},
    {"pidfd_send_signal", "j0gg", {SIGNALS_SENT}}, {"prlimit64", "P0so", {LIMITS}}, {"getrlimit", "0o", {LIMITS}},
    {"setrlimit", "0I", {LIMITS}}, {"rt_sigaction", "0so1", {SIGNALS, EIGHT}}, {"rt_sigprocmask", "0so1", {MASK_HOW, EIGHT}},
    {"rt_sigpending", "o0", {EIGHT}}, {"rt_sigtimedwait", "Zot0", {EIGHT}}, {"rt_sigsuspend", "Z0", {EIGHT}}, {"sigaltstack", "so", {0}},
    {"prctl", "0ssss", {PRCTL}}, {"arch_prctl", "0o", {ARCH_PRCTL}}, {"process_vm_readv", "PwWwWg", {0}},
    {"process_vm_writev", "PwWwWg", {0}}, {"ptrace", "0Pss", {PTRACE}}, {"setpgid", "PP", {0}}, {"getpgid", "P", {0}}, {"getsid", "P", {0}},
    {"wait4", "1o0o", {WAIT_FLAGS, ANYBODY}}, {"waitid", "0Po1o", {ID_KINDS, WAIT_FLAGS}}, {"umask", "m", {0}}, {"uname", "o", {0}},
    {"seccomp", "0gs", {SECCOMP}}, {"clone", "Asoos", {CLONE}}, {"clone3", "sn", {0}}, {"unshare", "A", {UNSHARE}},
    {"set_robust_list", "s0", {LIST_SIZE}}, {"get_robust_list", "Poo", {0}}, {"setns", "fg", {0}}, {"landlock_add_rule", "fisg", {0}},
    {"kcmp", "PP0ff", {KCMP}}, {"husk_call", "oiiiii", {0}}, {"modify_ldt", "ion", {0}}, {"getrusage", "0o", {USAGE}},
    {"getpriority", "0P", {PRIORITY_KINDS}}, {"setpriority", "0P1", {PRIORITY_KINDS, NICES}}, {"ioprio_get", "0P", {IO_KINDS}},
    {"ioprio_set", "0P1", {IO_KINDS, IO_PRIORITIES}}, {"sched_setaffinity", "P0s", {EIGHT}}, {"sched_getaffinity", "P0o", {SIZES}},
    {"sched_getparam", "Po", {0}}, {"sched_setparam", "PZ", {0}}, {"sched_getscheduler", "P", {0}}, {"sched_setscheduler", "P0Z", {POLICIES}},
    {"sched_rr_get_interval", "Po", {0}}, {"sched_getattr", "Po0g", {SIZES}}, {"sched_setattr", "PZg", {0}},
    {"sched_get_priority_max", "0", {POLICIES}}, {"sched_get_priority_min", "0", {POLICIES}}, {"capget", "Ho", {0}}, {"capset", "HZ", {0}},
    {"setuid", "0", {IDS}}, {"setgid", "0", {IDS}}, {"setreuid", "00", {IDS}}, {"setregid", "00", {IDS}}, {"setresuid", "000", {IDS}},
    {"setresgid", "000", {IDS}}, {"getresuid", "ooo", {0}}, {"getresgid", "ooo", {0}}, {"setgroups", "io", {0}}, {"getgroups", "no", {0}},
    {"personality", "0", {PERSONALITY}}, {"getrandom", "ong", {0}}, {"sysinfo", "o", {0}}, {"membarrier", "0gg", {MEMBARRIER}},
    {"rseq", "ZngZ", {0}}, {"getcpu", "ooo", {0}},

    /* time */
    {"nanosleep", "to", {0}}, {"clock_nanosleep", "0gto", {CLOCKS}}, {"clock_gettime", "0o", {CLOCKS}}, {"clock_getres", "0o", {CLOCKS}},
    {"clock_adjtime", "0Z", {CLOCKS}}, {"adjtimex", "Z", {0}}, {"gettimeofday", "oo", {0}}, {"time", "o", {0}}, {"times", "o", {0}},
    {"getitimer", "0o", {ITIMERS}}, {"setitimer", "0Io", {ITIMERS}}, {"timer_create", "0go", {CLOCKS}}, {"timer_settime", "0iIo", {TIMERS}},
    {"timer_gettime", "0o", {TIMERS}}, {"timer_getoverrun", "0", {TIMERS}}, {"timer_delete", "0", {TIMERS}},
    {"futex", "o0itoi", {FUTEX}}, {"futex_wake", "oii0", {FUTEX2}}, {"futex_wait", "oii0gg", {FUTEX2}}, {"futex_waitv", "Zigtg", {0}},
    {"futex_requeue", "Zgii", {0}},

    /* memory */
    {"mmap", "VvABf2", {PROTECTION, MAP, PAGES}}, {"munmap", "Vv", {0}}, {"mprotect", "VvA", {PROTECTION}}, {"mremap", "Vvv0V", {REMAP}},
    {"madvise", "Vv0", {MEMORY_ADVICE}}, {"mlock", "Vv", {0}}, {"munlock", "Vv", {0}}, {"mincore", "Vvo", {0}}, {"mlockall", "0", {LOCK_ALL}},
    {"remap_file_pages", "Vvgig", {0}}, {"mbind", "Vv0sgg", {MEMORY_POLICIES}}, {"set_mempolicy", "0gg", {MEMORY_POLICIES}},
    {"get_mempolicy", "ogggg", {0}}, {"msync", "VvA", {MSYNC}}, {"mlock2", "Vvg", {0}}, {"pkey_mprotect", "VvAg", {PROTECTION}},
    {"pkey_alloc", "gi", {0}}, {"pkey_free", "i", {0}}, {"mseal", "Vvg", {0}}, {"process_madvise", "jwW0g", {MEMORY_ADVICE}},
    {"move_pages", "ggggog", {0}}, {"migrate_pages", "ggoo", {0}}, {"set_mempolicy_home_node", "Vvgg", {0}},

    /* System V, and queues */
    {"shmget", "012", {KEYS, SHM_SIZES, IPC_GET}}, {"shmat", "0Vg", {IPC_IDS}}, {"shmdt", "V", {0}}, {"shmctl", "01o", {IPC_IDS, IPC_COMMANDS}},
    {"semget", "0i1", {KEYS, IPC_GET}}, {"semctl", "0i1o", {IPC_IDS, IPC_COMMANDS}}, {"semop", "0Zi", {IPC_IDS}},
    {"semtimedop", "0Zit", {IPC_IDS}}, {"msgget", "01", {KEYS, IPC_GET}}, {"msgsnd", "0I12", {IPC_IDS, SMALL, MESSAGE_FLAGS}},
    {"msgrcv", "0oni1", {IPC_IDS, MESSAGE_FLAGS}}, {"msgctl", "01o", {IPC_IDS, IPC_COMMANDS}}, {"mq_getsetattr", "jgo", {0}},
    {"mq_notify", "jg", {0}}, {"mq_timedsend", "jo0ig", {SMALL}}, {"mq_timedreceive", "jonog", {0}},
};

#endif
