"""Layer abi, registry rows: processes, threads, signals, scheduling, limits and ids.

Data only. husk keeps no process table: fork, wait, groups and sessions are the host kernel's. What names *another*
process is native only where a wall confines the name, or where Linux itself accepts none but the caller's children.
"""

from __future__ import annotations

from errno import EINVAL, EPERM

from husk.abi import numbers
from husk.abi.registry.rules import (
    PID_WALL,
    SIGNAL_WALL,
    TRACE_WALL,
    Arg,
    ArgTest,
    Row,
    absent,
    answered_if,
    carries_cookie,
    is_null,
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


def signal_sender(nr: int, name: str, reason: str) -> Row:
    return native(nr, name, reason, native_if(SIGNAL_WALL), otherwise=UNCONFINED_SIGNAL)


def within_box(nr: int, name: str, reason: str) -> Row:
    return native(nr, name, reason, native_if(TRACE_WALL), otherwise=UNCONFINED_REACH)


def process_named(nr: int, name: str, reason: str, *caller: ArgTest) -> Row:
    """Native inside a pid namespace, and where the arguments name the caller; else husk checks whom they name."""
    return virtual(nr, name, reason, native_if(PID_WALL), native_if(*caller))


CORE_LIMIT = Arg(1, "the resource").is_in(numbers.RLIMIT_CORE)
CORE_STAYS = (
    "the core limit stays 1: with any other, 0 included, a host whose core_pattern is a pipe feeds a guest's memory to "
    "a program of the host's"
)

OWN_PID = Arg(0, "the pid").is_zero()
OWN_PRIORITY = (Arg(0, "which").is_in(numbers.PRIO_PROCESS), Arg(1, "who").is_zero())
OWN_IO_PRIORITY = (Arg(0, "which").is_in(numbers.IOPRIO_WHO_PROCESS), Arg(1, "who").is_zero())

ROWS = (
    # Beginning and ending
    native(
        56,
        "clone",
        "makes a child or thread under the same filter",
        refused_if(EPERM, NEW_NAMESPACE, FLAGS.has_any(numbers.CLONE_NAMESPACES)),
        refused_if(
            EPERM, "husk's tracing of the parent would spread to the child", FLAGS.has_any(numbers.CLONE_PTRACE)
        ),
    ),
    absent(435, "clone3", "its flags lie behind a pointer, which no filter follows; libc falls back to clone"),
    native(57, "fork", "makes a child under the same filter; fork must never see EINTR"),
    native(58, "vfork", "makes a child under the same filter, in the parent's memory until it executes"),
    virtual(59, "execve", "carries a name; husk finds program and interpreter itself and starts its loader instead"),
    virtual(
        322,
        "execveat",
        "carries a name; only husk's own repetition, which executes the loader by descriptor, goes to the host",
        native_if(carries_cookie(5)),
    ),
    native(60, "exit", "ends the calling thread"),
    native(231, "exit_group", "ends the calling process"),
    native(61, "wait4", "waits for the caller's own children", interruptible=True),
    native(247, "waitid", "waits for the caller's own children, pidfds included", interruptible=True),
    # Who am I, and my groups
    native(39, "getpid", "tells the caller's own pid"),
    native(186, "gettid", "tells the caller's own thread id"),
    native(110, "getppid", "tells the caller's own parent"),
    native(111, "getpgrp", "tells the caller's own process group"),
    native(109, "setpgid", "Linux accepts only the caller and its children, and only groups of the same session"),
    native(112, "setsid", "starts a session of the caller's own"),
    process_named(121, "getpgid", "names a process, and would tell about host processes", OWN_PID),
    process_named(124, "getsid", "names a process, and would tell about host processes", OWN_PID),
    # Signals
    virtual(
        13,
        "rt_sigaction",
        "husk installs handlers without SA_RESTART through the resident page, so that no virtual call ends with an "
        "EINTR Linux would not give; husk's own repetition, and a mere question, go to the host",
        native_if(carries_cookie(4)),
        native_if(is_null(1, "the new action")),
    ),
    native(14, "rt_sigprocmask", "blocks signals of the calling thread"),
    native(15, "rt_sigreturn", "restores the calling thread's own registers"),
    native(127, "rt_sigpending", "reads the caller's own pending signals"),
    native(128, "rt_sigtimedwait", "takes one of the caller's own pending signals"),
    native(130, "rt_sigsuspend", "waits for a signal to the caller"),
    native(34, "pause", "waits for a signal to the caller"),
    native(131, "sigaltstack", "names a stack in the caller's own memory"),
    native(219, "restart_syscall", "the host continues a sleep or wait it interrupted itself"),
    signal_sender(62, "kill", "a pid namespace or Landlock's signal scope confines whom it reaches"),
    signal_sender(200, "tkill", "a pid namespace or Landlock's signal scope confines whom it reaches"),
    signal_sender(234, "tgkill", "a pid namespace or Landlock's signal scope confines whom it reaches"),
    signal_sender(129, "rt_sigqueueinfo", "a pid namespace or Landlock's signal scope confines whom it reaches"),
    signal_sender(297, "rt_tgsigqueueinfo", "a pid namespace or Landlock's signal scope confines whom it reaches"),
    signal_sender(
        434, "pidfd_open", "the descriptor serves to wait, to signal and to reach in, and the latter two are confined"
    ),
    signal_sender(424, "pidfd_send_signal", "a pid namespace or Landlock's signal scope confines whom it reaches"),
    # Scheduling: a process of the same user may be changed, and without a pid namespace that includes the host's
    native(24, "sched_yield", "lets other threads run"),
    native(146, "sched_get_priority_max", "tells a constant of a scheduling policy"),
    native(147, "sched_get_priority_min", "tells a constant of a scheduling policy"),
    process_named(142, "sched_setparam", "names a process; a host process of the same user could be slowed", OWN_PID),
    process_named(143, "sched_getparam", "names a process, and would tell about host processes", OWN_PID),
    process_named(
        144, "sched_setscheduler", "names a process; a host process of the same user could be slowed", OWN_PID
    ),
    process_named(145, "sched_getscheduler", "names a process, and would tell about host processes", OWN_PID),
    process_named(148, "sched_rr_get_interval", "names a process, and would tell about host processes", OWN_PID),
    process_named(203, "sched_setaffinity", "names a thread; a host thread of the same user could be moved", OWN_PID),
    process_named(204, "sched_getaffinity", "names a thread, and would tell about host threads", OWN_PID),
    process_named(314, "sched_setattr", "names a process; a host process of the same user could be slowed", OWN_PID),
    process_named(315, "sched_getattr", "names a process, and would tell about host processes", OWN_PID),
    process_named(140, "getpriority", "names processes, groups or a whole user", *OWN_PRIORITY),
    process_named(
        141, "setpriority", "names processes; host processes of the same user could be slowed", *OWN_PRIORITY
    ),
    process_named(
        251, "ioprio_set", "names processes; host processes of the same user could be slowed", *OWN_IO_PRIORITY
    ),
    process_named(252, "ioprio_get", "names processes, groups or a whole user", *OWN_IO_PRIORITY),
    # Limits and accounts
    native(97, "getrlimit", "reads the caller's own limits"),
    native(
        160,
        "setrlimit",
        "lowers the caller's own limits; the hard ones husk set cannot be raised",
        answered_if(CORE_STAYS, Arg(0, "the resource").is_in(numbers.RLIMIT_CORE)),
    ),
    virtual(
        302,
        "prlimit64",
        "names a process; a host process of the same user could be limited",
        virtual_if(CORE_LIMIT),  # setting that one does nothing (see setrlimit), and the old value must be told
        native_if(PID_WALL),
        native_if(OWN_PID),
    ),
    native(98, "getrusage", "reads the accounts of the caller and its children"),
    native(100, "times", "reads the accounts of the caller and its children"),
    # User ids and capabilities: a guest has no capability, so it can only move among the ids it has
    native(102, "getuid", "tells the caller's own user id"),
    native(104, "getgid", "tells the caller's own group id"),
    native(107, "geteuid", "tells the caller's own user id"),
    native(108, "getegid", "tells the caller's own group id"),
    native(118, "getresuid", "tells the caller's own user ids"),
    native(120, "getresgid", "tells the caller's own group ids"),
    native(115, "getgroups", "tells the caller's own groups"),
    native(105, "setuid", "without CAP_SETUID Linux accepts only the ids the caller has"),
    native(106, "setgid", "without CAP_SETGID Linux accepts only the ids the caller has"),
    native(113, "setreuid", "without CAP_SETUID Linux accepts only the ids the caller has"),
    native(114, "setregid", "without CAP_SETGID Linux accepts only the ids the caller has"),
    native(117, "setresuid", "without CAP_SETUID Linux accepts only the ids the caller has"),
    native(119, "setresgid", "without CAP_SETGID Linux accepts only the ids the caller has"),
    native(122, "setfsuid", "without CAP_SETUID Linux accepts only the ids the caller has"),
    native(123, "setfsgid", "without CAP_SETGID Linux accepts only the ids the caller has"),
    native(116, "setgroups", "wants CAP_SETGID, which no guest has, so Linux answers EPERM"),
    native(125, "capget", "reads capability sets, all of them empty inside"),
    native(126, "capset", "can only drop capabilities, and a guest has none"),
    # The process as a whole
    native(
        157,
        "prctl",
        "the listed options concern the calling thread or process only",
        native_if(OPTION.is_in(numbers.PRCTL_ALLOWED)),
        answered_if(
            "an undumpable process hides its memory from husk's kernel, which has to read arguments there",
            OPTION.is_in(numbers.PR_SET_DUMPABLE),
            Arg(1, "the value").is_in(numbers.DUMPABLE_VALUES),
        ),
        refused_if(EINVAL, "Linux knows no such value either", OPTION.is_in(numbers.PR_SET_DUMPABLE), quiet=True),
        native_if(OPTION.is_in(numbers.PR_SET_MM), Arg(1, "the field").is_in(numbers.PR_SET_MM_MAPS)),
        refused_if(EPERM, "single fields want CAP_SYS_RESOURCE, which no guest has", OPTION.is_in(numbers.PR_SET_MM)),
        otherwise=refuse(
            EINVAL,
            "not on the list of options known to concern only the caller; the answer is that of a kernel without it",
        ),
    ),
    native(
        135,
        "personality",
        "the listed bits change the caller's own address layout, uname and time-outs",
        native_if(PERSONA.is_in(numbers.PERSONALITY_QUERY)),
        native_if(PERSONA.within(numbers.PERSONALITY_ALLOWED)),
        otherwise=refuse(EPERM, "would make page zero mappable or data executable"),
    ),
    native(
        272,
        "unshare",
        "the listed flags stop sharing with the caller's own threads",
        native_if(FLAGS.within(numbers.UNSHARE_ALLOWED)),
        refused_if(EPERM, NEW_NAMESPACE, FLAGS.has_any({**numbers.CLONE_NAMESPACES, "CLONE_NEWTIME": 0x80})),
        otherwise=refuse(EINVAL, "no flag that Linux lets one stop sharing"),
    ),
    native(317, "seccomp", "a further filter can only narrow; a second listener is refused by Linux itself (EBUSY)"),
    # Reaching into other processes
    # Another guest's memory, registers or descriptors: what husk judged there was copied first, a tracer stops a call
    # only before the filter looks at it, and a thread or a socket could change or pass the same
    within_box(
        101,
        "ptrace",
        "traces a process of the same box; what husk has to stop a thread for itself (execve, chdir, taking a "
        "terminal) fails with EPERM while another guest traces it",
    ),
    within_box(310, "process_vm_readv", "reads the memory of a process of the same box"),
    within_box(311, "process_vm_writev", "writes the memory of a process of the same box"),
    within_box(312, "kcmp", "compares what two processes of the same box share"),
    within_box(438, "pidfd_getfd", "takes a descriptor out of a process of the same box"),
    refused(448, "process_mrelease", EPERM, "frees the memory of another process, which is the host's business"),
    refused(308, "setns", EPERM, "enters a namespace other than the box's"),
)
