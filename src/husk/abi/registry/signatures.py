"""Layer abi: what the words in a row's signature mean, and how a value of each kind is spelled for a person.

A row says `openat(dfd: dirfd, filename: path, flags: O_*, mode: mode)`: the names are those of Linux's own definition
of the call, the words behind the colons are kinds. Here: the kinds, the tables of flag names, and parsing. Not here:
any row. `husk run` does not import this file until a call has to be printed or a hook is set.

Kinds:
  fd, dirfd          a descriptor; one that a relative path starts from (AT_FDCWD is the working directory)
  path, text         a string behind a pointer: a path of the guest's, any other string
  buf                bytes behind a pointer; the argument after it is usually their number
  *NAME              a pointer to a struct or value of that name
  addr               an address in the guest's own memory
  mode, dev          permission bits, a device number
  uid, gid, pid, key ids of users, groups, processes and System V objects
  size, socklen      a number of bytes; the length of the socket address before it
  offset, long, int  signed numbers; uint, ulong are the unsigned ones
  NAME_*, or a name  flags or a choice, by the table of that name in FLAGS
"""

from __future__ import annotations

from husk.abi import ioctls, numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from husk.abi.registry.rules import Row

    Arguments = tuple[tuple[str, str], ...]

AT_FDCWD = -100

# Numbers: how many bits Linux reads, and whether they are signed.
NUMBERS = {
    "fd": (32, True),
    "dirfd": (32, True),
    "uid": (32, True),  # -1 means: leave it as it is
    "gid": (32, True),
    "pid": (32, True),
    "key": (32, True),
    "socklen": (32, True),
    "int": (32, True),
    "uint": (32, False),
    "size": (64, False),
    "offset": (64, True),
    "long": (64, True),
    "ulong": (64, False),
}
POINTERS = frozenset(("path", "text", "buf", "addr"))
OTHERS = frozenset(("mode", "dev"))


class Flags:
    """Names of the values of one argument: a choice in the bits of `mask`, single bits in the others. `zero` is the
    name of no bit at all."""

    __slots__ = ("bits", "choices", "mask", "zero")

    def __init__(
        self,
        choices: Mapping[str, int],
        bits: Mapping[str, int] | None = None,
        mask: int = 0xFFFFFFFF,
        zero: str = "0",
    ) -> None:
        self.choices = {value: name for name, value in choices.items()}
        self.bits = dict(bits or {})
        self.mask = mask
        self.zero = zero

    def spell(self, value: int) -> str:
        value &= 0xFFFFFFFF
        chosen, rest = value & self.mask, value & ~self.mask
        words = [self.choices[chosen]] if chosen in self.choices else [_number(chosen)] if chosen else []
        for name, bits in self.bits.items():
            if bits and rest & bits == bits:
                words.append(name)
                rest &= ~bits
        if rest:
            words.append(hex(rest))
        return "|".join(words) or self.zero


def _number(value: int) -> str:
    return str(value) if value < 65536 else hex(value)


def _bits(text: str, zero: str = "0") -> Flags:
    """Written as "NAME 0x1 OTHER 0x2"."""
    return Flags({}, _table(text), 0, zero)


def _choice(text: str) -> Flags:
    return Flags(_table(text))


def _table(text: str) -> dict[str, int]:
    words = text.split()
    return {name: int(value, 0) for name, value in zip(words[::2], words[1::2], strict=True)}


def _count(prefix: str, names: str, first: int = 0) -> dict[str, int]:
    return {prefix + name: number for number, name in enumerate(names.split(), first)}


SIGNALS = _count(
    "SIG",
    "HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP TSTP TTIN TTOU URG "
    "XCPU XFSZ VTALRM PROF WINCH IO PWR SYS",
    1,
)
OPEN = _table(
    "O_TMPFILE 0o20200000 O_CREAT 0o100 O_EXCL 0o200 O_NOCTTY 0o400 O_TRUNC 0o1000 O_APPEND 0o2000 O_NONBLOCK 0o4000 "
    "O_SYNC 0o4010000 O_DSYNC 0o10000 O_ASYNC 0o20000 O_DIRECT 0o40000 O_LARGEFILE 0o100000 O_DIRECTORY 0o200000 "
    "O_NOFOLLOW 0o400000 O_NOATIME 0o1000000 O_PATH 0o10000000 O_CLOEXEC 0o2000000"
)
SOCKET_BITS = {"SOCK_CLOEXEC": 0o2000000, "SOCK_NONBLOCK": 0o4000}
CLONE = {
    **numbers.UNSHARE_ALLOWED,
    **_table(
        "CLONE_PIDFD 0x1000 CLONE_PTRACE 0x2000 CLONE_VFORK 0x4000 CLONE_PARENT 0x8000 CLONE_SETTLS 0x80000 "
        "CLONE_PARENT_SETTID 0x100000 CLONE_CHILD_CLEARTID 0x200000 CLONE_DETACHED 0x400000 CLONE_UNTRACED 0x800000 "
        "CLONE_CHILD_SETTID 0x1000000 CLONE_IO 0x80000000"
    ),
    **numbers.CLONE_NAMESPACES,
}
FUTEX_OPERATIONS = (
    "WAIT WAKE FD REQUEUE CMP_REQUEUE WAKE_OP LOCK_PI UNLOCK_PI TRYLOCK_PI WAIT_BITSET WAKE_BITSET WAIT_REQUEUE_PI "
    "CMP_REQUEUE_PI LOCK_PI2"
)

FLAGS: dict[str, Flags] = {
    # Files
    "O_*": Flags({"O_RDONLY": 0, "O_WRONLY": 1, "O_RDWR": 2, "O_ACCMODE": 3}, OPEN, 3),
    "access": _bits("R_OK 4 W_OK 2 X_OK 1", "F_OK"),
    "AT_*": _bits(
        "AT_SYMLINK_NOFOLLOW 0x100 AT_EACCESS 0x200 AT_SYMLINK_FOLLOW 0x400 AT_NO_AUTOMOUNT 0x800 AT_EMPTY_PATH 0x1000 "
        "AT_STATX_FORCE_SYNC 0x2000 AT_STATX_DONT_SYNC 0x4000 AT_RECURSIVE 0x8000"
    ),
    "unlink": _bits("AT_REMOVEDIR 0x200"),
    "handle": _bits(
        "AT_HANDLE_MNT_ID_UNIQUE 0x1 AT_HANDLE_CONNECTABLE 0x2 AT_HANDLE_FID 0x200 AT_SYMLINK_FOLLOW 0x400 "
        "AT_EMPTY_PATH 0x1000"
    ),
    "RENAME_*": _bits("RENAME_NOREPLACE 1 RENAME_EXCHANGE 2 RENAME_WHITEOUT 4"),
    "XATTR_*": _bits("XATTR_CREATE 1 XATTR_REPLACE 2"),
    "STATX_*": _bits(
        "STATX_BASIC_STATS 0x7ff STATX_TYPE 0x1 STATX_MODE 0x2 STATX_NLINK 0x4 STATX_UID 0x8 STATX_GID 0x10 "
        "STATX_ATIME 0x20 STATX_MTIME 0x40 STATX_CTIME 0x80 STATX_INO 0x100 STATX_SIZE 0x200 STATX_BLOCKS 0x400 "
        "STATX_BTIME 0x800 STATX_MNT_ID 0x1000 STATX_DIOALIGN 0x2000 STATX_MNT_ID_UNIQUE 0x4000 STATX_SUBVOL 0x8000 "
        "STATX_WRITE_ATOMIC 0x10000 STATX_DIO_READ_ALIGN 0x20000"
    ),
    "SEEK_*": Flags(_count("SEEK_", "SET CUR END DATA HOLE")),
    "LOCK_*": _bits("LOCK_SH 1 LOCK_EX 2 LOCK_NB 4 LOCK_UN 8"),
    "FALLOC_FL_*": _bits(
        "FALLOC_FL_KEEP_SIZE 0x1 FALLOC_FL_PUNCH_HOLE 0x2 FALLOC_FL_COLLAPSE_RANGE 0x8 FALLOC_FL_ZERO_RANGE 0x10 "
        "FALLOC_FL_INSERT_RANGE 0x20 FALLOC_FL_UNSHARE_RANGE 0x40 FALLOC_FL_WRITE_ZEROES 0x80"
    ),
    "POSIX_FADV_*": Flags(_count("POSIX_FADV_", "NORMAL RANDOM SEQUENTIAL WILLNEED DONTNEED NOREUSE")),
    "SYNC_FILE_RANGE_*": _bits(
        "SYNC_FILE_RANGE_WAIT_BEFORE 1 SYNC_FILE_RANGE_WRITE 2 SYNC_FILE_RANGE_WAIT_AFTER 4"
    ),
    "RWF_*": _bits(
        "RWF_HIPRI 0x1 RWF_DSYNC 0x2 RWF_SYNC 0x4 RWF_NOWAIT 0x8 RWF_APPEND 0x10 RWF_NOAPPEND 0x20 RWF_ATOMIC 0x40 "
        "RWF_DONTCACHE 0x80"
    ),
    "SPLICE_F_*": _bits("SPLICE_F_MOVE 1 SPLICE_F_NONBLOCK 2 SPLICE_F_MORE 4 SPLICE_F_GIFT 8"),
    "F_*": Flags({**numbers.FCNTL_ALLOWED, **numbers.FCNTL_OWNERS, "F_SETLEASE": 1024, "F_NOTIFY": 1026}),
    "ioctl": Flags(
        ioctls.ANYWHERE | ioctls.PEER | ioctls.PLACES | ioctls.OWNER | ioctls.INTERFACE | ioctls.NEVER
    ),
    "CLOSE_RANGE_*": _bits("CLOSE_RANGE_UNSHARE 2 CLOSE_RANGE_CLOEXEC 4"),
    "EPOLL_*": _bits("EPOLL_CLOEXEC 0o2000000"),
    "EPOLL_CTL_*": Flags(_count("EPOLL_CTL_", "ADD DEL MOD", 1)),
    "EFD_*": _bits("EFD_SEMAPHORE 1 EFD_NONBLOCK 0o4000 EFD_CLOEXEC 0o2000000"),
    "SFD_*": _bits("SFD_NONBLOCK 0o4000 SFD_CLOEXEC 0o2000000"),
    "TFD_*": _bits("TFD_NONBLOCK 0o4000 TFD_CLOEXEC 0o2000000"),
    "TFD_TIMER_*": _bits("TFD_TIMER_ABSTIME 1 TFD_TIMER_CANCEL_ON_SET 2"),
    "MFD_*": _bits("MFD_CLOEXEC 0x1 MFD_ALLOW_SEALING 0x2 MFD_HUGETLB 0x4 MFD_NOEXEC_SEAL 0x8 MFD_EXEC 0x10"),
    "inotify": _bits("IN_NONBLOCK 0o4000 IN_CLOEXEC 0o2000000"),
    "IN_*": _bits(
        "IN_ALL_EVENTS 0xfff IN_ACCESS 0x1 IN_MODIFY 0x2 IN_ATTRIB 0x4 IN_CLOSE_WRITE 0x8 IN_CLOSE_NOWRITE 0x10 "
        "IN_OPEN 0x20 IN_MOVED_FROM 0x40 IN_MOVED_TO 0x80 IN_CREATE 0x100 IN_DELETE 0x200 IN_DELETE_SELF 0x400 "
        "IN_MOVE_SELF 0x800 IN_ONLYDIR 0x1000000 IN_DONT_FOLLOW 0x2000000 IN_EXCL_UNLINK 0x4000000 "
        "IN_MASK_CREATE 0x10000000 IN_MASK_ADD 0x20000000 IN_ONESHOT 0x80000000"
    ),
    # Mounts
    "MS_*": _bits(
        "MS_RDONLY 0x1 MS_NOSUID 0x2 MS_NODEV 0x4 MS_NOEXEC 0x8 MS_SYNCHRONOUS 0x10 MS_REMOUNT 0x20 MS_MANDLOCK 0x40 "
        "MS_DIRSYNC 0x80 MS_NOSYMFOLLOW 0x100 MS_NOATIME 0x400 MS_NODIRATIME 0x800 MS_BIND 0x1000 MS_MOVE 0x2000 "
        "MS_REC 0x4000 MS_SILENT 0x8000 MS_POSIXACL 0x10000 MS_UNBINDABLE 0x20000 MS_PRIVATE 0x40000 MS_SLAVE 0x80000 "
        "MS_SHARED 0x100000 MS_RELATIME 0x200000 MS_I_VERSION 0x800000 MS_STRICTATIME 0x1000000 MS_LAZYTIME 0x2000000"
    ),
    "MNT_*": _bits("MNT_FORCE 1 MNT_DETACH 2 MNT_EXPIRE 4 UMOUNT_NOFOLLOW 8"),
    "OPEN_TREE_*": _bits(
        "OPEN_TREE_CLONE 0x1 AT_SYMLINK_NOFOLLOW 0x100 AT_NO_AUTOMOUNT 0x800 AT_EMPTY_PATH 0x1000 AT_RECURSIVE 0x8000 "
        "OPEN_TREE_CLOEXEC 0o2000000"
    ),
    "MOVE_MOUNT_*": _bits(
        "MOVE_MOUNT_F_SYMLINKS 0x1 MOVE_MOUNT_F_AUTOMOUNTS 0x2 MOVE_MOUNT_F_EMPTY_PATH 0x4 MOVE_MOUNT_T_SYMLINKS 0x10 "
        "MOVE_MOUNT_T_AUTOMOUNTS 0x20 MOVE_MOUNT_T_EMPTY_PATH 0x40 MOVE_MOUNT_SET_GROUP 0x100 MOVE_MOUNT_BENEATH 0x200"
    ),
    "FSOPEN_*": _bits("FSOPEN_CLOEXEC 1"),
    "FSMOUNT_*": _bits("FSMOUNT_CLOEXEC 1"),
    "FSPICK_*": _bits("FSPICK_CLOEXEC 1 FSPICK_SYMLINK_NOFOLLOW 2 FSPICK_NO_AUTOMOUNT 4 FSPICK_EMPTY_PATH 8"),
    "FSCONFIG_*": Flags(
        _count(
            "FSCONFIG_",
            "SET_FLAG SET_STRING SET_BINARY SET_PATH SET_PATH_EMPTY SET_FD CMD_CREATE CMD_RECONFIGURE CMD_CREATE_EXCL",
        )
    ),
    "MOUNT_ATTR_*": _bits(
        "MOUNT_ATTR_RDONLY 0x1 MOUNT_ATTR_NOSUID 0x2 MOUNT_ATTR_NODEV 0x4 MOUNT_ATTR_NOEXEC 0x8 "
        "MOUNT_ATTR_NOATIME 0x10 MOUNT_ATTR_STRICTATIME 0x20 MOUNT_ATTR_NODIRATIME 0x80 MOUNT_ATTR_IDMAP 0x100000 "
        "MOUNT_ATTR_NOSYMFOLLOW 0x200000"
    ),
    # Memory
    "PROT_*": _bits(
        "PROT_READ 0x1 PROT_WRITE 0x2 PROT_EXEC 0x4 PROT_SEM 0x8 PROT_GROWSDOWN 0x1000000 PROT_GROWSUP 0x2000000",
        "PROT_NONE",
    ),
    "MAP_*": Flags(
        {"MAP_SHARED": 1, "MAP_PRIVATE": 2, "MAP_SHARED_VALIDATE": 3},
        _table(
            "MAP_FIXED 0x10 MAP_ANONYMOUS 0x20 MAP_32BIT 0x40 MAP_ABOVE4G 0x80 MAP_GROWSDOWN 0x100 MAP_DENYWRITE 0x800 "
            "MAP_EXECUTABLE 0x1000 MAP_LOCKED 0x2000 MAP_NORESERVE 0x4000 MAP_POPULATE 0x8000 MAP_NONBLOCK 0x10000 "
            "MAP_STACK 0x20000 MAP_HUGETLB 0x40000 MAP_SYNC 0x80000 MAP_FIXED_NOREPLACE 0x100000"
        ),
        0xF,
    ),
    "MREMAP_*": _bits("MREMAP_MAYMOVE 1 MREMAP_FIXED 2 MREMAP_DONTUNMAP 4"),
    "msync": _bits("MS_ASYNC 1 MS_INVALIDATE 2 MS_SYNC 4"),
    "MLOCK_*": _bits("MLOCK_ONFAULT 1"),
    "MCL_*": _bits("MCL_CURRENT 1 MCL_FUTURE 2 MCL_ONFAULT 4"),
    "MADV_*": Flags(
        {
            **_count("MADV_", "NORMAL RANDOM SEQUENTIAL WILLNEED DONTNEED"),
            **_count(
                "MADV_",
                "FREE REMOVE DONTFORK DOFORK MERGEABLE UNMERGEABLE HUGEPAGE NOHUGEPAGE DONTDUMP DODUMP WIPEONFORK "
                "KEEPONFORK COLD PAGEOUT POPULATE_READ POPULATE_WRITE DONTNEED_LOCKED COLLAPSE",
                8,
            ),
            "MADV_HWPOISON": 100,
            "MADV_SOFT_OFFLINE": 101,
            "MADV_GUARD_INSTALL": 102,
            "MADV_GUARD_REMOVE": 103,
        }
    ),
    "MPOL_*": Flags(
        _count("MPOL_", "DEFAULT PREFERRED BIND INTERLEAVE LOCAL PREFERRED_MANY WEIGHTED_INTERLEAVE"),
        _table("MPOL_F_NUMA_BALANCING 0x2000 MPOL_F_RELATIVE_NODES 0x4000 MPOL_F_STATIC_NODES 0x8000"),
        0xFF,
    ),
    "MPOL_F_*": _bits("MPOL_F_NODE 1 MPOL_F_ADDR 2 MPOL_F_MEMS_ALLOWED 4"),
    "MPOL_MF_*": _bits("MPOL_MF_STRICT 1 MPOL_MF_MOVE 2 MPOL_MF_MOVE_ALL 4"),
    "FUTEX_*": Flags(
        _count("FUTEX_", FUTEX_OPERATIONS), _table("FUTEX_PRIVATE_FLAG 0x80 FUTEX_CLOCK_REALTIME 0x100"), 0x7F
    ),
    "FUTEX2_*": Flags(
        _count("FUTEX2_SIZE_", "U8 U16 U32 U64"), _table("FUTEX2_NUMA 0x4 FUTEX2_MPOL 0x8 FUTEX2_PRIVATE 0x80"), 3
    ),
    "MEMBARRIER_CMD_*": _choice(
        "MEMBARRIER_CMD_QUERY 0 MEMBARRIER_CMD_GLOBAL 1 MEMBARRIER_CMD_GLOBAL_EXPEDITED 2 "
        "MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED 4 MEMBARRIER_CMD_PRIVATE_EXPEDITED 8 "
        "MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED 16 MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE 32 "
        "MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE 64 MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ 128 "
        "MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ 256 MEMBARRIER_CMD_GET_REGISTRATIONS 512"
    ),
    # Processes
    "signal": Flags(SIGNALS),
    "SIG_*": Flags(_count("SIG_", "BLOCK UNBLOCK SETMASK")),
    "CLONE_*": Flags({**SIGNALS, "CLONE_NEWTIME": 0x80}, CLONE, 0xFF),
    "wait": _bits(
        "WNOHANG 0x1 WUNTRACED 0x2 WEXITED 0x4 WCONTINUED 0x8 WNOWAIT 0x1000000 __WNOTHREAD 0x20000000 "
        "__WALL 0x40000000 __WCLONE 0x80000000"
    ),
    "P_*": Flags(_count("P_", "ALL PID PGID PIDFD")),
    "PIDFD_*": _bits("PIDFD_NONBLOCK 0o4000 PIDFD_THREAD 0o200"),
    "PRIO_*": Flags(_count("PRIO_", "PROCESS PGRP USER")),
    "IOPRIO_WHO_*": Flags(_count("IOPRIO_WHO_", "PROCESS PGRP USER", 1)),
    "SCHED_*": Flags(
        _count("SCHED_", "NORMAL FIFO RR BATCH") | {"SCHED_IDLE": 5, "SCHED_DEADLINE": 6, "SCHED_EXT": 7},
        {"SCHED_RESET_ON_FORK": 0x40000000},
        0xFF,
    ),
    "RLIMIT_*": Flags(
        _count(
            "RLIMIT_",
            "CPU FSIZE DATA STACK CORE RSS NPROC NOFILE MEMLOCK AS LOCKS SIGPENDING MSGQUEUE NICE RTPRIO RTTIME",
        )
    ),
    "RUSAGE_*": Flags({"RUSAGE_SELF": 0, "RUSAGE_THREAD": 1, "RUSAGE_CHILDREN": 0xFFFFFFFF}),
    "ITIMER_*": Flags(_count("ITIMER_", "REAL VIRTUAL PROF")),
    "CLOCK_*": Flags(
        _count(
            "CLOCK_",
            "REALTIME MONOTONIC PROCESS_CPUTIME_ID THREAD_CPUTIME_ID MONOTONIC_RAW REALTIME_COARSE MONOTONIC_COARSE "
            "BOOTTIME REALTIME_ALARM BOOTTIME_ALARM SGI_CYCLE TAI",
        )
    ),
    "TIMER_*": _bits("TIMER_ABSTIME 1"),
    "PR_*": Flags(numbers.PRCTL_ALLOWED | numbers.PR_SET_DUMPABLE | numbers.PR_SET_MM),
    "ARCH_*": _choice(
        "ARCH_SET_GS 0x1001 ARCH_SET_FS 0x1002 ARCH_GET_FS 0x1003 ARCH_GET_GS 0x1004 ARCH_GET_CPUID 0x1011 "
        "ARCH_SET_CPUID 0x1012 ARCH_GET_XCOMP_SUPP 0x1021 ARCH_GET_XCOMP_PERM 0x1022 ARCH_REQ_XCOMP_PERM 0x1023 "
        "ARCH_SHSTK_ENABLE 0x5001 ARCH_SHSTK_DISABLE 0x5002 ARCH_SHSTK_LOCK 0x5003 ARCH_SHSTK_UNLOCK 0x5004 "
        "ARCH_SHSTK_STATUS 0x5005"
    ),
    "persona": Flags(
        {"PER_LINUX": 0, "PER_LINUX32": 8},
        _table(
            "UNAME26 0x20000 ADDR_NO_RANDOMIZE 0x40000 FDPIC_FUNCPTRS 0x80000 MMAP_PAGE_ZERO 0x100000 "
            "ADDR_COMPAT_LAYOUT 0x200000 READ_IMPLIES_EXEC 0x400000 ADDR_LIMIT_32BIT 0x800000 SHORT_INODE 0x1000000 "
            "WHOLE_SECONDS 0x2000000 STICKY_TIMEOUTS 0x4000000 ADDR_LIMIT_3GB 0x8000000"
        ),
        0xFF,
    ),
    "PTRACE_*": _choice(
        "PTRACE_TRACEME 0 PTRACE_PEEKTEXT 1 PTRACE_PEEKDATA 2 PTRACE_PEEKUSER 3 PTRACE_POKETEXT 4 PTRACE_POKEDATA 5 "
        "PTRACE_POKEUSER 6 PTRACE_CONT 7 PTRACE_KILL 8 PTRACE_SINGLESTEP 9 PTRACE_GETREGS 12 PTRACE_SETREGS 13 "
        "PTRACE_GETFPREGS 14 PTRACE_SETFPREGS 15 PTRACE_ATTACH 16 PTRACE_DETACH 17 PTRACE_SYSCALL 24 "
        "PTRACE_ARCH_PRCTL 30 PTRACE_SETOPTIONS 0x4200 PTRACE_GETEVENTMSG 0x4201 PTRACE_GETSIGINFO 0x4202 "
        "PTRACE_SETSIGINFO 0x4203 PTRACE_GETREGSET 0x4204 PTRACE_SETREGSET 0x4205 PTRACE_SEIZE 0x4206 "
        "PTRACE_INTERRUPT 0x4207 PTRACE_LISTEN 0x4208 PTRACE_PEEKSIGINFO 0x4209 PTRACE_GETSIGMASK 0x420a "
        "PTRACE_SETSIGMASK 0x420b PTRACE_SECCOMP_GET_FILTER 0x420c PTRACE_SECCOMP_GET_METADATA 0x420d "
        "PTRACE_GET_SYSCALL_INFO 0x420e PTRACE_GET_RSEQ_CONFIGURATION 0x420f "
        "PTRACE_SET_SYSCALL_USER_DISPATCH_CONFIG 0x4210 PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG 0x4211"
    ),
    "SECCOMP_*": Flags(_count("SECCOMP_", "SET_MODE_STRICT SET_MODE_FILTER GET_ACTION_AVAIL GET_NOTIF_SIZES")),
    "KCMP_*": Flags(_count("KCMP_", "FILE VM FILES FS SIGHAND IO SYSVSEM EPOLL_TFD")),
    "GRND_*": _bits("GRND_NONBLOCK 1 GRND_RANDOM 2 GRND_INSECURE 4"),
    "MODULE_INIT_*": _bits(
        "MODULE_INIT_IGNORE_MODVERSIONS 1 MODULE_INIT_IGNORE_VERMAGIC 2 MODULE_INIT_COMPRESSED_FILE 4"
    ),
    # Sockets and System V IPC
    "AF_*": _choice(
        "AF_UNSPEC 0 AF_UNIX 1 AF_INET 2 AF_AX25 3 AF_INET6 10 AF_NETLINK 16 AF_PACKET 17 AF_RDS 21 AF_CAN 29 "
        "AF_TIPC 30 AF_BLUETOOTH 31 AF_ALG 38 AF_NFC 39 AF_VSOCK 40 AF_KCM 41 AF_QIPCRTR 42 AF_SMC 43 AF_XDP 44"
    ),
    "SOCK_*": Flags(
        _count("SOCK_", "STREAM DGRAM RAW RDM SEQPACKET DCCP", 1) | {"SOCK_PACKET": 10},
        SOCKET_BITS,
        numbers.SOCK_TYPE_MASK,
    ),
    "accept": Flags({}, SOCKET_BITS, 0),
    "SOL_*": _choice(
        "IPPROTO_IP 0 SOL_SOCKET 1 IPPROTO_TCP 6 IPPROTO_UDP 17 IPPROTO_IPV6 41 IPPROTO_ICMPV6 58 "
        "IPPROTO_RAW 255 SOL_PACKET 263 SOL_NETLINK 270 SOL_ALG 279 SOL_TLS 282"
    ),
    "SHUT_*": Flags(_count("SHUT_", "RD WR RDWR")),
    "MSG_*": _bits(
        "MSG_OOB 0x1 MSG_PEEK 0x2 MSG_DONTROUTE 0x4 MSG_CTRUNC 0x8 MSG_PROBE 0x10 MSG_TRUNC 0x20 MSG_DONTWAIT 0x40 "
        "MSG_EOR 0x80 MSG_WAITALL 0x100 MSG_FIN 0x200 MSG_SYN 0x400 MSG_CONFIRM 0x800 MSG_RST 0x1000 "
        "MSG_ERRQUEUE 0x2000 MSG_NOSIGNAL 0x4000 MSG_MORE 0x8000 MSG_WAITFORONE 0x10000 MSG_ZEROCOPY 0x4000000 "
        "MSG_FASTOPEN 0x20000000 MSG_CMSG_CLOEXEC 0x40000000"
    ),
    "IPC_*": _bits("IPC_CREAT 0o1000 IPC_EXCL 0o2000 SHM_HUGETLB 0o4000 SHM_NORESERVE 0o10000"),
    "ipc_command": _choice(
        "IPC_RMID 0 IPC_SET 1 IPC_STAT 2 IPC_INFO 3 SHM_LOCK 11 SHM_UNLOCK 12 SHM_STAT 13 SHM_INFO 14 SHM_STAT_ANY 15 "
        "SETVAL 16 SETALL 17 SEM_STAT 18 SEM_INFO 19 SEM_STAT_ANY 20"
    ),
    "SHM_*": _bits("SHM_RDONLY 0o10000 SHM_RND 0o20000 SHM_REMAP 0o40000 SHM_EXEC 0o100000"),
    "msgop": _bits("IPC_NOWAIT 0o4000 MSG_NOERROR 0o10000 MSG_EXCEPT 0o20000 MSG_COPY 0o40000"),
}

_parsed: dict[str, Arguments] = {}


def arguments(row: Row) -> Arguments:
    """Name and kind of each argument of a call, in order."""
    found = _parsed.get(row.signature)
    if found is None:
        inside = row.signature.partition("(")[2].rstrip(")")
        pairs = [word.partition(": ") for word in inside.split(", ")] if inside else []
        found = _parsed[row.signature] = tuple((name, kind) for name, _, kind in pairs)
    return found


def positions(row: Row, *kinds: str) -> tuple[int, ...]:
    """Where a call has its arguments of these kinds."""
    return tuple(n for n, (_, kind) in enumerate(arguments(row)) if kind in kinds)


def address(row: Row) -> tuple[int, int] | None:
    """Where a call has a socket address that it brings along, and that address's length."""
    kinds = [kind for _, kind in arguments(row)]
    for n in range(len(kinds) - 1):
        if kinds[n : n + 2] == ["*sockaddr", "socklen"]:
            return n, n + 1
    return None


def is_known(kind: str) -> bool:
    named = kind in NUMBERS or kind in POINTERS or kind in OTHERS or kind in FLAGS
    return named or (kind[:1] == "*" and len(kind) > 1)


def spell(kind: str, value: int) -> str:
    """The value of one argument, as strace would write it."""
    if kind in FLAGS:
        return FLAGS[kind].spell(value)
    if kind in NUMBERS:
        width, signed = NUMBERS[kind]
        value &= (1 << width) - 1
        if signed and value >> (width - 1):
            value -= 1 << width
        return "AT_FDCWD" if kind == "dirfd" and value == AT_FDCWD else str(value)
    if kind == "mode":
        return f"0{value & 0xFFFF:o}" if value & 0xFFFF else "0"
    if kind == "dev":
        return hex(value & 0xFFFFFFFF)
    return hex(value) if value else "NULL"
