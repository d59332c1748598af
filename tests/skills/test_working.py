"""`husk skill exec` and `shell`, and what comes back from a box: as a person who works with a skill calls them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

import husk
from husk.skills.frozen_copy import _copy_entry, copy_frozen
from husk.skills.output_files import Staging
from tests.lib import running
from tests.skills.calling import husk_box, husk_skill, make_skill, refused

EXAMPLES = Path(__file__).parents[2] / "examples"
NOISE = "mkdir -p ~/.config/app __pycache__ .cache/x; touch ~/.config/app/set __pycache__/a.pyc .cache/x/y\n"


def documents(place: Path) -> Path:
    folder = place / "documents"
    folder.mkdir()
    (folder / "letter.txt").write_text("Dear Sir\n")
    (folder / "old.txt").write_text("old\n")
    return folder


@pytest.mark.both_settings
def test_a_document_is_edited_in_place(tmp_path: Path) -> None:
    """The change comes back by --out; the user's own file is as it was."""
    skill = make_skill(tmp_path, "edit", {"scripts/x.sh": f"sed -i s/Sir/Madam/ /in/letter.txt\n{NOISE}"})
    given, out = documents(tmp_path), tmp_path / "out"
    answer = husk_skill(tmp_path, "run", skill, "--in", given, "--out", out)
    assert answer.code == 0, answer.err
    assert {path.name: path.read_text() for path in out.iterdir()} == {"letter.txt": "Dear Madam\n"}
    assert (given / "letter.txt").read_text() == "Dear Sir\n"
    assert "letter.txt (11 bytes)" in answer.err
    (line,) = [line for line in answer.err.splitlines() if "/home/user/.config" in line]
    assert line.startswith("  caches and settings, not listed: ")


def test_work_without_out_is_kept(tmp_path: Path) -> None:
    """diff lists it, apply writes it; nothing else touches the user's directory."""
    skill = make_skill(tmp_path, "edit", {"scripts/x.sh": "sed -i s/Sir/Madam/ letter.txt; rm old.txt; echo n > new\n"})
    given = documents(tmp_path)
    answer = husk_skill(tmp_path, "run", skill, "--work", given, "--json", kept=True)
    name = answer.json["kept"]
    assert name.startswith("edit-") and sorted(os.listdir(given)) == ["letter.txt", "old.txt"]
    listed = husk_box(tmp_path, "diff", name).out.split()
    assert listed == ["changed", "/workspace/letter.txt", "added", "/workspace/new", "deleted", "/workspace/old.txt"]
    assert husk_box(tmp_path, "apply", name, "--yes").code == 0
    assert {path.name: path.read_text() for path in given.iterdir()} == {"letter.txt": "Dear Madam\n", "new": "n\n"}
    assert husk_box(tmp_path, "drop", name).code == 0


def test_quiet_still_says_where_the_work_is(tmp_path: Path) -> None:
    skill = make_skill(tmp_path, "edit", {})
    answer = husk_skill(
        tmp_path, "exec", skill, "-q", "--work", documents(tmp_path), "--", "touch", "letter.txt", "new", kept=True
    )
    assert re.fullmatch(r"husk skill: kept: husk diff (edit-\w+); husk apply \1; husk drop \1\n", answer.err), (
        answer.err
    )


def test_hints_know_the_copy(tmp_path: Path) -> None:
    """A name that is right where the command starts is no mistake, even if the host has the same."""
    skill = make_skill(tmp_path, "hinted", {"a.txt": "a\n"})
    (tmp_path / "a.txt").write_text("host\n")
    (tmp_path / "b.txt").write_text("host\n")
    answer = husk_skill(tmp_path, "exec", skill, "--", "cat", "a.txt", "b.txt", skill / "a.txt")
    assert answer.out == "a\n"
    told = [line for line in answer.err.splitlines() if ".txt is " in line]
    assert told == [
        "husk skill: b.txt is here, but not in the box; --in . shows it there as /in/b.txt",
        f"husk skill: {skill}/a.txt is at /skill/a.txt in the box",
    ]


def test_a_mount_that_out_does_not_cover_is_kept(tmp_path: Path) -> None:
    skill, given = make_skill(tmp_path, "both", {}), documents(tmp_path)
    options: list[str | Path] = ["--mount", f"{given}:/given:cow", "--out", tmp_path / "out", "--json"]
    answer = husk_skill(
        tmp_path, "exec", skill, *options, "--", "sh", "-c", "echo 1 > r; echo 2 > /given/new", kept=True
    )
    assert answer.json["files"] == [{"path": "r", "size": 2}] and answer.json["kept"], answer.err
    assert "added    /given/new" in husk_box(tmp_path, "diff", answer.json["kept"]).out


def test_a_large_skill_is_watched_instead_of_copied(tmp_path: Path) -> None:
    skill = make_skill(tmp_path, "large", {"scripts/x.sh": "echo ran > /skill-folder/mark; echo ran\n"})
    with open(skill / "weights", "wb") as file:
        file.truncate(65 << 20)
    mount = ["--mount", f"{skill}:/skill-folder:rw"]
    answer = husk_skill(tmp_path, "run", skill, *mount)
    assert answer.out == "ran\n" and f"husk skill: {skill} changed while it ran\n" in answer.err, answer.err
    learnt = husk_skill(tmp_path, "learn", skill, *mount)
    assert learnt.code == 2 and "so nothing was learnt from it" in learnt.err
    assert not list(tmp_path.glob("*.toml"))


def test_caches_alone_keep_no_box(tmp_path: Path) -> None:
    skill = make_skill(tmp_path, "noise", {"scripts/x.sh": NOISE})
    answer = husk_skill(tmp_path, "run", skill, "--work", documents(tmp_path), "--json")
    assert answer.json["kept"] == "" and {one["path"] for one in answer.json["changes"]} > {"/workspace/__pycache__"}


def test_a_box_kept_by_name_goes_on(tmp_path: Path) -> None:
    skill, given = make_skill(tmp_path, "two", {"notes.md": "n\n"}), documents(tmp_path)
    first = husk_skill(
        tmp_path, "exec", skill, "--keep", "mine", "--in", given, "--", "sh", "-c", "echo a >> /in/old.txt", kept=True
    )
    assert first.code == 0 and "husk apply mine;" in first.err, first.err
    again = husk_skill(tmp_path, "exec", skill, "--keep", "mine", "--in", given, "--", "cat", "/in/old.txt", kept=True)
    assert again.out == "old\na\n" and (given / "old.txt").read_text() == "old\n"
    assert husk_box(tmp_path, "drop", "mine").code == 0


@pytest.mark.both_settings
def test_instructions_are_followed(tmp_path: Path) -> None:
    """Relative paths of the instructions work, and so does the skill's own place."""
    skill, out = EXAMPLES / "meeting-minutes", tmp_path / "out"
    steps = """head -1 SKILL.md $SKILL_DIR/SKILL.md /skills/meeting-minutes/SKILL.md | grep -c -- ---
cp assets/form.md minutes.md
sed -i -e '/Decisions/a - ship' -e '/Tasks/a - mia: write' minutes.md
sh assets/check.sh minutes.md
exit 7
"""
    answer = husk_skill(tmp_path, "shell", skill, "--out", out, stdin=steps)
    assert answer.code == 7 and answer.out == "3\nok\n", answer.err
    assert (out / "minutes.md").read_text() == "# Minutes\n\n## Decisions\n- ship\n\n## Tasks\n- mia: write\n"
    assert os.listdir(out) == ["minutes.md"]


def test_a_command_has_mounts_and_is_told_what_is_lost(tmp_path: Path) -> None:
    skill, given = make_skill(tmp_path, "plain", {}), documents(tmp_path)
    command = ["sh", "-c", "cat /given/letter.txt; echo x > result; echo y > /skill/z"]
    answer = husk_skill(tmp_path, "exec", skill, "--mount", f"{given}:/given", "--", *command)
    assert answer.out == "Dear Sir\n" and answer.code
    assert "gone with it (--out DIR brings files back, --keep NAME keeps the box):\n    /workspace/result" in answer.err
    assert "/skill/z: it is mounted read-only; write to the working directory" in answer.err
    refused(husk_skill(tmp_path, "exec", skill), "say what to run")
    refused(husk_skill(tmp_path, "exec", skill, "--in", given / "old.txt", "--", "true"), "it is /in/old.txt")
    refused(husk_skill(tmp_path, "run", skill), "husk skill exec")


def test_several_skills_in_one_box(tmp_path: Path) -> None:
    one = make_skill(tmp_path, "one", {"a.txt": "1\n"})
    two = make_skill(tmp_path, "two", {"b.txt": "2\n"})
    answer = husk_skill(
        tmp_path, "exec", one, "--also", two, "--", "sh", "-c", "cat a.txt /skills/two/b.txt; ls /skills"
    )
    assert answer.out == "1\n2\none\ntwo\n", answer.err
    same = make_skill(tmp_path / "elsewhere", "one", {})
    refused(husk_skill(tmp_path, "exec", one, "--also", same, "--", "true"), "both called 'one'")


def test_several_skills_have_the_union_of_their_grants(tmp_path: Path) -> None:
    one, two = make_skill(tmp_path, "one", {}), make_skill(tmp_path, "two", {})
    manifests = []
    for name, program, memory in (("one", "cat", "1G"), ("two", "head", "3G")):
        path = tmp_path / f"{name}.toml"
        path.write_text(
            f'version = 1\nskill = "{name}"\n[programs]\nallow = ["{program}"]\n[limits]\nmemory = "{memory}"\n'
        )
        manifests.append(path)
    command = ["--", "sh", "-c", "head -1 SKILL.md; cat /dev/null; ls"]
    both: list[str | Path] = ["--permissions", manifests[0], "--permissions", manifests[1]]
    answer = husk_skill(tmp_path, "exec", one, "--also", two, *both, *command)
    assert answer.out == "---\n" and "programs cat, head; limits memory=3G" in answer.err, answer.err
    assert '/ls: it is not among the programs that this box may start; to allow it, "/usr/bin/ls" in' in answer.err
    refused(husk_skill(tmp_path, "exec", one, "--also", two, *both[:2], *command), "'two' has no permission manifest")


def test_modules_of_a_skill_find_their_package(tmp_path: Path) -> None:
    files = {
        "tool/__init__.py": "",
        "tool/names.py": "WHO = 'world'\n",
        "tool/hello.py": "from .names import WHO\nprint('hello', WHO)\n",
        "scripts/plain.py": "from tool.names import WHO\nprint('plain', WHO)\n",
    }
    skill = make_skill(tmp_path, "pack", files)
    assert husk_skill(tmp_path, "run", skill, "--script", "tool/hello.py", "-q").out == "hello world\n"
    assert husk_skill(tmp_path, "run", skill, "--script", "scripts.plain", "-q").out == "plain world\n"
    answer = husk_skill(tmp_path, "exec", skill, "--work", tmp_path / "pack", "-q", "--", "python3", "-m", "tool.hello")
    assert answer.out == "hello world\n", answer.err


def test_a_module_named_like_one_of_python_stays_out_of_the_way(tmp_path: Path) -> None:
    skill = make_skill(
        tmp_path, "clash", {"json.py": "raise SystemExit(9)\n", "scripts/x.py": "import json\nprint(1)\n"}
    )
    answer = husk_skill(tmp_path, "run", skill, "--script", "scripts/x.py", "-q")
    assert answer.out == "1\n", answer.err


def test_a_skill_that_changes_while_it_runs(tmp_path: Path) -> None:
    """The box sees the state at its start, and a manifest is bound to that state."""
    script = "read line\ncat /skill/data.txt /skills/moving/data.txt\ntest -e /skill/late && echo late\nexit 0\n"
    skill = make_skill(tmp_path, "moving", {"scripts/x.sh": script, "data.txt": "before\n"})
    env = os.environ | {"HOME": str(tmp_path), "HUSK_STATE": str(tmp_path / "state")}
    (tmp_path / "state").mkdir()
    words = [*running.husk_command(), "skill", "learn", str(skill), "-o", str(tmp_path / "learnt.toml")]
    with subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        while not list((tmp_path / "state").iterdir()):  # the copy is made before the box
            assert process.poll() is None
            time.sleep(0.01)
        (skill / "data.txt").write_text("after\n")
        (skill / "late").write_text("")
        process.stdin.write("go\n")  # until now the guest waits
        process.stdin.close()
        assert process.stdout.read() == "before\nbefore\n"
    assert process.returncode == 0
    refused(husk_skill(tmp_path, "run", skill, "--permissions", tmp_path / "learnt.toml"), "are not those that")
    (skill / "data.txt").write_text("before\n")
    (skill / "late").unlink()
    again = husk_skill(tmp_path, "run", skill, "--permissions", tmp_path / "learnt.toml", "--json", stdin="go\n")
    assert json.loads(again.out)["stdout"] == "before\nbefore\n", again.err


def test_a_dead_link_is_called_one(tmp_path: Path) -> None:
    skill = make_skill(tmp_path, "dead", {})
    (skill / "SKILL.md").unlink()
    (skill / "SKILL.md").symlink_to("elsewhere/SKILL.md")
    refused(husk_skill(tmp_path, "inspect", skill), "SKILL.md is a link that leads nowhere (to elsewhere/SKILL.md)")
    (tmp_path / "gone").symlink_to("nothing")
    refused(husk_skill(tmp_path, "run", tmp_path / "gone"), "a link that leads nowhere (to nothing)")


def test_a_copy_takes_nothing_from_elsewhere(tmp_path: Path) -> None:
    """Links are copied as links, and where a link came in between, nothing is read through it."""
    skill = make_skill(tmp_path, "linked", {"sub/a": "a\n", ".git/hooks/x": "x\n"})
    (tmp_path / "secret").write_text("secret\n")
    (skill / "out").symlink_to(tmp_path / "secret")
    (skill / "dir").symlink_to(tmp_path)
    os.mkfifo(skill / "pipe")
    copy = tmp_path / "copy"
    assert copy_frozen(skill, copy, skill)
    assert sorted(str(path.relative_to(copy)) for path in copy.rglob("*")) == ["SKILL.md", "dir", "out", "sub", "sub/a"]
    assert os.readlink(copy / "out") == str(tmp_path / "secret")
    top = os.open(skill, os.O_RDONLY)
    try:
        for name in ("dir/secret", "../secret"):
            with pytest.raises(OSError):
                _copy_entry(top, name, copy)
    finally:
        os.close(top)


def test_changes_are_not_written_through_links(tmp_path: Path) -> None:
    """Another box may have the target of --out, and so the staging directory in it, on an `rw` mount."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    staging = Staging(tmp_path / "out")
    with husk.Sandbox() as box:
        box.write("/workspace/sub/evil", "evil")
        box.write("/workspace/fine", "fine")
        (staging.base / "work" / "sub").symlink_to(elsewhere)
        changes = [(change.kind, change.path) for change in box.diff()]
        left = staging.take(box, changes, "/workspace")
    produced = staging.publish()
    staging.remove()
    assert not list(elsewhere.iterdir()) and produced.files == [("fine", 4)]
    assert [text.partition(":")[0] for text in left] == ["/workspace/sub", "/workspace/sub/evil"]
