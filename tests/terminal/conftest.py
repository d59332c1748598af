"""Terminal tests run husk as a person would: from a terminal, with keys. Each run's state directory must end empty."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.lib import running
from tests.lib.harness import NATIVE_ONLY
from tests.terminal.person import Person

Sit = Callable[..., Person]


@pytest.fixture
def sit() -> Iterator[Sit]:
    """`sit("run", "--", "bash")` is a person in front of husk; `sit(command=[…])` in front of something else."""
    if NATIVE_ONLY:
        pytest.skip("HUSK_GUEST_NATIVE=1: only the native side is asked for")
    with tempfile.TemporaryDirectory(prefix="hs-") as state, ExitStack() as persons:

        def begin(*arguments: str, command: list[str] | None = None) -> Person:
            if command is None:
                command = [*running.husk_command(), arguments[0], *running.OPTIONS, *arguments[1:]]
            person = Person(command, env={"HUSK_STATE": state, "HOME": "/"})
            return persons.enter_context(person)

        yield begin
        persons.close()
        assert not list(Path(state).iterdir()), "state left behind"
