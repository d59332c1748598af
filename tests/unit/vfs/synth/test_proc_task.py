"""/proc/PID: numbers, identities and names are the guest's; shapes are Linux's."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import signal
import stat as st
import subprocess
import sys
from pathlib import Path

import pytest

from husk.vfs.node import Dir, Node
from husk.vfs.proc.proc_tree import HeldFile
from husk.vfs.proc.task_files import running
from husk.vfs.synth.synth_tree import path_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .conftest import Box

UID, GID = 4_000_000_001, 4_000_000_002


def status(box: Box, pid: int) -> dict[str, str]:
    lines = box.read(b"/proc/%d/status" % pid).decode().splitlines()
    return {key: value.strip() for key, value in (line.split(":", 1) for line in lines)}


def test_status_speaks_of_the_guest(box: Box, child: int) -> None:
    told = status(box, child)
    assert (told["Pid"], told["Tgid"], told["PPid"]) == (str(child), str(child), str(box.me))
    assert (told["NSpid"], told["NStgid"]) == (str(child), str(child))
    assert told["Uid"].split() == [str(UID)] * 4 and told["Gid"].split() == [str(GID)] * 4
    assert told["Groups"].split() == ["100", str(GID)]
    assert told["Seccomp"] == "0" and told["TracerPid"] == "0"
    assert told["Threads"] == "1" and told["VmRSS"].endswith(" kB")


def test_status_has_the_lines_of_the_host_in_its_order(box: Box) -> None:
    host = [line.split(":")[0] for line in Path("/proc/self/status").read_text().splitlines()]
    assert [line.split(":")[0] for line in box.read(b"/proc/self/status").decode().splitlines()] == host


def test_parent_outside_the_box_is_zero(box: Box) -> None:
    assert status(box, box.me)["PPid"] == "0"


def test_stat_survives_a_nasty_name(box: Box) -> None:
    program = "import ctypes,sys,signal; ctypes.CDLL(None).prctl(15, b') R 1 (x'); print(flush=True); signal.pause()"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        pid = box.tasks.add(process.pid)
        text = box.read(b"/proc/%d/stat" % pid).decode()
        process.kill()
    assert text.startswith(f"{pid} () R 1 (x) ")
    fields = text.rpartition(")")[2].split()
    assert len(fields) == 50 and fields[0] in "SRD" and fields[1] == str(box.me)
    assert fields[4:6] == ["0", "-1"]  # no terminal


def test_groups_and_sessions_outside_the_box_are_hidden(box: Box) -> None:
    host = (os.getpgid(0), os.getsid(0))
    fields = box.read(b"/proc/self/stat").decode().rpartition(")")[2].split()
    shown = tuple(int(number) for number in fields[2:4])
    for number, there in zip(shown, host, strict=True):
        # If a group's leader is dead, no process has the group's number, and the host's number is shown.
        assert number == 0 or box.tasks.host_of(number) == there or (number == there and not alive(there))


def alive(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


def test_group_of_a_leader_inside(box: Box) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True)
    pid = box.tasks.add(process.pid)
    try:
        fields = box.read(b"/proc/%d/stat" % pid).decode().rpartition(")")[2].split()
        assert fields[2:4] == [str(pid)] * 2
        assert status(box, pid)["NSpgid"] == str(pid)
    finally:
        process.kill()
        process.wait()


def test_the_links_of_a_task_directory_count_its_threads(box: Box, thread: int) -> None:
    """Chromium asserts that it is alone by stat of /proc/self/task."""
    before = counted = 0
    while before != (after := os.stat("/proc/self/task").st_nlink):  # threads of earlier tests may be about to go
        before, counted = after, box.proc.stat(box.ctx, box.walk(b"/proc/self/task")).nlink
    assert counted == after > 3


def test_self_and_thread_self(box: Box, thread: int) -> None:
    assert box.proc.readlink(box.ctx, box.walk(b"/proc/self", follow=False)) == b"%d" % box.me
    box.ctx.tid = box.tasks.threads[thread]
    text = box.proc.readlink(box.ctx, box.walk(b"/proc/thread-self", follow=False))
    assert text == b"%d/task/%d" % (box.me, thread)
    told = dict(line.split(b":\t", 1) for line in box.read(b"/proc/thread-self/status").splitlines())
    assert (told[b"Pid"], told[b"Tgid"]) == (b"%d" % thread, b"%d" % box.me)
    assert b"task" not in box.names(b"/proc/thread-self") and b"children" in box.names(b"/proc/thread-self")


def test_self_asked_from_outside(box: Box) -> None:
    box.ctx.tid = 1
    with pytest.raises(OSError) as caught:
        box.walk(b"/proc/self")
    assert caught.value.errno == errno.ENOENT


def test_listing_has_guest_pids_only(box: Box, child: int, thread: int) -> None:
    numbers = [int(name) for name in box.names(b"/proc") if name.isdigit()]
    assert numbers == [box.me, child]
    assert [int(name) for name in box.names(b"/proc/self/task")] == [box.me, thread]
    assert isinstance(box.walk(b"/proc/%d" % thread), Dir)  # not listed, yet there: as on Linux


@pytest.mark.parametrize("name", [b"0", b"01", b"+1", b"1 ", b"99999999999999", b"4194304", b"-1", b"nothing"])
def test_names_that_are_no_process(box: Box, name: bytes) -> None:
    with pytest.raises(OSError) as caught:
        box.walk(b"/proc/" + name)
    assert caught.value.errno == errno.ENOENT


def test_host_pids_are_no_names(box: Box) -> None:
    for host in (1, os.getpid(), os.getppid()):
        if box.tasks.host_of(host) is None:
            with pytest.raises(FileNotFoundError):
                box.walk(b"/proc/%d/status" % host)


def test_no_host_number_or_path_in_any_file(box: Box, child: int, thread: int) -> None:
    """Every file of every task, searched for host numbers of this test process and for the path of this interpreter."""
    host = box.tasks.processes[child]
    words = [b"%d" % number for number in (os.getpid(), host, box.tasks.threads[thread]) if number > 999]
    hidden = [b"/root", b"/home", os.fsencode(os.getcwd())]
    skip = (b"/environ", b"/cmdline", b"/auxv", b"/mem", b"/statm", b"/limits")  # its own memory; sizes and limits
    checked = 0
    for path, node in box.every_file(b"/proc/%d" % child):
        if node.kind != st.S_IFREG or path.endswith(skip):
            continue
        # A size, or the number of a pipe's inode, may by chance be the very number that is searched for.
        text = re.sub(rb"\d+ kB$|^ino:\t\d+$|_switches:\t\d+$", b"", box.read(path), flags=re.M)
        checked += 1
        fields = text.replace(b":", b" ").replace(b"(", b" ").replace(b",", b" ").split()
        if not path.endswith((b"maps", b"/io", b"/sched", b"/schedstat", b"/stat", b"smaps")):  # plain big numbers
            assert not set(words) & set(fields), path
        assert not any(part in text for part in hidden), path
    assert checked > 60


def test_memory_files(box: Box, child: int) -> None:
    assert b"SECRET=x y\0" in box.read(b"/proc/%d/environ" % child)
    assert box.read(b"/proc/%d/cmdline" % child).split(b"\0")[1] == b"-c"
    assert box.read(b"/proc/self/auxv") == Path("/proc/self/auxv").read_bytes()
    assert box.read(b"/proc/%d/cgroup" % child) == b"0::/\n"
    assert box.read(b"/proc/%d/limits" % child).startswith(b"Limit  ")
    assert len(box.read(b"/proc/%d/statm" % child).split()) == 7
    assert box.read(b"/proc/%d/task/%d/comm" % (child, child)).startswith(b"python")


def test_children_are_guests(box: Box, child: int) -> None:
    assert box.read(b"/proc/self/task/%d/children" % box.me).split() == [b"%d" % child]


@pytest.mark.parametrize(("name", "mode"), [
    (b"", st.S_IFDIR | 0o555), (b"/status", st.S_IFREG | 0o444), (b"/environ", st.S_IFREG | 0o400),
    (b"/auxv", st.S_IFREG | 0o400), (b"/maps", st.S_IFREG | 0o444), (b"/comm", st.S_IFREG | 0o644),
    (b"/fd", st.S_IFDIR | 0o500), (b"/fdinfo", st.S_IFDIR | 0o555), (b"/task", st.S_IFDIR | 0o555),
    (b"/cwd", st.S_IFLNK | 0o777), (b"/exe", st.S_IFLNK | 0o777), (b"/net/tcp", st.S_IFREG | 0o444),
])
def test_modes_and_owner(box: Box, child: int, name: bytes, mode: int) -> None:
    node = box.walk(b"/proc/%d" % child + name, follow=False)
    found = box.proc.stat(box.ctx, node)
    size = len(os.listdir(f"/proc/{box.tasks.processes[child]}/fd")) if name == b"/fd" else 0  # since Linux 6.2
    assert (found.mode, found.uid, found.gid, found.size) == (mode, UID, GID, size)
    assert found.dev == box.proc.dev and found.ino == box.proc.ino_of(node) != 0
    if name and name != b"/task" and name != b"/net/tcp":
        host = os.lstat(b"/proc/self" + name)
        assert found.mode == host.st_mode


def test_inodes_are_stable_and_apart(box: Box, child: int, thread: int) -> None:
    list(box.every_file(b"/proc"))  # what that opens stays open, and is listed from now on
    seen = {box.proc.ino_of(node): path for path, node in box.every_file(b"/proc")}
    assert {path: number for number, path in seen.items()} == {
        path: box.proc.ino_of(node) for path, node in box.every_file(b"/proc")}
    listed = {entry.name: entry.ino for entry in box.proc.entries(box.ctx, box.proc.root, 0)}
    for name, number in listed.items():
        assert box.proc.stat(box.ctx, box.walk(b"/proc/" + name, follow=False)).ino == number


def test_directories_keep_their_identity(box: Box, child: int) -> None:
    for path in (b"", b"/fd", b"/task", b"/task/%d" % child):
        path = b"/proc/%d" % child + path
        assert box.walk(path) is box.walk(path)


def test_listing_resumes_after_a_cookie(box: Box, child: int) -> None:
    for path in (b"/proc", b"/proc/self", b"/proc/self/fd", b"/proc/self/net", b"/proc/sys/kernel"):
        directory = box.walk(path)
        assert isinstance(directory, Dir)
        whole = [(entry.cookie, entry.name) for entry in box.proc.entries(box.ctx, directory, 0)]
        assert whole == sorted(whole) and whole[0][0] > 2 and len({cookie for cookie, _ in whole}) == len(whole)
        middle = whole[len(whole) // 2][0]
        rest = [(entry.cookie, entry.name) for entry in box.proc.entries(box.ctx, directory, middle)]
        expected = [each for each in whole if each[0] > middle]
        if path == b"/proc/self/fd":  # listing takes a descriptor of this process, which comes and goes
            still = {os.fsencode(name) for name in os.listdir("/proc/self/fd")}
            rest, expected = ([each for each in some if each[1] in still] for some in (rest, expected))
        assert rest == expected


def test_a_dead_process_is_gone_everywhere(box: Box) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    pid = box.tasks.add(process.pid)
    directory, fds = box.walk(b"/proc/%d" % pid), box.walk(b"/proc/%d/fd" % pid)
    file, link = box.walk(b"/proc/%d/status" % pid), box.walk(b"/proc/%d/cwd" % pid, follow=False)
    assert isinstance(directory, Dir) and isinstance(fds, Dir)
    process.send_signal(signal.SIGKILL)
    process.wait()

    def gone(ask: object) -> None:
        assert callable(ask)
        with pytest.raises(OSError) as caught:
            ask()
        assert caught.value.errno in (errno.ENOENT, errno.ESRCH)

    gone(lambda: box.proc.stat(box.ctx, box.proc.lookup(box.ctx, directory, b"stat")))
    gone(lambda: box.proc.entries(box.ctx, directory, 0))
    gone(lambda: box.proc.entries(box.ctx, fds, 0))
    gone(lambda: box.proc.open(box.ctx, file, os.O_RDONLY))
    gone(lambda: box.proc.readlink(box.ctx, link))
    assert box.proc.stat(box.ctx, directory).ino, "fstat of a directory that is held still works"


def test_a_number_used_again_is_another_process(box: Box) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    child = box.tasks.add(process.pid)
    old = box.walk(b"/proc/%d" % child)
    assert isinstance(old, Dir) and box.read(b"/proc/%d/comm" % child)
    process.kill()
    process.wait()
    box.tasks.processes[child] = os.getpid()
    with pytest.raises(ProcessLookupError):  # what the host says about a directory held open
        box.proc.open(box.ctx, box.proc.lookup(box.ctx, old, b"status"), os.O_RDONLY)
    assert box.walk(b"/proc/%d" % child) is not old


def test_a_zombie(box: Box) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    pid = box.tasks.add(process.pid)
    try:
        assert status(box, pid)["State"].startswith("Z")
        assert box.read(b"/proc/%d/cmdline" % pid) == b""
        assert b" Z " in box.read(b"/proc/%d/stat" % pid)
    finally:
        process.wait()


def test_links(box: Box, child: int) -> None:
    def text(name: bytes) -> bytes:
        return box.proc.readlink(box.ctx, box.walk(b"/proc/%d/" % child + name, follow=False))

    assert text(b"exe") == b"/usr/bin/guest-program"
    assert text(b"root") == b"/" and box.walk(b"/proc/self/root") is box.top.root
    box.tasks.cwd = cwd = box.walk(b"/proc/sys/kernel")  # type: ignore[assignment]
    assert text(b"cwd") == b"/proc/sys/kernel" and box.walk(b"/proc/self/cwd") is cwd
    box.tasks.cwd = None
    with pytest.raises(FileNotFoundError):
        text(b"cwd")


def test_fd_of_a_known_file_leads_to_its_node(box: Box) -> None:
    with open("/dev/null", "rb") as file:
        node = box.walk(b"/dev/null")
        box.tasks.nodes[os.getpid(), file.fileno()] = node
        assert box.walk(b"/dev/fd/%d" % file.fileno()) is node
        link = box.walk(b"/proc/self/fd/%d" % file.fileno(), follow=False)
        assert box.proc.stat(box.ctx, link).mode == st.S_IFLNK | 0o500
        info = box.read(b"/proc/self/fdinfo/%d" % file.fileno()).split(b"\n")
    assert b"ino:\t%d" % box.dev.ino_of(node) in info and b"mnt_id:\t42" in info and b"pos:\t0" in info
    with pytest.raises(FileNotFoundError):
        box.walk(b"/proc/self/fd/%d" % 1_000_000)


def test_fdinfo_of_a_pidfd_names_the_guest(box: Box, child: int) -> None:
    fd = os.pidfd_open(box.tasks.processes[child])
    try:
        told = dict(line.split(b":\t") for line in box.read(b"/proc/self/fdinfo/%d" % fd).splitlines())
    finally:
        os.close(fd)
    assert told[b"Pid"] == b"%d" % child


def test_locks_in_fdinfo_name_the_guest(box: Box, tmp_path: Path) -> None:
    import fcntl

    with open(tmp_path / "locked", "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        text = box.read(b"/proc/self/fdinfo/%d" % file.fileno())
    words = next(line for line in text.splitlines() if line.startswith(b"lock:")).split()
    assert words[2:7] == [b"FLOCK", b"ADVISORY", b"WRITE", b"%d" % box.me, b"00:00:0"]


# -- what a descriptor holds ------------------------------------------------------------------------------------------
def held(box: Box, fd: int) -> Node:
    node = box.walk(b"/proc/self/fd/%d" % fd)
    assert isinstance(node, HeldFile) and (node.host_tid, node.fd) == (os.getpid(), fd)
    return node


def test_a_pipe_can_be_opened_again(box: Box) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"through")
    node = held(box, reader)
    assert node.kind == st.S_IFIFO
    again = box.proc.open(box.ctx, node, os.O_RDONLY)
    assert os.read(again, 7) == b"through" and os.get_inheritable(again) is False
    assert box.proc.stat(box.ctx, node).uid == UID
    for fd in (reader, writer, again):
        os.close(fd)


def test_a_held_file_gives_no_more_than_the_guest_has(box: Box, tmp_path: Path) -> None:
    """husk, which may run as root, could open the host file for writing; the guest got it for reading."""
    (tmp_path / "input").write_bytes(b"text")
    cases = {
        os.O_RDONLY: {os.O_RDONLY: True, os.O_WRONLY: False, os.O_RDWR: False, os.O_RDONLY | os.O_TRUNC: False},
        os.O_WRONLY: {os.O_RDONLY: False, os.O_WRONLY: True, os.O_RDWR: False},
        os.O_RDWR: {os.O_RDONLY: True, os.O_WRONLY: True, os.O_RDWR: True},
        os.O_PATH: {os.O_RDONLY: False, os.O_PATH: True},
    }
    for have, wants in cases.items():
        fd = os.open(tmp_path / "input", have)
        for want, works in wants.items():
            try:
                os.close(box.proc.open(box.ctx, held(box, fd), want))
                assert works, (have, want)
            except PermissionError:
                assert not works, (have, want)
        os.close(fd)
    assert (tmp_path / "input").read_bytes() == b"text"


def test_sockets_and_unknown_directories(box: Box, tmp_path: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as end:
        with pytest.raises(OSError) as caught:
            box.proc.open(box.ctx, held(box, end.fileno()), os.O_RDWR)
        assert caught.value.errno == errno.ENXIO
    fd = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(PermissionError):
        box.walk(b"/proc/self/fd/%d" % fd)
    os.close(fd)


# -- opening and writing ----------------------------------------------------------------------------------------------
def test_a_snapshot_is_read_only_and_says_whose_it_is(box: Box) -> None:
    fd = box.open(b"/proc/self/status")
    try:
        assert os.readlink(f"/proc/self/fd/{fd}").startswith(f"/memfd:husk-proc:/proc/{box.me}/status")
        assert os.lseek(fd, 0, os.SEEK_CUR) == 0
        assert node_of(box, fd) == (b"/proc/%d" % box.me, b"status")
        with pytest.raises(OSError):
            os.write(fd, b"x")
        with pytest.raises(OSError):
            os.ftruncate(fd, 0)
    finally:
        os.close(fd)


def node_of(box: Box, fd: int) -> tuple[bytes, bytes]:
    """Directory and name that a descriptor of this process leads back to."""
    link, host = os.readlink(b"/proc/self/fd/%d" % fd), os.fstat(fd)
    node = box.proc.node_of_host(link, host.st_dev, host.st_ino, b"")
    assert node is not None
    place = box.proc.name_of(node)
    assert place is not None
    return path_of(place[0]), place[1]


@pytest.mark.parametrize("path", [
    b"/proc/stat", b"/proc/sys/kernel/pid_max", b"/proc/mounts", b"/proc/self", b"/proc/1/net/tcp", b"/proc/1/fdinfo/0",
    b"/proc/1/task/1/stat", b"/proc/1/exe", b"/proc/1/fd/0", b"/proc/meminfo",
])
def test_descriptors_lead_back_to_their_nodes(box: Box, path: bytes) -> None:
    node = box.walk(path, follow=False)
    fd = box.proc.open(box.ctx, node, os.O_PATH | os.O_NOFOLLOW)
    try:
        assert b"/".join(node_of(box, fd)) == path
        with pytest.raises(OSError):
            os.read(fd, 1)
    finally:
        os.close(fd)


def test_descriptors_of_others_lead_nowhere(box: Box) -> None:
    for link in (b"/memfd:mine (deleted)", b"/memfd:husk-proc:/etc/passwd (deleted)", b"/memfd:husk-proc:", b"/x",
                 b"/memfd:husk-proc:/proc/../etc", b"/memfd:husk-proc:/proc/77/stat (deleted)", b"/proc/77/comm",
                 b"/proc/1/mem", b"/proc/%d/status" % os.getpid()):
        assert box.proc.node_of_host(link, 0, 0, b"") is None, link


def test_comm_can_be_set(box: Box, child: int) -> None:
    before = Path("/proc/self/comm").read_bytes()
    try:
        fd = box.open(b"/proc/self/comm", os.O_WRONLY | os.O_TRUNC)
        os.write(fd, b"renamed")
        assert node_of(box, fd) == (b"/proc/%d" % box.me, b"comm")
        os.close(fd)
        assert box.read(b"/proc/self/comm") == b"renamed\n"
    finally:
        Path("/proc/self/comm").write_bytes(before)


@pytest.mark.parametrize(("name", "written", "reads"), [
    (b"oom_score_adj", b"900", b"900\n"), (b"coredump_filter", b"0x31", None)])
def test_tunable_files(box: Box, child: int, name: bytes, written: bytes, reads: bytes | None) -> None:
    """`reads` None: writing succeeds and does nothing."""
    before = box.read(b"/proc/%d/" % child + name)
    fd = box.open(b"/proc/%d/" % child + name, os.O_RDWR)
    os.write(fd, written)
    os.close(fd)
    assert box.read(b"/proc/%d/" % child + name) == (before if reads is None else reads)


@pytest.mark.parametrize("name", [b"self/setgroups", b"self/uid_map", b"self/status", b"self/environ", b"self/net/dev"])
def test_the_rest_cannot_be_written(box: Box, name: bytes) -> None:
    with pytest.raises(PermissionError):
        box.open(b"/proc/" + name, os.O_WRONLY)


def read_everything(box: Box) -> None:
    for path, node in box.every_file(b"/proc"):
        node.tree.stat(box.ctx, node)
        if node.kind == st.S_IFREG and not path.endswith(b"/mem"):  # another's cannot be opened
            os.close(node.tree.open(box.ctx, node, os.O_RDONLY))


def test_no_descriptor_leaks(box: Box, child: int) -> None:
    read_everything(box)
    before = len(os.listdir("/proc/self/fd"))
    read_everything(box)
    assert len(os.listdir("/proc/self/fd")) == before


def test_descriptors_of_tasks_are_few(box: Box, child: int) -> None:
    """A process list of hundreds must not use up husk's descriptors."""
    host = box.tasks.processes[child]
    before = len(os.listdir("/proc/self/fd"))
    for number in range(1000, 1300):
        box.tasks.processes = {number: host}
        box.read(b"/proc/%d/stat" % number)
    assert len(os.listdir("/proc/self/fd")) <= before + 64


def test_who_reads_about_itself_runs(box: Box, child: int) -> None:
    assert running(b"stat", b"7 (a) b) S 1 2") == b"7 (a) b) R 1 2"
    assert running(b"status", b"Name:\tx\nState:\tS (sleeping)\nTgid:\t7\n").split(b"\n")[1] == b"State:\tR (running)"
    assert running(b"comm", b"x") == b"x"
    box.ctx.tid = box.tasks.processes[child]
    assert status(box, child)["State"] == "R (running)"
    assert box.read(b"/proc/self/stat").rpartition(b")")[2].split()[0] == b"R"


def test_while_the_loader_works_the_program_is_named(box: Box, child: int) -> None:
    """The host still shows the loader; husk knows which program it prepares, and the words a script adds."""
    here = b"/proc/%d/" % child
    arguments = box.read(here + b"cmdline").split(b"\0", 1)[1]
    box.tasks.loading[box.tasks.processes[child]] = b"/bin/sh", b"a) (b", [b"/bin/sh", b"-e", b"./script"]
    assert box.read(here + b"comm") == b"a) (b\n"
    assert box.read(here + b"status").startswith(b"Name:\ta) (b\nUmask:")
    assert box.read(here + b"stat").startswith(b"%d (a) (b) " % child)
    assert box.read(here + b"cmdline") == b"/bin/sh\0-e\0./script\0" + arguments
    assert box.read(here + b"sched").startswith(b"a) (b (%d, " % child)


def test_namespaces_have_names_but_cannot_be_held(box: Box) -> None:
    for name in box.names(b"/proc/self/ns"):
        node = box.walk(b"/proc/self/ns/" + name, follow=False)
        assert node.tree.readlink(box.ctx, node) == os.readlink(b"/proc/self/ns/" + name)
        with pytest.raises(PermissionError):
            box.open(b"/proc/self/ns/" + name)


def test_asking_about_one_process_costs_the_same_in_a_large_box(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading every process's stat asks for each of them once or a few times, not for all of them each time."""
    asked: list[int] = []
    numbers: dict[int, int] = {}

    def guest_of(host_pid: int) -> int:
        asked.append(host_pid)
        return numbers.get(host_pid, 0)

    monkeypatch.setattr(box.tasks, "guest_of", guest_of)
    children = []
    try:
        for _ in range(300):
            pid = os.fork()
            if not pid:
                signal.pause()
                os._exit(0)
            children.append(pid)
            numbers[pid] = box.tasks.add(pid)
        for _ in range(2):
            for pid in children:
                assert box.read(b"/proc/%d/stat" % numbers[pid]).startswith(b"%d (" % numbers[pid])
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    assert len(asked) < 20 * 2 * len(children)


def test_a_listing_in_pieces_looks_for_processes_once(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    pids = list(range(1, 500))

    def guest_pids() -> list[int]:
        asked.append(0)
        return pids

    monkeypatch.setattr(box.tasks, "guest_pids", guest_pids)
    top = box.proc.root
    after, names = 0, []
    while piece := list(box.proc.entries(box.ctx, top, after))[:100]:
        names += [int(entry.name) for entry in piece if entry.name.isdigit()]
        after = piece[-1].cookie
    assert names == pids and len(asked) <= 2
    list(box.proc.entries(box.ctx, top, 0))
    assert len(asked) <= 3, "from the beginning it is looked up anew"


def test_memory_is_the_callers_own(box: Box, child: int) -> None:
    value = ctypes.c_uint64(42)
    fd = box.open(b"/proc/self/mem", os.O_RDWR)
    try:
        assert os.pread(fd, 8, ctypes.addressof(value)) == (42).to_bytes(8, "little")
    finally:
        os.close(fd)
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
        with pytest.raises(PermissionError):
            box.open(b"/proc/%d/mem" % child, flags)
