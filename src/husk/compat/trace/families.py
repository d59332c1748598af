"""compat/trace: calls by family: the registry's chapters, in words for a reader who is no kernel developer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from husk.abi.registry import CHAPTERS

if TYPE_CHECKING:
    from husk.compat.census import Census

TITLES = {
    "names": "files by name",
    "descriptors": "open files",
    "memory and time": "memory and time",
    "processes": "processes and signals",
    "sockets and ipc": "sockets and messages",
    "host": "the machine itself",
}
OTHER = "no call of Linux"
_CHAPTER = {row.name: chapter for chapter, rows in CHAPTERS.items() for row in rows}


@dataclass
class Total:
    """One call, all argument values together."""

    call: str
    family: str
    count: int = 0
    ways: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def failures(self) -> int:
        return sum(self.errors.values())


def totals(census: Census) -> list[Total]:
    """The most frequent first."""
    found: dict[str, Total] = {}
    for asked in census.calls:
        total = found.get(asked.call)
        if total is None:
            family = TITLES[_CHAPTER[asked.call]] if asked.call in _CHAPTER else OTHER
            total = found[asked.call] = Total(asked.call, family)
        total.count += asked.count
        total.seconds += asked.seconds
        total.ways[asked.way] = total.ways.get(asked.way, 0) + asked.count
        for name, count in asked.errors.items():
            total.errors[name] = total.errors.get(name, 0) + count
    return sorted(found.values(), key=lambda total: (-total.count, total.call))


def by_family(census: Census) -> dict[str, list[Total]]:
    """Families in the order of the registry; those without calls are left out."""
    every = totals(census)
    groups = {title: [total for total in every if total.family == title] for title in (*TITLES.values(), OTHER)}
    return {title: group for title, group in groups.items() if group}
