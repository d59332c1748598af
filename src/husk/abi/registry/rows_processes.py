"""Layer abi, registry rows: processes, threads, signals, scheduling, limits and ids.

Data only. husk keeps no process table: fork, wait, groups and sessions are the host kernel's. A call that names
*another* process is native only where a wall confines it, or where Linux itself accepts only the caller's children.
"""

from __future__ import annotations

from errno import EINVAL, EPERM

from husk.abi import numbers
from husk.abi.registry.rules import (
    ALWAYS,
    DIRECT_NAMES,
    IN_C,
    ONE_USER,
    PID_WALL,
    RESTARTS,
    SIGNAL_WALL,
    TRACE_WALL,
    Arg,
    ArgTest,
    Row,
    answered_if,
    carries_cookie,
    is_null,
    made_at,
    native,
    native_if,
    refuse,
    refused,
    refused_if,
    virtual,
    virtual_if,
)

NEW_NAMESPACE = "a new namespace would bring capabilities and mounts of its own"

FLAGS = Arg(0, "flags")
OPTION = Arg(0, "the option")
PERSONA = Arg(0, "the persona")

UNCONFINED_SIGNAL = refuse(
    EPERM, "without a pid namespace or Landlock's signal scope it would reach every host process of the same user"
)

UNCONFINED_REACH = refuse(EPERM, "without Landlock it would reach every host process of the same user")


def signal_sender(nr: int, signature: str, reason: str) -> Row:
    return native(nr, signature, reason, native_if(SIGNAL_WALL), otherwise=UNCONFINED_SIGNAL)


def within_box(nr: int, signature: str, reason: str) -> Row:
    return native(nr, signature, reason, native_if(TRACE_WALL), otherwise=UNCONFINED_REACH)


def process_named(nr: int, signature: str, reason: str, *caller: ArgTest) -> Row:
    """Native inside a pid namespace, and where arguments name the caller; else husk checks the process they name."""
    return virtual("processes", nr, signature, reason, native_if(PID_WALL), native_if(*caller))


def identity(nr: int, signature: str, reason: str) -> Row:
    """Native, but in an image, whose root may become another user: there husk keeps ids for each process."""
    return virtual("set_ids", nr, signature, reason, native_if(ONE_USER))


CORE_LIMIT = Arg(1, "the resource").is_in(numbers.RLIMIT_CORE)
OWN_CORE_LIMIT = Arg(0, "the resource").is_in(numbers.RLIMIT_CORE)
CORE_STAYS = (
    "that of core files is only shown as set, or a host with a pipe as core_pattern gives a guest's memory to a program"
)

LOCKS_LIMIT = Arg(1, "the resource").is_in(numbers.RLIMIT_LOCKS)
OWN_LOCKS_LIMIT = Arg(0, "the resource").is_in(numbers.RLIMIT_LOCKS)
LOCKS_STAY = (
    "husk knows the processes of a box by their limit on file locks, which Linux does not use; guests see it as "
    "unlimited"
)

OWN_PID = Arg(0, "the pid").is_zero()
OWN_PRIORITY = (Arg(0, "which").is_in(numbers.PRIO_PROCESS), Arg(1, "who").is_zero())
OWN_IO_PRIORITY = (Arg(0, "which").is_in(numbers.IOPRIO_WHO_PROCESS), Arg(1, "who").is_zero())

OWN_IDS = (
    "a guest may only move among the ids it has; others have no place in its user namespace, and the host says EINVAL "
    "for them where Linux says EPERM"
)

ROWS = (
    # Beginning and ending
    native(
        56,
        "clone(clone_flags: CLONE_*, newsp: addr, parent_tidptr: *int, child_tidptr: *int, tls: addr)",
        "makes a child or thread under the same filter",
        refused_if(EPERM, NEW_NAMESPACE, FLAGS.has_any(numbers.CLONE_NAMESPACES)),
        refused_if(
            EPERM, "husk's tracing of the parent would spread to the child", FLAGS.has_any(numbers.CLONE_PTRACE)
        ),
    ),
    virtual("processes", 435, "clone3(uargs: *clone_args, size: size)",
            "its flags lie behind a pointer: the caller's thread makes a clone with what husk has copied. Threads and "
            "vfork get ENOSYS, and libc falls back to clone, which is native"),
    native(57, "fork()", "makes a child under the same filter; fork must never see EINTR"),
    native(58, "vfork()", "makes a child under the same filter, in the parent's memory until it executes"),
    virtual("execve", 59, "execve(filename: path, argv: *argv, envp: *envp)",
            "carries a name; husk finds program and interpreter itself and starts its loader instead",
            # In the box's own root, where nothing but the loader can be executed (docs/design/026-direct-names.md).
            native_if(DIRECT_NAMES, made_at("the resident region's", numbers.RESIDENT_DIRECT))),
    virtual(
        "execve",
        322,
        "execveat(fd: dirfd, filename: path, argv: *argv, envp: *envp, flags: AT_*)",
        "carries a name; only husk's own repetition, which executes the loader by descriptor, goes to the host",
        native_if(carries_cookie(5)),
    ),
    native(60, "exit(error_code: int)", "ends the calling thread"),
    native(231, "exit_group(error_code: int)", "ends the calling process"),
    native(61, "wait4(upid: pid, stat_addr: *int, options: wait, ru: *rusage)",
           "waits for the caller's own children", eintr=RESTARTS),
    native(247, "waitid(which: P_*, upid: pid, infop: *siginfo, options: wait, ru: *rusage)",
           "waits for the caller's own children, pidfds included", eintr=RESTARTS),
    # Who am I, and my groups
    native(39, "getpid()", "tells the caller's own pid"),
    native(186, "gettid()", "tells the caller's own thread id"),
    native(110, "getppid()", "tells the pid of the caller's parent"),
    native(111, "getpgrp()", "tells the caller's own process group"),
    virtual(
        "processes",
        109,
        "setpgid(pid: pid, pgid: pid)",
        "Linux accepts only the caller and its children, and only groups of the same session; one of these is the "
        "reaper's, which no guest may join where only Landlock keeps signals from it",
        native_if(PID_WALL),
        native_if(Arg(1, "the group").is_zero()),
    ),
    native(112, "setsid()", "starts a new session for the caller"),
    process_named(121, "getpgid(pid: pid)",
                  "names a process, and would tell about host processes", OWN_PID),
    process_named(124, "getsid(pid: pid)",
                  "names a process, and would tell about host processes", OWN_PID),
    # Signals
    virtual(
        IN_C,
        13,
        "rt_sigaction(sig: signal, act: *sigaction, oact: *sigaction, sigsetsize: size)",
        "husk installs handlers without SA_RESTART through the resident page, so that no virtual call ends with an "
        "EINTR Linux would not give; questions about rare signals go to the host",
        native_if(carries_cookie(4)),
        native_if(made_at("the resident region's", numbers.RESIDENT_SIGACTION)),
        virtual_if(Arg(0, "the signal").is_in(numbers.SIGNALS_ASKED_ABOUT)),
        native_if(is_null(1, "the new action")),
    ),
    native(14, "rt_sigprocmask(how: SIG_*, nset: *sigset, oset: *sigset, sigsetsize: size)",
           "blocks signals of the calling thread"),
    native(15, "rt_sigreturn()", "restores the calling thread's own registers"),
    native(127, "rt_sigpending(uset: *sigset, sigsetsize: size)", "reads the caller's own pending signals"),
    native(128, "rt_sigtimedwait(uthese: *sigset, uinfo: *siginfo, uts: *timespec, sigsetsize: size)",
           "takes one of the caller's own pending signals", eintr=ALWAYS),
    native(130, "rt_sigsuspend(unewset: *sigset, sigsetsize: size)", "waits for a signal to the caller", eintr=ALWAYS),
    native(34, "pause()", "waits for a signal to the caller", eintr=ALWAYS),
    native(131, "sigaltstack(uss: *sigaltstack, uoss: *sigaltstack)", "names a stack in the caller's own memory"),
    native(219, "restart_syscall()", "the host continues a sleep or wait it interrupted itself", eintr=ALWAYS),
    signal_sender(62, "kill(pid: pid, sig: signal)",
                  "a pid namespace or Landlock's signal scope keeps it inside the box"),
    signal_sender(200, "tkill(pid: pid, sig: signal)",
                  "a pid namespace or Landlock's signal scope keeps it inside the box"),
    signal_sender(234, "tgkill(tgid: pid, pid: pid, sig: signal)",
                  "a pid namespace or Landlock's signal scope keeps it inside the box"),
    signal_sender(129, "rt_sigqueueinfo(pid: pid, sig: signal, uinfo: *siginfo)",
                  "a pid namespace or Landlock's signal scope keeps it inside the box"),
    signal_sender(297, "rt_tgsigqueueinfo(tgid: pid, pid: pid, sig: signal, uinfo: *siginfo)",
                  "a pid namespace or Landlock's signal scope keeps it inside the box"),
    signal_sender(434, "pidfd_open(pid: pid, flags: PIDFD_*)",
                  "the descriptor serves to wait, to signal and to reach in; walls confine the latter two"),
    signal_sender(424, "pidfd_send_signal(pidfd: fd, sig: signal, info: *siginfo, flags: uint)",
                  "a pid namespace or Landlock's signal scope keeps it inside the box; a directory of /proc, which a "
                  "placeholder stands for, is no pidfd"),
    # Scheduling: a process of the same user may be changed, and without a pid namespace that includes the host's
    native(24, "sched_yield()", "lets other threads run"),
    native(146, "sched_get_priority_max(policy: SCHED_*)", "tells a constant of a scheduling policy"),
    native(147, "sched_get_priority_min(policy: SCHED_*)", "tells a constant of a scheduling policy"),
    process_named(142, "sched_setparam(pid: pid, param: *sched_param)",
                  "names a process; a host process of the same user could be slowed", OWN_PID),
    process_named(143, "sched_getparam(pid: pid, param: *sched_param)",
                  "names a process, and would tell about host processes", OWN_PID),
    process_named(144, "sched_setscheduler(pid: pid, policy: SCHED_*, param: *sched_param)",
                  "names a process; a host process of the same user could be slowed", OWN_PID),
    process_named(145, "sched_getscheduler(pid: pid)",
                  "names a process, and would tell about host processes", OWN_PID),
    process_named(148, "sched_rr_get_interval(pid: pid, interval: *timespec)",
                  "names a process, and would tell about host processes", OWN_PID),
    process_named(203, "sched_setaffinity(pid: pid, len: uint, user_mask_ptr: *ulong)",
                  "names a thread; a host thread of the same user could be moved", OWN_PID),
    process_named(204, "sched_getaffinity(pid: pid, len: uint, user_mask_ptr: *ulong)",
                  "names a thread, and would tell about host threads", OWN_PID),
    process_named(314, "sched_setattr(pid: pid, uattr: *sched_attr, flags: uint)",
                  "names a process; a host process of the same user could be slowed", OWN_PID),
    process_named(315, "sched_getattr(pid: pid, uattr: *sched_attr, usize: uint, flags: uint)",
                  "names a process, and would tell about host processes", OWN_PID),
    process_named(140, "getpriority(which: PRIO_*, who: int)",
                  "names processes, groups or a whole user", *OWN_PRIORITY),
    process_named(141, "setpriority(which: PRIO_*, who: int, niceval: int)",
                  "names processes; host processes of the same user could be slowed", *OWN_PRIORITY),
    process_named(251, "ioprio_set(which: IOPRIO_WHO_*, who: int, ioprio: int)",
                  "names processes; host processes of the same user could be slowed", *OWN_IO_PRIORITY),
    process_named(252, "ioprio_get(which: IOPRIO_WHO_*, who: int)",
                  "names processes, groups or a whole user", *OWN_IO_PRIORITY),
    # Limits and accounts
    native(
        97,
        "getrlimit(resource: RLIMIT_*, rlim: *rlimit)",
        "reads the caller's own limits",
        virtual_if(OWN_LOCKS_LIMIT),  # see setrlimit
        virtual_if(OWN_CORE_LIMIT),
        family="processes",
    ),
    native(
        160,
        "setrlimit(resource: RLIMIT_*, rlim: *rlimit)",
        "lowers the caller's own limits; the hard ones husk set cannot be raised; " + CORE_STAYS,
        virtual_if(OWN_CORE_LIMIT),
        answered_if(LOCKS_STAY, OWN_LOCKS_LIMIT),
        family="processes",
    ),
    virtual(
        "processes",
        302,
        "prlimit64(pid: pid, resource: RLIMIT_*, new_rlim: *rlimit64, old_rlim: *rlimit64)",
        "names a process; a host process of the same user could be limited",
        virtual_if(CORE_LIMIT),  # setting that one does nothing (see setrlimit), and the old value must be told
        virtual_if(LOCKS_LIMIT),  # likewise
        native_if(PID_WALL),
        native_if(OWN_PID),
    ),
    native(98, "getrusage(who: RUSAGE_*, ru: *rusage)", "reads the accounts of the caller and its children"),
    native(100, "times(tbuf: *tms)", "reads the accounts of the caller and its children"),
    # User ids and capabilities: a guest has no capability, so it can only move among the ids it has. Root of an image
    # becomes other users for husk alone (cred/virtual_ids).
    identity(102, "getuid()",
             "tells the caller's own user id"),
    identity(104, "getgid()",
             "tells the caller's own group id"),
    identity(107, "geteuid()",
             "tells the caller's own user id"),
    identity(108, "getegid()",
             "tells the caller's own group id"),
    identity(118, "getresuid(ruidp: *uid, euidp: *uid, suidp: *uid)",
             "tells the caller's own user ids"),
    identity(120, "getresgid(rgidp: *gid, egidp: *gid, sgidp: *gid)",
             "tells the caller's own group ids"),
    identity(115, "getgroups(gidsetsize: int, grouplist: *gid)",
             "tells the caller's own groups"),
    virtual("set_ids", 105, "setuid(uid: uid)", OWN_IDS),
    virtual("set_ids", 106, "setgid(gid: gid)", OWN_IDS),
    virtual("set_ids", 113, "setreuid(ruid: uid, euid: uid)", OWN_IDS),
    virtual("set_ids", 114, "setregid(rgid: gid, egid: gid)", OWN_IDS),
    virtual("set_ids", 117, "setresuid(ruid: uid, euid: uid, suid: uid)", OWN_IDS),
    virtual("set_ids", 119, "setresgid(rgid: gid, egid: gid, sgid: gid)", OWN_IDS),
    identity(122, "setfsuid(uid: uid)",
             "without CAP_SETUID Linux accepts only the ids the caller has"),
    identity(123, "setfsgid(gid: gid)",
             "without CAP_SETGID Linux accepts only the ids the caller has"),
    identity(116, "setgroups(gidsetsize: int, grouplist: *gid)",
             "wants CAP_SETGID, which no guest has, so Linux answers EPERM"),
    identity(125, "capget(header: *cap_user_header, dataptr: *cap_user_data)",
             "reads capability sets, all of them empty in a box"),
    identity(126, "capset(header: *cap_user_header, data: *cap_user_data)",
             "can only drop capabilities, and a guest has none"),
    # The process as a whole
    native(
        157,
        "prctl(option: PR_*, arg2: ulong, arg3: ulong, arg4: ulong, arg5: ulong)",
        "the listed options concern the calling thread or process only; PR_SET_DUMPABLE is only shown as set: husk has "
        "to read arguments in the guest's memory",
        native_if(ONE_USER, OPTION.is_in(numbers.PR_KEEPCAPS)),
        virtual_if(OPTION.is_in(numbers.PR_KEEPCAPS)),
        virtual_if(OPTION.is_in(numbers.PR_GET_DUMPABLE)),
        virtual_if(OPTION.is_in(numbers.PR_SET_DUMPABLE), Arg(1, "the value").is_in(numbers.DUMPABLE_VALUES)),
        native_if(OPTION.is_in(numbers.PRCTL_ALLOWED)),
        refused_if(EINVAL, "Linux knows no such value either", OPTION.is_in(numbers.PR_SET_DUMPABLE), quiet=True),
        native_if(OPTION.is_in(numbers.PR_SET_MM), Arg(1, "the field").is_in(numbers.PR_SET_MM_MAPS)),
        refused_if(EPERM, "single fields want CAP_SYS_RESOURCE, which no guest has", OPTION.is_in(numbers.PR_SET_MM)),
        otherwise=refuse(
            EINVAL,
            "not on the list of options known to concern only the caller; the answer is that of a kernel without it",
        ),
        family="processes",
    ),
    native(
        135,
        "personality(personality: persona)",
        "the listed bits change the caller's own address layout, uname and time-outs",
        native_if(PERSONA.is_in(numbers.PERSONALITY_QUERY)),
        # The host keeps a mark there for threads that have restricted themselves with Landlock.
        virtual_if(PERSONA.within(numbers.PERSONALITY_ALLOWED)),
        otherwise=refuse(EPERM, "would make page zero mappable or data executable"),
        family="restricting",
    ),
    native(
        272,
        "unshare(unshare_flags: CLONE_*)",
        "the listed flags stop sharing with the caller's own threads",
        native_if(FLAGS.within(numbers.UNSHARE_ALLOWED)),
        refused_if(EPERM, NEW_NAMESPACE, FLAGS.has_any({**numbers.CLONE_NAMESPACES, "CLONE_NEWTIME": 0x80})),
        otherwise=refuse(EINVAL, "not a flag of unshare"),
    ),
    native(317, "seccomp(op: SECCOMP_*, flags: uint, uargs: buf)",
           "a further filter can only narrow; a second listener is refused by Linux itself (EBUSY)"),
    # Reaching into other processes
    # Safe with another guest's memory, registers or descriptors: husk copies arguments before it judges them, a tracer
    # stops a call only before the filter looks at it, and threads and sockets can change or pass the same things
    within_box(101, "ptrace(request: PTRACE_*, pid: pid, addr: addr, data: addr)",
               "traces a process of the same box; calls for which husk itself stops a thread (execve, chdir, taking "
               "a terminal) fail with EPERM while another guest traces that thread"),
    within_box(310,
               "process_vm_readv(pid: pid, lvec: *iovec, liovcnt: ulong, rvec: *iovec, riovcnt: ulong, flags: ulong)",
               "reads the memory of a process of the same box"),
    within_box(311,
               "process_vm_writev(pid: pid, lvec: *iovec, liovcnt: ulong, rvec: *iovec, riovcnt: ulong, flags: ulong)",
               "writes the memory of a process of the same box"),
    within_box(312, "kcmp(pid1: pid, pid2: pid, type: KCMP_*, idx1: ulong, idx2: ulong)",
               "compares what two processes of the same box share"),
    within_box(438, "pidfd_getfd(pidfd: fd, fd: fd, flags: uint)",
               "takes a descriptor out of a process of the same box"),
    refused(448, "process_mrelease(pidfd: fd, flags: uint)", EPERM,
            "frees the memory of another process, which is left to the host"),
    refused(308, "setns(fd: fd, flags: CLONE_*)", EPERM, "enters a namespace other than the box's"),
)

# The loader's question to husk's kernel: not a call of Linux, so it stands apart from the rows.
HUSK_CALL_ROW = virtual("execve", numbers.HUSK_CALL, "husk_call(op: int, buf: buf, size: size, fd: fd)",
                        "the loader asks for the program it has to map; anyone else gets ENOSYS")
