"""Hard links with names in several layers: a commit and its export keep what a box did to them.

The same script runs natively on a copy of the tree. Its groups of names are the expected ones.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from husk.images.image_export import export
from husk.images.image_import import import_image
from husk.store.store import Store
from tests.images.hostroot import add_programs
from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import scratch
from tests.snapshots.place import Place

pytestmark = pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for")

# Groups of names by their content; those that the script leaves alone show that they stay what they were.
BEFORE = {
    "alone": ["alone"],
    "renamed": ["renamed/a", "renamed/b", "elsewhere/renamed"],
    "moved": ["moved/x", "elsewhere/moved", "deep/down/moved"],
    "three": ["three/a", "three/b", "three/c"],
    "mode": ["mode/a", "deep/mode"],
    "grown": ["grown/a", "deep/grown"],
    "split": ["split/a", "split/b"],
    "quiet": ["quiet/a", "deep/quiet"],
}
SCRIPT = """
ln alone alone2                 # a lower file gets a second name
mv renamed/a renamed/z          # one of three is called otherwise; of the third nobody has heard yet
mv moved gone                   # a directory, with one name of a file that has two more
rm three/b; ln three/a three/d  # one goes, one comes
chmod 600 mode/a                # not content, but metadata
echo more >> grown/a
cp split/a split/new; mv split/new split/a
ln -s alone soft; ln soft soft2; mkfifo pipe; ln pipe pipe2
"""


def make_tree(top: Path) -> None:
    for content, (first, *others) in BEFORE.items():
        for name in (first, *others):
            (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / first).write_text(content)
        for name in others:
            os.link(top / first, top / name)


def groups_of_host(top: Path) -> set[frozenset[str]]:
    found: dict[int, set[str]] = {}
    for path in top.rglob("*"):
        if not path.is_dir() or path.is_symlink():
            found.setdefault(path.lstat().st_ino, set()).add(str(path.relative_to(top)))
    return {frozenset(names) for names in found.values()}


def groups_of_image(store: Store, name: str) -> set[frozenset[str]]:
    found: dict[int, set[str]] = {}
    counts: dict[int, int] = {}
    for entry in store.open_manifest(store.images.get(name).flat).walk():
        if entry.path.startswith(b"tree/") and not entry.is_directory:
            found.setdefault(entry.inode, set()).add(os.fsdecode(entry.path.removeprefix(b"tree/")))
            counts[entry.inode] = entry.nlink
    assert counts == {inode: len(names) for inode, names in found.items()}
    return {frozenset(names) for names in found.values()}


@pytest.fixture
def place() -> Iterator[Place]:
    with scratch() as top:
        place = Place(top)
        make_tree(top / "native")
        root = top / "root"
        make_tree(root / "tree")
        add_programs(root, "sh", "ln", "mv", "rm", "chmod", "cp", "mkfifo")
        import_image(Store.create(str(place.store)), str(root), "base")
        yield place


@pytest.mark.both_settings
def test_a_commit_and_its_export_keep_links(place: Place) -> None:
    subprocess.run(["sh", "-euc", SCRIPT], cwd=place.top / "native", check=True)
    wanted = groups_of_host(place.top / "native")
    # In two runs: the first one's changes are another layer for the second.
    first, second = SCRIPT.split("chmod", 1)
    place.sh("box", f"cd /tree; {first}", "--image", "base")
    place.sh("box", f"cd /tree; chmod{second}")
    place.husk("commit", "box", "made")
    store = Store.open(str(place.store))
    assert groups_of_image(store, "made") == wanted
    layer = store.open_manifest(store.images.get("made").layers[-1])
    assert not [entry.path for entry in layer.walk() if b"quiet" in entry.path]
    for form in ("tar", "oci"):
        again = str(place.top / f"{form}.tar")
        export(store, "made", again, form)
        assert import_image(store, again, form).flat == store.images.get("made").flat
