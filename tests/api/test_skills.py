"""husk.Skill: a box with a skill in it, as an application works with it."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

import pytest

import husk
from tests.skills.calling import make_skill
from tests.skills.test_packages import wheel

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "meeting-minutes"


@pytest.fixture(autouse=True)
def copies(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> object:
    """No private copy of a skill may be left."""
    place = tmp_path_factory.mktemp("copies")
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    yield
    assert not list(place.iterdir())


def output(box: husk.Sandbox, line: str) -> str:
    return str(box.run(line, shell=True, capture_output=True, text=True).stdout)


@pytest.mark.both_settings
def test_a_session_follows_instructions(tmp_path: Path) -> None:
    skill = husk.Skill(EXAMPLE)
    assert skill.name == "meeting-minutes" and "cp assets/form.md minutes.md" in skill.instructions
    with skill.open() as box:
        assert box.places == ["/skills/meeting-minutes"]
        box.run("cp assets/form.md minutes.md", shell=True, check=True)
        text = box.read("minutes.md", text=True).replace("## Tasks\n", "## Tasks\n- all\n")
        box.write("minutes.md", text.replace("## Decisions\n", "## Decisions\n- none\n"))
        assert output(box, "sh assets/check.sh minutes.md; head -1 $SKILL_DIR/SKILL.md") == "ok\n---\n"
        assert box.diff() == [husk.Change("added", "/workspace/minutes.md")]
        saved = box.save(tmp_path / "out")
        assert saved.files == ["minutes.md"] and saved.left == []
    assert (tmp_path / "out" / "minutes.md").read_text().startswith("# Minutes\n\n## Decisions\n- none\n")
    assert "minutes.md" not in {path.name for path in EXAMPLE.iterdir()}


def test_work_and_input_come_back_by_apply(tmp_path: Path) -> None:
    for name in ("given", "work"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text("old\n")
    skill = husk.Skill(make_skill(tmp_path, "edit", {"a.txt": "1\n"}))
    with skill.open(input=tmp_path / "given", work=tmp_path / "work") as box:
        output(box, "echo new | tee f > /in/f")
        assert (tmp_path / "work" / "f").read_text() == (tmp_path / "given" / "f").read_text() == "old\n"
        box.apply("/in")
        assert (tmp_path / "given" / "f").read_text() == "new\n" and (tmp_path / "work" / "f").read_text() == "old\n"
    with skill.open(input=tmp_path / "given") as box:
        output(box, "echo more >> /in/f; echo note > note")
        assert [change.path for change in box.apply().changes] == ["/in/f"]  # the skill's folder is none of the user's
        assert [change.path for change in box.diff()] == ["/workspace/note"] and output(box, "cat note") == "note\n"


def test_forks_and_snapshots_outlive_the_box(tmp_path: Path) -> None:
    packed = tmp_path / "packed.skill"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("SKILL.md", "---\nname: packed\ndescription: For a test.\n---\n")
        archive.writestr("a.txt", "1\n")
    other = make_skill(tmp_path, "other", {"b.txt": "2\n"})
    with husk.Skill(packed).open(also=[other]) as box:
        output(box, "echo x > x")
        fork, snapshot = box.fork(), box.snapshot()
    with fork, snapshot, snapshot.open() as again:
        for one in (fork, again):
            assert output(one, "cat x a.txt /skills/packed/a.txt /skills/other/b.txt") == "x\n1\n1\n2\n"


def test_mistakes_are_told_before_a_box_is_made(tmp_path: Path) -> None:
    skill = husk.Skill(make_skill(tmp_path, "plain", {}))
    with pytest.raises(husk.UsageError, match=r"there is no SKILL\.md"):
        husk.Skill(tmp_path)
    with pytest.raises(husk.UsageError, match="there is no such directory"):
        skill.open(work=tmp_path / "none")
    with pytest.raises(husk.UsageError, match="No such file"):
        skill.open(permissions=tmp_path / "none.toml")
    with pytest.raises(husk.UsageError, match="both called 'plain'"):
        skill.open(also=[skill])


@pytest.mark.needs("python3")
def test_packages_of_all_skills_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUSK_STORE", str(tmp_path / "store"))
    for name in ("husk_test_one", "husk_test_two", "husk_test_three"):
        wheel(tmp_path / "wheels", name, "1.0", f"print('{name}')")
    one = make_skill(tmp_path, "one", {"requirements.txt": "husk_test_one\n"})
    two = make_skill(tmp_path, "two", {"scripts/x.py": "import husk_test_two\n"})
    options = {"also": [two], "find_links": tmp_path / "wheels", "install": ["husk_test_three<2"]}
    with husk.Skill(one).open(**options) as box:  # type: ignore[arg-type]
        said = output(box, "python3 -c 'import husk_test_one, husk_test_two, husk_test_three'")
        assert said.split() == ["husk_test_one", "husk_test_two", "husk_test_three"], box.notes
    with pytest.raises(husk.UsageError, match="install"):
        husk.Skill(one).open(install=["../evil"])
