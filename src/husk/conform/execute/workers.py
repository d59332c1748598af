"""conform/execute: workers run units, several at once: threads of this process, or the workers of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from husk.conform.units import Ended, Unit


class Workers(Protocol):
    def submit(self, unit: Unit) -> None:
        """Take a unit, and run it when there is room. It is called for all units at the beginning, and later for the
        rest of units whose process ended early."""

    def next_ended(self, seconds: float) -> tuple[Unit, Ended | None] | None:
        """A unit that has ended, in any order; None: none did within `seconds`. Instead of what it left behind there is
        None where the unit was lost for good: its cases are then missing, and the run is not whole."""

    def running(self) -> list[tuple[Unit, float]]:
        """What runs now, with the seconds that each runs already, for progress; may be empty."""

    def close(self) -> None:
        """End what still runs, and wait for it. No unit is given out afterwards."""
