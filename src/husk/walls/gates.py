"""Layer walls: may guests ask about names through a gate (native/gate, docs/design/025-gate.md), or look up those of
the host's /usr themselves (docs/design/026-direct-names.md)? What ends that is in closing_calls.py.
"""

from __future__ import annotations

import os
import stat as st

from husk.native.real_paths import real_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    MountLine = tuple[bytes, bytes, bytes]  # device, which directory of it, and where that is mounted

__all__ = ["USR", "may_show_usr", "wanted"]

USR = "/usr"
SHOWN = (USR, "/etc/ld.so.cache")  # as native/init/builder.c shows them
# What tells where husk keeps state, stores and the resident's socket.
PLACES = ("HUSK_STATE", "HUSK_STORE", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "TMPDIR")


def wanted() -> int:
    """0: no gates. 2: gates wherever they are possible, which is slow on a busy machine and good for tests."""
    return {"0": 0, "eager": 2}.get(os.environ.get("HUSK_GATE", ""), 1)


def may_show_usr(mounts: Iterable[tuple[str, str]], store: str) -> bool:
    """May the guests of a box see the host's /usr itself? Not where a mount covers a part of it: what is covered is
    closed. Not where a mount shows a part of it, too: that may have rules, and changes, of its own. And not where husk
    keeps something there. `mounts` are pairs of source and target, `store` is the one that was asked for."""
    if wanted() == 0 or os.environ.get("HUSK_DIRECT") == "0":
        return False
    table: list[MountLine] | None = None
    for source, target in mounts:
        real = real_path(source) if source else ""  # an image has none
        if any(_overlap(target, one) for one in SHOWN):
            return False
        if not real:
            continue
        if table is None:
            table = _mount_table()
            shown = [_on_device(one, table) for one in SHOWN]
        here = _on_device(real, table)
        if any(_overlap(real, one) for one in SHOWN) or any(_overlap(here, one) for one in shown):
            return False
    own = [store, os.path.expanduser("~"), *(os.environ.get(name, "") for name in PLACES)]
    if any(path and _lies_in(real_path(path), USR) for path in own):
        return False
    try:
        return st.S_ISDIR(os.lstat(USR).st_mode)
    except OSError:
        return False


def _overlap(one: str, other: str) -> bool:
    return _lies_in(one, other) or _lies_in(other, one)


def _mount_table() -> list[MountLine]:
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    found = (line.split(b" ", 5)[2:5] for line in lines)
    return [(device, _plain(root), _plain(mounted)) for device, root, mounted in found]


def _on_device(path: str, table: Iterable[MountLine]) -> str:
    """The device a real path lies on, and its path there: the host may show one directory by several names."""
    name, found, point = os.fsencode(path), b"", b""
    for device, root, mounted in table:
        if len(mounted) >= len(point) and (name == mounted or name.startswith(mounted.rstrip(b"/") + b"/")):
            found, point = device + b":" + root.rstrip(b"/"), mounted
    return os.fsdecode(found + b"/" + name[len(point) :].lstrip(b"/"))


def _plain(word: bytes) -> bytes:
    """Of an octal form such as \\040, the byte."""
    return word if b"\\" not in word else word.decode("unicode_escape").encode("latin-1")


def _lies_in(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")
