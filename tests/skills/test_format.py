"""SKILL.md and archives: what is taken, what is refused, and in which words. Nothing is run here."""

from __future__ import annotations

import stat as st
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from husk.sandbox.errors import UsageError
from husk.skills import archive
from husk.skills.archive import unpack
from husk.skills.frontmatter import read_head
from husk.skills.open_skill import open_skill
from tests.skills.calling import make_skill


def head(fields: str, folder: str = "a-skill") -> str:
    """The complaints about a head, joined."""
    found = read_head(f"---\n{fields}\n---\n# Body\n", folder)
    return "; ".join(f"{problem.level}: {problem.text}" for problem in found.problems)


def test_a_whole_head() -> None:
    found = read_head(
        "---\nname: a-skill\ndescription: |\n  Does it: all.\nlicense: MIT\ncompatibility: git\n"
        'metadata:\n  author: me\n  version: "1.0"\nallowed-tools: Bash(git add:*) Read\n---\nText\n',
        "a-skill",
    )
    assert found.problems == []
    assert (found.name, found.description, found.license) == ("a-skill", "Does it: all.\n", "MIT")
    assert found.metadata == {"author": "me", "version": "1.0"}
    assert found.allowed_tools == ["Bash(git add:*)", "Read"]


@pytest.mark.parametrize("name", ["a", "a1", "1a", "a-b-c", "x" * 64])
def test_names_that_are_allowed(name: str) -> None:
    assert head(f"name: '{name}'\ndescription: d", name) == ""


@pytest.mark.parametrize("name", ["A", "a_b", "-a", "a-", "a--b", "ä", "a b", "../a"])
def test_names_that_are_not(name: str) -> None:
    assert "error: `name` is" in head(f"name: '{name}'\ndescription: d", "")


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ("description: d", "fatal: `name` is missing"),
        ("name: a-skill", "fatal: `description` is missing"),
        ("name: a-skill\ndescription: ' '", "fatal: `description` is missing"),
        ("name: " + "x" * 65 + "\ndescription: d", "65 characters; at most 64"),
        ("name: a-skill\ndescription: " + "x" * 1025, "1025 characters; at most 1024"),
        ("name: a-skill\ndescription: d\ncompatibility: " + "x" * 501, "501 characters; at most 500"),
        ("name: other\ndescription: d", "error: `name` is 'other', but the folder is called 'a-skill'"),
        ("name: a-skill\ndescription: d\nversion: 1", "warning: `version` is no field"),
        ("name: a-skill\ndescription: [d]", "fatal: `description` must be a text"),
        ("name: a-skill\ndescription: d\nmetadata: x", "error: `metadata` must hold fields"),
        ("name: a-skill\ndescription: does: it", "line 3: mapping values are not allowed here; a value that holds"),
        ("name: a\nname: b\ndescription: d", "'name' is there twice"),
        ("- a\n- b", "fatal: the front matter must be fields"),
        ("name: !!python/object/apply:os.system [id]\ndescription: d", "not YAML"),
        ("a: &x [1]\nb: *x", "aliases (*name) are not allowed"),
        ("a: " + "[" * 2000, "fatal: the front matter"),
    ],
)
def test_what_is_wrong_with_a_head(fields: str, complaint: str) -> None:
    assert complaint in head(fields)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("", "must begin with front matter"), ("# Hello", "must begin"), ("---\nname: a\n", "has no end")],
)
def test_without_a_head(text: str, complaint: str) -> None:
    assert complaint in read_head(text).fatalities[0]


# -- archives -------------------------------------------------------------------------------------------------------


def packed(place: Path, entries: list[tuple[str | zipfile.ZipInfo, bytes]], name: str = "x.skill") -> Path:
    path = place / name
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for entry, data in entries:
            out.writestr(entry, data)
    return path


GOOD: list[tuple[str | zipfile.ZipInfo, bytes]] = [
    ("good/SKILL.md", b"---\nname: good\ndescription: d\n---\n"),
    ("good/scripts/run.sh", b"echo hi\n"),
]


@pytest.mark.parametrize("strip", ["", "good/"])
def test_an_archive_is_a_skill(tmp_path: Path, strip: str) -> None:
    path = packed(tmp_path, [(str(name).removeprefix(strip), data) for name, data in GOOD])
    with open_skill(path) as skill:
        assert skill.name == "good" and skill.files == ["SKILL.md", "scripts/run.sh"] and not skill.head.problems
        root = skill.root
    assert not root.exists()


def info(name: str, kind: int) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name)
    made.external_attr = (kind | 0o777) << 16
    made.create_system = 3
    return made


def nul_name() -> zipfile.ZipInfo:
    made = zipfile.ZipInfo("a")
    made.filename = "a\\b"
    return made


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ("../evil", "leads elsewhere"),
        ("good/../../evil", "leads elsewhere"),
        ("/etc/evil", "leads elsewhere"),
        ("good//x", "leads elsewhere"),
        (nul_name(), "leads elsewhere"),
        (info("good/link", st.S_IFLNK), "a symbolic link"),
        (info("good/pipe", st.S_IFIFO), "neither a file nor a folder"),
        ("good/SKILL.md/x", "which is a file"),
        ("good/" + "d/" * 1000 + "x", "in more than 100 folders"),
    ],
)
def test_an_entry_that_attacks(tmp_path: Path, entry: str | zipfile.ZipInfo, complaint: str) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    with pytest.raises(UsageError, match=complaint):
        unpack(packed(tmp_path, [*GOOD, (entry, b"/etc/passwd")]), inside)
    assert list(inside.iterdir()) == [] and not (tmp_path / "evil").exists()


def test_the_same_name_twice(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate"):
        path = packed(tmp_path, [*GOOD, GOOD[0]])
    with pytest.raises(UsageError, match="there twice"):
        unpack(path, tmp_path)


def test_a_bomb(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="packed more than 200 to 1"):
        unpack(packed(tmp_path, [*GOOD, ("good/zeros", bytes(4 << 20))]), tmp_path)


def test_a_size_that_lies(tmp_path: Path) -> None:
    """The directory of the archive says 10 bytes; 5,000 are packed."""
    path = packed(tmp_path, [("SKILL.md", b"y" * 5000)])
    raw = path.read_bytes()
    path.write_bytes(raw.replace((5000).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    with pytest.raises(UsageError, match=r"larger than it says|not a zip archive that can be read"):
        unpack(path, tmp_path / "nowhere")


def test_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MOST_ENTRIES", 1)
    with pytest.raises(UsageError, match="2 entries; a skill may have 1"):
        unpack(packed(tmp_path, GOOD), tmp_path)
    monkeypatch.setattr(archive, "MOST_ENTRIES", 9)
    monkeypatch.setattr(archive, "MOST_BYTES", 20)
    with pytest.raises(UsageError, match="when unpacked"):
        unpack(packed(tmp_path, GOOD), tmp_path)


def _text(place: Path) -> Path:
    (place / "x.skill").write_text("no archive")
    return place / "x.skill"


def _cut(place: Path) -> Path:
    path = packed(place, GOOD)
    path.write_bytes(path.read_bytes()[:-30])
    return path


def _two(place: Path) -> Path:
    return packed(place, [*GOOD, ("other/SKILL.md", b"")])


def _empty(place: Path) -> Path:
    (place / "none").mkdir()
    return place / "none"


def _lower(place: Path) -> Path:
    (place / "low").mkdir()
    (place / "low/skill.md").touch()
    return place / "low"


def _outside(place: Path) -> Path:
    (place / "out").mkdir()
    (place / "out/SKILL.md").symlink_to("/etc/hostname")
    return place / "out"


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda place: place / "nothing", "no such file or directory"),
        (_text, "not a zip archive"),
        (_cut, "not a zip archive"),
        (_two, r"several skills \(good, other\)"),
        (lambda place: packed(place, [("a", b"")]), "no SKILL.md in it"),
        (_empty, "no SKILL.md in it"),
        (_lower, "skill.md must be called SKILL.md"),
        (_outside, "leads out of"),
    ],
)
def test_what_is_no_skill(tmp_path: Path, make: Callable[[Path], Path], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint), open_skill(make(tmp_path)):
        pass


def test_links_in_circles_and_out(tmp_path: Path) -> None:
    root = make_skill(tmp_path, "linked", {"a.txt": "x"})
    (root / "inside").symlink_to("a.txt")
    (root / "loop").symlink_to("loop")
    (root / "up").symlink_to("..")
    (root / "gone").symlink_to("nowhere")
    for folder in ("folder", "other"):
        (root / folder).mkdir()
    (root / "folder/again").symlink_to("../folder")
    (root / "folder/beside").symlink_to("../other")
    with open_skill(root) as skill:
        assert skill.files == ["SKILL.md", "a.txt", "inside"]
        complaints = {problem.text.split("'")[1]: (problem.level, problem.text) for problem in skill.head.problems}
        with pytest.raises(UsageError, match="leads in a circle"):
            skill.check()
    assert {name: level for name, (level, _) in complaints.items()} == {
        "up": "warning", "gone": "warning", "loop": "fatal", "folder/again": "fatal"
    }  # fmt: skip
    assert "leads out of the skill" in complaints["up"][1] and "leads nowhere" in complaints["gone"][1]
