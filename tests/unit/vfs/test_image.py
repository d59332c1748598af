"""The default image: what of the host is there, and above all what is not."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from husk.vfs.image.default_image import default_image
from husk.vfs.layer.layered_tree import LayeredTree
from husk.vfs.node import Credentials
from tests.unit.vfs.trees import new_state
from tests.unit.vfs.virtual import Virtual
from tests.unit.vfs.worlds import GUEST

FILES = {b"passwd": b"root:x:0:0::/root:/bin/sh\n", b"hostname": b"husk\n"}


@pytest.fixture
def image(tmp_path: Path) -> Iterator[Virtual]:
    state = new_state(tmp_path)
    world = Virtual(state, default_image(state, Credentials(GUEST, GUEST), FILES))
    yield world
    world.close()
    state.close()


def names(world: Virtual, path: bytes) -> set[bytes]:
    return {entry.name for entry in world._entries(path)}


def test_only_listed_names_exist(image: Virtual) -> None:
    allowed = b"usr bin sbin lib lib32 lib64 libx32 dev proc sys tmp home root run opt srv mnt media var etc workspace"
    assert names(image, b"/") <= set(allowed.split())
    hidden = b"""
        /etc/shadow /etc/gshadow /etc/ssl/private /etc/machine-id /etc/ssh /etc/resolv.conf /etc/hosts /etc/default/grub
        /var/lib/dpkg /root/.bashrc /proc/self /boot
    """
    for gone in hidden.split():
        assert image.answer(("stat", gone)).endswith(("ENOENT", "EACCES")), gone
    assert names(image, b"/home") == {b"guest"}
    assert names(image, b"/tmp") == names(image, b"/workspace") == set()


def test_host_programs_are_there(image: Virtual) -> None:
    for path in (b"/bin/sh", b"/usr/bin/env", b"/etc/ld.so.cache", b"/usr/lib"):
        found = image.vfs.stat(image.ctx, image.vfs.root, path)
        assert found.size == os.stat(path).st_size
        assert found.ino == os.stat(path).st_ino


def test_generated_files_replace_the_hosts(image: Virtual) -> None:
    image.do_open(1, b"/etc/passwd", os.O_RDONLY)
    assert image.do_read(1) == repr(FILES[b"passwd"])
    assert image.do_stat(b"/etc/passwd").startswith("-rw-r--r-- links=1 0:0")


def test_the_guest_owns_little(image: Virtual) -> None:
    for path in (b"/", b"/etc", b"/usr", b"/bin/sh", b"/etc/passwd", b"/root", b"/var"):
        assert " 0:0 " in image.do_stat(path)
        assert image.answer(("access", path, os.W_OK)).endswith("EACCES")
        assert image.answer(("chmod", path, 0o777)).endswith("EPERM")
    for path in (b"/home/guest", b"/workspace"):
        assert f" {GUEST}:{GUEST} " in image.do_stat(path)
    assert image.do_stat(b"/tmp").startswith("drwxrwxrwt")
    assert image.do_stat(b"/home/guest").startswith("drwx------")
    for step in (("open", 1, b"/usr/new", os.O_CREAT | os.O_WRONLY), ("unlink", b"/bin/sh"), ("rename", b"/usr", b"/r"),
                 ("open", 1, b"/etc/passwd", os.O_WRONLY), ("mkdir", b"/new"), ("symlink", b"x", b"/etc/shadow")):
        assert image.answer(step).endswith("EACCES")


def test_nothing_counts_as_changed_at_first(image: Virtual) -> None:
    tree = image.vfs.root.tree
    assert isinstance(tree, LayeredTree)
    tree.seal()
    assert tree.changes() == []
    image.vfs.mount(LayeredTree(image.vfs.state), b"/skill/deep")
    image.do_list(b"/usr/lib")
    assert tree.changes() == []
    image.do_open(1, b"/tmp/x", os.O_CREAT | os.O_WRONLY)
    image.do_mkdir(b"/workspace/out")
    image.do_chmod(b"/workspace", 0o700)
    assert tree.changes() == [("added", b"/tmp/x"), ("changed", b"/workspace"), ("added", b"/workspace/out")]


def test_files_move_freely_within_it(image: Virtual) -> None:
    image.do_open(1, b"/tmp/x", os.O_CREAT | os.O_WRONLY)
    image.do_rename(b"/tmp/x", b"/workspace/x")
    image.do_link(b"/workspace/x", b"/home/guest/x")
    assert image.do_same(b"/workspace/x", b"/home/guest/x") == "True"


def test_every_host_file_in_etc_is_public(image: Virtual) -> None:
    """What shows of /etc is what any user of the host may read."""
    waiting = [b"/etc"]
    while waiting:
        path = waiting.pop()
        for entry in image._entries(path):
            full = path + b"/" + entry.name
            if entry.name not in FILES and not stat.S_ISLNK(entry.kind):
                mode = os.lstat(full).st_mode
                readable = image.answer(("access", full, os.R_OK)).endswith("ok")
                assert readable == bool(mode & 0o004), full
                if stat.S_ISDIR(entry.kind) and readable and mode & 0o001:
                    waiting.append(full)


def test_it_is_dated_by_one_moment_and_what_comes_later_by_its_own(image: Virtual) -> None:
    def changed(path: bytes) -> int:
        return image.vfs.stat(image.ctx, image.vfs.root, path, follow=False).ctime

    made = {changed(path) for path in (b"/home", b"/home/guest", b"/workspace", b"/var/lock", b"/var/tmp", b"/")}
    assert len(made) == 1
    time.sleep(0.02)  # longer than the host's coarse clock stands still
    image.do_mkdir(b"/workspace/new", 0o755)
    assert min(changed(b"/workspace/new"), changed(b"/workspace")) > max(made)
    assert {changed(b"/home")} == made
