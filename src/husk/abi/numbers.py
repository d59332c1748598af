"""Layer abi: numbers of the x86-64 Linux ABI that the registry's rules compare with, under Linux's names.

Only values and only what the rows need; ioctl commands have a file of their own. Tables keep the names, because the
documentation and `husk syscalls` print them.
"""

from __future__ import annotations

AUDIT_ARCH_X86_64 = 0xC000003E
X32_SYSCALL_BIT = 0x40000000

# The number of the call that only the loader makes; its row is in rows_processes.py, and C reads it from call_table.h.
HUSK_CALL = 0x4855

CLONE_NAMESPACES = {
    # CLONE_NEWTIME is absent: its bit lies in clone's exit-signal byte, so only clone3 and unshare can ask for it.
    "CLONE_NEWNS": 0x00020000,
    "CLONE_NEWCGROUP": 0x02000000,
    "CLONE_NEWUTS": 0x04000000,
    "CLONE_NEWIPC": 0x08000000,
    "CLONE_NEWUSER": 0x10000000,
    "CLONE_NEWPID": 0x20000000,
    "CLONE_NEWNET": 0x40000000,
}
CLONE_PTRACE = {"CLONE_PTRACE": 0x2000}
UNSHARE_ALLOWED = {
    "CLONE_FS": 0x200,
    "CLONE_FILES": 0x400,
    "CLONE_SYSVSEM": 0x40000,
    "CLONE_VM": 0x100,  # this and the next two do nothing in a process of one thread and fail in any other
    "CLONE_SIGHAND": 0x800,
    "CLONE_THREAD": 0x10000,
}

PERSONALITY_QUERY = {"0xffffffff (the query)": 0xFFFFFFFF}
# No MMAP_PAGE_ZERO and no READ_IMPLIES_EXEC: they undo what the loader and the hardware promise about memory.
PERSONALITY_ALLOWED = {
    "a system (PER_MASK)": 0xFF,  # Linux uses only PER_LINUX32 of these, in uname
    "UNAME26": 0x20000,
    "ADDR_NO_RANDOMIZE": 0x40000,
    "ADDR_COMPAT_LAYOUT": 0x200000,
    "SHORT_INODE": 0x1000000,  # Linux ignores this one and the next
    "WHOLE_SECONDS": 0x2000000,
    "STICKY_TIMEOUTS": 0x4000000,
}

PRIO_PROCESS = {"PRIO_PROCESS": 0}
RLIMIT_CORE = {"RLIMIT_CORE": 4}
RLIMIT_LOCKS = {"RLIMIT_LOCKS": 10}
IOPRIO_WHO_PROCESS = {"IOPRIO_WHO_PROCESS": 1}

PRCTL_ALLOWED = {
    "PR_SET_PDEATHSIG": 1,
    "PR_GET_PDEATHSIG": 2,
    "PR_GET_TIMING": 13,
    "PR_SET_TIMING": 14,
    "PR_SET_NAME": 15,
    "PR_GET_NAME": 16,
    "PR_GET_SECCOMP": 21,
    "PR_SET_SECCOMP": 22,
    "PR_CAPBSET_READ": 23,
    "PR_CAPBSET_DROP": 24,
    "PR_GET_TSC": 25,
    "PR_SET_TSC": 26,
    "PR_GET_SECUREBITS": 27,
    "PR_SET_SECUREBITS": 28,
    "PR_SET_TIMERSLACK": 29,
    "PR_GET_TIMERSLACK": 30,
    "PR_MCE_KILL": 33,
    "PR_MCE_KILL_GET": 34,
    "PR_SET_CHILD_SUBREAPER": 36,
    "PR_GET_CHILD_SUBREAPER": 37,
    "PR_SET_NO_NEW_PRIVS": 38,
    "PR_GET_NO_NEW_PRIVS": 39,
    "PR_GET_TID_ADDRESS": 40,
    "PR_SET_THP_DISABLE": 41,
    "PR_GET_THP_DISABLE": 42,
    "PR_CAP_AMBIENT": 47,
    "PR_GET_SPECULATION_CTRL": 52,
    "PR_SET_SPECULATION_CTRL": 53,
    "PR_SET_MDWE": 65,
    "PR_GET_MDWE": 66,
    "PR_GET_AUXV": 0x41555856,
    "PR_SET_VMA": 0x53564D41,
    "PR_SET_PTRACER": 0x59616D61,
}
PR_KEEPCAPS = {"PR_GET_KEEPCAPS": 7, "PR_SET_KEEPCAPS": 8}
PR_GET_DUMPABLE = {"PR_GET_DUMPABLE": 3}
PR_SET_DUMPABLE = {"PR_SET_DUMPABLE": 4}
DUMPABLE_VALUES = {"SUID_DUMP_DISABLE": 0, "SUID_DUMP_USER": 1}
PR_SET_MM = {"PR_SET_MM": 35}
PR_SET_MM_MAPS = {"PR_SET_MM_MAP": 14, "PR_SET_MM_MAP_SIZE": 15}

FCNTL_ALLOWED = {
    "F_DUPFD": 0,
    "F_GETFD": 1,
    "F_SETFD": 2,
    "F_GETFL": 3,
    "F_SETFL": 4,
    "F_GETOWN": 9,
    "F_SETSIG": 10,
    "F_GETSIG": 11,
    "F_GETOWN_EX": 16,
    "F_GETOWNER_UIDS": 17,
    "F_GETLEASE": 1025,
    "F_DUPFD_QUERY": 1027,
    "F_CREATED_QUERY": 1028,
    "F_DUPFD_CLOEXEC": 1030,
    "F_SETPIPE_SZ": 1031,
    "F_GETPIPE_SZ": 1032,
    "F_ADD_SEALS": 1033,
    "F_GET_SEALS": 1034,
    "F_GET_RW_HINT": 1035,
    "F_SET_RW_HINT": 1036,
    "F_GET_FILE_RW_HINT": 1037,
    "F_SET_FILE_RW_HINT": 1038,
}
FCNTL_LOCKS = {
    "F_GETLK": 5,
    "F_SETLK": 6,
    "F_SETLKW": 7,
    "F_OFD_GETLK": 36,
    "F_OFD_SETLK": 37,
    "F_OFD_SETLKW": 38,
}
F_SETOWN = {"F_SETOWN": 8}
FCNTL_OWNERS = {**F_SETOWN, "F_SETOWN_EX": 15}
POSITIVE = {"the bits of a positive number": 0x7FFFFFFF}

AF_UNIX = {"AF_UNIX": 1}
AF_INETS = {"AF_INET": 2, "AF_INET6": 10}
AF_NETLINK = {"AF_NETLINK": 16}
SOCK_TYPE_MASK = 0xF
NO_SOCK_FLAGS = {"bits beside the type, SOCK_CLOEXEC and SOCK_NONBLOCK": 0xFFF7F7F0}
UNIX_TYPES = {"SOCK_STREAM": 1, "SOCK_DGRAM": 2, "SOCK_RAW": 3, "SOCK_SEQPACKET": 5}
INET_TYPES = {"SOCK_STREAM": 1, "SOCK_DGRAM": 2, "SOCK_RAW": 3}
NO_INET_TYPES = {"no type": 0, "SOCK_RDM": 4, "SOCK_SEQPACKET": 5}
INET_PROTOCOLS = {"IPPROTO_IP": 0, "IPPROTO_ICMP": 1, "IPPROTO_TCP": 6, "IPPROTO_UDP": 17, "IPPROTO_ICMPV6": 58}
RAW_PROTOCOLS = {name: number for name, number in INET_PROTOCOLS.items() if number}  # Linux refuses 0 (none) first
MAPPED_TYPES = {"SOCK_STREAM": 1, "SOCK_DGRAM": 2}
MAPPED_PROTOCOLS = {"IPPROTO_IP": 0, "IPPROTO_TCP": 6, "IPPROTO_UDP": 17}
IPPROTO_UDPLITE = {"IPPROTO_UDPLITE": 136}
IPPROTO_MPTCP = {"IPPROTO_MPTCP": 262}
NETLINK_ROUTE = {"NETLINK_ROUTE": 0}
NETLINK_OWN = {**NETLINK_ROUTE, "NETLINK_KOBJECT_UEVENT": 15}  # Linux sends the host's events to its own networks only

MSG_FASTOPEN = {"MSG_FASTOPEN": 0x20000000}
SOL_SOCKET = {"SOL_SOCKET": 1}
SO_PASSCRED = {"SO_PASSCRED": 16}
SO_PEERCRED = {"SO_PEERCRED": 17}
SO_KINDS = {"SO_TYPE": 3, "SO_PROTOCOL": 38, "SO_DOMAIN": 39}
SOL_NETLINK = {"SOL_NETLINK": 270}
SO_PEERGROUPS = {"SO_PEERGROUPS": 59}
SO_PIDFDS = {"SO_PASSPIDFD": 76, "SO_PEERPIDFD": 77}
SO_ZEROCOPY = {"SO_ZEROCOPY": 60}
SO_OWN_FILTERS = {"SO_ATTACH_FILTER": 26, "SO_DETACH_FILTER": 27}  # all right but on network sockets: husk looks
SO_FILTERS = {
    "SO_LOCK_FILTER": 44,
    "SO_ATTACH_BPF": 50,
    "SO_ATTACH_REUSEPORT_CBPF": 51,
    "SO_ATTACH_REUSEPORT_EBPF": 52,
    "SO_DETACH_REUSEPORT_BPF": 68,
}
# Binding to lo is all right, to another interface not: husk looks.
SO_BINDS = {"SO_BINDTODEVICE": 25, "SO_BINDTOIFINDEX": 62}
IPPROTO_TCP = {"IPPROTO_TCP": 6}
TCP_HARMFUL = {"TCP_REPAIR": 19, "TCP_FASTOPEN": 23, "TCP_FASTOPEN_CONNECT": 30, "TCP_ULP": 31}
SOL_IP = {"IPPROTO_IP": 0}
IP_HARMFUL = {
    "IP_OPTIONS": 4,
    "IP_TRANSPARENT": 19,
    "IP_ADD_SOURCE_MEMBERSHIP": 39,
    "MCAST_JOIN_SOURCE_GROUP": 46,
    "IP_UNICAST_IF": 50,
}
IP_GROUPS = {  # husk keeps the groups of a mapped network
    "IP_MULTICAST_IF": 32,
    "IP_ADD_MEMBERSHIP": 35,
    "IP_DROP_MEMBERSHIP": 36,
    "MCAST_JOIN_GROUP": 42,
    "MCAST_LEAVE_GROUP": 45,
}
IPV6_GROUPS = {
    "IPV6_MULTICAST_IF": 17,
    "IPV6_ADD_MEMBERSHIP": 20,
    "IPV6_DROP_MEMBERSHIP": 21,
    "MCAST_JOIN_GROUP": 42,
    "MCAST_LEAVE_GROUP": 45,
}
IP_MULTICAST_IF, IPV6_MULTICAST_IF = {"IP_MULTICAST_IF": 32}, {"IPV6_MULTICAST_IF": 17}
SOL_IPV6 = {"IPPROTO_IPV6": 41}
IPV6_HARMFUL = {
    "IPV6_2292PKTOPTIONS": 6,  # several of the others in one
    "IPV6_JOIN_ANYCAST": 27,
    "MCAST_JOIN_SOURCE_GROUP": 46,
    "IPV6_PKTINFO": 50,
    "IPV6_HOPOPTS": 54,
    "IPV6_RTHDR": 57,
    "IPV6_TRANSPARENT": 75,
    "IPV6_UNICAST_IF": 76,
}
IPV6_KEPT = {"IPV6_ADDRFORM": 1, "IPV6_V6ONLY": 26}
IPV6_TWINS = {  # husk sets the same for IPv4, which IPv6 sockets of a mapped network speak
    "IPV6_UNICAST_HOPS": 16,
    "IPV6_RECVERR": 25,
    "IPV6_RECVHOPLIMIT": 51,
    "IPV6_RECVTCLASS": 66,
    "IPV6_TCLASS": 67,
    "IPV6_RECVORIGDSTADDR": 74,
}

# Behind the `syscall` instruction of the resident region that makes rt_sigaction where husk need not see it: a gate
# leads the C library's call there (native/loader/resident.h, docs/design/002-signals.md).
RESIDENT_SIGACTION = 0x567F00000A82

# Behind the `syscall` instruction of the resident region by which a guest looks up the names of the host's /usr itself,
# in the box's own mount namespace (docs/design/026-direct-names.md).
RESIDENT_DIRECT = 0x567F00000B82

# The descriptor through which a gate's code receives what husk opened for it (native/gate/layout.h,
# docs/design/025-gate.md).
GATE_CHANNEL = 1024

# rt_sigaction: programs ask for the action of these to change a flag of it. glibc's posix_spawn asks about every signal
# there is, so each one here costs each start of a program some 10 microseconds.
SIGNALS_ASKED_ABOUT = {
    "SIGHUP": 1,
    "SIGINT": 2,
    "SIGQUIT": 3,
    "SIGUSR1": 10,
    "SIGUSR2": 12,
    "SIGALRM": 14,
    "SIGTERM": 15,
    "SIGCHLD": 17,
    "SIGWINCH": 28,
}
