"""`husk apply BOX PATH…`: what was asked for is the host's, and the box shows the same as before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.lib.running import husk_command
from tests.snapshots.place import Place
from tests.terminal.person import Person

# Everything that a program sees, but times of directories, which the host sets as names come and go.
LOOK = (
    "cd /p; find . | sort | xargs stat -c '%A %h %n'; find . -type f | sort | xargs ls -l --time-style=full-iso;"
    "find . -type f | sort | xargs cat"
)
CHANGE = """cd /p; echo 2 > a; echo new > b; rm c; chmod 600 m
mkdir -p n/sub/deep n/other; echo x > n/x; echo y > n/y; echo z > n/sub/deep/z; ln -s x n/l
mv old renamed; echo more > renamed/more; mv one.txt two.txt; ln h1 h2; echo l >> h2; rm -r gone
mkdir d/fresh; rmdir d/empty"""


def prepare(top: Path) -> None:
    for name in ("d/empty", "gone", "old"):
        (top / name).mkdir(parents=True)
    for name in ("a", "c", "m", "one.txt", "h1", "gone/f", "old/f", "d/f"):
        (top / name).write_text(f"{name}\n")


def names(top: Path) -> list[str]:
    return sorted(str(path.relative_to(top)) for path in top.rglob("*"))


@pytest.mark.both_settings
def test_some_of_the_changes(place: Place) -> None:
    top = place.project
    prepare(top)
    place.sh("box", CHANGE + "\necho w > /workspace/w", *place.cow)
    wanted = place.sh("box", LOOK)
    before = names(top)

    assert "a/b/zz: the box has no change there" in place.refused(2, "apply", "box", "/p/a/b/zz", "--yes")
    assert "near it: n/sub/deep/z" in place.refused(2, "apply", "box", str(top / "n/sub/z"), "--yes")
    assert "one.txt and two.txt are one file" in place.refused(2, "apply", "box", "/p/one.txt", "--yes")
    assert "h2 and h1 are one file" in place.refused(2, "apply", "box", "/p/h2", "--yes")
    assert "old and renamed" in place.refused(2, "apply", "box", "/p/old", "--yes")
    assert "renamed was renamed in the box" in place.refused(2, "apply", "box", "/p/renamed/more", "--yes")
    assert "/etc/passwd is neither" in place.refused(2, "apply", "box", "/etc/passwd", "--yes")
    assert names(top) == before

    # A file by its name in the box, one by its name on the host, and a part of a new directory.
    told = place.json("apply", "box", "/p/a", str(top / "c"), "n/sub", "n/x", "--yes")
    assert told["applied"] and told["left"] == 12, told
    assert (top / "a").read_text() == "2\n"
    assert names(top) == sorted({*before, "n", "n/sub", "n/sub/deep", "n/sub/deep/z", "n/x"} - {"c"})
    assert place.sh("box", LOOK) == wanted
    left = {path for _, path in place.changes("box")}
    assert {"/p/b", "/p/n/y", "/p/n/other", "/p/one.txt", "/p/d/fresh"} <= left
    assert not {"/p/a", "/p/c", "/p/n/sub", "/p/n/x", "/p/n/sub/deep/z"} & left
    assert place.leftovers() == []

    # The box goes on, changes what was applied again, and the rest follows in two parts.
    place.sh("box", "echo 3 >> /p/a; echo again > /p/n/x; rm /p/n/sub/deep/z")
    wanted = place.sh("box", LOOK)
    place.husk("apply", "box", "/p/one.txt", "/p/two.txt", "/p/h1", "/p/h2", "/p/d", "/p/n", "--yes")
    assert os.stat(top / "h1").st_ino == os.stat(top / "h2").st_ino
    assert (top / "n/x").read_text() == "again\n" and not (top / "n/sub/deep/z").exists()
    assert place.sh("box", LOOK) == wanted
    place.husk("apply", "box", "/p", "--yes")
    assert place.sh("box", LOOK) == wanted
    assert [path for _, path in place.changes("box") if path.startswith("/p/")] == []
    assert place.json("apply", "box", "--dry-run")["steps"] == []
    assert place.sh("box", "cat /workspace/w") == "w\n"
    host = place.husk("run", *place.cow, "--", "sh", "-c", LOOK)
    assert host == wanted
    assert place.leftovers() == []


TEXT = "".join(f"line {number}\n" for number in range(12))


@pytest.mark.needs("git")
def test_where_both_changed(place: Place) -> None:
    """Texts are merged; where that cannot be, nothing is applied until one side is said to win."""
    top = place.project
    for name in ("apart", "same", "edited", "executable"):
        (top / name).write_text(TEXT)
    (top / "data").write_bytes(b"\0" + TEXT.encode())
    (top / "removed").write_text(TEXT)
    script = "sed -i 's/line 1$/from the box/' apart same edited executable; echo x >> data; rm removed"
    place.sh("box", f"cd /p; {script}; echo one > added; echo fine > fine", *place.cow)
    (top / "apart").write_text(TEXT.replace("line 9\n", "from the host\n"))
    (top / "same").write_text(TEXT.replace("line 1\n", "from the host\n"))
    (top / "executable").chmod(0o755)
    (top / "data").write_bytes(b"\0host")
    (top / "removed").unlink()
    (top / "added").write_text("one\n")
    (top / "edited").write_text(TEXT)  # written again, and the same

    told = place.refused(1, "apply", "box", "--yes")
    assert "same: changed on the host since, and both changed the same lines" in told
    assert "data: changed on the host since, and it is no text" in told
    assert "--theirs takes the box's version" in told and "--ours leaves the host's" in told
    for name in ("apart", "edited", "executable", "removed", "added"):
        assert f" {name}: " not in told, told
    found = place.json("apply", "box", "--dry-run")
    assert {one["path"] for one in found["conflicts"]} == {"same", "data"}
    assert "merge    apart" in found["steps"] and "replace  edited" in found["steps"]
    assert place.json("apply", "box", "/p/apart", "--dry-run")["conflicts"] == []

    told = place.json("apply", "box", "--ours", "--yes")
    merged = TEXT.replace("line 1\n", "from the box\n")
    assert (top / "apart").read_text() == merged.replace("line 9\n", "from the host\n")
    assert (top / "edited").read_text() == (top / "executable").read_text() == merged
    assert (top / "executable").stat().st_mode & 0o777 == 0o755
    assert (top / "fine").read_text() == "fine\n" and not (top / "removed").exists()
    assert "from the host" in (top / "same").read_text() and (top / "data").read_bytes() == b"\0host"
    assert told["left"] == 2 and place.changes("box") == [("changed", "/p/data"), ("changed", "/p/same")]

    place.husk("apply", "box", "/p/same", "--theirs", "--yes")
    assert (top / "same").read_text() == merged
    assert place.changes("box") == [("changed", "/p/data")]
    assert "give one of them" in place.refused(2, "apply", "box", "--theirs", "--ours")
    assert place.leftovers() == []


def test_without_git(place: Place) -> None:
    (place.project / "f").write_text(TEXT)
    place.sh("box", "echo end >> /p/f", *place.cow)
    (place.project / "f").write_text("start\n" + TEXT)
    code, _, told = place.call("apply", "box", "--yes", PATH="/nowhere")
    assert code == 1 and "git, which could merge it, is not installed" in told
    assert (place.project / "f").read_text() == "start\n" + TEXT


def test_the_box_wins(place: Place) -> None:
    """Whatever the host did there: it is replaced, brought back or removed, as the box has it."""
    top = place.project
    for name in ("gone/f", "made"):
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).write_text("1")
    (top / "lost").write_text("1")
    place.sh("box", "cd /p; rm -r gone; echo box > added; echo box > made; echo box > lost", *place.cow)
    (top / "gone" / "late").write_text("the host's")
    (top / "added").mkdir()
    (top / "lost").unlink()
    os.unlink(top / "made")
    (top / "made").symlink_to("/etc/passwd")
    assert len(place.json("apply", "box", "--dry-run")["conflicts"]) == 4
    place.husk("apply", "box", "--theirs", "--yes")
    assert names(top) == ["added", "lost", "made"]
    assert {(top / name).read_text() for name in names(top)} == {"box\n"}
    assert place.leftovers() == []


def test_one_by_one(place: Place) -> None:
    """On a terminal each change is shown and asked for."""
    top = place.project
    for name in ("a", "b", "c", "d"):
        (top / name).write_text("old\n")
    place.sh("box", "cd /p; for f in a b c d; do echo new > $f; done; printf '\\033[31mred' > e", *place.cow)
    (top / "c").write_text("the host's\n")
    assert "no terminal" in place.refused(2, "apply", "box", "--interactive")
    with Person([*husk_command(), "apply", "box", "--interactive"], env=place.environment()) as person:
        for expected, answer in (
            (r"replace  a\r\nApply this change\? \[y,n,d,a,q,\?\] ", "?"),
            ("leave it in the box.*Apply this change.*] ", "d"),
            (r"-old\r\n\+new\r\n.*] ", "y"),
            ("replace  b.*] ", "n"),
            ("replace  c.*conflict c: changed on the host since.*y takes the box's version.*] ", "y"),
            ("replace  d.*] ", "q"),
        ):
            person.expect(expected)
            person.type(f"{answer}\r")
        person.expect(r"applied to .*; 3 changes stay in the box\r\n")
        assert person.wait() == 0
    assert [(top / name).read_text() for name in "abcd"] == ["new\n", "old\n", "new\n", "old\n"]
    with Person([*husk_command(), "apply", "box", "--interactive"], env=place.environment()) as person:
        person.expect("replace  b.*] ")
        person.type("n\r")
        person.expect("replace  d.*] ")
        person.type("a\r")
        person.expect("1 change stays in the box")
        assert person.wait() == 0
    assert "\033" not in person.seen
    assert (top / "e").exists() and place.changes("box") == [("changed", "/p/b")]
    assert place.leftovers() == []
