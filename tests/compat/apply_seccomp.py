"""A program: `apply_seccomp.py PROFILE COMMAND…` loads a Docker or OCI profile with libseccomp, then executes.

libseccomp itself, through ctypes, so that what husk writes is judged by the library that container runtimes use. The
rules are added as runc adds them: one for each entry, its conditions all at once.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys

OPS = {"NE": 1, "LT": 2, "LE": 3, "EQ": 4, "GE": 5, "GT": 6, "MASKED_EQ": 7}
ALLOW, ERRNO = 0x7FFF0000, 0x00050000


class Compare(ctypes.Structure):
    """struct scmp_arg_cmp"""

    _fields_ = (
        ("arg", ctypes.c_uint),
        ("op", ctypes.c_int),
        ("datum_a", ctypes.c_uint64),
        ("datum_b", ctypes.c_uint64),
    )


def load(profile: dict[str, object]) -> None:
    library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    library.seccomp_init.restype = ctypes.c_void_p
    default = action(str(profile["defaultAction"]), int(profile.get("defaultErrnoRet", 1)))  # type: ignore[call-overload]
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(default)))
    for rule in profile["syscalls"]:  # type: ignore[attr-defined]
        compares = [compare(arg) for arg in rule.get("args") or ()]
        array = (Compare * len(compares))(*compares)
        for name in rule["names"]:
            number = library.seccomp_syscall_resolve_name(name.encode())
            done = action(rule["action"], rule.get("errnoRet", 1))
            if number < 0:
                continue  # newer than this libseccomp: runtimes leave it out too
            failed = library.seccomp_rule_add_array(context, ctypes.c_uint32(done), number, len(compares), array)
            assert failed == 0, (name, os.strerror(-failed))
    failed = library.seccomp_load(context)
    assert failed == 0, os.strerror(-failed)


def action(name: str, errno: int) -> int:
    return {"SCMP_ACT_ALLOW": ALLOW, "SCMP_ACT_ERRNO": ERRNO | errno}[name]


def compare(arg: dict[str, int | str]) -> Compare:
    return Compare(arg["index"], OPS[str(arg["op"]).removeprefix("SCMP_CMP_")], arg["value"], arg.get("valueTwo", 0))


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        wanted = json.load(file)
    load(wanted)
    os.execv(sys.argv[2], sys.argv[2:])
