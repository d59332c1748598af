"""Wrong arguments: husk's kernel says what this host's kernel says, also when two things are wrong at once.

The native side is the oracle, so nothing here can be wrong about Linux.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.kernel.both import Case, in_husk, natively, spelled
from tests.unit.kernel.conftest import prepare
from tests.unit.kernel.errno_cases import DIRFDS, HELD, NAMED, VALUES
from tests.unit.kernel.fakes import Guest

CASES: dict[str, list[Case]] = {}
for _case in (*NAMED, *DIRFDS, *HELD, *VALUES):
    CASES.setdefault(_case[0], []).append(_case)

# Where husk is known to differ, and how. An entry that no longer differs fails the test: then it must go.
# Both: Linux looks at flags that exclude each other before it looks at the name or the descriptor.
KNOWN: dict[str, str] = {}


class Sides:
    """Two equal trees, one of them with a guest; made anew after a call that changed something."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place, self.monkeypatch = place, monkeypatch
        self.guest: Guest | None = None
        self.made = 0

    def answers(self, case: Case) -> tuple[str, str]:
        guest = self.guest or self.make()
        husk, linux = in_husk(guest, *case), natively(*case)
        if not (husk.startswith("E") and linux.startswith("E")):
            self.close()
        return husk, linux

    def make(self) -> Guest:
        self.made += 1
        native, lower, state = (self.place / f"{name}{self.made}" for name in ("native", "lower", "state"))
        for side in (native, lower, state):
            side.mkdir()
        prepare(native)
        prepare(lower)
        self.monkeypatch.chdir(native)
        self.guest = Guest(os.fsencode(state), os.fsencode(lower))
        return self.guest

    def close(self) -> None:
        if self.guest:
            self.guest.close()
            self.guest = None


@pytest.mark.parametrize("name", CASES)
def test_same_errno(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    sides = Sides(tmp_path, monkeypatch)
    wrong = []
    for case in CASES[name]:
        husk, linux = sides.answers(case)
        if husk != linux and KNOWN.get(spelled(case)) != f"{husk}, not {linux}":
            wrong.append(f"{spelled(case)}: {husk}, not {linux}")
        elif husk == linux and spelled(case) in KNOWN:
            wrong.append(f"{spelled(case)}: is right now, remove it from KNOWN")
    sides.close()
    assert not wrong, "\n".join(wrong)


def test_known_differences_are_cases() -> None:
    assert KNOWN.keys() <= {spelled(case) for cases in CASES.values() for case in cases}
