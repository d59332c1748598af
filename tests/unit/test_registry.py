"""The registry is complete, says why, and answers look-ups the way the dispatcher and the loader rely on."""

from __future__ import annotations

import itertools
import random
import re
from errno import EAFNOSUPPORT, ENOSYS, ENOTTY, EPERM, errorcode
from pathlib import Path

import pytest

from husk.abi import ioctls, numbers
from husk.abi.registry import (
    CHAPTERS,
    HUSK_CALL_ROW,
    ROWS,
    by_name,
    eintr_bitmap,
    handled_rows,
    looks_at_descriptor_first,
    mixed_calls,
    refusal,
    row,
)
from husk.abi.registry.rules import EINTR, HANDLED, IN_HUSK, NO_WALLS, RESTARTS, WAYS, Row, Walls

HEADERS = (
    Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    Path("/usr/include/asm/unistd_64.h"),
)
# The headers of the oldest system we build on are of Linux 6.1. Newer calls may be missing there, but nothing else may.
LAST_OF_6_1 = 450
NEWER_IN_A_GAP = {335, 336}

# Virtual calls that may go on in the host after a look, and block there, or as husk's own call in their place.
CONTINUED = {"connect", "recvmsg", "recvmmsg", "sendmsg", "sendmmsg"}

ALL_WALLS = Walls(pid=True, net=True, mount=True, ipc=True, user=True, landlock=7, own_placeholders=True)


def named(name: str) -> Row:
    found = by_name(name)
    assert found is not None, name
    return found


def way(name: str, *args: int, walls: Walls = ALL_WALLS) -> str:
    return named(name).verdict([*args, *[0] * (6 - len(args))], walls).way


def test_every_call_of_the_kernel_headers_has_a_row() -> None:
    header = next((path for path in HEADERS if path.exists()), None)
    if header is None:
        pytest.skip("asm/unistd_64.h is not installed (linux-libc-dev has it)")
    defined = {
        int(number): name
        for name, number in re.findall(r"^#define __NR_(\w+)\s+(\d+)$", header.read_text(), re.MULTILINE)
    }
    assert len(defined) > 350
    ours = {nr: entry.name for nr, entry in ROWS.items()}
    missing = {nr: name for nr, name in defined.items() if ours.get(nr) != name}
    assert not missing, "give these calls a row"
    unknown = {nr for nr in ours if nr <= LAST_OF_6_1} - set(defined) - NEWER_IN_A_GAP
    assert not unknown, "these rows are no calls of Linux"


def test_numbers_and_names_are_unique() -> None:
    rows = [entry for chapter in CHAPTERS.values() for entry in chapter]
    assert len({entry.nr for entry in rows}) == len({entry.name for entry in rows}) == len(rows) == len(ROWS)
    assert numbers.HUSK_CALL not in ROWS


@pytest.mark.parametrize("entry", ROWS.values(), ids=lambda entry: entry.name)
def test_reasons_can_be_checked(entry: Row) -> None:
    assert entry.way in WAYS
    refusals = [verdict for verdict in entry.verdicts() if verdict.way in ("judged", "refused")]
    reasons = [entry.reason, *(verdict.reason for verdict in refusals)]
    for reason in reasons:
        # One sentence, no full stop: it is printed behind the call's name and in events.
        assert 8 < len(reason) < 200 and reason == reason.strip() and not reason.endswith(".")
        assert not re.search(r"\b(TODO|FIXME|unsafe|dangerous|because)\b", reason)
    for verdict in entry.verdicts():
        assert verdict.way in WAYS
        if verdict.way == "judged":
            assert verdict.errno in errorcode
        elif verdict.way == "refused":
            assert verdict.errno in errorcode or (verdict.errno == 0 and verdict.quiet)
        else:
            assert verdict.errno == 0 and not verdict.quiet
    # The row's own way must be one of its possible verdicts.
    assert entry.way in {verdict.way for verdict in entry.verdicts()}
    assert entry.eintr in EINTR
    if entry.eintr == RESTARTS:
        assert entry.way == "native" or entry.name in CONTINUED
    if entry.eintr == IN_HUSK:
        assert entry.way == "virtual"


def test_the_dispatcher_can_tell_by_number() -> None:
    """A notified call is either virtual or refused, whatever its arguments; where a row mixes the two, it is asked."""
    assert {ROWS[nr].name for nr in mixed_calls()} == {"fcntl", "ioctl", "personality", "prctl", "semget", "socket"}


def test_calls_that_look_at_their_descriptor_first() -> None:
    assert {entry.name for entry in ROWS.values() if looks_at_descriptor_first(entry.nr)} == {"fcntl", "ioctl"}


def test_a_row_names_a_family_where_a_handler_is_needed() -> None:
    for entry in ROWS.values():
        assert bool(entry.family) == any(verdict.way in HANDLED for verdict in entry.verdicts()), entry.name


def test_handled_rows() -> None:
    names = {entry.nr: entry.name for entry in handled_rows()}
    assert names[257] == "openat" and names[13] == "rt_sigaction" and names[302] == "prlimit64"
    assert not set(names.values()) & {"read", "close", "clone", "pivot_root", "shutdown"}
    assert names.pop(numbers.HUSK_CALL) == "husk_call"
    partly = {name for nr, name in names.items() if ROWS[nr].way not in HANDLED}
    sockets = {"socket", "listen", "accept", "accept4", "sendto", "recvfrom", "setsockopt", "getsockopt"}
    ipc = {"semget", "semop", "semtimedop", "semctl", "msgget", "msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink"}
    assert partly - {"fcntl", "ioctl", "getrlimit", "prctl", "setrlimit", "personality"} == sockets | ipc


def test_a_wall_never_adds_a_refusal() -> None:
    """So `refusal` without walls finds a reason for every call that some walls refuse."""
    choice = random.Random(1)
    settings = [
        Walls(pid=pid, net=net, mount=mount, ipc=ipc, landlock=landlock, own_placeholders=places)
        for pid, net, mount, ipc, places in itertools.product((False, True), repeat=5)
        for landlock in (0, 6)
    ]
    for entry in ROWS.values():
        values = [
            sorted(
                {
                    0,
                    1,
                    0xFFFF,
                    *(
                        value
                        for rule in entry.rules
                        for test in rule.tests
                        if test.index == at
                        for value in test.values
                    ),
                }
            )
            for at in range(6)
        ]
        for _ in range(60 if entry.rules else 1):
            args = [choice.choice(options) for options in values]
            for walls in settings:
                if entry.verdict(args, walls).way == "refused":
                    assert entry.verdict(args, NO_WALLS).way == "refused", (entry.name, args)


def test_refusal() -> None:
    assert refusal(308, [0] * 6)[0] == EPERM
    assert refusal(16, [0, 0x5412, 0, 0, 0, 0])[0] == ENOTTY
    errno, reason = refusal(56, [0x10000000 | 17, 0, 0, 0, 0, 0], ALL_WALLS)
    assert errno == EPERM and "namespace" in reason
    errno, reason = refusal(41, [17, 3, 0, 0, 0, 0])
    assert errno == EAFNOSUPPORT and "host" in reason
    assert refusal(12345, [0] * 6)[0] == ENOSYS
    # A virtual call that no handler answered gets an answer all the same.
    errno, reason = refusal(2, [0] * 6)
    assert errno == ENOSYS and "open" in reason


def test_look_ups() -> None:
    assert row(0) is named("read") and row(9999) is None and by_name("no_such_call") is None
    assert row(numbers.HUSK_CALL) is HUSK_CALL_ROW


def test_interruptible_calls() -> None:
    bitmap = eintr_bitmap()
    assert len(bitmap) == 64
    listed = {ROWS[nr].name for nr in range(512) if bitmap[nr // 8] >> nr % 8 & 1}
    assert listed == {entry.name for entry in ROWS.values() if entry.eintr == RESTARTS}
    # As the loader has it since its first version: a bit that changes by accident breaks shells.
    assert bitmap.hex() == (
        "03001f0000fd0020000100000000000000000000000000000004000000008c00"
        "0000580081090840c00100000000000000000000000000008200000000000000"
    )
    # Linux always restarts these, or always ends them with EINTR, or husk handles them itself.
    assert not listed & {
        "close",
        "fork",
        "vfork",
        "clone",
        "poll",
        "select",
        "pause",
        "nanosleep",
        "epoll_wait",
        "msgrcv",
        "semop",
    }
    assert named("poll").eintr == named("nanosleep").eintr == named("msgrcv").eintr == "always"
    assert not listed & {"open", "openat", "flock", "stat", "bind", "execve", "rt_sigaction"}
    assert {
        "read",
        "write",
        "wait4",
        "waitid",
        "futex",
        "fcntl",
        "ioctl",
        "accept",
        "recvmsg",
        "sendto",
    } <= listed


# Rules that hold the walls together, each by its own sentence


@pytest.mark.parametrize(
    "command",
    ["TIOCSTI", "TIOCLINUX", "TIOCCONS", "TIOCSETD", "TIOCVHANGUP", "FS_IOC_SETFLAGS", "SIOCGSKNS", "NS_GET_USERNS",
     "NS_GET_PARENT"],
)
def test_commands_that_leave_their_descriptor_are_refused(command: str) -> None:
    number = ioctls.NEVER[command]
    assert way("ioctl", 0, number) == "refused"
    assert way("ioctl", 0, number | 1 << 32) == "refused"  # Linux reads the low half only


def test_ioctl_numbers_match_the_headers() -> None:
    termios = pytest.importorskip("termios")
    for name, value in (ioctls.ANYWHERE | ioctls.NEVER).items():
        if hasattr(termios, name):
            assert getattr(termios, name) == value, name


def test_namespaces_cannot_be_entered() -> None:
    for flag in numbers.CLONE_NAMESPACES.values():
        assert way("clone", flag | 17) == "refused"
        assert way("unshare", flag) == "refused"
    assert way("unshare", 0x80) == "refused"  # CLONE_NEWTIME
    assert way("clone", 0x3D0F00) == "native"  # what pthread_create asks for
    assert way("clone", 0x1200011) == "native"  # what fork asks for
    assert way("clone3", 0, 88) == "virtual"  # husk reads its flags, and the filter judges the clone they become


def test_signals_need_a_wall() -> None:
    for name in ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_open", "pidfd_send_signal"):
        assert way(name, 1, 9, walls=NO_WALLS) == "refused"
        assert way(name, 1, 9, walls=Walls(landlock=5)) == "refused"
        assert way(name, 1, 9, walls=Walls(landlock=6)) == way(name, 1, 9, walls=Walls(pid=True)) == "native"
    assert way("fcntl", 0, 8, 1, walls=NO_WALLS) == "refused"  # F_SETOWN: the owner is sent SIGIO


def test_groups_need_a_pid_namespace() -> None:
    """Landlock's signal scope alone may have a hole there: as owners of descriptors, and the reaper's to join."""
    landlock, namespace = Walls(landlock=6), Walls(landlock=6, pid=True)
    group = (1 << 64) - 7
    assert way("fcntl", 0, 8, 7, walls=landlock) == way("fcntl", 0, 8, group, walls=namespace) == "native"
    for arguments in ((0, 8, group), (0, 8, 0xFFFFFFF9), (0, 15, 0x1000)):  # F_SETOWN, F_SETOWN_EX
        assert way("fcntl", *arguments, walls=landlock) == "virtual"
        assert way("fcntl", *arguments, walls=NO_WALLS) == "refused"
    for command in (0x8901, 0x8902):  # FIOSETOWN, SIOCSPGRP
        assert way("ioctl", 0, command, walls=namespace) == "native"
        assert way("ioctl", 0, command, walls=landlock) == "virtual"
        assert way("ioctl", 0, command, walls=NO_WALLS) == "refused"
    assert way("setpgid", 0, 7, walls=namespace) == way("setpgid", 7, 0, walls=landlock) == "native"
    assert way("setpgid", 0, 7, walls=landlock) == "virtual"


def test_the_mark_is_not_the_guests_to_change() -> None:
    locks = 10
    for walls in (NO_WALLS, Walls(pid=True)):
        assert way("setrlimit", locks, walls=walls) == "refused"  # with success
        assert way("getrlimit", locks, walls=walls) == way("prlimit64", 0, locks, walls=walls) == "virtual"
        assert way("getrlimit", 7, walls=walls) == way("setrlimit", 7, walls=walls) == "native"


def test_other_processes_are_names() -> None:
    for name in ("sched_setaffinity", "prlimit64", "getpgid", "sched_setscheduler", "sched_getattr"):
        assert way(name, 0, walls=NO_WALLS) == way(name, 7, walls=Walls(pid=True)) == "native"
        assert way(name, 7, walls=NO_WALLS) == "virtual"
    assert way("setpriority", 0, 0, 5, walls=NO_WALLS) == "native"
    assert way("setpriority", 0, 7, 5, walls=NO_WALLS) == way("setpriority", 2, 0, 5, walls=NO_WALLS) == "virtual"
    assert way("ioprio_set", 1, 0, walls=NO_WALLS) == "native"
    assert way("ioprio_set", 3, 0, walls=NO_WALLS) == "virtual"


def test_unix_sockets_are_native_and_their_addresses_are_not() -> None:
    """A datagram's path, or a peer's, would be looked up by the host: whatever may carry one is virtual."""
    for walls in (NO_WALLS, ALL_WALLS):
        for name in ("socket", "socketpair"):
            for kind in (1, 2, 3, 5, 2 | 0x80000):
                assert way(name, 1, kind, walls=walls) == "native"
            assert way(name, 1, 10, walls=walls) == way(name, 1, 4, walls=walls) == "refused"
        for name in ("bind", "connect", "sendmsg", "sendmmsg"):
            assert way(name, 3, 64, 16, walls=walls) == "virtual"
        for size in (0, 16):
            assert way("sendto", 3, 64, 4, 0, 0, size, walls=walls) == "native"
        assert way("sendto", 3, 64, 4, 0, 1 << 40, 16, walls=walls) == way("sendto", 3, 0, 0, 0, 8) == "virtual"
        assert way("accept", 3, 0, 0, walls=walls) == way("recvfrom", 3, 64, 4, 0, 0, walls=walls) == "native"
        for flags, name in ((3, "sendto"), (2, "sendmsg"), (3, "sendmmsg")):
            args = [3, 64, 1, 0, 0, 0]
            args[flags] = 0x20000000  # MSG_FASTOPEN
            assert way(name, *args, walls=walls) == "refused"


def test_networks_need_their_wall() -> None:
    for family in (2, 10):
        assert way("socket", family, 1) == way("socket", family, 2 | 0x800, 17) == "native"
        for walls in (NO_WALLS, Walls(net=True, outside=True)):
            assert way("socket", family, 1, walls=walls) == way("socket", family, 2, 17, walls=walls) == "virtual"
            assert way("socket", family, 3, walls=walls) == way("socket", family, 2, 1, walls=walls) == "refused"
        assert way("socket", family, 5) == "refused"  # SOCK_SEQPACKET would load SCTP
        assert way("socket", family, 1, 132) == way("socket", family, 1, 262) == "refused"
    assert way("socket", 16, 3, 0) == "native" and way("socket", 16, 3, 9) == "refused"
    assert way("socket", 16, 3, 0, walls=NO_WALLS) == "virtual" and way("socket", 16, 3, 9, walls=NO_WALLS) == "refused"
    for family in (0, 3, 17, 29, 38, 40, 44, 0x10001):
        assert way("socket", family, 1) == "refused"
    assert way("ioctl", 3, 0x8912) == "native" and way("ioctl", 3, 0x8912, walls=NO_WALLS) == "virtual"
    outside = Walls(pid=True, net=True, mount=True, ipc=True, outside=True)
    assert way("ioctl", 3, 0x8912, walls=outside) == "virtual"  # such sockets belong to the host's namespace


def test_options_that_reach_the_host_need_the_network_wall() -> None:
    outside = Walls(net=True, outside=True)
    for walls in (NO_WALLS, outside):
        for level, option in ((1, 50), (1, 44), (0, 39), (0, 4), (41, 27), (41, 50)):
            assert way("setsockopt", 3, level, option, walls=walls) == "refused"
            assert way("setsockopt", 3, level, option) == "native"
        for option in (25, 62, 26, 27):  # SO_BINDTODEVICE: husk looks which; SO_ATTACH_FILTER: on which socket
            assert way("setsockopt", 3, 1, option, walls=walls) == "virtual"
        for level, option in ((0, 35), (0, 42), (41, 20)):  # husk keeps the groups
            assert way("setsockopt", 3, level, option, walls=walls) == "virtual"
        assert way("setsockopt", 3, 41, 26, walls=walls) == way("getsockopt", 3, 41, 26, walls=walls) == "virtual"
    for walls in (NO_WALLS, outside, ALL_WALLS):
        assert way("getsockopt", 3, 1, 77, walls=walls) == way("setsockopt", 3, 1, 76, walls=walls) == "refused"
        assert way("getsockopt", 3, 1, 17, walls=walls) == "virtual"
        assert way("setsockopt", 3, 6, 31, walls=walls) == "refused"
        assert way("setsockopt", 3, 1, 2, walls=walls) == way("getsockopt", 3, 1, 4, walls=walls) == "native"


def test_shared_keys_need_their_wall() -> None:
    bare = Walls(pid=True, net=True, mount=True)
    for name in ("semget", "msgget", "mq_open"):
        assert way(name) == "native" and way(name, walls=bare) == "virtual"
    for name in ("shmget", "shmat", "shmctl", "shmdt"):
        assert way(name) == way(name, walls=bare) == "virtual"
    assert way("semget", 0, 255) == "native" and way("semget", 0, 256) == "refused"
    assert way("semget", 0, 256, walls=bare) == "refused"


def test_husk_keeps_reading_guest_memory() -> None:
    assert way("prctl", 4, 0) == way("prctl", 4, 1) == way("prctl", 3) == "virtual"
    assert way("prctl", 4, 2) == "refused"
    assert way("prctl", 35, 14) == "native" and way("prctl", 35, 13) == "refused"
    assert way("userfaultfd") == way("memfd_secret") == "refused"


def test_only_husk_calls_carry_the_cookie() -> None:
    cookie = 0x1122334455667788
    for name, at in (("rt_sigaction", 4), ("execveat", 5)):
        args = [1] * 6  # not null: asking rt_sigaction for the present action is the host's to answer
        assert named(name).verdict(args, ALL_WALLS, cookie).way == "virtual"
        args[at] = cookie
        assert named(name).verdict(args, ALL_WALLS, cookie).way == "native"
        assert named(name).verdict(args, ALL_WALLS, None).way == "virtual"
        args[at] = cookie & 0xFFFFFFFF
        assert named(name).verdict(args, ALL_WALLS, cookie).way == "virtual"


def test_a_question_about_a_rare_signal_is_the_hosts() -> None:
    row = named("rt_sigaction")
    assert row.verdict([30, 0, 0x7FFF0000, 8, 0, 0], ALL_WALLS, 5).way == "native"
    assert row.verdict([17, 0, 0x7FFF0000, 8, 0, 0], ALL_WALLS, 5).way == "virtual"
    assert row.verdict([17, 0, 0x7FFF0000, 8, 5, 0], ALL_WALLS, 5).way == "native"  # husk's own repetition
    assert row.verdict([17, 0x7FFF0000, 0, 8, 0, 0], ALL_WALLS, 5).way == "virtual"
    assert row.verdict([17, 1 << 32, 0, 8, 0, 0], ALL_WALLS, 5).way == "virtual"  # null is null in all 64 bits


def test_what_is_decided_against_says_why() -> None:
    """UDP-Lite, leases, dnotify: refused in every setting, with a reason of their own."""
    for walls in (NO_WALLS, ALL_WALLS):
        for call, args, word in (
            ("socket", [2, 2, 136], "UDP-Lite"),
            ("socket", [10, 2, 136], "UDP-Lite"),
            ("fcntl", [3, 1024, 0], "F_SETLEASE"),
            ("fcntl", [3, 1026, 1], "F_NOTIFY"),
        ):
            verdict = named(call).verdict([*args, 0, 0, 0], walls)
            assert verdict.way == "refused" and verdict.errno and word in verdict.reason, call
