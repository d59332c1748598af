"""Layer abi, registry rows: the guest's own memory, its locks, and time.

Data only. Native, because they reach nothing but the calling process; the exceptions say what they would reach.
"""

from __future__ import annotations

from errno import ENOSYS, EPERM

from husk.abi.registry.rules import (
    PID_WALL,
    UTS_WALL,
    Arg,
    absent,
    native,
    native_if,
    refuse,
    refused,
    refused_if,
    virtual,
)

PID = Arg(0, "the pid")
NUMA_PID = refuse(EPERM, "acts on another process's pages, which is reserved to debuggers; ptrace is refused too")

ROWS = (
    # Mapping
    native(9, "mmap", "maps the guest's own memory, or a file with no more rights than its descriptor has"),
    native(11, "munmap", "unmaps the guest's own memory"),
    native(25, "mremap", "moves the guest's own mappings"),
    native(10, "mprotect", "changes the guest's own mappings; a shared one gains no right its descriptor lacked"),
    native(12, "brk", "grows or shrinks the guest's own heap"),
    native(216, "remap_file_pages", "rearranges a shared mapping the guest already has"),
    native(26, "msync", "flushes the guest's own mappings"),
    native(27, "mincore", "tells which pages of the guest's own mappings are in memory; Linux hides foreign files"),
    native(28, "madvise", "advice on the guest's own mappings"),
    native(149, "mlock", "locks the guest's own pages, within RLIMIT_MEMLOCK"),
    native(325, "mlock2", "locks the guest's own pages, within RLIMIT_MEMLOCK"),
    native(150, "munlock", "unlocks the guest's own pages"),
    native(151, "mlockall", "locks the guest's own pages, within RLIMIT_MEMLOCK"),
    native(152, "munlockall", "unlocks the guest's own pages"),
    native(462, "mseal", "makes the guest's own mappings unchangeable; husk can still write their contents"),
    native(453, "map_shadow_stack", "maps a shadow stack for a thread of the guest"),
    native(329, "pkey_mprotect", "tags the guest's own mappings with a protection key"),
    native(330, "pkey_alloc", "takes a protection key of the guest's own"),
    native(331, "pkey_free", "gives a protection key back"),
    native(237, "mbind", "places the guest's own pages on memory nodes"),
    native(238, "set_mempolicy", "places the caller's future pages on memory nodes"),
    native(239, "get_mempolicy", "tells where the caller's own pages go"),
    native(450, "set_mempolicy_home_node", "places the guest's own pages on memory nodes"),
    native(256, "migrate_pages", "pid 0 means the caller's own pages", native_if(PID.is_zero()), otherwise=NUMA_PID),
    native(279, "move_pages", "pid 0 means the caller's own pages", native_if(PID.is_zero()), otherwise=NUMA_PID),
    refused(440, "process_madvise", EPERM, "gives advice on another process's memory; ptrace is refused too"),
    refused(
        323,
        "userfaultfd",
        EPERM,
        "a page the guest answers for would stop husk's kernel in the middle of reading an argument",
    ),
    absent(447, "memfd_secret", "husk's kernel could not read arguments from such pages"),
    refused(154, "modify_ldt", ENOSYS, "only 16-bit and 32-bit programs need segments of their own"),
    absent(205, "set_thread_area", "Linux has it on 32-bit x86 only; 64-bit programs use arch_prctl"),
    absent(211, "get_thread_area", "Linux has it on 32-bit x86 only; 64-bit programs use arch_prctl"),
    # Locks and threads' bookkeeping
    native(202, "futex", "waits on the guest's own memory; without a time-out a signal ends it", interruptible=True),
    native(449, "futex_waitv", "waits on several words of the guest's own memory", interruptible=True),
    native(454, "futex_wake", "wakes waiters on the guest's own memory"),
    native(455, "futex_wait", "waits on the guest's own memory", interruptible=True),
    native(456, "futex_requeue", "moves waiters between two words of the guest's own memory"),
    native(273, "set_robust_list", "registers the caller's own list of held locks"),
    virtual(
        274,
        "get_robust_list",
        "names a thread, and would tell an address in a host process",
        native_if(PID_WALL),
        native_if(PID.is_zero()),
    ),
    native(218, "set_tid_address", "registers a word in the caller's own memory"),
    native(334, "rseq", "registers a structure in the caller's own memory"),
    native(324, "membarrier", "orders memory between threads; the host offers the global kind to every user"),
    native(158, "arch_prctl", "sets the calling thread's own FS and GS bases, cpuid faulting and shadow stack"),
    # Clocks
    native(201, "time", "tells the time"),
    native(96, "gettimeofday", "tells the time"),
    native(228, "clock_gettime", "tells the time, or the processor time of a process of the box's user"),
    native(229, "clock_getres", "tells a clock's resolution"),
    native(159, "adjtimex", "reads the clock's state; changing it wants CAP_SYS_TIME, which no guest has"),
    native(305, "clock_adjtime", "reads a clock's state; changing it wants CAP_SYS_TIME, which no guest has"),
    refused(164, "settimeofday", EPERM, "sets the host's clock"),
    native(
        227,
        "clock_settime",
        "of a clock that cannot be set the host says so; others want CAP_SYS_TIME, which no guest has",
        refused_if(EPERM, "sets the host's clock", Arg(0, "the clock").is_zero()),
    ),
    # Timers and sleeping: these give EINTR after any handler, with or without SA_RESTART
    native(35, "nanosleep", "lets the calling thread sleep"),
    native(230, "clock_nanosleep", "lets the calling thread sleep, by a clock of its choice"),
    native(37, "alarm", "sets a timer that signals the caller"),
    native(36, "getitimer", "reads a timer of the caller"),
    native(38, "setitimer", "sets a timer that signals the caller"),
    native(222, "timer_create", "makes a timer that signals the calling process or one of its own threads"),
    native(223, "timer_settime", "sets a timer of the calling process"),
    native(224, "timer_gettime", "reads a timer of the calling process"),
    native(225, "timer_getoverrun", "reads a timer of the calling process"),
    native(226, "timer_delete", "removes a timer of the calling process"),
    # Small facts about the machine
    native(309, "getcpu", "tells which processor the caller runs on"),
    native(318, "getrandom", "gives random bytes", interruptible=True),
    virtual(63, "uname", "names the machine; without a uts namespace that is the host's name", native_if(UTS_WALL)),
    native(99, "sysinfo", "tells uptime, load and memory of the machine, which every local program may know"),
)
