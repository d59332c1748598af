"""husk creates its own files without following links: planted links lead nowhere.

The sources are read: every os.open that may create a file says O_EXCL or O_NOFOLLOW, and the rooms that keep state use
no open() for writing. Then the names that husk makes in a box's state are planted with links, one by one.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from husk.sandbox.kept.kept_boxes import KeptBoxes, NoCollection
from husk.sandbox.kept.record import Record
from husk.store.layout import create, write_file, write_whole
from husk.vfs.layer.content_copy import Copy
from husk.vfs.layer.inodes import Inode
from husk.vfs.layer.layered_tree import LayeredTree
from husk.vfs.state import State

SOURCE = Path(__file__).resolve().parents[2] / "src" / "husk"
STATEFUL = ("vfs", "store", "sandbox")
# These files are the person's own, named at the command line or by the guest, and not husk's.
OTHERS = {"kernel/syscalls/open.py", "vfs/opening.py", "vfs/proc/reopen.py", "api/files.py", "cli/cmd_run.py"}


def calls(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == name:
            yield node


def complaints(where: str, text: str) -> list[str]:
    tree = ast.parse(text)
    assigned = {
        ast.unparse(target): ast.unparse(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
    }
    found = []
    for call in calls(tree, "os.open"):
        flags = ast.unparse(call.args[1])
        for _ in range(3):  # names that stand for flags
            flags = " ".join(assigned.get(word, word) for word in flags.replace("|", " ").split())
        if "O_CREAT" in flags and not ("O_EXCL" in flags or "O_NOFOLLOW" in flags):
            found.append(f"{where}:{call.lineno}: creates a file through a link")
    if where.startswith(STATEFUL):
        for call in calls(tree, "open"):
            mode = ast.unparse(call.args[1]) if len(call.args) > 1 else ""
            if set(mode) & set("wax+"):
                found.append(f"{where}:{call.lineno}: open() for writing follows links")
    return found


def test_nothing_is_created_through_a_link() -> None:
    files = [(str(path.relative_to(SOURCE)), path) for path in sorted(SOURCE.rglob("*.py"))]
    assert len(files) > 200
    checked = [(where, path) for where, path in files if where not in OTHERS]
    assert [fault for where, path in checked for fault in complaints(where, path.read_text())] == []


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("os.open(p, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)", 1),
        ("flags = os.O_CREAT\nos.open(p, flags)", 1),
        ("os.open(p, os.O_CREAT | os.O_EXCL)", 0),
        ("F = os.O_CREAT | os.O_NOFOLLOW\nos.open(p, F)", 0),
        ("open(p, 'w')", 1),
        ("open(p, 'rb')", 0),
    ],
)
def test_the_check_itself(text: str, faults: int) -> None:
    assert len(complaints("sandbox/x.py", text)) == faults


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_text("ORIGINAL")
    return path


def test_a_copy_does_not_follow_a_planted_link(tmp_path: Path, victim: Path) -> None:
    place = tmp_path / "state"
    place.mkdir(0o700)
    state = State(os.fsencode(place))
    source = os.open(__file__, os.O_RDONLY)
    tree = LayeredTree(state)
    copy = Copy(state, Inode(tree, 7, 0o100644, 0, 0, 0), source, {})
    os.symlink(victim, b"%d" % copy.number, dir_fd=state.files_fd)
    copy.make()
    assert victim.read_text() == "ORIGINAL"
    assert not (place / "files" / str(copy.number)).is_symlink()
    copy.discard()
    state.close()


@pytest.mark.parametrize("what", ["record.new", "kept.lock"])
def test_names_of_kept_boxes_that_were_planted(
    tmp_path: Path, victim: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUSK_STATE", str(tmp_path / "state"))
    (tmp_path / "state").mkdir(0o700)
    kept = KeptBoxes()
    record = Record("box")
    box = Path(kept.path("box"))
    box.mkdir(parents=True)
    (box / what if what == "record.new" else Path(kept.parent) / what).symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        if what == "record.new":
            kept.write(record, durable=False)
        else:
            NoCollection(kept.parent)
    assert victim.read_text() == "ORIGINAL"


def test_names_of_the_store_that_were_planted(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "planted").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        write_file(str(tmp_path / "planted"), b"new")
    write_whole(str(tmp_path / "planted"), b"new")
    assert victim.read_text() == "ORIGINAL"
    store = tmp_path / "store"
    store.mkdir(0o700)
    (store / "lock").symlink_to(victim)
    with pytest.raises(Exception, match="cannot be made"):
        create(str(store))
    assert victim.read_text() == "ORIGINAL"
