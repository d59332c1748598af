"""Hints that husk prints before a run: about arguments that name a host file, and about hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from husk.sandbox.policy import Mount
from husk.skills.box_runner import Setting
from husk.skills.hints import hints
from husk.skills.open_skill import open_skill
from husk.skills.permission_file import Permissions
from husk.skills.running import Request
from husk.skills.scan.describe import describe
from tests.skills.calling import make_skill


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["notes/a.txt"], ["notes/a.txt is here, but not in the box; --in notes shows it there as /in/a.txt"]),
        (["notes"], ["notes is here, but not in the box; --in notes shows it there as /in"]),
        (["given/b.txt"], ["given/b.txt is at /in/b.txt in the box"]),
        (["/in/b.txt", "nothing", "", "--flag", "x" * 5000, "/etc/passwd", "/usr"], []),
    ],
)
def test_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], told: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("notes/a.txt", "given/b.txt"):
        Path(name).parent.mkdir()
        Path(name).touch()
    with open_skill(make_skill(tmp_path, "s", {"scripts/x.sh": "echo\n"})) as skill:
        found = describe(skill)
    policy = Setting().policy(["sh"], [Mount(str(tmp_path / "given"), "/in")])
    assert hints(found, found.scripts[0], Request(args=words), policy) == told


def test_a_name_that_is_right_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").touch()
    with open_skill(make_skill(tmp_path, "s", {"scripts/x.sh": "echo\n"})) as skill:
        found = describe(skill)
    policy = Setting().policy(["sh"], [Mount(str(tmp_path), "/workspace", "cow")])
    assert hints(found, found.scripts[0], Request(args=["a.txt"]), policy) == []


@pytest.mark.parametrize(("meant", "told"), [("s", 0), ("", 0), ("other", 1)])
def test_permissions_of_another_skill(tmp_path: Path, meant: str, told: int) -> None:
    with open_skill(make_skill(tmp_path, "s", {"scripts/x.sh": "echo\n"})) as skill:
        found = describe(skill)
    said = hints(found, found.scripts[0], Request(permissions=Permissions(skill=meant)), Setting().policy(["sh"], []))
    assert said == ["the permissions were made for the skill 'other'; they hold for 's' all the same"][:told]


def test_hosts(tmp_path: Path) -> None:
    text = "curl https://api.example.com/x http://localhost:1/\n"
    with open_skill(make_skill(tmp_path, "s", {"scripts/x.sh": text})) as skill:
        found = describe(skill)
    told = hints(found, found.scripts[0], Request(), Setting().policy(["sh"], []))
    assert told == ["it mentions api.example.com, which the box does not reach; --allow-net HOST lets it"]
    reaching = Setting().policy(["sh"], [])
    reaching.allow_net = ["api.example.com"]
    assert hints(found, found.scripts[0], Request(), reaching) == []


def test_a_script_that_writes_to_out(tmp_path: Path) -> None:
    with open_skill(make_skill(tmp_path, "s", {"scripts/x.py": "open('/out/a', 'w')\n"})) as skill:
        found = describe(skill)
    policy = Setting().policy(["python3"], [])
    told = hints(found, found.scripts[0], Request(), policy)
    assert told == ["it writes /out/a, and without --out DIR there is no /out"]
    assert hints(found, found.scripts[0], Request(output=tmp_path / "result"), policy) == []
