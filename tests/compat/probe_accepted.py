"""What the probe finds and what was expected, where these differ: each with its explanation.

`NATIVE`: checks that do not find Linux's full answer on a plain Linux, because of how it was built or of the machine.
`IN_HUSK`: checks of native and virtual rows that find something else in a box than outside. An entry that no longer
differs fails the test: then it must go.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Accepted:
    call: str
    case: str  # its beginning; empty: every case
    outside: str  # the whole text of the result, natively
    inside: str  # and in husk
    reason: str
    setting: str = ""  # "walled" or "bare"; empty: both


# (call, result): why a Linux may answer so. A call newer than the kernel is not listed: ENOSYS is its right answer.
NATIVE = {
    ("kexec_load", "errno ENOSYS"): "built without kexec",
    ("kexec_file_load", "errno ENOSYS"): "built without kexec",
    ("init_module", "errno ENOSYS"): "built without modules",
    ("finit_module", "errno ENOSYS"): "built without modules",
    ("delete_module", "errno ENOSYS"): "built without modules",
    ("iopl", "errno ENOSYS"): "built without access to ports",
    ("ioperm", "errno ENOSYS"): "built without access to ports",
    ("map_shadow_stack", "errno ENOSYS"): "built without shadow stacks",
}

IN_HUSK = (
    Accepted("fchmod", "of a file without a name", "works",
             "no-effect fstat(fd, &status) == 0 && (status.st_mode & 07777) == 0700",
             "a file without a name may be the caller's, as standard input: its mode stays"),
    Accepted("renameat2", "flags=RENAME_WHITEOUT", "works", "works EPERM",
             "a whiteout is a device node, and no guest makes one; old kernels gave this errno too"),
)  # fmt: skip
