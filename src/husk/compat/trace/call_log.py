"""compat/trace: the log of a traced run: one line for each call, in the manner of strace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from husk.abi.text import harmless

if TYPE_CHECKING:
    from collections.abc import Iterator

    from husk.compat.trace.traced_run import Traced


def log_lines(traced: Traced) -> Iterator[str]:
    """Each line can be written to a terminal: names that guests chose are made harmless."""
    census = traced.census
    for when, line in traced.log():
        yield f"{when:.6f} {harmless(line)}\n"
    lost = census.lost.get("lines", 0)
    if lost:
        yield f"+++ {lost} more calls have no line here: the log was full +++\n"
    if census.crash:
        yield f"+++ ended by {census.crash} +++\n"
    else:
        yield f"+++ ended with {census.status} +++\n"
