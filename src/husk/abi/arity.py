"""abi: how many arguments a call has, for showing it to a person. Three, unless it is listed here."""

from __future__ import annotations

_COUNTS = {
    1: frozenset(("chdir", "husk_call", "rmdir", "unlink")),
    2: frozenset(
        (
            "access",
            "chmod",
            "creat",
            "fchmod",
            "fremovexattr",
            "fstat",
            "fstatfs",
            "getcwd",
            "link",
            "lremovexattr",
            "lstat",
            "mkdir",
            "removexattr",
            "rename",
            "stat",
            "statfs",
            "symlink",
            "truncate",
            "unshare",
            "utime",
            "utimes",
        )
    ),
    4: frozenset(
        (
            "faccessat2",
            "fchmodat2",
            "fgetxattr",
            "getxattr",
            "lgetxattr",
            "mknodat",
            "newfstatat",
            "openat",
            "openat2",
            "prlimit64",
            "ptrace",
            "readlinkat",
            "renameat",
            "utimensat",
        )
    ),
    5: frozenset(
        (
            "clone",
            "execveat",
            "fchownat",
            "fsetxattr",
            "linkat",
            "lsetxattr",
            "mount",
            "prctl",
            "renameat2",
            "setxattr",
            "statx",
        )
    ),
}


def argument_count(name: str) -> int:
    return next((count for count, names in _COUNTS.items() if name in names), 3)
