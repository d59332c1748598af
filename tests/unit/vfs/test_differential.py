"""The vfs answers as Linux does: each script runs on the host as an ordinary user and on every kind of tree."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.vfs import scripted
from tests.unit.vfs.native import run_native
from tests.unit.vfs.random_steps import random_steps
from tests.unit.vfs.trees import TREES, copy_tree, new_state, prepare, read_only_tree
from tests.unit.vfs.virtual import Virtual
from tests.unit.vfs.worlds import Step

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be an ordinary user in a root of its own")


def without_set_id(line: str) -> str:
    """No guest may make a set-uid or set-gid file on the host, so a host tree drops those bits of files and FIFOs."""
    mode = re.search(r"= [-p]([r-][w-][xsS-]){2}", line)
    if mode is None:
        return line
    text = mode.group().replace("s", "x").replace("S", "-")
    return line[:mode.start()] + text + line[mode.end():]


NORMALISED: dict[str, Callable[[str], str]] = {"host": without_set_id}


def compare(tmp_path: Path, kind: str, steps: list[Step]) -> None:
    native = prepare(tmp_path / "native", scripted.build)
    source = copy_tree(native, tmp_path / "source")
    expected = run_native(native, steps, read_only=kind == "read-only")
    state = new_state(tmp_path)
    world = Virtual(state, {**TREES, "read-only": read_only_tree}[kind](state, source))
    normalise = NORMALISED.get(kind, str)
    try:
        for number, (step, want) in enumerate(zip(steps, expected, strict=True)):
            got = world.answer(step)
            assert normalise(got) == normalise(want), f"step {number}"
    finally:
        world.close()
        state.close()


# Linux lets FIFOs of a read-only file system be written to, husk does not: tests/escape/test_read_only.py.
DIFFERENT = {("fifos_written", "read-only")}
BOTH = [(name, kind) for name in scripted.SCRIPTS for kind in [*TREES, "read-only"] if (name, kind) not in DIFFERENT]


def test_the_accepted_difference_is_one_of_the_scripts() -> None:
    assert {name for name, _ in DIFFERENT} <= set(scripted.SCRIPTS)


@pytest.mark.parametrize(("name", "kind"), BOTH)
def test_script(tmp_path: Path, name: str, kind: str) -> None:
    compare(tmp_path, kind, scripted.SCRIPTS[name])


@pytest.mark.parametrize("kind", TREES)
@pytest.mark.parametrize("seed", range(8))
def test_random(tmp_path: Path, seed: int, kind: str) -> None:
    compare(tmp_path, kind, random_steps(seed, 1500))
