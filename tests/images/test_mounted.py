"""`--mount IMAGE:DIR:image`: an image of the store below a directory of a box, as the files it was made of."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from husk.store.collect import collect
from husk.store.ingest import ingest
from husk.store.store import Store
from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import PIPE, husk, husk_process

pytestmark = pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for")

LOOK = r"""
cd /opt/it
find . -type f -o -type l | sort | while read -r f; do echo "$f $(stat -c '%a %s %h' "$f") $(readlink "$f")"; done
cat a/one; cat link; ./tool word; ./script
echo x 2>/dev/null > a/one || echo "write $?"
for f in new a/new; do mkdir $f 2>/dev/null || echo "mkdir $?"; done
rm -f a/one 2>/dev/null || echo "rm $?"
mv a b 2>/dev/null || echo "mv $?"
chmod 700 a 2>/dev/null || echo "chmod $?"
test -w a/one || echo "not writable"
grep ' /opt/it ' /proc/self/mounts | cut -d' ' -f3,4
cat a/one
"""


def made_of(place: Path) -> Path:
    root = place / "root"
    (root / "a").mkdir(parents=True)
    (root / "a/one").write_text("one\n")
    os.link(root / "a/one", root / "a/twin")
    (root / "a/same").write_text("one\n")
    (root / "link").symlink_to("a/one")
    shutil.copy(os.path.realpath("/bin/echo"), root / "tool")
    (root / "script").write_text("#!/bin/sh\necho script\n")
    for name in ("tool", "script"):
        (root / name).chmod(0o755)
    return root


@pytest.mark.both_settings
def test_it_is_shown_and_cannot_be_changed(tmp_path: Path, store: Store) -> None:
    root = made_of(tmp_path)
    ingest(store, str(root), "tools:1")
    size = (root / "tool").stat().st_size
    found = husk(["run", "--store", store.place, "--mount", "tools:1:/opt/it:image", "--", "sh", "-c", LOOK])
    assert found.out.splitlines() == [
        "./a/one 644 4 2 ", "./a/same 644 4 1 ", "./a/twin 644 4 2 ", "./link 777 5 1 a/one",
        "./script 755 22 1 ", f"./tool 755 {size} 1 ", "one", "one", "word", "script",
        "write 2", "mkdir 1", "mkdir 1", "rm 1", "mv 1", "chmod 1", "not writable", "overlay ro,nosuid,nodev,relatime",
        "one",
    ]  # fmt: skip


def test_two_of_them_and_a_root(tmp_path: Path, store: Store) -> None:
    """Each has files and inode numbers of its own, though they share their contents."""
    ingest(store, str(made_of(tmp_path)), "tools")
    given = [word for place in ("/opt/x", "/opt/y") for word in ("--mount", f"tools:{place}:image")]
    look = "stat -c %d /opt/x/a/one /opt/y/a/one | uniq | wc -l; cmp /opt/x/tool /opt/y/tool && echo same"
    found = husk(["run", "--store", store.place, *given, "--", "sh", "-c", look])
    assert found.out == "2\nsame\n", found.err


def test_a_running_box_keeps_it(tmp_path: Path, store: Store) -> None:
    ingest(store, str(made_of(tmp_path)), "tools")
    arguments = ["run", "--store", store.place, "--mount", "tools:/it:image", "--", "sh", "-c"]
    with husk_process([*arguments, "echo up; read go; cat /it/a/one"], stdin=PIPE, stdout=PIPE) as running:
        assert running.process.stdout is not None and running.process.stdin is not None
        assert running.process.stdout.readline() == b"up\n"
        store.images.rm("tools")
        assert collect(store, delete=True).blobs == 0
        assert running.process.communicate(b"go\n", timeout=100)[0] == b"one\n"
    assert collect(store, delete=True).blobs > 0


def test_what_is_not_there(store: Store, tmp_path: Path) -> None:
    told = husk(["run", "--store", store.place, "--mount", "none:/it:image", "--", "true"])
    assert told.status == 2 and "--mount none:/it:image: there is no image 'none'" in told.err
    told = husk(["run", "--store", str(tmp_path / "no"), "--mount", "none:/it:image", "--", "true"])
    assert told.status == 2 and "there is no store at" in told.err
    ingest(store, str(made_of(tmp_path)), "tools")
    told = husk(["run", "--store", store.place, "--image", "tools", "--", "true"])
    assert told.status == 127 and "the image 'tools' does not have it" in told.err
