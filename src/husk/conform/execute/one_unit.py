"""conform/execute: run one unit: a process with bounds of time and output that leaves nothing behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from husk.conform.execute.where import Where
    from husk.conform.units import Ended, Unit


def run_unit(unit: Unit, where: Where) -> Ended:
    """Safe to call from several threads. UsageError: the prefix cannot be started."""
    raise NotImplementedError
