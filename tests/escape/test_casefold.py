"""Directories in which the host takes `.ssh` and `.SSH` for the same name: what is closed is closed in every spelling.

Needs an ext4 with case folding on a loop device: root, and a kernel with CONFIG_UNICODE.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import husk, scratch

# Makes the image $1, mounts it at $2 with folding in $2/d, puts things there, then runs the rest.
BUILD = """
    set -e; image=$1; top=$2; shift 2
    truncate -s 16M "$image"; mkfs.ext4 -q -O casefold -E encoding=utf8 "$image"
    mount -o loop "$image" "$top"; mkdir "$top/d"; chattr +F "$top/d"; cd "$top/d"
    mkdir .ssh .git plain state; echo key >.ssh/key; echo config >.git/config; echo text >plain/file; echo doc >doc
    echo other >state/other; chmod -R a+rwX "$top"; chmod 700 state
    cd /; "$@"
"""


@functools.cache
def missing() -> str:
    """Why there is no such directory here; empty: there is."""
    if os.getuid() != 0:
        return "needs root, to mount a file system that folds case"
    if not (shutil.which("mkfs.ext4") and shutil.which("chattr")):
        return "mkfs.ext4 and chattr are not installed (Debian: e2fsprogs)"
    with scratch() as place:
        (place / "top").mkdir()
        words = ["unshare", "--mount", "sh", "-c", BUILD, "sh", str(place / "image"), str(place / "top")]
        tried = subprocess.run([*words, "test", "-e", f"{place}/top/d/.SSH/KEY"], capture_output=True, check=False)
    return "" if tried.returncode == 0 else "this kernel folds no case (CONFIG_UNICODE), or has no loop device"


@pytest.fixture(autouse=True)
def _folding() -> None:
    if reason := missing():
        pytest.skip(reason)


pytestmark = [
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.both_settings,
    pytest.mark.needs("python3"),
]

GUEST = """
import errno, itertools, os
def spellings(name):
    return {"".join(word) for word in itertools.product(*((c.lower(), c.upper()) for c in name))}
def step(name, action):
    try:
        print(name, action(), flush=True)
    except OSError as error:
        print(name, errno.errorcode[error.errno], flush=True)
os.chdir("/d")
for name in sorted(spellings(".ssh") | {".\\u017f\\u017fh"}):  # the long s folds to s
    step("open", lambda: open(f"{name}/key").read())
    step("upper", lambda: open(f"{name}/KEY").read())
    step("list", lambda: os.listdir(name))
    step("link", lambda: os.link(f"{name}/key", "linked"))
    step("rename", lambda: os.rename(name, "away") or open("away/key").read())
    step("inner", lambda: os.rename(f"{name}/key", "moved") or open("moved").read())
    step("cd", lambda: os.chdir(name) or open("key").read())
    os.chdir("/d")
for name in sorted(spellings(".git")):
    step("write", lambda: open(f"{name}/config", "w").write("hook"))
    step("new", lambda: open(f"{name}/new", "w").write("hook"))
for name in sorted(spellings("state")):
    step("state", lambda: open(f"{name}/other").read())
    step("state", lambda: os.listdir(name))
step("plain", lambda: open("PLAIN/FILE").read().strip())
"""


@pytest.mark.parametrize("mode", ["ro", "rw", "cow"])
def test_every_spelling_is_closed(place: Path, mode: str) -> None:
    top, empty = place / "top", place / "empty"
    top.mkdir()
    empty.mkdir()
    mounts = [f"{top}/d:/d:{mode}", f"{empty}:/d/.ssh:ro", f"{top}/d/.git:/d/.git:ro"]
    command = ["run", *(word for mount in mounts for word in ("--mount", mount)), "--", "python3", "-c", GUEST]
    # Afterwards, on the file system itself: nothing has changed.
    after = f'"$@"; code=$?; cat {top}/d/.ssh/key {top}/d/.git/config; ls -A {top}/d/.git; exit $code'
    wrapper = ["unshare", "--mount", "sh", "-c", BUILD, "sh", str(place / "image"), str(top), "sh", "-c", after, "sh"]
    # husk's own state lies there too, unless that is refused anyway.
    env = {"HUSK_STATE": f"{top}/d/state"} if mode != "rw" else {}
    result = husk(command, wrapper=wrapper, env=env)
    assert result.status == 0, result.err
    assert result.out.endswith("plain text\nkey\nconfig\nconfig\n"), result.out
    told = result.out.splitlines()[:-3]
    # Below cow another spelling of a closed directory is an empty one of the box's own.
    written = ("write 4", "new 4") if mode != "cow" else ()
    bad = [line for line in told if "key" in line or line.startswith(written or "state other")]
    assert bad == [], bad
    assert mode == "rw" or not any("other" in line for line in told)
