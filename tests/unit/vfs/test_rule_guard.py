"""native/host/guard.c with rules: what a name, an identity and a directory of the guest's own open and close."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from husk.native._core import (
    DeniedByRule,
    HiddenByRule,
    guard_root,
    open_beneath,
    own_file,
    stat_beneath,
    unguard_root,
)

PROTECT, DENY, HIDE = 1, 2, 3
Rule = tuple[int, bool, bool, tuple[bytes, ...], int, str, str]
READ, LOOK = os.O_RDONLY, os.O_PATH | os.O_NOFOLLOW


def rule(verb: int, *parts: bytes, own: bool = False, files: bool = False) -> Rule:
    return verb, own, files, (b"**", *parts), 1, "the reason", "what allows it"


class Root:
    def __init__(self, top: Path) -> None:
        self.top, self.fd = top, os.open(top, os.O_PATH | os.O_DIRECTORY)
        for folder in ("a/secret", "a/.env.d", "own/secret"):
            (top / folder).mkdir(parents=True)
        for file in ("a/key", "a/secret/in", "plain", "own/key"):
            (top / file).write_text(file)

    def guard(self, *rules: Rule, ruled: list[tuple[int, int, int]] | None = None, walk: bool = False) -> None:
        guard_root(self.fd, [], [], walk, None, list(rules), ruled or [])

    def open(self, name: bytes, flags: int = READ) -> str:
        try:
            os.close(open_beneath(self.fd, name, flags))
            return "opened"
        except OSError as error:
            return errno.errorcode[error.errno or 0]

    def stat(self, name: bytes) -> str:
        try:
            stat_beneath(self.fd, name)
            return "seen"
        except OSError as error:
            return errno.errorcode[error.errno or 0]

    def identity(self, name: str, number: int) -> tuple[int, int, int]:
        info = (self.top / name).lstat()
        return info.st_dev, info.st_ino, number


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    made = Root(tmp_path)
    yield made
    unguard_root(made.fd)
    os.close(made.fd)


@pytest.mark.parametrize("walk", [False, True])
def test_a_hidden_name_does_not_exist(root: Root, walk: bool) -> None:
    root.guard(rule(HIDE, b"key"), rule(HIDE, b"secret"), walk=walk)
    assert root.open(b"a/key") == root.open(b"a/secret/in") == root.open(b"a/secret", LOOK) == "ENOENT"
    assert root.stat(b"a/key") == root.stat(b"a/secret/in") == "ENOENT"
    assert root.open(b"plain") == "opened" and root.stat(b"a") == "seen"
    with pytest.raises(HiddenByRule) as refused:
        stat_beneath(root.fd, b"a/key")
    assert (refused.value.strerror, refused.value.filename2) == ("the reason", "what allows it")


@pytest.mark.parametrize("walk", [False, True])
def test_a_denied_name_can_be_looked_at(root: Root, walk: bool) -> None:
    root.guard(rule(DENY, b"key"), rule(DENY, b"secret"), walk=walk)
    assert root.stat(b"a/key") == root.stat(b"a/secret") == "seen"
    assert root.stat(b"a/secret/in") == root.open(b"a/key") == root.open(b"a/key", LOOK) == "EACCES"
    with pytest.raises(DeniedByRule):
        open_beneath(root.fd, b"a/secret", os.O_RDONLY | os.O_DIRECTORY)


def test_what_is_not_there_is_not_refused(root: Root) -> None:
    """No report of a rule where there is nothing to hide."""
    root.guard(rule(HIDE, b"absent"), rule(DENY, b"denied"))
    for name in (b"a/absent", b"a/absent/x", b"a/denied/x"):
        with pytest.raises(FileNotFoundError) as refused:
            open_beneath(root.fd, name, READ)
        assert type(refused.value) is FileNotFoundError


def test_a_rule_for_files_passes_directories(root: Root) -> None:
    root.guard(rule(DENY, b".env*", files=True))
    assert root.open(b"a/.env.d", os.O_RDONLY | os.O_DIRECTORY) == "opened"
    (root.top / "a/.env.d/python").touch()
    (root.top / "a/.env").touch()
    assert root.open(b"a/.env.d/python") == "opened" and root.open(b"a/.env") == "EACCES"


@pytest.mark.parametrize("walk", [False, True])
def test_an_identity_is_closed_under_any_name(root: Root, walk: bool) -> None:
    os.link(root.top / "a/key", root.top / "second")
    ruled = [root.identity("a/key", 0), root.identity("a/secret", 1)]
    root.guard(rule(HIDE, b"nothing"), rule(DENY, b"nothing"), ruled=ruled, walk=walk)
    assert root.open(b"second") == root.stat(b"second") == root.open(b"a/key") == "ENOENT"
    assert root.stat(b"a/secret") == "seen" and root.open(b"a/secret", os.O_RDONLY | os.O_DIRECTORY) == "EACCES"
    (root.top / "a/secret").rename(root.top / "moved")
    assert root.open(b"moved/in") == ("EACCES" if walk else "opened"), "a walk looks at each directory"
    assert root.stat(b"moved") == "seen"


def test_what_the_guest_made(root: Root) -> None:
    root.guard(rule(DENY, b"key", own=True), rule(DENY, b"secret", own=True))
    assert root.open(b"own/key") == "EACCES"
    assert own_file(root.fd, b"own/key", *root.identity("own/key", 0)[:2])
    assert own_file(root.fd, b"own/secret", *root.identity("own/secret", 0)[:2])
    assert root.open(b"own/key") == "opened" and root.open(b"a/key") == "EACCES"
    (root.top / "own/secret/key").write_text("of the host's")
    (root.top / "own/secret/other").touch()
    assert root.open(b"own/secret/other") == "opened"
    assert root.open(b"own/secret/key") == "EACCES", "what lies in it is judged by itself"
    (root.top / "own/key").unlink()
    (root.top / "own/key").write_text("another one, perhaps with the same inode number")
    assert root.open(b"own/key") == "EACCES", "it was born later"
    assert not own_file(root.fd, b"own/key", 1, 2), "another file is there"
    assert not own_file(root.fd, b"own/none", 1, 2)


def test_what_is_excepted_is_what_is_opened(root: Root) -> None:
    """A rule excepts directories. Another process exchanges one for a denied file between judging and opening."""
    (root.top / "b").mkdir()
    (root.top / "b/.env.d").write_text("denied")
    root.guard(rule(DENY, b".env.d", own=True, files=True))
    ready, go = os.pipe()
    child = os.fork()
    if not child:
        exchange = ctypes.CDLL(None).renameat2
        os.write(go, b"x")
        while os.getppid() != 1:
            exchange(root.fd, b"a", root.fd, b"b", 2)
        os._exit(0)
    try:
        os.read(ready, 1)
        kinds = set()
        for _ in range(20000):
            try:
                fd = open_beneath(root.fd, b"a/.env.d", READ)
            except OSError:
                continue
            kinds.add(stat.S_IFMT(os.fstat(fd).st_mode))
            os.close(fd)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ready)
        os.close(go)
    assert kinds == {stat.S_IFDIR}


def test_rules_end_with_their_guard(root: Root) -> None:
    root.guard(rule(HIDE, b"key"))
    root.guard()
    assert root.open(b"a/key") == "opened"


@pytest.mark.parametrize(
    "rules",
    [
        [(HIDE, False, False, (), 1, "", "")],
        [(7, False, False, (b"x",), 1, "", "")],
        [(HIDE, False, False, (b"",), 1, "", "")],
        [(HIDE, False, False, (b"x",) * 31, 1, "", "")],
        [(HIDE, False, False, ("x",), 1, "", "")],
        [rule(HIDE, b"x")] * 1025,
    ],
)
def test_rules_that_make_no_sense(root: Root, rules: list[Rule]) -> None:
    with pytest.raises((ValueError, TypeError)):
        root.guard(*rules)
    with pytest.raises(ValueError, match="no such rule"):
        root.guard(rule(HIDE, b"x"), ruled=[(1, 2, 5)])
    assert root.open(b"a/key") == "opened"
