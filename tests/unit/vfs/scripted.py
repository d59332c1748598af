"""The scripts the differential tests run, and the tree they start from.

`scripts/*.txt` holds one step per line: the operation and its arguments. Numbers, flags and modes are written as in
Python, `''` is the empty name, `@255` stands for 255 letters; everything else is a name or data. Tables of every name
with every flag are made here, in `PRODUCTS`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.unit.vfs.worlds import FRIENDS, GUEST, Step

OTHER = 1  # another user
MODES = [0o000, 0o400, 0o444, 0o644, 0o755, 0o1777, 0o2755, 0o4755, 0o6777, 0o7777, 0o2640]


def build(root: Path) -> None:
    """The starting point. `home` is the guest's, `theirs` belongs to another user, `shared` sticky, `team` set-gid."""
    def directory(name: str, mode: int, uid: int, gid: int) -> None:
        path = root / name
        path.mkdir()
        os.chown(path, uid, gid)
        os.chmod(path, mode)

    def file(name: str, content: bytes, mode: int, uid: int, gid: int) -> None:
        path = root / name
        path.write_bytes(content)
        os.chown(path, uid, gid)
        os.chmod(path, mode)
        os.utime(path, ns=(10**18, 10**18 + 5))

    directory("home", 0o755, GUEST, GUEST)
    directory("home/deep", 0o755, GUEST, GUEST)
    directory("home/deep/er", 0o755, GUEST, GUEST)
    directory("home/empty", 0o755, GUEST, GUEST)
    file("home/file", b"content of a file\n", 0o644, GUEST, GUEST)
    file("home/deep/inner", b"inner\n", 0o600, GUEST, GUEST)
    file("home/deep/er/most", b"most\n", 0o644, GUEST, GUEST)
    file("home/unreadable", b"x", 0o200, GUEST, GUEST)
    file("home/readonly", b"readonly\n", 0o444, GUEST, GUEST)
    file("home/twin1", b"twins\n", 0o644, GUEST, GUEST)
    os.link(root / "home/twin1", root / "home/twin2")
    os.link(root / "home/twin1", root / "home/deep/twin3")
    directory("home/closed", 0o000, GUEST, GUEST)
    directory("home/listonly", 0o644, GUEST, GUEST)
    file("home/listonly/f", b"", 0o644, GUEST, GUEST)
    directory("home/fixed", 0o555, GUEST, GUEST)
    file("home/fixed/f", b"fixed\n", 0o644, GUEST, GUEST)
    directory("theirs", 0o755, OTHER, OTHER)
    file("theirs/public", b"public\n", 0o644, OTHER, OTHER)
    file("theirs/secret", b"secret\n", 0o600, OTHER, OTHER)
    file("theirs/anybody", b"anybody\n", 0o666, OTHER, OTHER)
    file("theirs/program", b"#!", 0o4755, OTHER, OTHER)
    directory("theirs/private", 0o700, OTHER, OTHER)
    file("theirs/private/f", b"", 0o644, OTHER, OTHER)
    directory("shared", 0o1777, OTHER, OTHER)
    file("shared/theirs", b"theirs\n", 0o666, OTHER, OTHER)
    file("shared/mine", b"mine\n", 0o644, GUEST, GUEST)
    directory("shared/theirdir", 0o777, OTHER, OTHER)
    directory("team", 0o2775, OTHER, FRIENDS)
    file("team/group", b"group\n", 0o660, OTHER, FRIENDS)
    directory("foreign", 0o2777, OTHER, OTHER)
    for name, target in LINKS.items():
        os.symlink(target, root / "home" / name)
        os.lchown(root / "home" / name, GUEST, GUEST)
    os.mkfifo(root / "home/fifo", 0o644)
    os.chown(root / "home/fifo", GUEST, GUEST)


LINKS = {
    "absolute": "/home/file", "dangling": "nowhere", "dangling_dir": "nowhere/x",
    "dangling_far": "deep/created_by_link",
    "loop1": "loop2", "loop2": "loop1", "self": "self", "slashed": "deep/", "to_closed": "closed/x", "to_dir": "deep",
    "to_file": "file", "two": "to_file", "up": "..",
    **{f"chain{step}": "file" if step == 1 else f"chain{step - 1}" for step in range(1, 45)},
}

WALKS = """
    '' / // /. /.. /../home home home/ home// home/. home/.. home/file home/file/ home/file/. home/file/x home/nothing
    home/nothing/ home/nothing/x home/to_file home/to_file/ home/to_dir home/to_dir/ home/to_dir/inner home/two home/up/
    home/to_dir/../file home/dangling home/dangling/ home/absolute home/loop1 home/loop1/ home/loop1/x home/self home/up
    home/up/home/file home/slashed home/slashed/ home/slashed/inner home/closed home/closed/ home/closed/.
    home/closed/.. home/closed/x home/to_closed home/listonly/f home/listonly theirs/private theirs/private/f
    theirs/private/nothing theirs/secret home/@255 home/@256 home/closed/@256 home/file/@256 home/nothing/@256 @4095
    @4096 home/chain40 home/chain41 home/chain44 home/chain39/ home/fifo home/fifo/ home/./././deep/./er/../../file
    home/dangling_dir home/to_dir/er/most home/to_dir/er/../../to_dir/inner
"""
ACCESSES = ["R_OK", "W_OK", "X_OK", "R_OK|W_OK", "R_OK|W_OK|X_OK"]
OPENS = """
    home/file home/deep home/deep/ home/to_file home/to_file/ home/to_dir home/to_dir/ home/dangling home/nothing
    home/unreadable home/readonly home/closed home/closed/x home/listonly theirs/public theirs/secret theirs
    theirs/private home/loop1 home / . .. home/file/x home/fixed/f home/@256 team/group home/chain41
"""
OPEN_FLAGS = """
    O_RDONLY O_WRONLY O_RDWR 3 O_DIRECTORY O_NOFOLLOW O_PATH O_PATH|O_NOFOLLOW O_PATH|O_NOFOLLOW|O_DIRECTORY
    O_WRONLY|O_NOFOLLOW O_NOATIME O_WRONLY|O_DIRECTORY O_DIRECTORY|O_NOFOLLOW O_PATH|O_DIRECTORY
"""
CREATES = """
    home/file home/deep home/deep/ home/new/ home/to_file/ home/dangling/ home/loop1 home/. home/.. / home/file/new
    home/nothing/new home/closed/new home/fixed/new home/fixed/f theirs/new theirs/secret home/to_dir home/dangling_dir
    home/to_closed home/@256 home/readonly shared/theirs ''
"""
CREATE_FLAGS = """
    O_CREAT|O_RDONLY O_CREAT|O_WRONLY O_CREAT|O_RDWR|O_EXCL O_CREAT|O_WRONLY|O_NOFOLLOW O_CREAT|O_WRONLY|O_TRUNC
    O_CREAT|O_DIRECTORY|O_RDONLY O_CREAT|O_EXCL|O_NOFOLLOW|O_WRONLY O_CREAT|O_PATH
"""
OWNERS = [
    (-1, -1), (GUEST, -1), (-1, GUEST), (-1, FRIENDS), (GUEST, FRIENDS), (OTHER, -1), (-1, OTHER), (0, 0), (-1, GUEST),
]
TIMED = """
    home/file home/deep theirs/public theirs/anybody home/nothing home/to_file theirs home/unreadable home/readonly
"""
XATTR_PATHS = TIMED.replace("home/nothing", "home/fifo") + " theirs/secret shared"
XATTR_NAMES = "user.one user. user trusted.x security.x system.x nothing.x user.@250 user.@251"


RESOLVED = """
    . .. / ./ inner er/most er/.. er/../.. ../file ../deep/inner /home/file twin3 nothing er/../inner ../../home/file
    back file_link dir_link/most dir_link outside escape/file escape absolute absolute/file rooted rooted/inner
"""


def argument(text: str) -> Any:
    if text == "''":
        return b""
    if text in ("True", "False"):
        return text == "True"
    if re.match(r"-?[0-9]|[ORWX]_|S_", text):
        value = 0
        for part in text.split("|"):
            value |= getattr(os, part) if hasattr(os, part) else getattr(stat, part) if part[0] == "S" else int(part, 0)
        return value
    return re.sub(rb"@([0-9]+)", lambda found: b"n" * int(found[1]), text.encode())


def _walking() -> Iterator[Step]:
    for path in map(argument, WALKS.split()):
        yield from [("stat", path), ("stat", path, False), ("readlink", path), ("access", path, 0), ("chdir", path)]
        yield from [("getcwd",), ("chdir", b"/")]
    for path in (b"./" * 2047 + b"h", b"./" * 2048, b"./" * 2045 + b"home", b"/" * 4095, b"/" * 4096):
        yield "stat", path


def _resolves() -> Iterator[Step]:
    for name, target in (
        (b"back", b".."), (b"file_link", b"inner"), (b"dir_link", b"er"), (b"outside", b"../file"),
        (b"escape", b"../.."), (b"absolute", b"/home"), (b"rooted", b"/er"),
    ):
        yield "symlink", target, b"home/deep/" + name
    for path in map(argument, RESOLVED.split()):
        for resolve in (0, 1, 2, 4, 8, 16, 8 | 4, 16 | 4, 2 | 1, 8 | 16):
            yield "open2", 1, b"home/deep", path, os.O_RDONLY, resolve
            if not resolve & 8 or not resolve & 16:
                yield "open2", 1, b"home/deep", path, os.O_PATH | os.O_NOFOLLOW, resolve
                yield "open2", 1, b"home/deep", path, os.O_CREAT | os.O_WRONLY, resolve


def _accesses() -> Iterator[Step]:
    return (("access", path, mode) for path in map(argument, WALKS.split()) for mode in map(argument, ACCESSES))


def _opens() -> Iterator[Step]:
    for path in map(argument, OPENS.split()):
        for flags in map(argument, OPEN_FLAGS.split()):
            yield "open", 1, path, flags


def _creates() -> Iterator[Step]:
    for path in map(argument, CREATES.split()):
        for flags in map(argument, CREATE_FLAGS.split()):
            yield "open", 1, path, flags


def _modes() -> Iterator[Step]:
    for number, mode in enumerate(MODES):
        path = b"home/made%d" % number
        yield from [("open", 1, path, os.O_CREAT | os.O_RDWR, mode), ("stat", path), ("write", 1, b"data")]
        yield from [("fstat", 1), ("stat", path)]
        yield from [("open", 2, path, 0), ("mkdir", path + b"d", mode), ("stat", path + b"d")]
        for path in (b"home/file", b"home/deep", b"theirs/public", b"home/to_file"):
            yield from [("chmod", path, mode), ("stat", path)]


def _owners() -> Iterator[Step]:
    for uid, gid in OWNERS:
        for path in (b"home/file", b"home/deep", b"theirs/public", b"theirs/program"):
            yield from [("chmod", path, 0o6755), ("chown", path, uid, gid), ("stat", path)]
        yield from [("chown", b"home/to_file", uid, gid, False), ("stat", b"home/to_file", False)]
        yield from [("chmod", b"home/twin1", 0o2644), ("chown", b"home/twin1", uid, gid), ("stat", b"home/twin1")]
    for path in map(argument, TIMED.split()):
        yield from [("utime", path, 10**9, 2 * 10**9 + 7), ("touch", path)]


def _xattrs() -> Iterator[Step]:
    for path in map(argument, XATTR_PATHS.split()):
        for name in map(argument, XATTR_NAMES.split()):
            yield from [("getxattr", path, name), ("setxattr", path, name, b"value"), ("getxattr", path, name)]
            yield from [("listxattr", path), ("removexattr", path, name)]


def parse(line: str) -> Step:
    operation, *arguments = line.split()
    return operation, *map(argument, arguments)


def _written(path: Path) -> list[Step]:
    return [parse(line) for line in path.read_text().splitlines()]


SCRIPTS: dict[str, list[Step]] = {
    "every walk": list(_walking()), "every access": list(_accesses()),
    "every resolve": list(_resolves()), "every open": list(_opens()),
    "every creation": list(_creates()), "every mode": list(_modes()), "every owner": list(_owners()),
    "every attribute": list(_xattrs()),
    **{path.stem: _written(path) for path in sorted((Path(__file__).parent / "scripts").glob("*.txt"))},
}
