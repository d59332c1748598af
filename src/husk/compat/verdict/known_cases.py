"""compat: what is known of missing calls: who falls back to what, what a person can do. The table is known_cases.toml.

Here: reading it, and finding what fits a call. Not here: whether a call is missing (judge.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from husk.abi.registry.rules import ArgTest
from husk.compat.surface import surface_from

FILE = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True)
class Case:
    """One row. `tests` are on arguments, all must hold; `errnos`: only after one of these, if there are any."""

    call: str
    tests: tuple[ArgTest, ...]
    errnos: tuple[str, ...]
    text: str
    source: str
    who: str = ""
    segment: str = ""

    def fits(self, call: str, known: dict[int, int], errno: str) -> bool:
        if call != self.call or (self.errnos and errno not in self.errnos):
            return False
        return all(test.index in known and test.holds(arguments(known), None) for test in self.tests)


def arguments(known: dict[int, int]) -> list[int]:
    return [known.get(n, 0) for n in range(6)]


@dataclass(frozen=True)
class Cases:
    fallbacks: tuple[Case, ...]
    remedies: tuple[Case, ...]
    together: tuple[Case, ...]
    privileged: frozenset[str]

    def fallback(self, call: str, known: dict[int, int], errno: str) -> Case | None:
        return next((case for case in self.fallbacks if case.fits(call, known, errno)), None)

    def remedy(self, call: str, known: dict[int, int], errno: str) -> Case | None:
        return next((case for case in self.remedies if case.fits(call, known, errno)), None)

    def fault(self, call: str, known: dict[int, int], errno: str) -> Case | None:
        return next((case for case in self.together if case.fits(call, known, errno)), None)


@cache
def known_cases() -> Cases:
    import tomllib

    with open(FILE, "rb") as file:
        data = tomllib.load(file)
    fallbacks = [_case(row, row["to"], row["who"]) for row in data["fallback"]]
    remedies = [_case(row, row["text"]) for row in data["remedy"]]
    together = [_case(row, row["then"]) for row in data["together"]]
    return Cases(tuple(fallbacks), tuple(remedies), tuple(together), frozenset(data["privileged"]["calls"]))


def _case(row: dict[str, Any], text: str, who: str = "") -> Case:
    errnos = tuple(row.get("errno", ()))
    return Case(row["call"], _tests(row), errnos, text, row.get("source", ""), who, row.get("segment", ""))


def _tests(row: dict[str, Any]) -> tuple[ArgTest, ...]:
    """`when` is written as in a runtime file, and read by the same code."""
    note = {"support": "missing", **row["when"]} if "when" in row else None
    claim = {"support": "missing", **({"when": [note]} if note else {})}
    head = {"format": 1, "title": "-", "version": "-", "date": "2026-01-01", "source": "-", "measured": False}
    default = {"default": {"support": "missing", "errno": "ENOSYS"}}
    surface = surface_from({**head, **default, "calls": {row["call"]: claim}}, "known", FILE.name)
    return surface.claim(row["call"]).notes[0].tests if note else ()
