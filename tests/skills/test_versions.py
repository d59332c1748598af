"""`husk skill diff`: what a new version wants in addition, said with an exit code."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from husk.review.passport import _unreadable as unread
from husk.review.version_diff import compare_versions
from husk.skills.open_skill import open_skill
from tests.skills.calling import husk_skill, make_skill, refused

HEAD = '---\nname: {name}\ndescription: For a test.\nallowed-tools: Read\nmetadata:\n  version: "1"\n---\n'


def two_versions(place: Path) -> tuple[Path, Path]:
    old = make_skill(place / "old", "tool", {"scripts/a.sh": "sort /in/x\n", "requirements.txt": "pyyaml\n"}, HEAD)
    new = place / "new/tool"
    shutil.copytree(old, new)
    return old, new


def test_what_a_new_version_wants(tmp_path: Path) -> None:
    old, new = two_versions(tmp_path)
    same = husk_skill(tmp_path, "diff", old, new)
    assert (same.code, same.out) == (0, "the same, file by file\n")
    (new / "scripts/b.py").write_text("import urllib.request\nurllib.request.urlopen('https://example.org/x')\n")
    (new / "requirements.txt").write_text("pyyaml>=6\nrich\n")
    (new / "SKILL.md").write_text(HEAD.format(name="tool").replace("Read", "Read Bash").replace('"1"', '"2"'))
    (new / "scripts/a.sh").write_text("sort /in/x | uniq\n")
    answer = husk_skill(tmp_path, "diff", old, new, "--json")
    found = answer.json
    assert answer.code == 1 and found["wants_more"]
    assert {(one["kind"], one["name"]) for one in found["more"]} == {
        ("host", "example.org"), ("program", "python3"), ("program", "uniq"), ("pip", "rich"), ("tool", "Bash"),
    }  # fmt: skip
    assert all(one["where"] and one["sure"] in ("used", "declared") for one in found["more"])
    assert found["versions"] == [{"old": "pyyaml", "new": "pyyaml>=6"}]
    assert found["head"] == [{"field": "version", "old": "1", "new": "2"}]
    assert found["files"] == {
        "added": ["scripts/b.py"], "removed": [], "changed": ["SKILL.md", "requirements.txt", "scripts/a.sh"],
    }  # fmt: skip
    back = husk_skill(tmp_path, "diff", new, old)
    assert back.code == 0 and "it wants nothing more" in back.out and "- example.org" in back.out


def test_two_states_of_a_collection(tmp_path: Path) -> None:
    _, new = two_versions(tmp_path)
    assert husk_skill(tmp_path, "diff", "old", "new").code == 0
    make_skill(tmp_path / "new/more", "other\x1b", {"scripts/a.sh": "true\n"})
    (new / "scripts/a.sh").write_text("curl https://example.org/x\n")
    answer = husk_skill(tmp_path, "diff", "old", "new")
    assert answer.code == 1 and "\x1b" not in answer.out
    assert "tool:\n  it wants more:" in answer.out and "2 skills: 1 new, 1 changed, 0 the same; 0 gone" in answer.out
    assert "1 skills: 0 new, 1 changed, 0 the same; 1 gone" in husk_skill(tmp_path, "diff", "new", "old").out
    refused(husk_skill(tmp_path, "diff", "old", new), "compare like with like")
    refused(husk_skill(tmp_path, "diff", new, tmp_path / "nowhere"), "there is no such file or directory")
    (new / "SKILL.md").write_text("nothing")
    assert husk_skill(tmp_path, "diff", "old", "new").code == 2
    refused(husk_skill(tmp_path, "diff", "old/tool", new), "SKILL.md must begin with front matter")


def test_what_cannot_be_read_is_not_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = two_versions(tmp_path)
    (new / "closed").mkdir()
    scan = os.scandir

    def closed(path: Path) -> object:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", closed)
    with open_skill(old) as before, open_skill(new) as after, pytest.raises(PermissionError):
        compare_versions(before, after)
    assert unread(new) == [f"{new}/closed cannot be read (Permission denied): it is not in this passport."]
