"""Layer abi, registry rows: calls that administer the host, watch it, or that Linux itself no longer has.

Data only. All refused, a few of them only after Linux's own checks. EPERM where Linux would answer so to a user without
privileges; ENOSYS where callers know how to do without, or where Linux never had the call.
"""

from __future__ import annotations

from errno import EACCES, ENOSYS, EOPNOTSUPP, EPERM

from husk.abi.registry.rules import absent, native, refused, virtual

ROWS = (
    # Mounts
    virtual(165, "mount", "refused after its arguments were looked at: a box's mounts are chosen from outside"),
    virtual(166, "umount2", "refused after its arguments were looked at: a box's mounts are chosen from outside"),
    refused(155, "pivot_root", EPERM, "changes the mount tree; a box's mounts are chosen from outside"),
    virtual(428, "open_tree", "opens a path as O_PATH does; taking a mount in hand is refused"),
    refused(467, "open_tree_attr", EPERM, "takes a piece of the host's mount tree in hand"),
    refused(429, "move_mount", EPERM, "attaches mounts in the host's mount tree"),
    refused(430, "fsopen", EPERM, "begins a new host mount"),
    virtual(431, "fsconfig", "no descriptor of a file system being made can exist while fsopen is refused"),
    refused(432, "fsmount", EPERM, "makes a new host mount"),
    refused(433, "fspick", EPERM, "reconfigures an existing host mount"),
    virtual(442, "mount_setattr", "refused after its arguments were looked at: it changes flags of mounts"),
    absent(457, "statmount", "describes the host's mounts; callers fall back to /proc/self/mountinfo"),
    absent(458, "listmount", "lists the host's mounts; callers fall back to /proc/self/mountinfo"),
    absent(470, "listns", "lists the host's namespaces; new in Linux 6.19"),
    # Security modules of the host
    refused(
        444,
        "landlock_create_ruleset",
        EOPNOTSUPP,
        "its rules judge host paths, but husk opens a guest's files for it: it would promise more than it keeps",
        quiet=True,
    ),
    refused(445, "landlock_add_rule", EOPNOTSUPP, "no ruleset can exist, see landlock_create_ruleset", quiet=True),
    refused(446, "landlock_restrict_self", EOPNOTSUPP, "no ruleset can exist, see landlock_create_ruleset", quiet=True),
    absent(459, "lsm_get_self_attr", "shows the labels the host's security modules give the box"),
    refused(460, "lsm_set_self_attr", ENOSYS, "changes the labels the host's security modules give the box"),
    absent(461, "lsm_list_modules", "lists the host's security modules"),
    refused(248, "add_key", ENOSYS, "key rings outlive the box and are shared by all processes of the host user"),
    refused(
        249, "request_key", ENOSYS, "shares key rings with all processes of the host user, and runs a host program"
    ),
    refused(250, "keyctl", ENOSYS, "key rings outlive the box and are shared by all processes of the host user"),
    # Watching and tracing the host
    refused(298, "perf_event_open", EACCES, "measures the host's kernel; hardened kernels give the same answer"),
    refused(321, "bpf", EPERM, "loads programs into the host's kernel"),
    refused(103, "syslog", EPERM, "reads the host kernel's messages"),
    refused(212, "lookup_dcookie", ENOSYS, "turns a profiler's cookie into a host path; gone since Linux 6.7"),
    native(335, "uretprobe", "only the kernel's own trampoline may make it, when the host probes a program"),
    native(336, "uprobe", "only the kernel's own trampoline may make it, when the host probes a program"),
    # Running the machine
    refused(163, "acct", EPERM, "switches the host's process accounting"),
    refused(167, "swapon", EPERM, "administers the host's swap"),
    refused(168, "swapoff", EPERM, "administers the host's swap"),
    refused(169, "reboot", EPERM, "restarts or stops the host"),
    refused(246, "kexec_load", EPERM, "loads another kernel on the host"),
    refused(320, "kexec_file_load", EPERM, "loads another kernel on the host"),
    refused(175, "init_module", EPERM, "loads code into the host's kernel"),
    refused(313, "finit_module", EPERM, "loads code into the host's kernel"),
    refused(176, "delete_module", EPERM, "removes code from the host's kernel"),
    refused(170, "sethostname", EPERM, "the box's host name is chosen from outside"),
    refused(171, "setdomainname", EPERM, "the box's host name is chosen from outside"),
    refused(172, "iopl", EPERM, "gives access to the machine's ports"),
    refused(173, "ioperm", EPERM, "gives access to the machine's ports"),
    refused(153, "vhangup", EPERM, "takes a capability no guest has"),
    virtual(179, "quotactl", "carries a name; the box has no block devices, hence no quotas"),
    virtual(443, "quotactl_fd", "no file system of the box has quotas"),
    # Numbers Linux keeps for calls it never had, or no longer has: its answer is ENOSYS as well
    absent(134, "uselib", "mapped a.out libraries; Linux on x86-64 never had it"),
    absent(156, "_sysctl", "removed in Linux 5.5 in favour of /proc/sys"),
    absent(174, "create_module", "removed in Linux 2.6"),
    absent(177, "get_kernel_syms", "removed in Linux 2.6"),
    absent(178, "query_module", "removed in Linux 2.6"),
    absent(180, "nfsservctl", "removed in Linux 3.1"),
    absent(181, "getpmsg", "kept for STREAMS, never in Linux"),
    absent(182, "putpmsg", "kept for STREAMS, never in Linux"),
    absent(183, "afs_syscall", "kept for the Andrew file system, never in Linux"),
    absent(184, "tuxcall", "kept for the TUX web server, never in Linux"),
    absent(185, "security", "kept for security modules, never in Linux"),
    absent(214, "epoll_ctl_old", "an early form of epoll_ctl, never in Linux for x86-64"),
    absent(215, "epoll_wait_old", "an early form of epoll_wait, never in Linux for x86-64"),
    absent(236, "vserver", "kept for Linux-VServer, never in Linux"),
)
