"""Differences between a native run and a run in husk that we accept, each with its reason.

An entry names a case (the name a test gives to `differential`) and how one line reads on either side. An entry that no
longer matches anything in its case fails the test: then husk has become more like Linux, and the entry must go.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Accepted:
    case: str
    native: str  # regular expression for the whole line, natively
    husk: str  # and in husk
    reason: str


ACCEPTED: tuple[Accepted, ...] = ()
