"""Reports to the person outside: refusals once and with their reason, calls as one line, nothing without end."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from husk.abi.registry import number
from husk.abi.text import shown
from husk.kernel.call import Call
from husk.kernel.events import MOST_REFUSALS, NAMES_ROOM, Events, call_name, open_flags, signature
from husk.vfs.host.host_tree import HostTree
from tests.unit.kernel.fakes import Guest
from tests.unit.kernel.good_calls import STATIC_ELF

Told = list[dict[str, object]]

# On every Linux host, and in no tree that a box has of its own.
HOST_FILE = b"/etc/passwd"


class Box:
    def __init__(self, guest: Guest, told: Told, traced: list[str]) -> None:
        self.guest, self.told, self.traced = guest, told, traced

    def refusals(self) -> list[tuple[str, str, str]]:
        """(what, errno, reason)"""
        kept = self.guest.events.refusals.values()
        first = [{**one, "count": 1} for one in kept]  # told when it first happens
        assert [event for event in self.told if event["event"] == "refused"] == first
        return [(str(one["what"]), str(one["errno"]), str(one["reason"])) for one in kept]


def without_time(event: dict[str, object]) -> dict[str, object]:
    """Each has one; the tests compare the rest."""
    assert isinstance(event.pop("time"), float)
    return event


@pytest.fixture
def box(tmp_path: Path, lower: Path) -> Iterator[Box]:
    (tmp_path / "state").mkdir()
    told: Told = []
    traced: list[str] = []
    events = Events(lambda event: told.append(without_time(event)), traced.append)
    guest = Guest(os.fsencode(tmp_path / "state"), os.fsencode(lower), events)
    yield Box(guest, told, traced)
    guest.close()


# -- refusals ----------------------------------------------------------------------------------------------------------

def test_a_host_file_that_is_not_mounted(box: Box, tmp_path: Path) -> None:
    """The guest sees ENOENT as for any missing name. The event outside says why, and what would change it."""
    secret = HOST_FILE
    assert box.guest.errno("open", box.guest.text(secret), 0) == "ENOENT"
    assert box.refusals() == [(os.fsdecode(secret), "ENOENT", "nothing is mounted there")]
    (refusal,) = box.guest.events.refusals.values()
    assert refusal["call"] == "open"
    assert refusal["allow"] == f"--mount {os.fsdecode(secret)}:{os.fsdecode(secret)}:ro"


@pytest.mark.parametrize("name", [b"/nowhere/at/all", b"missing", b"/usr/bin/env", b"/tmp", b"/proc/stat", b"/bin/sh"])
def test_what_is_missing_anyway_is_no_refusal(box: Box, name: bytes) -> None:
    """Not on the host either, or in a tree the box has of its own."""
    assert box.guest.errno("open", box.guest.text(name), 0) == "ENOENT"
    assert box.refusals() == []


def test_own_trees_are_whole_components(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """/library is not below /lib: if the host has it and the box has not, the event says so."""
    monkeypatch.setattr("os.path.lexists", lambda _: True)
    assert box.guest.errno("open", box.guest.text(b"/library/x"), 0) == "ENOENT"
    assert box.refusals() == [("/library/x", "ENOENT", "nothing is mounted there")]


def test_relative_names_are_told_absolute(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    def lexists(path: bytes) -> bool:
        asked.append(path)
        return True

    monkeypatch.setattr("os.path.lexists", lexists)
    os.close(box.guest.cwd)
    box.guest.cwd = box.guest.vfs.placeholder_fd(box.guest.vfs.context, box.guest.directory(b"/dir"), os.O_RDONLY)
    assert box.guest.errno("open", box.guest.text(b"../dir/./secret"), 0) == "ENOENT"
    assert asked == [b"/dir/secret"]
    assert box.refusals() == [("/dir/secret", "ENOENT", "nothing is mounted there")]


def test_names_relative_to_a_descriptor_are_told_right(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """openat(fd of /dir, "secret") is about /dir/secret, wherever the guest sits."""
    monkeypatch.setattr("os.path.lexists", lambda path: path == b"/dir/secret")
    fd = box.guest.open(b"/dir", os.O_DIRECTORY)
    assert box.guest.errno("openat", fd, box.guest.text(b"secret"), 0) == "ENOENT"
    assert box.refusals() == [("/dir/secret", "ENOENT", "nothing is mounted there")]


def test_each_refusal_is_told_once(box: Box) -> None:
    name = box.guest.text(HOST_FILE)
    for _ in range(5):
        box.guest.errno("open", name, 0)
        box.guest.errno("stat", name, 0x10)
    assert len(box.refusals()) == 1


def test_refusals_do_not_grow_without_end(box: Box) -> None:
    for n in range(MOST_REFUSALS + 50):
        box.guest.errno("reboot", n)  # every argument makes it another refusal
    assert len(box.guest.events.refusals) == MOST_REFUSALS
    assert box.guest.events.refusals_lost == 50


def test_names_do_not_grow_without_end() -> None:
    """However long: in a deep directory each may be many times what a path can be."""
    events = Events(None, None, collect=True)
    for n in range(100):
        for _ in range(2):
            events._keep(events.read, b"%d" % n + b"x" * (1 << 20))
    assert 0 < sum(map(len, events.read)) <= NAMES_ROOM
    assert events.names_lost == 2 * (100 - len(events.read))


def test_a_read_only_mount(box: Box, tmp_path: Path) -> None:
    (tmp_path / "ro").mkdir()
    (tmp_path / "ro" / "file").write_text("x")
    tree = HostTree(box.guest.state.new_device(), os.fsencode(tmp_path / "ro"))
    box.guest.vfs.mount(tree, b"/dir")
    assert box.guest.errno("open", box.guest.text(b"/dir/file"), os.O_WRONLY) == "EROFS"
    assert box.refusals() == [("/dir/file", "EROFS", "it is mounted read-only")]
    assert ":rw" in str(next(iter(box.guest.events.refusals.values()))["allow"])
    tree.close()


def test_linux_says_no_is_no_refusal(box: Box) -> None:
    for name, args in (("open", (box.guest.text(b"dir"), os.O_WRONLY)), ("rmdir", (box.guest.text(b"dir"),)),
                       ("mkdir", (box.guest.text(b"dir"), 0)), ("chdir", (box.guest.text(b"file"),))):
        assert box.guest.errno(name, *args) not in ("ok", "EIO")
    assert box.refusals() == []


def test_a_refused_call_is_told_with_the_registrys_reason(box: Box) -> None:
    assert box.guest.errno("io_uring_setup", 8, 0) == "ENOSYS"
    ((what, errno_name, reason),) = box.refusals()
    assert what.startswith("io_uring_setup(8, NULL)") and errno_name == "ENOSYS" and len(reason) > 10


# -- what ran and what was read ----------------------------------------------------------------------------------------

def test_opened_files_are_told(box: Box) -> None:
    box.guest.open(b"dir/../file", os.O_RDWR | os.O_CLOEXEC)
    box.guest.open(b"new", os.O_WRONLY | os.O_CREAT)
    box.guest.open(b"dir", os.O_DIRECTORY)
    box.guest.open(b"file", os.O_PATH)
    opens = [(event["path"], event["flags"]) for event in box.told if event["event"] == "open"]
    assert opens == [("/file", "O_RDWR|O_CLOEXEC"), ("/new", "O_WRONLY|O_CREAT"), ("/dir", "O_RDONLY|O_DIRECTORY"),
                     ("/file", "O_RDONLY|O_PATH")]
    assert list(box.guest.events.read) == [b"/file"], "written, listed and merely named is not read"


def test_executed_programs_are_told(box: Box) -> None:
    box.guest.write_file(b"tool", b"#!/dir/../interpreter -x\n", 0o755)
    box.guest.write_file(b"interpreter", STATIC_ELF, 0o755)
    box.guest.call("execve", box.guest.text(b"tool"), 0, 0)
    (event,) = [event for event in box.told if event["event"] == "exec"]
    assert (event["path"], event["program"]) == ("tool", "/interpreter")
    assert list(box.guest.events.ran) == [b"/interpreter"]


def test_without_listeners_nothing_is_collected(guest: Guest) -> None:
    guest.open(b"file")
    assert not guest.events.watching
    assert not guest.events.read and not guest.events.ran


# -- spelling ----------------------------------------------------------------------------------------------------------

def spelled(guest: Guest, name: str, *args: int, texts: dict[int, bytes] | None = None) -> str:
    call = Call(cast(Any, guest.make(name, *args)), guest.kernel)
    call.texts = texts or {}
    return signature(call)


def test_signature(guest: Guest) -> None:
    assert spelled(guest, "getcwd") == "getcwd(NULL, 0)"
    created = 'openat(AT_FDCWD, "a b", O_WRONLY|O_CREAT, 0600)'
    assert spelled(guest, "openat", -100, 0x7F00, 65, 0o600, texts={1: b"a b"}) == created
    assert spelled(guest, "openat", 0xFFFFFF9C, 1, texts={1: b""}) == 'openat(AT_FDCWD, "", O_RDONLY, 0)'
    assert spelled(guest, "chdir", 65535, 7, 7, 7, 7, 7) == "chdir(0xffff)", "registers the call does not have stay out"
    assert spelled(guest, "chown", 0x1000, 0xFFFFFFFF, 5, texts={0: b"f"}) == 'chown("f", -1, 5)'


def test_signature_has_all_arguments(guest: Guest) -> None:
    assert spelled(guest, "sendto", 3, 0x7F00, 5, 0x4040, 0x8000, 16) == (
        "sendto(3, 0x7f00, 5, MSG_DONTWAIT|MSG_NOSIGNAL, 0x8000, 16)"
    )
    assert spelled(guest, "socket", 2, 0x80801, 6) == "socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC|SOCK_NONBLOCK, 6)"
    assert spelled(guest, "ioctl", 0, 0x5412, 0x1000) == "ioctl(0, TIOCSTI, 0x1000)"
    assert spelled(guest, "ioctl", 0, 0xDEADBEEF, 0) == "ioctl(0, 0xdeadbeef, NULL)"
    assert spelled(guest, "clone", 0x1200011) == (
        "clone(SIGCHLD|CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID, NULL, NULL, NULL, NULL)"
    )
    assert spelled(guest, "getxattrat", -100, 1, 0x100, 2, 0x30, 16, texts={1: b"f", 3: b"user.a"}) == (
        'getxattrat(AT_FDCWD, "f", AT_SYMLINK_NOFOLLOW, "user.a", 0x30, 16)'
    )
    call = Call(cast(Any, guest.make("connect", 3, 0x7F00, 16)), guest.kernel)
    call.copied_address = b"\2\0\0\x50\x7f\0\0\1" + bytes(8)
    assert signature(call) == "connect(3, 127.0.0.1:80, 16)"
    call.copied_address = b"\1\0/run/\x1b[31m\0"
    assert signature(call) == "connect(3, unix:/run/\\x1b[31m, 16)"
    assert spelled(guest, "prctl", 4, 0) == "prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)"
    assert spelled(guest, "kill", -1, 9) == "kill(-1, SIGKILL)"


def test_signature_of_a_number_that_is_no_call(guest: Guest) -> None:
    assert call_name(9999) == "syscall_9999"
    assert call_name(0x4855) == "husk_call"
    assert call_name(number("openat")) == "openat"


@pytest.mark.parametrize("text", [
    b"line\nbreak", b'quo"te', b"esc\x1b[31mred", b"back\\slash", b"tab\t", b"csi\xc2\x9b31m",
    b"ends\\", b'x\\", 0) = 0',
], ids=repr)
def test_a_guests_text_cannot_forge_a_line(box: Box, text: bytes) -> None:
    """One call, one line, one quoted text: a guest that names its files cleverly writes no more than that."""
    box.guest.errno("access", box.guest.text(text), 0)
    (line,) = box.traced
    assert line.isprintable()
    assert re.fullmatch(r'\[\d+\] access\("(?:[^"\\]|\\.)*", F_OK\) = -1 ENOENT \([^"]*\)', line), line


def test_names_that_are_not_text(box: Box) -> None:
    assert shown(b"caf\xc3\xa9 \xff") == "café \\xff"
    box.guest.errno("access", box.guest.text(b"\xff\xfe"), 0)
    assert '"\\xff\\xfe"' in box.traced[0]


def test_trace_says_what_became_of_a_call(box: Box) -> None:
    box.guest.open(b"file")
    box.guest.errno("readlink", box.guest.text(b"link"), box.guest.memory.put(bytes(8)), 8)
    box.guest.errno("access", box.guest.text(b"missing"), 0)
    tid = os.getpid()
    assert box.traced[0] == f'[{tid}] open("file", O_RDONLY, 0644) = fd'
    assert box.traced[1].endswith(" = 4")
    assert box.traced[2].startswith(f'[{tid}] access("missing", F_OK) = -1 ENOENT (')


@pytest.mark.parametrize(("flags", "text"), [
    (0, "O_RDONLY"),
    (os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_TRUNC | os.O_APPEND, "O_WRONLY|O_CREAT|O_EXCL|O_TRUNC|O_APPEND"),
    (os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC, "O_RDWR|O_NONBLOCK|O_CLOEXEC"),
    (3, "O_ACCMODE"),
    (os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY, "O_RDONLY|O_DIRECTORY|O_NOFOLLOW|O_PATH"),
])
def test_open_flags(flags: int, text: str) -> None:
    assert open_flags(flags) == text
