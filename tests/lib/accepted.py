"""Differences between a native run and a run in husk that we accept, each with its reason.

An entry names a case (the name a test gives to `differential`) and how one line of output, or one name of the resulting
tree, reads on either side. An entry that no longer matches anything in its case fails the test: then husk has become
more like Linux, and the entry must go.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Accepted:
    case: str
    native: str  # regular expression for the whole line (of a tree: for what is said of the name), natively
    husk: str  # and in husk
    reason: str
    name: str = ""  # a name in the tree; empty: the entry is about a line of output
    # Only where husk is "bare" (without namespaces) or "walled", started by "root" or by a "user"; empty: everywhere.
    setting: str = ""


_SET_ID = "on an rw mount husk drops set-id bits: a guest must not leave a set-user-id file of the caller's on the host"
_EXECUTE_ONLY = "husk reads a program to run it, and a user cannot read what is execute-only"
_NO_UID_0 = "uid and gid 0 are not mapped in the box's user namespace: the host says EINVAL before it says EPERM"
_RW_NAMES = "husk does not follow renames on an rw mount: the path is the one the program was started by"
_LINKS = "a layer knows a file by the names it has, not by the one it was opened by"
_THUNK = "a question about a rare signal goes to the host and shows the thunk husk set, see docs/design/002-signals.md"
_NO_HANDLES = "a handle would name the host's inode; husk's trees have none, as overlayfs has none"
_OTHER_MOUNT = "the working directory is a mount of its own inside, and natively it is on the root's file system"
_BIRTH = "husk does not know when a file of the host's was made"
_TRACED = "husk has to stop the thread for this, and one that another guest traces it cannot stop"
_LOADERS_DESCRIPTOR = "the host is told by descriptor to execute the loader, and that takes a free one"
_FIFO = "on a ro mount no FIFO of the host can be written to, although Linux allows it: ro changes nothing of the host"
_EVERYWHERE = ("", " on a copy", " in tmp")
_SEAT = "on a host mount a guest holds or sits in a placeholder, which keeps nothing alive: docs/design/005-inotify.md"

ACCEPTED: tuple[Accepted, ...] = (
    Accepted("coreutils: chmod", "4755 words", "755 words", _SET_ID),
    *(
        Accepted("files_matrix read-only", rf"{how}\(fifo\) = .*", rf"{how}\(fifo\) = -1 EROFS", _FIFO)
        for how in ("open_wronly", "open_rdwr", "open_creat", "open_trunc", "open_nofollow_creat")
    ),
    Accepted("coreutils: chmod", r"file 4755 (.*)", r"file 0755 (.*)", _SET_ID, name="words"),
    *(
        Accepted("exec_errors", native, rf"execute-only {what} = -1 EACCES", _EXECUTE_ONLY, setting="user")
        for what, native in (
            ("binary", r"argc=2 \[zero\] \[one\]"),
            ("script", r"argc=3 \[./show\] \[x_only_script\] \[one\]"),
        )
    ),
    Accepted("exec_full", "(room for 0, then for all): executed", ".*: EMFILE", _LOADERS_DESCRIPTOR),
    Accepted("exec_errors", r"file 6755 .*", r"file 0755 .*", _SET_ID, name="setuid"),
    Accepted("files_open", "mode 107755", "mode 101755", _SET_ID),
    Accepted("files_open", "file 7755 ''", "file 1755 ''", _SET_ID, name="sticky_bits"),
    Accepted("files_stat", "mode 107755", "mode 101755", _SET_ID),
    Accepted(
        "sig_query",
        "(handler of a rare signal without SA_RESTART): handler same flags 4000000",
        ".*: handler OTHER flags 14000000",
        _THUNK,
        setting="bare",  # with direct names the guest's own code shows it
    ),
    Accepted(
        "sig_query",
        "(a raw caller's structure is as before) 1",
        ".* 0",
        "husk changes the structure in place, see docs/design/002-signals.md",
    ),
    Accepted(
        "sig_actions",
        "(runs 1, default again 1) flags 84000000",
        ".* flags 94000000",
        "after SA_RESETHAND no thunk tells that husk set SA_RESTART; with SIG_DFL the flag means nothing",
    ),
    Accepted("proc_trace", r'chdir\("/"\) = 0', r'chdir\("/"\) = -1 EPERM', _TRACED),
    Accepted("exec_again", "traced: stopped, executed", "traced: EPERM", _TRACED, setting="bare"),
    Accepted("proc_trace", "the traced program: executed", "the traced program: EPERM", _TRACED, setting="bare"),
    *(
        Accepted("exec_moved", rf"{label}: exe=\{{work\}}/.*", rf"{label}: exe=\{{work\}}/{started}", _RW_NAMES)
        for started, labels in (
            ("dir/program", ("renamed", "moved with its directory", "replaced")),
            ("linked", ("first name unlinked", "both unlinked")),
        )
        for label in labels
    ),
    *(
        Accepted("exec_moved in tmp", rf"{label}: exe=DIR/linked \(deleted\)", rf"{label}: exe=DIR/second(.*)", _LINKS)
        for label in ("first name unlinked", "both unlinked")
    ),
    Accepted(
        "sock_passing",
        r"sendmsg\(from, &message, 0\) = -1 EPERM",
        r"sendmsg\(from, &message, 0\) = -1 EINVAL",
        _NO_UID_0,
        setting="walled",
    ),
    *(
        Accepted(f"calls_privileged{where}", rf"name_to_handle_at.*, .file., .* {errno}", ".* EOPNOTSUPP", _NO_HANDLES)
        for where in _EVERYWHERE
        for errno in ("EFAULT", "EINVAL")
    ),
    *(
        Accepted(f"files_matrix{where}", r"name_to_handle\(.*\) = -1 EFAULT", ".* -1 EOPNOTSUPP", _NO_HANDLES)
        for where in ("", " on a copy", " read-only")
    ),
    *(
        Accepted(f"files_matrix{where}", r"(link|rename).*\(//?(dir)?\) = -1 .*", ".* -1 EXDEV", _OTHER_MOUNT)
        for where in ("", " on a copy")
    ),
    Accepted("files_statx", "birth time known 1 and just now 1", "birth time known 0 and just now 0", _BIRTH),
    *(
        Accepted(f"inotify_{program}", native, husk, _SEAT)
        for program, native, husk in (
            ("names", r'rmdir\("../t"\) = 0; 7 (.*)', r'rmdir\("../t"\) = 0; 6 DELETE_SELF; 6 IGNORED; 7 (.*)'),
            ("names", r'chdir\(".."\) = 0; 6 DELETE_SELF; 6 IGNORED', r'chdir\(".."\) = 0'),
            ("handles", r'rmdir\("d/s"\) = 0; 6 (.*)', r'rmdir\("d/s"\) = 0; 7 DELETE_SELF; 7 IGNORED; 6 (.*)'),
            ("handles", r"close\(sub\) = 0; .*", r"close\(sub\) = 0"),
            ("handles", r'rmdir\("d"\) = 0', r'rmdir\("d"\) = 0; 6 DELETE_SELF; 6 IGNORED'),
            ("handles", r"close\(fd\) = 0; 6 .*", r"close\(fd\) = 0"),
            ("handles", r'rmdir\("../w"\) = 0', r'rmdir\("../w"\) = 0; 8 DELETE_SELF; 8 IGNORED'),
            ("handles", r'chdir\(".."\) = 0; 8 .*', r'chdir\(".."\) = 0'),
        )
    ),
    *(
        Accepted("inotify_names", native, native.split(";")[0], "on a host mount a guest opens the placeholder only")
        for native in (
            r'fd = open\("d", O_RDONLY \| O_DIRECTORY\) = 4; 1 OPEN\|ISDIR',
            r"close\(fd\) = 0; 1 CLOSE_NOWRITE\|ISDIR",
        )
    ),
    Accepted(
        "inotify_names",
        r'list\("d/sub"\) = 2((; 1 \w+\|ISDIR sub){3})',
        r'list\("d/sub"\) = 2((; 1 \w+\|ISDIR sub){3}){2}',
        "the end of an empty host directory is found by reading it again",
    ),
    Accepted(
        "inotify_names",
        r'lchown\("d/link", -1, getgid\(\)\) = 0; 1 ATTRIB link',
        r'lchown\("d/link", -1, getgid\(\)\) = 0',
        "what is only shown as the guest's stays as it is on the host: there is nothing to change",
    ),
    Accepted(
        "inotify_names copy-on-write",
        r"close\(early\) = 0; 8 CLOSE_NOWRITE early",
        r"close\(early\) = 0",
        "opened before its directory was watched, it is still the host's file",
    ),
)
