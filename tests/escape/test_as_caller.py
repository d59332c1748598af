"""An ordinary user's box acts as that user: below an `rw` mount a guest gets nothing the user could not, and not less.

One program goes through files and directories of several owners, groups, modes and access lists, natively as that user
and in a box that the user started. Every line must be the same, but for the differences named here.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import husk

pytestmark = [
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.skipif(os.getuid() != 0, reason="needs root, to make files of several users"),
    pytest.mark.both_settings,
    pytest.mark.needs("python3", "setpriv", "unshare"),
]

USER, GROUP, FOREIGN = 51234, 52345, 55555
ACL_OWNER, ACL_USER, ACL_OWNING_GROUP, ACL_GROUP, ACL_MASK, ACL_OTHER = 1, 2, 4, 8, 16, 32
# name: owner, group, mode, entries of an access list
FILES: dict[str, tuple[int, int, int, list[tuple[int, int, int]]]] = {
    "own": (USER, USER, 0o600, []),
    "own-closed": (USER, USER, 0o066, []),
    "own-of-a-group": (USER, GROUP, 0o060, []),
    "own-set-gid": (USER, FOREIGN, 0o2755, []),
    "of-the-group": (0, GROUP, 0o660, []),
    "group-may-read": (0, GROUP, 0o640, []),
    "group-may-not": (0, GROUP, 0o606, []),
    "of-root": (0, 0, 0o644, []),
    "of-root-for-all": (0, 0, 0o666, []),
    "closed": (0, 0, 0o600, []),
    "list-denies": (0, 0, 0o664, [(ACL_USER, 0, USER)]),
    "list-denies-group": (0, 0, 0o664, [(ACL_GROUP, 0, GROUP)]),
    "list-allows": (0, 0, 0o660, [(ACL_USER, 6, USER)]),
}
DIRECTORIES: dict[str, tuple[int, int, int]] = {
    "set-gid": (0, GROUP, 0o2775),
    "own-set-gid-dir": (USER, GROUP, 0o2755),
    "group-dir": (0, GROUP, 0o770),
    "sticky": (0, 0, 0o1777),
    "closed-dir": (0, 0, 0o700),
    "searchable": (0, 0, 0o711),
}
# Lines that differ, by their beginnings, and why.
ACCEPTED = {
    "list-allows ": "husk judges by mode bits first: what only an access list opens stays closed",
    "list-denies access": "access(2) tells of mode bits; the file itself stays closed, as the other lines show",
    "list-denies-group access": "as above",
    **{f"{name} new exclusive": "no set-gid file is made on the host" for name in DIRECTORIES},
}

PROGRAM = """
import errno, os, stat, sys
os.chdir(sys.argv[1])
user, group, foreign = map(int, sys.argv[2:5])
os.umask(0o022)
def step(name, action):
    try:
        result = action()
    except OSError as error:
        result = errno.errorcode[error.errno]
    print(f"{name}: {result}", flush=True)
def kept(path):
    found = os.lstat(path)
    who = {user: "user", group: "group", foreign: "foreign", 0: "root"}
    return who.get(found.st_uid, "?"), who.get(found.st_gid, "?"), oct(found.st_mode)
def reopened(path, how):
    fd = os.open(path, os.O_PATH)
    try:
        os.close(os.open(f"/proc/self/fd/{fd}", how))
        return "opened"
    finally:
        os.close(fd)
def made(path, how=os.O_CREAT | os.O_WRONLY, mode=0o666):
    os.close(os.open(path, how, mode))
    return kept(path)
for name in sys.argv[5].split(","):
    for word, how in (("read", os.O_RDONLY), ("write", os.O_WRONLY), ("both", os.O_RDWR)):
        step(f"{name} {word}", lambda: os.close(os.open(name, how)))
        step(f"{name} {word} by its descriptor", lambda: reopened(name, how))
    step(f"{name} access", lambda: [os.access(name, want) for want in (4, 2, 1)])
    step(f"{name} truncate", lambda: os.truncate(name, 1))
    step(f"{name} append attribute", lambda: os.setxattr(name, "user.a", b"b"))
    step(f"{name} now", lambda: os.utime(name))
    step(f"{name} then", lambda: os.utime(name, (1, 1)))
    step(f"{name} to the group", lambda: os.chown(name, -1, group) or kept(name))
    step(f"{name} to another", lambda: os.chown(name, -1, foreign) or kept(name))
    step(f"{name} to root", lambda: os.chown(name, 0, -1) or kept(name))
    step(f"{name} mode", lambda: os.chmod(name, 0o664) or kept(name))
for name in sys.argv[6].split(","):
    step(f"{name} list", lambda: sorted(os.listdir(name)))
    step(f"{name} inside", lambda: open(f"{name}/theirs").read())
    step(f"{name} new", lambda: made(f"{name}/new"))
    step(f"{name} new exclusive", lambda: made(f"{name}/new2", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o2775))
    step(f"{name} mkdir", lambda: os.mkdir(f"{name}/dir") or kept(f"{name}/dir"))
    step(f"{name} mkfifo", lambda: os.mkfifo(f"{name}/fifo") or kept(f"{name}/fifo"))
    step(f"{name} symlink", lambda: os.symlink("x", f"{name}/link") or kept(f"{name}/link"))
    step(f"{name} write theirs", lambda: open(f"{name}/theirs", "w").close())
    step(f"{name} hard link to theirs", lambda: os.link(f"{name}/theirs", "hard-" + name))
    step(f"{name} rename theirs", lambda: os.rename(f"{name}/theirs", f"{name}/ours"))
    step(f"{name} replace theirs", lambda: os.replace("own", f"{name}/theirs"))
    step(f"{name} unlink theirs", lambda: os.unlink(f"{name}/theirs"))
    step(f"{name} mode", lambda: os.chmod(name, 0o2770))
    step(f"{name} rmdir theirs", lambda: os.rmdir(f"{name}/folder"))
"""


def access_list(mode: int, entries: list[tuple[int, int, int]]) -> bytes:
    """As linux/posix_acl_xattr.h has it: version 2, then tag, permissions and id, in order of tags."""
    none = 0xFFFFFFFF
    lines = [(ACL_OWNER, mode >> 6 & 7, none), (ACL_OWNING_GROUP, mode >> 3 & 7, none), *entries]
    lines += [(ACL_MASK, 7, none), (ACL_OTHER, mode & 7, none)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *line) for line in sorted(lines))


def prepare(top: Path) -> None:
    top.mkdir()
    for name, (uid, gid, mode, entries) in FILES.items():
        path = top / name
        path.write_text("text")
        os.chown(path, uid, gid)
        path.chmod(mode)
        if entries:
            try:
                os.setxattr(path, "system.posix_acl_access", access_list(mode, entries))
            except OSError as error:
                pytest.skip(f"no access lists here: {error.strerror}")
    for name, (uid, gid, mode) in DIRECTORIES.items():
        path = top / name
        path.mkdir()
        (path / "theirs").write_text("theirs")
        (path / "folder").mkdir()
        os.chown(path, uid, gid)
        path.chmod(mode)
    os.chown(top, USER, USER)


def as_user(command: list[str], place: Path) -> list[str]:
    """As that user, who may not be able to reach this Python where it lies in root's home."""
    setpriv = ["setpriv", f"--reuid={USER}", f"--regid={USER}", f"--groups={GROUP}", "--inh-caps=-all", "--", *command]
    above = [path for path in reversed(Path(sys.base_prefix).parents) if not path.stat().st_mode & 1]
    if not above:
        return setpriv
    show = (
        'at=$1; lib=$2; aside=$3; shift 3; mount --bind "$lib" "$aside"; mount -t tmpfs -o mode=755 none "$at";'
        ' mkdir -p "$lib"; mount --bind "$aside" "$lib"; exec "$@"'
    )
    aside = place / "aside"
    aside.mkdir(exist_ok=True)
    return ["unshare", "--mount", "sh", "-ec", show, "sh", str(above[0]), sys.base_prefix, str(aside), *setpriv]


def test_no_more_and_no_less(place: Path) -> None:
    lines = {}
    words = [str(USER), str(GROUP), str(FOREIGN), ",".join(FILES), ",".join(DIRECTORIES)]
    for side in ("native", "husk"):
        prepare(place / side)
    command = as_user(["/usr/bin/python3", "-c", PROGRAM, str(place / "native"), *words], place)
    lines["native"] = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    (place / "state").mkdir()
    os.chown(place / "state", USER, USER)
    mount = ["--mount", f"{place / 'husk'}:/d:rw"]
    result = husk(
        ["run", *mount, "--", "/usr/bin/python3", "-c", PROGRAM, "/d", *words],
        wrapper=as_user([], place),
        env={"HUSK_STATE": str(place / "state")},
    )
    assert result.status == 0, result.err
    lines["husk"] = result.out
    assert len(lines["native"].splitlines()) > 200
    pairs = zip(lines["native"].splitlines(), lines["husk"].splitlines(), strict=True)
    differ = {one: other for one, other in pairs if one != other}
    unexpected = [
        f"natively {one}, in husk {other}" for one, other in differ.items() if not one.startswith(tuple(ACCEPTED))
    ]
    assert not unexpected, "\n".join(unexpected)
    fewer = [other for one, other in differ.items() if one.startswith("list-allows ")]
    assert all(line.endswith(("EACCES", "EPERM", "[False, False, False]")) for line in fewer), fewer
