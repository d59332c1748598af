"""cli: how far work of many pieces is: a live line on a terminal, else a plain line every few seconds."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from husk.abi.text import harmless
from husk.cli.output import say

EVERY = 10.0  # seconds between plain lines
SLOW = 5.0  # a unit that runs longer is named
DRAWN = 0.2  # seconds between two pictures on a terminal


class Piece(Protocol):
    @property
    def file(self) -> str: ...


class Progress(Protocol):
    """`cases` is what is known to come; `done` counts those of an earlier attempt, too."""

    @property
    def title(self) -> str: ...
    @property
    def cases(self) -> int: ...
    @property
    def done(self) -> int: ...
    @property
    def counts(self) -> Mapping[str, int]: ...
    @property
    def rate(self) -> float: ...
    @property
    def seconds(self) -> float: ...
    @property
    def seconds_left(self) -> float | None: ...
    @property
    def running(self) -> Sequence[tuple[Piece, float]]: ...
    @property
    def ended(self) -> bool: ...


Watch = Callable[[Progress], None]


def progress_line(progress: Progress) -> str:
    counts = ", ".join(f"{count} {outcome}" for outcome, count in progress.counts.items() if count)
    total = f" of {progress.cases}" if progress.cases >= progress.done else ""  # some kinds tell only as they go
    line = f"{progress.title}: {progress.done}{total}{counts and f': {counts}'}; {progress.rate:.1f}/s"
    if progress.ended:
        return f"{line}, {length(progress.seconds)}"
    if progress.seconds_left is not None:
        line += f", {length(progress.seconds_left)} left"
    slowest = max(progress.running, key=lambda one: one[1], default=None)
    if slowest and slowest[1] > SLOW:
        line += f"; {slowest[0].file} runs for {length(slowest[1])}"
    return line


def length(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


@contextlib.contextmanager
def told_progress(*, quiet: bool) -> Iterator[Watch]:
    """A function to call with each progress; it writes to standard error."""
    if quiet:
        yield lambda progress: None
    elif sys.stderr.isatty():
        with _on_terminal() as watch:
            yield watch
    else:
        yield _plain()


def _plain() -> Watch:
    last = time.monotonic()

    def watch(progress: Progress) -> None:
        nonlocal last
        if progress.ended or time.monotonic() - last > EVERY:
            last = time.monotonic()
            say(progress_line(progress), file=sys.stderr)

    return watch


@contextlib.contextmanager
def _on_terminal() -> Iterator[Watch]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bars
    from rich.text import Text

    class Words(TextColumn):
        def render(self, task: object) -> Text:
            return Text(harmless(task.fields["words"]))  # type: ignore[attr-defined]

    last = 0.0
    with Bars(BarColumn(20), Words(""), console=Console(stderr=True)) as bars:
        tasks: dict[str, object] = {}

        def watch(progress: Progress) -> None:
            nonlocal last
            if not progress.ended and time.monotonic() - last < DRAWN:
                return
            last = time.monotonic()
            if progress.title not in tasks:
                tasks[progress.title] = bars.add_task("", words="")
            task = tasks[progress.title]
            bars.update(task, total=progress.cases, completed=progress.done, words=progress_line(progress))  # type: ignore[arg-type]

        yield watch
