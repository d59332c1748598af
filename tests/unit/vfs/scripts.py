"""Steps that are run natively and in the vfs, and the tree they start from. Grouped by what they are about."""

from __future__ import annotations

import os
import stat
from os import O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_NOATIME, O_NOFOLLOW, O_NONBLOCK, O_PATH, O_RDONLY, O_RDWR, O_TMPFILE
from os import O_TRUNC, O_WRONLY
from pathlib import Path

from unit.vfs.worlds import FRIENDS, GUEST, Step

OTHER = 1  # somebody else
LONG = b"n" * 255
TOO_LONG = b"n" * 256


def build(root: Path) -> None:
    """The starting point. `home` is the guest's, `theirs` somebody else's, `shared` sticky, `team` set-gid."""
    def directory(name: str, mode: int, uid: int, gid: int) -> Path:
        path = root / name
        path.mkdir()
        os.chown(path, uid, gid)
        os.chmod(path, mode)
        return path

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
    for name, target in (
        ("home/to_file", "file"), ("home/to_dir", "deep"), ("home/dangling", "nowhere"), ("home/absolute", "/home/file"),
        ("home/loop1", "loop2"), ("home/loop2", "loop1"), ("home/self", "self"), ("home/dangling_far", "deep/created_by_link"),
        ("home/up", ".."), ("home/slashed", "deep/"), ("home/to_closed", "closed/x"), ("home/dangling_dir", "nowhere/x"),
        ("home/two", "to_file"),
    ):
        os.symlink(target, root / name)
        os.lchown(root / name, GUEST, GUEST)
    os.mkfifo(root / "home/fifo", 0o644)
    os.chown(root / "home/fifo", GUEST, GUEST)
    for step in range(1, 45):
        os.symlink("file" if step == 1 else f"chain{step - 1}", root / "home" / f"chain{step}")


WALKS = [
    b"", b"/", b"//", b"/.", b"/..", b"/../home", b"home", b"home/", b"home//", b"home/.", b"home/..", b"home/file", b"home/file/",
    b"home/file/.", b"home/file/x", b"home/nothing", b"home/nothing/", b"home/nothing/x", b"home/to_file", b"home/to_file/",
    b"home/to_dir", b"home/to_dir/", b"home/to_dir/inner", b"home/to_dir/../file", b"home/dangling", b"home/dangling/",
    b"home/absolute", b"home/loop1", b"home/loop1/", b"home/loop1/x", b"home/self", b"home/up", b"home/up/home/file", b"home/slashed",
    b"home/slashed/inner", b"home/closed", b"home/closed/", b"home/closed/.", b"home/closed/..", b"home/closed/x",
    b"home/to_closed", b"home/listonly/f", b"home/listonly", b"theirs/private", b"theirs/private/f", b"theirs/private/nothing",
    b"theirs/secret", b"home/" + LONG, b"home/" + TOO_LONG, b"home/closed/" + TOO_LONG, b"home/file/" + TOO_LONG,
    b"home/nothing/" + TOO_LONG, b"./" * 2047 + b"h", b"./" * 2048, b"./" * 2045 + b"home", b"/" * 4095, b"/" * 4096, b"home/chain40",
    b"home/chain41", b"home/chain44", b"home/chain39/", b"home/fifo", b"home/fifo/", b"home/./././deep/./er/../../file", b"home/two",
    b"home/slashed/", b"home/up/", b"home/dangling_dir", b"home/to_dir/er/most", b"home/to_dir/er/../../to_dir/inner",
]
MODES = [0o000, 0o400, 0o444, 0o644, 0o755, 0o1777, 0o2755, 0o4755, 0o6777, 0o7777, 0o2640]
OPEN_FLAGS = [
    O_RDONLY, O_WRONLY, O_RDWR, 3, O_RDONLY | O_DIRECTORY, O_RDONLY | O_NOFOLLOW, O_PATH, O_PATH | O_NOFOLLOW,
    O_PATH | O_NOFOLLOW | O_DIRECTORY, O_WRONLY | O_NOFOLLOW, O_RDONLY | O_NOATIME, O_WRONLY | O_DIRECTORY,
    O_RDONLY | O_DIRECTORY | O_NOFOLLOW, O_PATH | O_DIRECTORY,
]
OPEN_PATHS = [
    b"home/file", b"home/deep", b"home/deep/", b"home/to_file", b"home/to_file/", b"home/to_dir", b"home/to_dir/", b"home/dangling",
    b"home/nothing", b"home/unreadable", b"home/readonly", b"home/closed", b"home/closed/x", b"home/listonly", b"theirs/public",
    b"theirs/secret", b"theirs", b"theirs/private", b"home/loop1", b"home", b"/", b".", b"..", b"home/file/x", b"home/fixed/f",
    b"home/" + TOO_LONG, b"team/group", b"home/chain41",
]
CREATE_FLAGS = [
    O_CREAT | O_RDONLY, O_CREAT | O_WRONLY, O_CREAT | O_RDWR | O_EXCL, O_CREAT | O_WRONLY | O_NOFOLLOW, O_CREAT | O_WRONLY | O_TRUNC,
    O_CREAT | O_DIRECTORY | O_RDONLY, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY, O_CREAT | O_PATH,
]
CREATE_PATHS = [
    b"home/file", b"home/deep", b"home/deep/", b"home/new/", b"home/to_file/", b"home/dangling/", b"home/loop1", b"home/.", b"home/..",
    b"/", b"home/file/new", b"home/nothing/new", b"home/closed/new", b"home/fixed/new", b"home/fixed/f", b"theirs/new",
    b"theirs/secret", b"home/to_dir", b"home/dangling_dir", b"home/to_closed", b"home/" + TOO_LONG, b"home/readonly",
    b"shared/theirs", b"",
]


def _walking() -> list[Step]:
    steps: list[Step] = []
    for path in WALKS:
        steps += [("stat", path), ("stat", path, False), ("readlink", path), ("access", path, 0), ("chdir", path)]
        steps += [("getcwd",), ("chdir", b"/")]
    return steps


def _access() -> list[Step]:
    paths = [path for path in WALKS if len(path) < 100]
    return [("access", path, mode) for path in paths for mode in (os.R_OK, os.W_OK, os.X_OK, os.R_OK | os.W_OK, 7)]


def _opening() -> list[Step]:
    steps: list[Step] = []
    for path in OPEN_PATHS:
        for flags in OPEN_FLAGS:
            steps += [("open", 1, path, flags)]
    steps += [
        ("open", 1, b"home/fifo", O_RDONLY | O_NONBLOCK), ("open", 2, b"home/fifo", O_WRONLY | O_NONBLOCK), ("write", 2, b"through"),
        ("fstat", 1), ("open", 3, b"home/fifo", O_RDWR), ("open", 3, b"home/fifo", O_PATH), ("fstat", 3),
        ("open", 4, b"home/to_file", O_PATH | O_NOFOLLOW), ("fstat", 4), ("open", 4, b"home/file", O_PATH), ("fstat", 4),
        ("unlink", b"home/fifo"), ("mknod", b"home/fifo", stat.S_IFIFO | 0o666), ("stat", b"home/fifo"),
        ("open", 5, b"home/fifo", O_WRONLY | O_NONBLOCK), ("chmod", b"home/fifo", 0o200), ("open", 5, b"home/fifo", O_RDONLY | O_NONBLOCK),
        ("symlink", b"file", b"home/newlink"), ("open", 6, b"home/newlink", O_PATH | O_NOFOLLOW), ("fstat", 6),
        ("mknod", b"home/sock", stat.S_IFSOCK | 0o755), ("stat", b"home/sock"), ("open", 7, b"home/sock", O_RDONLY),
        ("open", 7, b"home/sock", O_PATH), ("fstat", 7), ("mknod", b"home/dev", stat.S_IFCHR | 0o644), ("mknod", b"home/dev", stat.S_IFBLK),
        ("mknod", b"home/d", stat.S_IFDIR | 0o755), ("mknod", b"home/odd", 0o030000), ("mknod", b"home/plain", 0o640),
        ("stat", b"home/plain"), ("mknod", b"home/plain", stat.S_IFREG), ("mknod", b"theirs/x", stat.S_IFIFO), ("mknod", b"home/f/", stat.S_IFIFO),
    ]
    return steps


def _creating() -> list[Step]:
    steps: list[Step] = []
    for path in CREATE_PATHS:
        for flags in CREATE_FLAGS:
            steps += [("open", 1, path, flags)]
    for number, mode in enumerate(MODES):
        path = b"home/made%d" % number
        steps += [("open", 1, path, O_CREAT | O_RDWR, mode), ("stat", path), ("write", 1, b"data"), ("fstat", 1), ("stat", path)]
        steps += [("open", 2, path, O_RDONLY), ("mkdir", path + b"d", mode), ("stat", path + b"d")]
    steps += [
        ("umask", 0o077), ("open", 1, b"home/private", O_CREAT | O_WRONLY), ("stat", b"home/private"), ("mkdir", b"home/pd"), ("stat", b"home/pd"),
        ("umask", 0), ("open", 1, b"home/open", O_CREAT | O_WRONLY), ("stat", b"home/open"), ("umask", 0o022),
        ("open", 1, b"home/dangling", O_CREAT | O_WRONLY), ("write", 1, b"far"), ("stat", b"home/nowhere"), ("stat", b"home/dangling"),
        ("open", 1, b"home/dangling_far", O_CREAT | O_WRONLY), ("list", b"home/deep"),
        ("open", 1, b"team/new", O_CREAT | O_WRONLY, 0o2777), ("stat", b"team/new"), ("mkdir", b"team/dir"), ("stat", b"team/dir"),
        ("open", 1, b"foreign/new", O_CREAT | O_WRONLY, 0o2777), ("stat", b"foreign/new"), ("mkdir", b"foreign/dir"), ("stat", b"foreign/dir"),
        ("open", 1, b"foreign/new2", O_CREAT | O_WRONLY, 0o2767), ("stat", b"foreign/new2"),
        ("mknod", b"foreign/fifo", stat.S_IFIFO | 0o2777), ("stat", b"foreign/fifo"), ("symlink", b"x", b"foreign/link"), ("stat", b"foreign/link", False),
    ]
    return steps


def _content() -> list[Step]:
    return [
        ("open", 1, b"home/file", O_RDWR), ("read", 1), ("write", 1, b"CON"), ("read", 1), ("fstat", 1), ("stat", b"home/file"),
        ("open", 2, b"home/file", O_WRONLY | O_APPEND), ("write", 2, b"tail"), ("read", 1), ("open", 3, b"home/file", O_RDONLY | O_TRUNC),
        ("read", 1), ("stat", b"home/file"), ("open", 3, b"home/readonly", O_RDONLY | O_TRUNC), ("open", 4, b"theirs/anybody", O_RDWR),
        ("read", 4), ("write", 4, b"mine!"), ("stat", b"theirs/anybody"), ("truncate", b"theirs/anybody", 3), ("stat", b"theirs/anybody"),
        ("truncate", b"home/deep/inner", 100), ("stat", b"home/deep/inner"), ("truncate", b"home/deep/inner", 0), ("stat", b"home/deep/inner"),
        ("truncate", b"home", 0), ("truncate", b"home/fifo", 0), ("truncate", b"home/nothing", 0), ("truncate", b"theirs/public", 0),
        ("truncate", b"home/to_file", 7), ("stat", b"home/file"), ("truncate", b"home/dangling", 0), ("truncate", b"home/file", -1),
        ("truncate", b"home/nothing", -1), ("truncate", b"home/deep/er/most", 2), ("open", 5, b"home/deep/er/most", O_RDONLY), ("read", 5),
        ("open", 6, b"home/twin1", O_RDWR), ("write", 6, b"TW"), ("open", 7, b"home/twin2", O_RDONLY), ("read", 7), ("same", b"home/twin1", b"home/twin2"),
        ("same", b"home/deep/twin3", b"home/twin2"), ("stat", b"home/deep/twin3"), ("open", 8, b"home/deep/twin3", O_RDONLY), ("read", 8),
        ("unlink", b"home/twin1"), ("stat", b"home/twin2"), ("fstat", 6), ("unlink", b"home/twin2"), ("unlink", b"home/deep/twin3"), ("fstat", 6), ("read", 8),
    ]


def _unlinked() -> list[Step]:
    return [
        ("open", 1, b"home/u", O_CREAT | O_RDWR), ("write", 1, b"here"), ("unlink", b"home/u"), ("fstat", 1), ("read", 1), ("write", 1, b"more"), ("fstat", 1),
        ("fchmod", 1, 0o600), ("fstat", 1), ("futime", 1, 5, 6), ("ftimes", 1), ("stat", b"home/u"), ("open", 2, b"home/u", O_CREAT | O_RDWR),
        ("fstat", 2), ("fstat", 1), ("linkfd", 1, b"home/back"), ("open", 3, b"home/file", O_RDONLY), ("unlink", b"home/file"), ("fstat", 3), ("read", 3),
        ("open", 4, b"home/file", O_CREAT | O_RDWR), ("fstat", 4), ("fstat", 3), ("rename", b"home/file", b"home/u"), ("fstat", 2), ("fstat", 4),
        ("open", 5, b"home", O_TMPFILE | O_RDWR, 0o640), ("fstat", 5), ("write", 5, b"unnamed"), ("linkfd", 5, b"home/named"), ("fstat", 5),
        ("stat", b"home/named"), ("open", 6, b"home/named", O_RDONLY), ("read", 6), ("linkfd", 5, b"home/named"), ("linkfd", 5, b"home/named2"),
        ("same", b"home/named", b"home/named2"), ("open", 7, b"home", O_TMPFILE | O_RDONLY), ("open", 7, b"home", O_TMPFILE | O_RDWR | O_CREAT),
        ("open", 7, b"home/file", O_TMPFILE | O_RDWR), ("open", 7, b"theirs", O_TMPFILE | O_RDWR), ("open", 7, b"home/nothing", O_TMPFILE | O_RDWR),
        ("open", 8, b"home", O_TMPFILE | O_RDWR | O_EXCL), ("linkfd", 8, b"home/never"), ("fchmod", 5, 0o604), ("stat", b"home/named"),
        ("open", 9, b"home/readonly", O_RDONLY), ("fchmod", 9, 0o640), ("stat", b"home/readonly"), ("fstat", 9), ("rename", b"home/readonly", b"home/moved"),
        ("fstat", 9), ("fchmod", 9, 0o600), ("stat", b"home/moved"), ("linkfd", 9, b"home/again"), ("open", 10, b"theirs/public", O_RDONLY),
        ("fchmod", 10, 0o777), ("linkfd", 10, b"home/stolen"), ("open", 11, b"theirs/anybody", O_RDONLY), ("linkfd", 11, b"home/allowed"),
    ]


def _directories() -> list[Step]:
    return [
        ("mkdir", b"home/a"), ("mkdir", b"home/a"), ("mkdir", b"home/a/b/c"), ("mkdir", b"home/a/b/"), ("stat", b"home/a"), ("mkdir", b"home/file"), ("mkdir", b"home/file/x"),
        ("mkdir", b"home/to_dir"), ("mkdir", b"home/dangling"), ("mkdir", b"home/dangling/"), ("mkdir", b"home/."), ("mkdir", b"home/.."), ("mkdir", b"/"), ("mkdir", b""),
        ("mkdir", b"theirs/x"), ("mkdir", b"theirs/private/x"), ("mkdir", b"home/closed/x"), ("mkdir", b"home/fixed/x"), ("mkdir", b"home/" + TOO_LONG), ("mkdir", b"home/" + LONG),
        ("rmdir", b"home/" + LONG), ("rmdir", b"home/a"), ("rmdir", b"home/a/b/."), ("rmdir", b"home/a/b/.."), ("rmdir", b"home/a/b"), ("stat", b"home/a"), ("rmdir", b"home/a/"),
        ("rmdir", b"home/a"), ("rmdir", b"home/file"), ("rmdir", b"home/file/"), ("rmdir", b"home/to_dir"), ("rmdir", b"home/to_dir/"), ("rmdir", b"/"), ("rmdir", b""),
        ("rmdir", b"home/deep"), ("rmdir", b"home/empty"), ("stat", b"home"), ("list", b"home"), ("mkdir", b"home/empty", 0o700), ("stat", b"home/empty"), ("list", b"home/empty"),
        ("rmdir", b"theirs/private"), ("rmdir", b"shared/theirdir"), ("rmdir", b"shared"), ("unlink", b"home/deep"), ("unlink", b"home/deep/"), ("unlink", b"home/file/"),
        ("unlink", b"home/to_dir/"), ("unlink", b"home/nothing"), ("unlink", b"home/nothing/"), ("unlink", b"home/."), ("unlink", b"home/.."), ("unlink", b"/"), ("unlink", b""),
        ("unlink", b"theirs/public"), ("unlink", b"theirs/private/f"), ("unlink", b"shared/theirs"), ("unlink", b"shared/mine"), ("unlink", b"home/fixed/f"), ("unlink", b"home/closed/x"),
        ("unlink", b"home/to_dir"), ("stat", b"home/deep"), ("unlink", b"home/dangling"), ("unlink", b"home/listonly/f"), ("unlink", b"home/file/x"), ("kinds", b"home"), ("kinds", b"home/deep"),
        ("unlink", b"home/deep/inner"), ("unlink", b"home/deep/er/most"), ("rmdir", b"home/deep/er"), ("unlink", b"home/deep/twin3"), ("list", b"home/deep"), ("rmdir", b"home/deep"),
        ("stat", b"home/deep"), ("mkdir", b"home/deep"), ("list", b"home/deep"), ("stat", b"home/deep"), ("open", 1, b"home/deep/inner", O_CREAT | O_RDWR), ("read", 1), ("list", b"home/closed"),
        ("list", b"home/listonly"), ("list", b"home/nothing"), ("list", b"home/file"), ("list", b"theirs/private"),
        ("mkdir", b"home/gone"), ("chdir", b"home/gone"), ("open", 2, b".", O_RDONLY), ("rmdir", b"/home/gone"), ("getcwd",), ("stat", b"."), ("list", b"."), ("mkdir", b"x"),
        ("open", 3, b"x", O_CREAT | O_RDWR), ("stat", b"x"), ("stat", b".."), ("stat", b"../file"), ("symlink", b"t", b"x"), ("fstat", 2), ("chmod", b".", 0o700), ("fstat", 2),
        ("rename", b"../file", b"x"), ("link", b"../file", b"x"), ("mknod", b"x", stat.S_IFIFO), ("open", 3, b".", O_TMPFILE | O_RDWR), ("chdir", b".."), ("getcwd",),
    ]


def _links() -> list[Step]:
    return [
        ("symlink", b"target", b"home/s"), ("stat", b"home/s", False), ("readlink", b"home/s"), ("symlink", b"t", b"home/s"), ("symlink", b"", b"home/e"), ("symlink", b"t" * 4095, b"home/long"),
        ("symlink", b"t" * 4096, b"home/longer"), ("stat", b"home/long", False), ("stat", b"home/long"), ("symlink", b"t", b"home/new/"), ("symlink", b"t", b"home/deep/"), ("symlink", b"t", b"theirs/x"),
        ("symlink", b"t", b"home/nothing/x"), ("symlink", b"t", b"home/dangling"), ("readlink", b"home/file"), ("readlink", b"home/deep"), ("readlink", b"home/to_dir/"), ("readlink", b"home/nothing"),
        ("link", b"home/file", b"home/hard"), ("stat", b"home/file"), ("same", b"home/file", b"home/hard"), ("link", b"home/file", b"home/hard"), ("link", b"home/nothing", b"home/x"),
        ("link", b"home/deep", b"home/x"), ("link", b"home/file", b"home/nothing/x"), ("link", b"home/file", b"home/x/"), ("link", b"home/file/", b"home/x"), ("link", b"home/file", b"theirs/x"),
        ("link", b"theirs/public", b"home/x"), ("link", b"theirs/anybody", b"home/x"), ("stat", b"home/x"), ("stat", b"theirs/anybody"), ("same", b"home/x", b"theirs/anybody"),
        ("link", b"theirs/program", b"home/y"), ("link", b"theirs/secret", b"home/y"), ("link", b"theirs/private/f", b"home/y"), ("link", b"home/to_file", b"home/hardsym"), ("stat", b"home/hardsym", False),
        ("stat", b"home/to_file", False), ("link", b"home/to_file", b"home/followed", True), ("stat", b"home/followed", False), ("same", b"home/followed", b"home/file"), ("link", b"home/dangling", b"home/d", True),
        ("link", b"home/dangling", b"home/d"), ("link", b"home/fifo", b"home/fifo2"), ("same", b"home/fifo", b"home/fifo2"), ("stat", b"home/fifo"), ("link", b"home/readonly", b"home/ro2"),
        ("link", b"home/unreadable", b"home/ur2"), ("chmod", b"home/ro2", 0o600), ("stat", b"home/readonly"), ("unlink", b"home/readonly"), ("stat", b"home/ro2"), ("link", b"home/file", b"home/."),
        ("link", b"home/file", b""), ("link", b"", b"home/z"), ("link", b"home/twin1", b"home/twin4"), ("stat", b"home/twin2"), ("same", b"home/twin4", b"home/deep/twin3"), ("unlink", b"home/twin4"),
        ("stat", b"home/deep/twin3"), ("unlink", b"home/twin1"), ("stat", b"home/twin2"), ("chmod", b"home/twin2", 0o600), ("stat", b"home/deep/twin3"), ("list", b"home"), ("link", b"shared/theirs", b"home/q"),
        ("link", b"team/group", b"home/g"), ("stat", b"home/g"), ("rename", b"home/hard", b"home/file"), ("stat", b"home/hard"), ("stat", b"home/file"),
    ]


def _renames() -> list[Step]:
    steps: list[Step] = [
        ("rename", b"home/file", b"home/renamed"), ("stat", b"home/file"), ("stat", b"home/renamed"), ("open", 1, b"home/renamed", O_RDONLY), ("read", 1), ("rename", b"home/renamed", b"home/readonly"),
        ("stat", b"home/readonly"), ("open", 1, b"home/readonly", O_RDONLY), ("read", 1), ("rename", b"home/nothing", b"home/x"), ("rename", b"home/readonly", b"home/deep"),
        ("rename", b"home/deep", b"home/readonly"), ("rename", b"home/deep", b"home/empty"), ("stat", b"home/empty/inner"), ("list", b"home/empty"), ("stat", b"home/deep"), ("stat", b"home"),
        ("rename", b"home/empty", b"home/empty/er/x"), ("rename", b"home/empty", b"home/empty"), ("rename", b"home/empty/er", b"home/empty"), ("rename", b"home/empty", b"home/empty/er"),
        ("mkdir", b"home/full"), ("mkdir", b"home/full/x"), ("rename", b"home/empty", b"home/full"), ("rename", b"home/full/x", b"home/empty/er/y"), ("list", b"home/empty/er"), ("stat", b"home/full"),
        ("stat", b"home/empty/er"), ("rename", b"home/empty/inner", b"home/inner"), ("open", 2, b"home/inner", O_RDWR), ("read", 2), ("write", 2, b"I"), ("read", 2), ("rename", b"home/to_file", b"home/sym"),
        ("readlink", b"home/sym"), ("rename", b"home/sym", b"home/inner"), ("stat", b"home/inner", False), ("rename", b"home/dangling", b"home/full"), ("rename", b"home/full", b"home/dangling"),
        ("rename", b"home/inner/", b"home/q"), ("rename", b"home/readonly/", b"home/q"), ("rename", b"home/readonly", b"home/q/"), ("rename", b"home/full/", b"home/fuller/"), ("list", b"home"),
        ("rename", b"home/.", b"home/q"), ("rename", b"home/..", b"home/q"), ("rename", b"home/fuller", b"home/."), ("rename", b"/", b"home/q"), ("rename", b"home/fuller", b"/"), ("rename", b"", b"home/q"),
        ("rename", b"home/fuller", b""), ("rename", b"theirs/public", b"home/q"), ("rename", b"home/readonly", b"theirs/q"), ("rename", b"home/readonly", b"theirs/public"),
        ("rename", b"shared/theirs", b"shared/q"), ("rename", b"shared/mine", b"shared/theirs"), ("rename", b"shared/mine", b"shared/ours"), ("rename", b"shared/theirdir", b"home/taken"),
        ("rename", b"home/fixed", b"home/unfixed"), ("rename", b"home/unfixed", b"home/empty/unfixed"), ("rename", b"home/fuller", b"home/unfixed/x"), ("rename", b"home/closed", b"home/empty/closed"),
        ("rename", b"home/closed", b"home/closed2"), ("rename", b"home/closed2/x", b"home/q"), ("rename", b"home/readonly", b"home/closed2/x"), ("rename", b"home/twin1", b"home/twin2"), ("stat", b"home/twin1"),
        ("stat", b"home/twin2"), ("rename", b"home/twin1", b"home/deep2"), ("rename", b"home/deep2", b"home/twin2"), ("list", b"home"), ("rename", b"home/" + TOO_LONG, b"home/q"),
        ("rename", b"home/readonly", b"home/" + TOO_LONG), ("rename", b"home/fifo", b"home/empty/fifo"), ("stat", b"home/empty/fifo"), ("rename", b"home/up", b"home/empty/up"), ("stat", b"home/empty/up"),
    ]
    no_replace, exchange = 1, 2
    return steps + [
        ("rename", b"home/readonly", b"home/twin2", no_replace), ("rename", b"home/readonly", b"home/rw", no_replace), ("rename", b"home/nothing", b"home/twin2", no_replace),
        ("rename", b"home/rw", b"home/.", no_replace), ("rename", b"home/rw", b"home/rw", no_replace), ("rename", b"home/rw", b"home/twin2", no_replace | exchange), ("rename", b"home/rw", b"home/q", 8),
    ]


def _exchanges() -> list[Step]:
    exchange = 2
    return [
        ("rename", b"home/file", b"home/readonly", exchange), ("open", 1, b"home/file", O_RDONLY), ("read", 1), ("stat", b"home/readonly"), ("rename", b"home/file", b"home/nothing", exchange),
        ("rename", b"home/nothing", b"home/file", exchange), ("rename", b"home/file", b"home/deep", exchange), ("stat", b"home/file"), ("stat", b"home/deep"), ("list", b"home/file"), ("stat", b"home/file/er/most"),
        ("rename", b"home/file", b"home/file/er", exchange), ("rename", b"home/file/er", b"home/file", exchange), ("rename", b"home/file/er", b"home/empty", exchange), ("list", b"home/empty"), ("list", b"home/file"),
        ("stat", b"home/file"), ("stat", b"home"), ("rename", b"home/to_dir", b"home/deep", exchange), ("readlink", b"home/deep"), ("rename", b"home/deep/", b"home/file", exchange), ("rename", b"home/file", b"home/deep/", exchange),
        ("rename", b"shared/theirs", b"shared/mine", exchange), ("rename", b"home/readonly", b"theirs/public", exchange), ("rename", b"home/twin1", b"home/twin2", exchange), ("rename", b"home/empty", b"home/fixed", exchange), ("kinds", b"home"),
    ]


def _attributes() -> list[Step]:
    steps: list[Step] = []
    for mode in MODES:
        for path in (b"home/file", b"home/deep", b"theirs/public", b"home/to_file"):
            steps += [("chmod", path, mode), ("stat", path)]
    steps += [("chmod", b"home/file", 0o6755), ("open", 1, b"home/file", O_RDWR), ("stat", b"home/file"), ("write", 1, b"x"), ("stat", b"home/file"), ("chmod", b"home/file", 0o2745), ("write", 1, b"y"), ("stat", b"home/file")]
    steps += [("chmod", b"home/file", 0o6755), ("truncate", b"home/file", 0), ("stat", b"home/file"), ("chmod", b"home/file", 0o6755), ("utime", b"home/file", 1, 2), ("stat", b"home/file"), ("write", 1, b"z"), ("stat", b"home/file")]
    steps += [("chmod", b"home/file", 0o6755), ("open", 2, b"home/file", O_WRONLY | O_TRUNC), ("stat", b"home/file")]
    for uid, gid in ((-1, -1), (GUEST, -1), (-1, GUEST), (-1, FRIENDS), (GUEST, FRIENDS), (OTHER, -1), (-1, OTHER), (0, 0), (-1, GUEST)):
        for path in (b"home/file", b"home/deep", b"theirs/public", b"theirs/program"):
            steps += [("chmod", path, 0o6755), ("chown", path, uid, gid), ("stat", path)]
        steps += [("chown", b"home/to_file", uid, gid, False), ("stat", b"home/to_file", False), ("chmod", b"home/twin1", 0o2644), ("chown", b"home/twin1", uid, gid), ("stat", b"home/twin1")]
    steps += [("mkdir", b"team/d"), ("open", 3, b"team/f", O_CREAT | O_RDWR, 0o644), ("chmod", b"team/f", 0o2755), ("stat", b"team/f"), ("chmod", b"team/d", 0o755), ("stat", b"team/d"), ("chmod", b"team", 0o777)]
    steps += [("mkdir", b"foreign/d"), ("chmod", b"foreign/d", 0o2755), ("stat", b"foreign/d"), ("chown", b"foreign/d", -1, OTHER), ("chown", b"foreign/d", -1, GUEST), ("stat", b"foreign/d"), ("chown", b"foreign/d", -1, OTHER)]
    for path in (b"home/file", b"home/deep", b"theirs/public", b"theirs/anybody", b"home/nothing", b"home/to_file", b"theirs", b"home/unreadable", b"home/readonly"):
        steps += [("utime", path, 10**9, 2 * 10**9 + 7), ("touch", path)]
    steps += [("utime", b"home/file", 10**9, 2 * 10**9 + 7), ("times", b"home/file"), ("utime", b"home/deep", 1, -5), ("times", b"home/deep"), ("utime", b"home/readonly", 3, 4), ("times", b"home/readonly")]
    steps += [("open", 4, b"home/readonly", O_RDONLY), ("chmod", b"home/readonly", 0o600), ("times", b"home/readonly"), ("open", 5, b"home/readonly", O_RDWR), ("times", b"home/readonly"), ("futime", 5, 8, 9), ("times", b"home/readonly")]
    steps += [("chmod", b"home/deep", 0), ("stat", b"home/deep/inner"), ("chmod", b"home/deep", 0o755), ("stat", b"home/deep/inner"), ("chmod", b"home/closed", 0o755), ("list", b"home/closed"), ("chmod", b"", 0), ("chmod", b"home/dangling", 0)]
    return steps


def _xattrs() -> list[Step]:
    steps: list[Step] = []
    for path in (b"home/file", b"home/deep", b"home/fifo", b"theirs/public", b"theirs/anybody", b"theirs/secret", b"shared", b"home/unreadable", b"home/readonly"):
        for name in (b"user.one", b"user.", b"user", b"trusted.x", b"security.x", b"nothing.x", b"user." + b"n" * 250, b"user." + b"n" * 251):
            steps += [("getxattr", path, name), ("setxattr", path, name, b"value"), ("getxattr", path, name), ("listxattr", path), ("removexattr", path, name)]
    return steps + [
        ("setxattr", b"home/file", b"user.a", b"1", 1), ("setxattr", b"home/file", b"user.a", b"2", 1), ("setxattr", b"home/file", b"user.a", b"3", 2), ("getxattr", b"home/file", b"user.a"),
        ("setxattr", b"home/file", b"user.b", b"", 2), ("setxattr", b"home/file", b"user.b", b""), ("getxattr", b"home/file", b"user.b"), ("listxattr", b"home/file"), ("rename", b"home/file", b"home/g"), ("listxattr", b"home/g"),
        ("setxattr", b"home/g", b"user.c", b"c", 3), ("setxattr", b"home/g", b"user.c", b"c", 4), ("removexattr", b"home/g", b"user.a"), ("getxattr", b"home/g", b"user.a"), ("setxattr", b"home/g", b"user.big", b"x" * 65537),
        ("open", 1, b"home/g", O_RDWR), ("write", 1, b"w"), ("listxattr", b"home/g"), ("setxattr", b"home/empty", b"user.d", b"d"), ("listxattr", b"home/empty"), ("setxattr", b"home/nothing", b"user.d", b"d"),
    ]


SCRIPTS: dict[str, list[Step]] = {
    "walking": _walking(), "access": _access(), "opening": _opening(), "creating": _creating(), "content": _content(), "unlinked": _unlinked(),
    "directories": _directories(), "links": _links(), "renames": _renames(), "exchanges": _exchanges(), "attributes": _attributes(), "xattrs": _xattrs(),
}
