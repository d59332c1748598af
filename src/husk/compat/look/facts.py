"""compat: what a look at a program found: its form, and which calls it can make, with the place of each.

Values only, and how they are written as JSON. Not here: how they are found, and what a runtime makes of them (verdict).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from husk.abi.registry import ROWS, by_name
from husk.abi.registry.signatures import arguments, spell

# How sure it is that a call is made, the surest first.
START, OWN, LIBRARY, POINTER = "start", "own", "library", "pointer"
SURENESS = {
    START: "made at the start, whatever the program then does",
    OWN: "made by the program's own code, or by a library function that it names",
    LIBRARY: "made deeper in a library, on some way that may never be taken",
    POINTER: "made by a function that is only reached through a pointer",
}


@dataclass(frozen=True)
class Place:
    file: str
    address: int
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}+{self.address:#x}" + (f" ({self.function})" if self.function else "")

    def as_json(self) -> dict[str, Any]:
        return {"file": self.file, "address": self.address, "function": self.function}


@dataclass(frozen=True)
class Use:
    """One call with the argument values that are known, at one place."""

    call: str
    values: tuple[tuple[int, int], ...]  # argument index, value; only those known
    place: Place
    sure: str
    blind: bool = False  # a telling argument is not known here

    def arguments(self) -> list[int | None]:
        known = dict(self.values)
        return [known.get(n) for n in range(6)]

    @property
    def text(self) -> str:
        return call_text(self.call, dict(self.values))


def call_text(call: str, known: dict[int, int]) -> str:
    """`arch_prctl(ARCH_SET_GS, 0x66ae00)`; an argument that is not known is `…`, and unknown last ones are left out."""
    row = by_name(call)
    if row is None:
        return call
    words = []
    for n, (_, kind) in enumerate(arguments(row)):
        words.append(_spelled(kind, known[n]) if n in known else "…")
    while len(words) > 1 and words[-1] == words[-2] == "…":
        words.pop()
    return f"{call}({', '.join(words)})"


def _spelled(kind: str, value: int) -> str:
    if kind in ("ulong", "long", "size", "offset") and value > 4096:
        return hex(value)
    return spell(kind, value)


def call_name(number: int) -> str:
    row = ROWS.get(number)
    return row.name if row is not None else f"syscall_{number}"  # as a trace names it


@dataclass(frozen=True)
class Library:
    name: str
    path: str  # empty: not found


@dataclass
class Look:
    """One program. `parts` are further files that belong to it: a script's interpreter, a package's extensions."""

    path: str
    form: str  # ELF, script, APE, directory, data
    machine: str = ""
    bits: int = 0
    kind: str = ""  # executable, pie, library…
    static: bool = False
    interpreter: str = ""
    language: str = ""
    libraries: list[Library] = field(default_factory=list)
    segments: dict[str, list[str]] = field(default_factory=dict)  # "fs" and "gs": the first accesses
    gs_displacement: int | None = None  # of the first access by %gs, if it is a plain one
    uses: list[Use] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)  # what could not be seen and may matter
    blind: bool = False  # so much is unseen that "runs" cannot be said
    problems: list[str] = field(default_factory=list)
    programs: list[str] = field(default_factory=list)  # what it starts, as far as its text says
    parts: list[Look] = field(default_factory=list)
    seconds: float = 0.0

    def calls(self) -> dict[str, str]:
        """Every call, with the surest word about it."""
        order = list(SURENESS)
        found: dict[str, str] = {}
        for use in self.all_uses():
            if use.call not in found or order.index(use.sure) < order.index(found[use.call]):
                found[use.call] = use.sure
        return dict(sorted(found.items()))

    def all_uses(self) -> list[Use]:
        return [*self.uses, *(use for part in self.parts for use in part.all_uses())]

    def all_unseen(self) -> list[str]:
        own = [*self.unseen]
        for part in self.parts:
            own += [f"{part.path}: {text}" for text in part.all_unseen()]
        return own

    @property
    def any_blind(self) -> bool:
        return self.blind or any(part.any_blind for part in self.parts)

    def as_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "form": self.form,
            "machine": self.machine,
            "bits": self.bits,
            "kind": self.kind,
            "static": self.static,
            "interpreter": self.interpreter,
            "language": self.language,
            "libraries": [{"name": one.name, "path": one.path} for one in self.libraries],
            "segment_registers": self.segments,
            "calls": [
                {"call": call, "sure": sure, "arguments": values, "places": places}
                for call, sure, values, places in self._calls_json()
            ],
            "unseen": self.unseen,
            "blind": self.blind,
            "problems": self.problems,
            "programs": self.programs,
            "parts": [part.as_json() for part in self.parts],
        }

    def _calls_json(self) -> list[tuple[str, str, list[str], list[dict[str, Any]]]]:
        by_call: dict[str, list[Use]] = {}
        for use in self.uses:
            by_call.setdefault(use.call, []).append(use)
        order = list(SURENESS)
        rows = []
        for call, uses in sorted(by_call.items()):
            uses.sort(key=lambda use: order.index(use.sure))
            values = list(dict.fromkeys(use.text for use in uses if use.values))
            rows.append((call, uses[0].sure, values[:40], [use.place.as_json() for use in uses[:5]]))
        return rows
