"""Folders of skills: found whatever lies in them, inspected and tested together, and gone on with after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path

import pytest

from husk.compat.verdict.subjects import subjects_in
from husk.sandbox.errors import UsageError
from husk.skills.collections import find_skills as finding
from husk.skills.collections.find_skills import find_skills, skills_in
from husk.skills.testing.cases import find_cases
from tests.lib.running import husk_command, until
from tests.skills.calling import husk_skill, make_skill, refused
from tests.skills.test_packages import wheel

ECHO = {"scripts/say.sh": "echo said $1\n"}
CASE = '[[case]]\nname = "says"\nargv = ["it"]\nstdout = "said it\\n"\n'


def collection(place: Path) -> Path:
    """Two skills that work, one below two folders; the rest is in the way."""
    root = place / "many"
    make_skill(root, "one", {**ECHO, "cases.toml": CASE})
    make_skill(root / "deep" / "er", "two", {**ECHO, "cases.toml": CASE})
    make_skill(root / "node_modules", "not-a-skill", ECHO)
    (root / "circle").symlink_to("circle")
    (root / "up").symlink_to("..")
    (root / "back").symlink_to("deep/er/two")
    (root / "gone").symlink_to("nowhere")
    (root / "picture.zip").write_bytes(b"no archive")
    return root


def pack(skill: Path, archive: Path) -> None:
    with zipfile.ZipFile(archive, "w") as out:
        for path in skill.rglob("*"):
            if path.is_file():
                out.write(path, f"{skill.name}/{path.relative_to(skill)}")


def test_what_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = collection(tmp_path)
    pack(root / "one", root / "packed.skill")
    pack(root / "one", root / "deep" / "zipped.zip")
    (root / "closed").mkdir()
    make_skill(root, "upper", {"skill.md": "x"})
    (root / "upper/SKILL.md").unlink()
    scan = os.scandir

    def closed(path: Path) -> object:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied")
        return scan(path)

    monkeypatch.setattr(os, "scandir", closed)
    found = find_skills(root)
    assert [str(path.relative_to(root)) for path in found.skills] == [
        "deep/er/two", "deep/zipped.zip", "one", "packed.skill", "upper",
    ]  # fmt: skip
    assert sorted(found.notes) == [
        f"{root}/circle: a link that leads in a circle; left out.",
        f"{root}/closed: cannot be read (Permission denied).",
        f"{root}/gone: a link that leads nowhere; left out.",
        f"{root}/up: a link that leads out of {root}; left out: name {tmp_path} too if you want it.",
    ]
    assert skills_in([root / "one", root])[0].count(root / "one") == 1
    monkeypatch.setattr(finding, "MOST_FOLDERS", 3)
    with pytest.raises(UsageError, match="more than 3 folders; name the folder that holds the skills"):
        find_skills(root)


def test_a_folder_is_inspected(tmp_path: Path) -> None:
    root = collection(tmp_path)
    make_skill(root, "bad\x1b[31m", {}, head="no front matter")
    make_skill(root / "more", "one", ECHO)
    answer = husk_skill(tmp_path, "inspect", root, "--junit", "found.xml")
    assert answer.code == 2 and "4 skills: 3 as the specification wants them, 1 not" in answer.out
    assert "\x1b" not in answer.out + answer.err
    assert "2 skills are called 'one'" in answer.err and "leads in a circle" in answer.err
    suites = ET.parse(tmp_path / "found.xml").getroot()
    assert (suites.get("tests"), suites.get("failures")) == ("4", "1")
    document = husk_skill(tmp_path, "inspect", root, "--json").json
    assert document["summary"] == {"skills": 4, "valid": 3}
    assert [one["name"] for one in document["skills"] if one["valid"]] == ["two", "one", "one"]
    assert list(document["repeated"]) == ["one"]
    refused(husk_skill(tmp_path, "run", root), "it is a folder of skills: name one of bad")
    refused(husk_skill(tmp_path, "inspect", root, "--manifest"), "name one")
    (tmp_path / "empty").mkdir()
    refused(husk_skill(tmp_path, "inspect", tmp_path / "empty"), "there is no skill in it")


def test_a_case_names_its_skill(tmp_path: Path) -> None:
    root = collection(tmp_path)
    elsewhere = tmp_path / "cases.toml"

    def named(name: str, *paths: Path) -> list[Path]:
        elsewhere.write_text(CASE + (f'skill = "{name}"\n' if name else ""))
        return [case.skill for case in find_cases(list(paths), elsewhere)]

    assert named("two", root) == named("many/deep/er/two") == [root / "deep/er/two"]
    assert named("two") == [root / "deep/er/two"], "below the file itself"
    assert named("", root / "one") == [root / "one"], "the only one"
    pack(root / "one", root / "packed.skill")
    assert named("packed", root) == [root / "packed.skill"]
    (root / "one/cases.toml").write_text(CASE + 'skill = "one"\n')
    assert [case.skill for case in find_cases([root / "one"], None)] == [root / "one"]
    make_skill(root / "more", "two", ECHO)
    for name, said in (("two", "several skills are called 'two'"), ("six", "in 'six', and no skill of that name")):
        with pytest.raises(UsageError, match=said):
            named(name, root)
    with pytest.raises(UsageError, match="say which skill it is about"):
        named("", root)


def test_a_folder_is_tested_in_several_settings(tmp_path: Path) -> None:
    root = collection(tmp_path)
    make_skill(root, "broken", {**ECHO, "cases.toml": "[[case"})
    make_skill(root, "failing", {**ECHO, "cases.toml": CASE.replace("said it", "other")})
    make_skill(root, "untested", ECHO)
    words = ("test", root, "--setting", "bare", "--jobs", "3", "--junit", "tested.xml")
    answer = husk_skill(tmp_path, *words, "--setting", "native", "--json")
    assert answer.code == 1, answer.err
    found = {(one["skill"], one["setting"]): one["status"] for one in answer.json}
    assert found == {
        ("broken", "bare"): "broken", ("failing", "bare"): "broken", ("one", "bare"): "works", ("two", "bare"): "works",
    }  # fmt: skip
    suites = ET.parse(tmp_path / "tested.xml").getroot()
    assert (suites.get("tests"), suites.get("errors")) == ("4", "2")
    answer = husk_skill(tmp_path, *words, "--setting", "walled")
    assert answer.code == 1 and "without cases, so not tested: untested" in answer.err
    assert "fails    failing: says (bare)" in answer.out
    rows = [line.split() for line in answer.out.splitlines()]
    assert ["skill", "bare", "walled"] in rows and ["two", "works", "works"] in rows
    assert "2 broken, 2 fails, 4 works" in answer.out and "4 of 4" in answer.err
    assert not list((tmp_path / "cache/skill-tests").iterdir()), "a whole test leaves no journal"
    refused(husk_skill(tmp_path, *words, "--resume"), "no stopped test of this kind")
    refused(husk_skill(tmp_path, *words, "--no-namespaces"), "--no-namespaces is --setting bare")


def test_a_killed_test_goes_on(tmp_path: Path) -> None:
    root = tmp_path / "many"
    for number in range(3):
        slow = "sleep 60\n" if number == 2 else ""
        make_skill(root, f"skill-{number}", {"scripts/say.sh": f"{slow}echo said $1\n", "cases.toml": CASE})
    names = {"HUSK_STATE": "state", "HUSK_CACHE": "cache", "HUSK_STORE": "store"}
    env = os.environ | {name: str(tmp_path / place) for name, place in names.items()}
    (tmp_path / "state").mkdir()
    killed = subprocess.Popen([*husk_command(), "skill", "test", str(root), "--setting", "bare"], env=env, cwd=tmp_path)
    journals = tmp_path / "cache/skill-tests"

    def two_ended() -> bool:
        return any(len(path.read_text().splitlines()) == 3 for path in journals.glob("*.jsonl"))

    try:
        assert until(two_ended)
    finally:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    with open(next(journals.iterdir()), "a") as journal:
        journal.write('{"case": "cut of')
    (root / "skill-2/scripts/say.sh").write_text("echo said $1\n")
    (root / "skill-1/scripts/say.sh").write_text("echo something else\n")
    answer = husk_skill(tmp_path, "test", root, "--setting", "bare", "--resume", "--json", "--jobs", "2")
    # What is known is not run again, unless the skill has changed.
    assert [one["status"] for one in answer.json] == ["works", "fails", "works"], answer.err


@pytest.mark.needs("python3")
def test_packages_serve_both_sides(tmp_path: Path) -> None:
    wheel(tmp_path / "wheels", "husk_test_top", "1.2", "answer = 42")
    case = '[[case]]\nname = "answers"\nstdout = "42\\n"\n'
    script = "import husk_test_top\nprint(husk_test_top.answer)\n"
    skill = make_skill(tmp_path, "needy", {"scripts/x.py": script, "cases.toml": case})
    answer = husk_skill(tmp_path, "test", skill, "--native", "--json", "--find-links", tmp_path / "wheels")
    (verdict,) = answer.json
    assert verdict["status"] == "works" and verdict["native_seconds"], json.dumps(verdict)


@pytest.mark.needs("python3")
def test_a_folder_is_locked(tmp_path: Path) -> None:
    wheel(tmp_path / "wheels", "husk_test_top", "1.2", "answer = 42")
    root = tmp_path / "many"
    for place, name in ((root, "needy"), (root / "deep", "needy"), (root, "plain")):
        make_skill(place, name, {"scripts/x.py": "import husk_test_top\n"} if name == "needy" else ECHO)
    make_skill(root, "../bad", ECHO, head="---\nname: ../bad\ndescription: x\n---\n")
    make_skill(root, "worse", ECHO, head="---\nname: ../bad\ndescription: x\n---\n")
    (tmp_path / "locks").mkdir()
    answer = husk_skill(tmp_path, "lock", root, "-o", "locks", "--find-links", tmp_path / "wheels")
    assert answer.code == 2 and "4 skills: 1 locked, 2 failed" in answer.out, answer.err
    assert "another skill is called 'needy'" in answer.err and "cannot be that of a file" in answer.err
    (lock,) = (tmp_path / "locks").iterdir()
    assert lock.name == "needy.permissions.lock" and lock.read_text().startswith("husk_test_top==1.2 --hash=sha256:")
    refused(husk_skill(tmp_path, "lock", root, "-o", "nowhere"), "name a directory that is there")


def test_a_folder_is_checked_skill_by_skill(tmp_path: Path) -> None:
    root = collection(tmp_path)
    assert subjects_in(str(root)) == [str(root / "deep/er/two"), str(root / "one")]
    assert subjects_in(str(root / "one")) == [str(root / "one")] and subjects_in("/usr/bin/env") == ["/usr/bin/env"]
    (tmp_path / "plain").mkdir()
    assert subjects_in(str(tmp_path / "plain")) == [str(tmp_path / "plain")]
