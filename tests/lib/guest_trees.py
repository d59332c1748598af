"""What a tree looks like after a run: names, kinds, modes, contents, link targets, and who shares an inode."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

Content = str | bytes
Tree = Mapping[str, Content]

_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "link", stat.S_IFIFO: "fifo", stat.S_IFSOCK: "sock"}


def prepare(root: Path, tree: Tree) -> None:
    """Writes a tree from {"name": content}. "name/" is a directory, "name@" a symlink, "name*" an executable file."""
    for name, content in tree.items():
        path = root / name.rstrip("/@*")
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir(exist_ok=True)
        elif name.endswith("@"):
            path.symlink_to(content if isinstance(content, str) else os.fsdecode(content))
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
            path.chmod(0o755 if name.endswith("*") else 0o644)


def give_to(root: Path, uid: int, gid: int) -> None:
    for where, folders, files in os.walk(root):
        os.chown(where, uid, gid)
        for name in folders + files:
            os.chown(os.path.join(where, name), uid, gid, follow_symlinks=False)


def snapshot(root: Path, here: str, ignore: Iterable[str] = ()) -> dict[str, str]:
    """One line of text per name. `here` is the path the guest knew root by; in contents it is replaced."""
    lines: dict[str, str] = {}
    first_name: dict[tuple[int, int], str] = {}
    for where, folders, files in os.walk(root):
        folders.sort()
        for name in sorted(folders + files):
            path = os.path.join(where, name)
            short = os.path.relpath(path, root)
            if any(fnmatch.fnmatchcase(short, pattern) for pattern in ignore):
                if name in folders:
                    folders.remove(name)
                continue
            lines[short] = _describe(path, short, here.encode(), first_name)
    return lines


def _describe(path: str, short: str, here: bytes, first_name: dict[tuple[int, int], str]) -> str:
    status = os.lstat(path)
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), "other")
    text = f"{kind} {stat.S_IMODE(status.st_mode):04o}"
    if kind == "link":
        return text + " -> " + os.readlink(path).replace(os.fsdecode(here), "{work}")
    if kind == "file":
        identity = (status.st_dev, status.st_ino)
        if status.st_nlink > 1 and first_name.setdefault(identity, short) != short:
            return text + f" same file as {first_name[identity]}"
        if not os.access(path, os.R_OK):  # ours all the same; the mode is noted already
            os.chmod(path, 0o600)
        content = Path(path).read_bytes().replace(here, b"{work}")
        short_text = content.decode("utf-8", "backslashreplace")
        text += f" {short_text!r}" if len(content) < 200 else f" sha256 {hashlib.sha256(content).hexdigest()[:16]}"
    return text


def difference(native: Mapping[str, str], husk: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """(name, what it is natively, what it is in husk) for every name that differs."""
    return [
        (name, native.get(name, "absent"), husk.get(name, "absent"))
        for name in sorted(native.keys() | husk.keys())
        if native.get(name) != husk.get(name)
    ]
