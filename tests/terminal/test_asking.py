"""What asks before it acts, asks on a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.skills.calling import make_skill
from tests.terminal.conftest import Sit


@pytest.mark.parametrize(("answer", "ran"), [("n", False), ("y", True)])
def test_a_native_run_of_a_skill_is_asked_for(sit: Sit, tmp_path: Path, answer: str, ran: bool) -> None:
    mark = tmp_path / "mark"
    skill = make_skill(tmp_path, "stranger", {"scripts/x.sh": f"touch {mark} 2>/dev/null\nexit 0\n"})
    (skill / "cases.json").write_text(json.dumps([{"name": "one", "argv": []}]))
    person = sit("skill", "test", str(skill), "--native")
    person.expect(r"with all your rights\. Go on\? ")
    person.type(f"{answer}\r")
    person.expect("1 works" if ran else "nothing was run")
    person.wait()
    assert mark.exists() == ran
