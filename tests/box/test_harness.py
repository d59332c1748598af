"""The harness itself: a comparison that cannot fail proves nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.lib import guest_trees as trees
from tests.lib import harness
from tests.lib.accepted import ACCEPTED, Accepted
from tests.lib.running import Result

ENTRY = Accepted("case", r"time \d+", r"time none", "for this test")


TREE_ENTRY = Accepted("case", "file 4755", "file 0755", "for this test", name="f")


def compare(left: str, right: str, case: str = "case", tree: tuple[str, str] = ("", "")) -> list[str]:
    sides = [Result(0, text, "", {"f": seen}) for text, seen in zip((left, right), tree, strict=True)]
    return harness.compare(case, *sides)


def test_lines_must_be_equal() -> None:
    assert compare("a\nb\n", "a\nb\n") == []
    assert "-b" in compare("a\nb\n", "a\nc\n")
    assert "+c" in compare("a\nb\n", "a\nb\nc\n")


def test_accepted_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "ACCEPTED", (ENTRY,))
    assert compare("a\ntime 5\n", "a\ntime none\n") == []
    assert compare("a\ntime 5\n", "a\ntime 6\n") != []
    assert compare("time 5\nx\n", "time none\ny\n") != []
    assert compare("time 5\n", "time none\n", case="another case") != []


def test_accepted_difference_that_vanished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "ACCEPTED", (ENTRY,))
    assert "vanished" in compare("a\n", "a\n")[0]


def test_accepted_difference_of_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "ACCEPTED", (TREE_ENTRY,))
    assert compare("", "", tree=("file 4755", "file 0755")) == []
    assert compare("", "", tree=("file 4755", "file 0750")) != []
    assert compare("file 4755", "file 0755") != []
    assert "vanished" in compare("", "", tree=("file 4755", "file 4755"))[0]


def test_accepted_difference_of_another_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "ACCEPTED", (replace(ENTRY, setting="elsewhere"),))
    assert compare("a\n", "a\n") == []
    assert compare("time 5\n", "time none\n") != []


def test_accepted_entries_are_complete() -> None:
    for entry in ACCEPTED:
        assert entry.case and entry.reason and entry.native != entry.husk
        assert entry.setting in ("", "bare", "walled", "root", "user")


def test_paths_and_named_normalisers() -> None:
    text = harness.clean("/tmp/x/work/f /tmp/g/prog pid 17 [1] 333", "/tmp/x/work", "/tmp/g", ["pid", "job"])
    assert text == "{work}/f {guests}/prog pid N [1] N"


def test_trees_differ_in_everything_that_counts(tmp_path: Path) -> None:
    def tree(name: str) -> Path:
        root = tmp_path / name
        trees.prepare(root, {"f": "one", "x*": "run", "d/": "", "l@": "f", "ignored": name})
        return root

    def seen(root: Path) -> dict[str, str]:
        return trees.snapshot(root, str(root), ["ignored"])

    plain = seen(tree("plain"))
    assert trees.difference(plain, seen(tree("same"))) == []
    changed = tree("changed")
    (changed / "f").write_text("two")
    (changed / "x").chmod(0o700)
    (changed / "d").rmdir()
    (changed / "l").unlink()
    (changed / "l").symlink_to("x")
    assert [name for name, _, _ in trees.difference(plain, seen(changed))] == ["d", "f", "l", "x"]
    linked = tree("linked")
    (linked / "x").unlink()
    (linked / "x").hardlink_to(linked / "f")
    assert "same file as f" in seen(linked)["x"]


def test_work_path_in_contents_is_no_difference(tmp_path: Path) -> None:
    for name in ("a", "b"):
        trees.prepare(tmp_path / name, {"cfg": f"home = {tmp_path / name}/bin"})
    seen = [trees.snapshot(tmp_path / name, str(tmp_path / name)) for name in ("a", "b")]
    assert trees.difference(*seen) == []
