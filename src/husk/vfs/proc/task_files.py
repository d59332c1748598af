"""vfs: the text of files under /proc/PID — the host's own text with host numbers, paths and identities rewritten.

Text only: nodes and links are in `proc_tree`, whole-system files in `system_files`, memory maps in `maps`. Every number
or path that leaves here is the guest's; what cannot be translated is shown as 0 or left out, never passed through.
"""

from __future__ import annotations

import os

from husk.vfs.mounts import mountinfo_text, mounts_text, mountstats_text
from husk.vfs.proc.maps import maps, smaps
from husk.vfs.proc.view import status_lines
from husk.vfs.synth.synth_tree import read_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.vfs.proc.view import HostTask


# -- numbers ----------------------------------------------------------------------------------------------------------
def _group_number(task: HostTask, host_number: int, ns_numbers: bytes) -> int:
    """The guest's number of a process group or session, whose leader may be long dead and unknown to the task list.

    `ns_numbers` are the columns of NSpgid or NSsid: the innermost counts if the guest is in a deeper pid namespace.
    """
    if known := task.view.tasks.shows(host_number):
        return known
    columns = ns_numbers.split()
    if len(columns) > task.view.outer()[0]:
        return int(columns[-1])
    # The same pid namespace as husk: a number that no process has now can only have been the guest's own leader.
    return 0 if os.path.exists(b"/proc/%d" % host_number) else host_number


def _parent(task: HostTask, host_parent: int) -> int:
    """The guest's number of a parent. The parent of the box's first process is in no list, but getppid returns it."""
    known = task.view.tasks.shows(host_parent)
    if known or not host_parent:
        return known
    try:
        columns = dict(status_lines(read_host(b"/proc/%d/status" % host_parent))).get(b"NSpid", b"").split()
    except OSError:
        return 0
    # In a pid namespace of its own, the parent is that namespace's first process, or outside and shown as 0.
    return int(columns[-1]) if len(columns) > task.view.outer()[0] else 0


def _status(task: HostTask) -> bytes:
    view, tasks = task.view, task.view.tasks
    lines = status_lines(task.read(b"status"))
    fields = dict(lines)
    host_tgid = int(fields[b"Tgid"])
    tgid = b"%d" % (task.guest if host_tgid == task.host else tasks.guest_of(host_tgid))
    pid = b"%d" % task.guest
    filters = max(0, int(fields.get(b"Seccomp_filters", b"0")) - view.outer()[1] - 1)  # one of them is husk's own
    new = {
        b"Tgid": tgid,
        b"NStgid": tgid,
        b"Pid": pid,
        b"NSpid": pid,
        b"Ngid": b"0",
        b"PPid": b"%d" % _parent(task, int(fields[b"PPid"])),
        b"TracerPid": b"%d" % tasks.guest_of(int(fields[b"TracerPid"])) if fields[b"TracerPid"] != b"0" else b"0",
        b"Uid": b"\t".join([b"%d" % view.creds.uid] * 4),
        b"Gid": b"\t".join([b"%d" % view.creds.gid] * 4),
        b"Groups": b" ".join(b"%d" % group for group in sorted(view.creds.groups)) + b" ",
        b"Seccomp": b"2" if filters else b"0",
        b"Seccomp_filters": b"%d" % filters,
    }
    if (ids := tasks.ids_of(task.host)) is not None:
        new[b"Uid"], new[b"Gid"] = (b"\t".join(b"%d" % one for one in each) for each in (ids.uids, ids.gids))
        new[b"Groups"] = b" ".join(b"%d" % group for group in sorted(ids.groups)) + b" "
        new[b"CapPrm"], new[b"CapEff"] = b"%016x" % ids.permitted, b"%016x" % ids.effective
    for key in (b"NSpgid", b"NSsid"):
        if columns := fields.get(key, b""):
            new[key] = b"%d" % _group_number(task, int(columns.split()[0]), columns)
    return b"".join(key + b":\t" + new.get(key, value) + b"\n" for key, value in lines)


def _stat(task: HostTask) -> bytes:
    text = task.read(b"stat")
    # The name may hold spaces and parentheses: the last ")" ends it.
    start, end = text.index(b"("), text.rindex(b")")
    fields = text[end + 2 :].split(b" ")  # fields[0] is the state, field 3 of proc(5)
    tasks = task.view.tasks
    fields[1] = b"%d" % _parent(task, int(fields[1]))
    ns = None
    for index, key in ((2, b"NSpgid"), (3, b"NSsid")):
        number = int(fields[index])
        known = tasks.shows(number)
        if not known:
            ns = ns or dict(status_lines(task.read(b"status")))
            known = _group_number(task, number, ns.get(key, b""))
        fields[index] = b"%d" % known
    if task.view.allow_tty and fields[4] != b"0":
        foreground = int(fields[5])
        fields[5] = b"%d" % (tasks.guest_of(foreground) if foreground > 0 else foreground)
    else:
        fields[4], fields[5] = b"0", b"-1"
    return b"%d " % task.guest + text[start : end + 2] + b" ".join(fields)


def running(name: bytes, text: bytes) -> bytes:
    """A task that reads its own state is running. The host shows it waiting, for husk's answer."""
    if name == b"stat":
        end = text.rindex(b")") + 2
        return text[:end] + b"R" + text[end + 1 :]
    if name == b"status":
        head, key, rest = text.partition(b"\nState:\t")
        return head + key + b"R (running)\n" + rest.partition(b"\n")[2]
    return text


NAMED = frozenset({b"cmdline", b"comm", b"sched", b"stat", b"status"})  # these contain the program's name


def starting(name: bytes, text: bytes, comm: bytes, prefix: list[bytes]) -> bytes:
    """The text once the program runs, made from the text while husk's loader prepares it."""
    if name == b"comm":
        return comm + b"\n"
    if name == b"stat":
        return text[: text.index(b"(") + 1] + comm + text[text.rindex(b")") :]
    if name == b"status":
        return b"Name:\t" + comm + text[text.index(b"\n") :]
    if name == b"sched":
        return comm + text[text.index(b" (") :]
    # cmdline of a script: the interpreter's words replace the first one
    return b"".join(word + b"\0" for word in prefix) + text.partition(b"\0")[2] if prefix else text


def _sched(task: HostTask) -> bytes:
    head, newline, rest = task.read(b"sched").partition(b"\n")
    name, _, threads = head.rpartition(b" (")
    return name + b" (%d," % task.guest + threads.partition(b",")[2] + newline + rest


def _wchan(task: HostTask) -> bytes:
    """Where it sleeps. In a call that husk answers it does not sleep, as far as Linux would show."""
    text = task.read(b"wchan")
    return b"0" if text.startswith((b"seccomp", b"ptrace")) else text


def _children(task: HostTask) -> bytes:
    numbers = (task.view.tasks.guest_of(int(number)) for number in task.read(b"children").split())
    return b"".join(b"%d " % number for number in numbers if number)


def fdinfo(task: HostTask, fd: int, mount_id: int, ino: int | None) -> bytes:
    """/proc/PID/fdinfo/N. Inode and mount are those of the guest's file, where there is one."""
    made = []
    for line in task.read(b"fdinfo/%d" % fd).splitlines(keepends=True):
        key, _, value = line.partition(b":")
        if key == b"mnt_id":
            line = b"mnt_id:\t%d\n" % mount_id
        elif key == b"ino" and ino is not None:
            line = b"ino:\t%d\n" % ino
        elif key in (b"Pid", b"NSpid"):  # of a pidfd; -1 once that process is gone
            number = int(value.split()[0])
            line = b"%s:\t%d\n" % (key, task.view.tasks.guest_of(number) if number > 0 else number)
        elif key == b"lock":  # "1: FLOCK  ADVISORY  WRITE 1234 fe:00:1234 0 EOF"
            words = value.split()
            if len(words) < 8:
                continue
            words[4] = b"%d" % task.view.tasks.guest_of(max(int(words[4]), 0))
            words[5] = b"00:00:%d" % (ino or 0)
            line = b"lock:\t" + b" ".join(words) + b"\n"
        elif key == b"inotify wd":  # "1 ino:1a4 sdev:fe00000 mask:2 ignored_mask:0 fhandle-bytes:8 …"
            words = value.split()
            told = dict(word.split(b":") for word in words[1:4])
            host_dev = int(told[b"sdev"], 16)
            host = os.makedev(host_dev >> 20, host_dev & 0xFFFFF), int(told[b"ino"], 16)
            dev, number = task.view.watched_file(host)
            sdev = os.major(dev) << 20 | os.minor(dev)
            line = b"inotify wd:%s ino:%x sdev:%x mask:%s ignored_mask:0 \n" % (words[0], number, sdev, told[b"mask"])
        made.append(line)
    return b"".join(made)


MARKED = 1 << 62  # a limit on file locks from here on is a mark of husk (sandbox/orphans.py)


def _limits(task: HostTask) -> bytes:
    """getrlimit shows the same (kernel/syscalls/processes.py)."""
    lines = task.read(b"limits").splitlines(keepends=True)
    core = task.view.tasks.core_limit(task.host)
    for at, line in enumerate(lines):
        words = line.split()
        if line.startswith(b"Max core file size") and core is not None:
            lines[at] = b"%-25s %-20d %-20d %-10s\n" % (b"Max core file size", *core, b"bytes")
        if line.startswith(b"Max file locks") and words[3].isdigit() and int(words[3]) >= MARKED:
            lines[at] = b"%-25s %-20s %-20s %-10s\n" % (b"Max file locks", b"unlimited", b"unlimited", b"locks")
    return b"".join(lines)


def _core_filter(task: HostTask) -> bytes:
    """As the process, or one that it descends from, has set it; else the host's."""
    known = task.view.tasks.core_filter(task.host)
    return task.read(b"coredump_filter") if known is None else b"%08x\n" % known


# -- the tables -------------------------------------------------------------------------------------------------------
def _host(name: bytes) -> Callable[[HostTask], bytes]:
    return lambda task: task.read(name)


def _fixed(text: bytes) -> Callable[[HostTask], bytes]:
    return lambda _task: text


LANDLOCK_MARK = 0xF001FF00  # husk's own bits of a personality (native/remote/restrict.c)
_WHOLE_MAP = b"         0          0 4294967295\n"  # as without a user namespace: every id maps to itself

TASK_TEXT: dict[bytes, Callable[[HostTask], bytes]] = {
    b"arch_status": _host(b"arch_status"),
    b"auxv": _host(b"auxv"),
    b"cgroup": _fixed(b"0::/\n"),
    b"children": _children,
    b"cmdline": _host(b"cmdline"),
    b"comm": _host(b"comm"),
    b"coredump_filter": _core_filter,
    b"cpuset": _fixed(b"/\n"),
    b"environ": _host(b"environ"),
    b"gid_map": _fixed(_WHOLE_MAP),
    b"io": _host(b"io"),
    b"ksm_merging_pages": _host(b"ksm_merging_pages"),
    b"ksm_stat": _host(b"ksm_stat"),
    b"limits": _limits,
    b"loginuid": _fixed(b"4294967295"),
    b"maps": lambda task: maps(task.read(b"maps"), task.view.guest_file),
    b"mountinfo": lambda task: mountinfo_text(task.view.mounts()),
    b"mounts": lambda task: mounts_text(task.view.mounts()),
    b"mountstats": lambda task: mountstats_text(task.view.mounts()),
    b"oom_adj": _host(b"oom_adj"),
    b"oom_score": _host(b"oom_score"),
    b"oom_score_adj": _host(b"oom_score_adj"),
    b"personality": lambda task: b"%08x\n" % (int(task.read(b"personality"), 16) & ~LANDLOCK_MARK),
    b"projid_map": _fixed(_WHOLE_MAP),
    b"sched": _sched,
    b"schedstat": _host(b"schedstat"),
    b"sessionid": _fixed(b"4294967295"),
    b"setgroups": _fixed(b"allow\n"),
    b"smaps": lambda task: smaps(task.read(b"smaps"), task.view.guest_file),
    b"smaps_rollup": _host(b"smaps_rollup"),
    b"stat": _stat,
    b"statm": _host(b"statm"),
    b"status": _status,
    b"timens_offsets": _fixed(b"monotonic           0         0\nboottime            0         0\n"),
    b"timerslack_ns": _host(b"timerslack_ns"),
    b"uid_map": _fixed(_WHOLE_MAP),
    b"wchan": _wchan,
}
