"""skills: which texts reach a call that goes out, by way of the names they are given. One flow for a whole skill.

Names stand for themselves wherever they occur in a scope; order, branches and types are not looked at. That finds more
than there is rather than less: a person reads the result.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

MOST_SOURCES = 64  # for one name
Text = tuple[str, str, int]  # the text, path and line


@dataclass
class NameFlow:
    """`define` says what a name is made of; `sink` what a call that goes out is given."""

    sources: dict[str, list[tuple[tuple[str, ...], tuple[Text, ...]]]] = field(default_factory=dict)
    sinks: list[tuple[str, tuple[str, ...], tuple[Text, ...]]] = field(default_factory=list)

    def define(self, name: str, names: Iterable[str], texts: Iterable[Text]) -> None:
        known = self.sources.setdefault(name, [])
        if len(known) < MOST_SOURCES:
            known.append((tuple(names), tuple(texts)))

    def sink(self, why: str, names: Iterable[str], texts: Iterable[Text]) -> None:
        self.sinks.append((why, tuple(names), tuple(texts)))

    def reached(self, only: frozenset[str] | None = None) -> dict[Text, str]:
        """The texts that reach a sink, with which one. `only`: sinks of these names."""
        found: dict[Text, str] = {}
        done: set[str] = set()
        waiting = [each for each in self.sinks[::-1] if only is None or each[0] in only]  # the first is the surest
        while waiting:
            why, names, texts = waiting.pop()
            for text in texts:
                found.setdefault(text, why)
            for name in names:
                if name not in done:
                    done.add(name)
                    waiting += [(why, *source) for source in self.sources.get(name, [])]
        return found
