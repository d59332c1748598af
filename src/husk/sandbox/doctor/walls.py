"""sandbox, doctor: probes of Landlock and of each namespace. Each raises the wall and runs against it.

Some hosts let every user make a user namespace but give no capability in it, which shows only in use. So each
namespace is used as husk-init uses it.
"""

from __future__ import annotations

import errno
import os
import struct

from husk.native._core import landlock_abi
from husk.sandbox.doctor.calls import (
    LANDLOCK_CREATE_RULESET,
    LANDLOCK_RESTRICT_SELF,
    MOUNT,
    SETHOSTNAME,
    UNSHARE,
    call,
    no_new_privileges,
)
from husk.sandbox.doctor.probe_child import Missing
from husk.walls.landlock import SCOPES_SIGNALS, landlock_rights
from husk.walls.namespaces import (
    CLONE_NEWCGROUP,
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
)

MS_REC, MS_PRIVATE = 0x4000, 0x40000


# -- Landlock ----------------------------------------------------------------------------------------------------------


def landlock() -> str:
    abi = landlock_abi()
    if not abi:
        raise Missing("the kernel has none, or it is not active")
    _restrict(abi)
    _refused(lambda: os.open("/", os.O_RDONLY), errno.EACCES, "a directory was opened behind it")
    return f"ABI {abi}, and it holds"


def scopes() -> str:
    """A signal to the probe's parent, and an abstract socket from before, must both be out of reach."""
    abi = landlock_abi()
    if abi < SCOPES_SIGNALS:
        raise Missing(f"ABI {abi}" if abi else "no Landlock")
    import _socket

    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    server.bind(b"\0husk-doctor-" + os.urandom(8).hex().encode())
    server.listen()
    client = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    _restrict(abi)
    _refused(lambda: os.kill(os.getppid(), 0), errno.EPERM, "a signal got out")
    _refused(lambda: client.connect(server.getsockname()), errno.EPERM, "an abstract socket was reached")
    return "signals and abstract sockets stay inside"


def groups() -> str:
    """The probe's process stays outside. A child in its group, the one that came last, goes behind Landlock and makes
    the group the owner of a descriptor that becomes ready. Both block the signal: it then waits for who got it."""
    import signal

    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGIO])
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            _signal_own_group()
            # Without that the probe would say nothing.
            os.write(writing, b"got it" if signal.SIGIO in signal.sigpending() else b"the group gets no signal at all")
        except OSError as error:
            os.write(writing, (error.strerror or "an error").encode())
        os._exit(0)
    os.close(writing)
    told = os.read(reading, 100)
    os.waitpid(child, 0)
    if told != b"got it":
        raise Missing(told.decode("utf-8", "replace"))
    if signal.SIGIO in signal.sigpending():
        raise Missing("a signal to its own group got out")
    return "a group gets signals only inside the scope"


def _signal_own_group() -> None:
    import _socket
    import fcntl

    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
    _restrict(landlock_abi())
    fcntl.fcntl(ours.fileno(), fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(ours.fileno(), fcntl.F_SETFL, os.O_ASYNC)
    theirs.send(b"x")


def _restrict(abi: int) -> None:
    no_new_privileges()
    fs, net, scoped, _ = landlock_rights(abi)
    ruleset = struct.pack("<QQQ", fs, net, scoped)[: 24 if abi >= SCOPES_SIGNALS else 16 if abi >= 4 else 8]
    call(LANDLOCK_RESTRICT_SELF, call(LANDLOCK_CREATE_RULESET, ruleset, len(ruleset), 0), 0)


def _refused(attempt: object, number: int, otherwise: str) -> None:
    assert callable(attempt)
    try:
        attempt()
    except OSError as error:
        if error.errno == number:
            return
        raise
    raise Missing(otherwise)


# -- namespaces --------------------------------------------------------------------------------------------------------


def user() -> str:
    _enter(0)
    return "made, with ids mapped"


def mount() -> str:
    _enter(CLONE_NEWNS)
    call(MOUNT, None, b"/", None, MS_REC | MS_PRIVATE, None)
    call(MOUNT, b"husk", b"/proc", b"tmpfs", 0, None)
    return "made, with a tmpfs mounted in it"


def pid() -> str:
    _enter(CLONE_NEWPID)
    child = os.fork()
    if child == 0:
        os._exit(0 if os.getpid() == 1 else 1)
    if os.waitpid(child, 0)[1]:
        raise Missing("its first process is not number 1")
    return "made, and its first process is number 1"


def net() -> str:
    _enter(CLONE_NEWNET)
    import _socket
    from fcntl import ioctl

    any_socket = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    ioctl(any_socket.fileno(), 0x8914, struct.pack("<16sH22x", b"lo", 0x41))  # SIOCSIFFLAGS: up, running
    return "made, with loopback up"


def ipc() -> str:
    _enter(CLONE_NEWIPC)
    return "made"


def uts() -> str:
    _enter(CLONE_NEWUTS)
    call(SETHOSTNAME, b"husk", 4)
    return "made, and named"


def cgroup() -> str:
    _enter(CLONE_NEWCGROUP)
    return "made"


def _enter(kind: int) -> None:
    """As husk does it: always together with a user namespace, even if started by root."""
    uid, gid = os.geteuid(), os.getegid()
    call(UNSHARE, CLONE_NEWUSER | kind)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        fd = os.open(f"/proc/self/{name}", os.O_WRONLY)
        os.write(fd, text.encode())
        os.close(fd)
