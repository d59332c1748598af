"""docs/threat-model.md says of every native call which part of the host's kernel it reaches."""

from __future__ import annotations

from collections import Counter

import pytest

import subsystem_table
from husk.abi.registry import ROWS, by_name
from husk.abi.registry.rules import Row
from husk.abi.registry.subsystems import SUBSYSTEMS, subsystem


def is_native(row: Row) -> bool:
    return any(verdict.way == "native" for verdict in row.verdicts())


@pytest.mark.parametrize("row", [row for row in ROWS.values() if is_native(row)], ids=lambda row: row.name)
def test_every_native_row_reaches_something(row: Row) -> None:
    assert subsystem(row.name) is not None, "say in abi/registry/subsystems.py which part of the kernel it reaches"


def test_nothing_else_is_listed_and_nothing_twice() -> None:
    counted = Counter(name for one in SUBSYSTEMS for name in one.calls)
    assert {name for name, times in counted.items() if times > 1} == set()
    assert {name for name in counted if (row := by_name(name)) is None or not is_native(row)} == set()


def test_the_table_is_not_stale() -> None:
    page = subsystem_table.PAGE.read_text()
    assert subsystem_table.with_table(page) == page, "run `python tools/subsystem_table.py`"


def test_a_stale_table_would_be_noticed() -> None:
    page = subsystem_table.PAGE.read_text()
    assert subsystem_table.with_table(page.replace("`futex`", "`futex2`")) == page
    with pytest.raises(ValueError, match="not found"):
        subsystem_table.with_table("a page without markers")


@pytest.mark.parametrize(
    ("name", "walled", "bare"),
    [
        ("read", subsystem_table.ALWAYS, subsystem_table.ALWAYS),
        ("openat", subsystem_table.SOME, subsystem_table.NEVER),
        ("openat2", subsystem_table.NEVER, subsystem_table.NEVER),
        ("ioctl", subsystem_table.SOME, subsystem_table.SOME),
        ("semop", subsystem_table.ALWAYS, subsystem_table.NEVER),
        ("kill", subsystem_table.ALWAYS, subsystem_table.ALWAYS),
    ],
)
def test_when_a_call_is_native(name: str, walled: int, bare: int) -> None:
    row = by_name(name)
    assert row is not None
    assert subsystem_table.how_native(row, subsystem_table.WALLED) == walled
    assert subsystem_table.how_native(row, subsystem_table.BARE) == bare
