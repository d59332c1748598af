"""sandbox, doctor: what husk wants from a host, one row for each mechanism: data and sentences only.

`husk doctor` prints these rows with what its probes found; `husk run` says the same sentences when it refuses.
"""

from __future__ import annotations

# How much husk needs it. minimum: without it husk does not run (some of them can be weakened). full: without it husk
# runs, and one wall or ability is missing. better: nothing is missing, something is slower or coarser.
MINIMUM, FULL, BETTER = "minimum", "full", "better"


class Row:
    """One mechanism: `without` is what its absence means, `remedy` what to do about it."""

    __slots__ = ("name", "need", "remedy", "what", "without")

    def __init__(self, name: str, need: str, what: str, without: str, remedy: str) -> None:
        self.name, self.need, self.what, self.without, self.remedy = name, need, what, without, remedy

    def sentence(self) -> str:
        return f"husk needs {self.what}, which this host does not give: {self.without}; {self.remedy}."


_NAMESPACES = "allow unprivileged user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, "
_NAMESPACES += "kernel.apparmor_restrict_unprivileged_userns; in a container, a profile that allows unshare(2) and "
_NAMESPACES += "mount(2)), or go without: Landlock then stands alone"
_KERNEL = "use Linux 5.19 or later"

ROWS = (
    Row("machine", MINIMUM, "an x86-64 machine", "husk knows no other processor", "use one"),
    Row("kernel", MINIMUM, "Linux 5.19", "it is the first whose seccomp notifications cannot be broken off", _KERNEL),
    Row("proc", MINIMUM, "/proc", "husk cannot look at its guests", "mount it, so that a process can be "
        "looked at by who started it"),
    Row("seccomp-listener", MINIMUM, "seccomp user notification", "no call can be answered by husk",
        _KERNEL + " with CONFIG_SECCOMP_FILTER; in a container, let its profile allow seccomp(2)"),
    Row("seccomp-alone", MINIMUM, "a place without another seccomp listener", "this process tree already has one "
        "(another husk, a container runtime or an agent's sandbox), and Linux allows only one", "run husk outside it"),
    Row("seccomp-killable", MINIMUM, "seccomp WAIT_KILLABLE_RECV", "a signal could break a call off after husk acted "
        "on it", _KERNEL),
    Row("seccomp-addfd", MINIMUM, "seccomp ADDFD", "husk cannot put a descriptor into a guest's table", _KERNEL),
    Row("seccomp-sync", BETTER, "SYNC_WAKE_UP", "each virtual call takes several times as long", "use Linux 6.6"),
    Row("landlock", MINIMUM, "Landlock", "it is the wall that lets a guest execute nothing but husk's loader, and it "
        "cannot be weakened", "use Linux 5.13 or later with `landlock` among its active security modules (boot "
        "parameter lsm=), and in a container a profile that allows landlock_create_ruleset(2)"),
    Row("signals", MINIMUM, "a wall for signals", "neither a pid namespace nor Landlock's signal scope (ABI 6, Linux "
        "6.12) keeps a guest's signals inside", "allow user namespaces, use a newer kernel, or say --weaken signals: "
        "no guest may then send a signal"),
    Row("landlock-scopes", FULL, "Landlock's signal and abstract socket scopes", "only namespaces keep signals and "
        "abstract sockets inside", "use Linux 6.12 or later"),
    Row("signal-groups", BETTER, "Landlock's signal scope for process groups", "a process group that owns a descriptor "
        "gets its signals outside the scope too (CVE-2026-72183); where Landlock stands alone husk lets no guest make "
        "one, nor join the reaper's", "use Linux 6.12.101, 6.18.40, 7.1.5 or later"),
    Row("user", MINIMUM, "another user for the guest", "husk was started by root but may not run the guest as another "
        "user and still look at it (that takes CAP_SETUID, CAP_SETGID and, without user namespaces, CAP_SYS_PTRACE)",
        "start husk as an ordinary user, give it these (docker run --cap-add SYS_PTRACE), or say --weaken user: the "
        "guest then keeps root's user id, without any capability"),
    Row("ptrace", MINIMUM, "tracing a descendant", "husk cannot start programs in its guests",
        "set kernel.yama.ptrace_scope to 0 or 1 (2 will do where there are user namespaces); in a container, allow "
        "ptrace(2)"),
    Row("memory", MINIMUM, "reading a descendant's memory", "husk cannot see what its guests ask for",
        "set kernel.yama.ptrace_scope to 0 or 1; in a container, allow process_vm_readv(2) and process_vm_writev(2)"),
    Row("new-code", MINIMUM, "memory that is written first and executed then", "husk cannot put its few instructions "
        "into its guests", "start it without PR_SET_MDWE (in a systemd unit, MemoryDenyWriteExecute=no), and where a "
        "security module forbids it (SELinux's execmem), allow it to husk"),
    Row("user-namespace", FULL, "user namespaces", "none of the other namespaces can be had either", _NAMESPACES),
    Row("mount-namespace", FULL, "mount namespaces", "a name that slips past the filter meets Landlock, not an empty "
        "root", _NAMESPACES),
    Row("pid-namespace", FULL, "pid namespaces", "Landlock's signal scope keeps signals inside, but a guest can tell "
        "which process ids exist", _NAMESPACES),
    Row("net-namespace", FULL, "network namespaces", "husk makes every network socket for its guests, which "
        "is slower, and maps their loopback to random ports of the host's", _NAMESPACES),
    Row("ipc-namespace", FULL, "ipc namespaces", "guests have no System V IPC and no message queues", _NAMESPACES),
    Row("uts-namespace", FULL, "uts namespaces", "husk must answer uname(2) itself, which is slower", _NAMESPACES),
    Row("cgroup-namespace", FULL, "cgroup namespaces", "guests could tell which control group they are in",
        _NAMESPACES),
    Row("pidfd-getfd", FULL, "taking a descendant's descriptor", "guests cannot bind or connect Unix sockets by name, "
        "nor watch files with inotify",
        "in a container, give it CAP_SYS_PTRACE or allow pidfd_getfd(2)"),
    Row("pidfd-thread", FULL, "taking the descriptor of any thread", "a thread with a table of descriptors of "
        "its own, or whose process's first thread has ended, cannot bind or connect Unix sockets by name, nor watch "
        "files with inotify", "use Linux 6.9 or later"),
    Row("diagnosis", FULL, "the host's socket diagnosis", "without namespaces, and with rules for the network, guests' "
        "TCP connections to their own loopback are refused", "let the kernel load its modules inet_diag and tcp_diag"),
    Row("cgroup", BETTER, "a delegated control group (v2) with memory and pids", "limits on memory and on the sum of "
        "processor time are kept by looking, a moment late", "start husk where the group above its own is yours and "
        "hands down memory and pids, as systemd-run --user --scope -p Delegate=yes husk … does"),
    Row("state", MINIMUM, "a place for the box's files", "there is nowhere to keep what guests write", "set HUSK_STATE "
        "to a directory of yours on a file system that is not mounted noexec"),
    Row("tmpfile", BETTER, "O_TMPFILE in the state directory", "guests' unnamed files have a name on the host for a "
        "while", "set HUSK_STATE to a directory on ext4, xfs, btrfs or tmpfs"),
    Row("links", BETTER, "hard links in the state directory", "an unnamed file of a guest cannot get a name later",
        "set HUSK_STATE to a directory on another file system"),
    Row("clone", BETTER, "shared blocks (FICLONE) in the state directory", "changing a file copies all of it first",
        "set HUSK_STATE to a directory on btrfs or xfs"),
    Row("attributes", BETTER, "extended attributes in the state directory", "nothing today; the store may use them",
        "set HUSK_STATE to a directory on ext4, xfs or btrfs"),
    Row("immutable", BETTER, "the immutable flag in the state directory", "stored files are protected by their "
        "permissions alone", "only root on ext4, xfs or btrfs can set it"),
    Row("box", MINIMUM, "a box that runs", "all mechanisms are there one by one, but not together", "the detail says "
        "what failed; please report it"),
)  # fmt: skip

BY_NAME = {row.name: row for row in ROWS}

# What each row rests on. Where that is missing its probe would only find the same fault again, under a wrong name.
_USER = {f"{kind}-namespace": ("user-namespace",) for kind in ("mount", "pid", "net", "ipc", "uts", "cgroup")}
_STATE = dict.fromkeys(("tmpfile", "links", "clone", "attributes", "immutable"), ("state",))
RESTS_ON: dict[str, tuple[str, ...]] = {
    "seccomp-addfd": ("seccomp-listener", "seccomp-alone", "seccomp-killable"),
    "seccomp-sync": ("seccomp-listener", "seccomp-alone"),
    "landlock-scopes": ("landlock",),
    "signal-groups": ("landlock", "landlock-scopes"),
    "pidfd-thread": ("pidfd-getfd",),
    "user": ("proc",),
    "user-namespace": ("proc",),
    "cgroup": ("proc",),
    # Not those that can be weakened: the probe then does.
    "box": tuple(row.name for row in ROWS if row.need == MINIMUM and row.name not in ("user", "signals", "box")),
    **_USER,
    **_STATE,
}
