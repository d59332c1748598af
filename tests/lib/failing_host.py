"""husk on a host that fails it once: `python failing_host.py run …` with HUSK_FAIL_AT=n makes husk's n-th call to the
host fail with the errno in HUSK_FAIL_WITH. If n is not a number, the first call fails whose line begins with it. The
file HUSK_FAIL_LOG gets the number of calls, which one failed, and a line for each.

A program of its own, not a part of husk: it puts itself between husk's modules and what they ask of the host (the os
module, the C core's plain functions, sockets, locks, threads) before any of them is loaded.
"""

from __future__ import annotations

import _thread
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

# Calls that may fail on a host in trouble.
OS = (
    "open", "mkdir", "mknod", "mkfifo", "symlink", "link", "unlink", "rename", "replace", "rmdir", "chmod", "fchmod",
    "chown", "fchown", "lchown", "utime", "stat", "lstat", "fstat", "readlink", "listdir", "scandir", "read", "write",
    "pread", "pwrite",
    "dup", "dup2", "pipe", "pipe2", "ftruncate", "truncate", "setxattr", "getxattr", "listxattr", "removexattr",
    "copy_file_range", "statvfs", "fstatvfs", "memfd_create", "pidfd_open", "posix_spawn", "fork", "access", "sendfile",
    "posix_fallocate", "makedirs", "walk", "fsync", "fdatasync", "eventfd", "openpty", "ttyname", "fchdir",
)  # fmt: skip
# Calls that cannot: they work on numbers and texts, on what husk holds, or on husk's own processes.
NEVER = (
    "close", "closerange", "kill", "killpg", "waitpid", "waitid", "_exit", "fsencode", "fsdecode", "strerror",
    "makedev",
    "major", "minor", "uname", "sysconf", "urandom", "getpid", "getppid", "getpgrp", "getuid", "getgid", "geteuid",
    "getegid", "getgroups", "setpgid", "umask", "lseek", "isatty", "get_blocking", "set_blocking", "get_inheritable",
    "set_inheritable", "tcgetpgrp", "tcsetpgrp", "register_at_fork", "sched_getaffinity", "cpu_count", "getpgid",
    "getsid", "setsid", "getpriority", "getenv", "fspath", "WIFSTOPPED", "WSTOPSIG", "waitstatus_to_exitcode",
)  # fmt: skip
CORE = (
    "open_beneath", "stat_beneath", "stat_fd", "bind_address", "connect_address", "open_interruptible", "watch",
    "accept_address", "listen_on", "send_message", "receive_message", "get_option", "set_option", "socket_name",
    "socket_kind",
)  # fmt: skip

# Other calls to the host, by module. A thread that cannot be started is a RuntimeError.
OTHERS = {
    "builtins": ("open",),
    "_socket": ("socket", "socketpair"),
    "_thread": ("start_new_thread",),
    "fcntl": ("fcntl", "flock", "ioctl"),
    "resource": ("getrlimit",),
}


class Host:
    def __init__(self, at: str, number: int) -> None:
        self.number = number
        self.at, self.where = (int(at), "") if at.isdigit() else (0, at)
        self.asked: list[str] = []
        self.failed = ""
        self._lock = _thread.allocate_lock()

    def wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*words: Any, **named: Any) -> Any:
            caller = sys._getframe(1)
            if not caller.f_globals.get("__name__", "").startswith("husk."):
                return real(*words, **named)
            where = f"{name} in {caller.f_globals['__name__']}.{caller.f_code.co_name}:{caller.f_lineno}"
            with self._lock:
                self.asked.append(where)
                fails = len(self.asked) == self.at
                if self.where and where.startswith(self.where):
                    fails, self.where = True, ""
            if fails:
                self.failed = where
                if name == "start_new_thread":
                    raise RuntimeError("can't start new thread")
                raise OSError(self.number, os.strerror(self.number))
            return real(*words, **named)

        return call


def main() -> int:
    host = Host(os.environ["HUSK_FAIL_AT"], int(os.environ["HUSK_FAIL_WITH"]))
    log = os.environ["HUSK_FAIL_LOG"]
    write, close, opened = os.write, os.close, os.open
    from husk.native import _core

    others = [(importlib.import_module(module), names) for module, names in OTHERS.items()]
    for module, names in ((os, OS), (_core, CORE), *others):
        for name in names:
            if hasattr(module, name):
                setattr(module, name, host.wrap(name, getattr(module, name)))
    from husk.cli import main as husk

    try:
        return husk()
    finally:
        fd = opened(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        write(fd, "\n".join([f"{len(host.asked)} {host.failed}", *host.asked]).encode())
        close(fd)


if __name__ == "__main__":
    sys.exit(main())
