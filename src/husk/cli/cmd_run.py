"""cli: `husk run`, once all that it needs is imported. It is on the path of every start: each import here makes every
run slower. Not here: what comes before that (start/begin_run.py)."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the bare C module: `signal` itself costs an import of enum
import _thread
import errno
import os
import select  # noqa: F401  # to wait for a run takes it, and to import it while the program begins would hold that up
import sys
import time

from husk.cli.exit_codes import failed  # not when something failed: there may be no descriptor left to import it with
from husk.cli.options.run_options import RUN
from husk.cli.output import say, say_json
from husk.cli.run_policy import RunOptions
from husk.sandbox.errors import HuskError, NoNamespaces, UsageError
from husk.sandbox.runner import Events, Full, Prepared, Runner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from husk.sandbox.result import Result
    from husk.sandbox.start.launch_ahead import Ahead

ROOM_FOR_END = 256  # bytes; the longest last line has some 200
FORMAT = 1  # of --events: docs/formats/events.md
INSISTS, MOST_WATCHED = 1.0, 1000  # seconds; refusals
MOST_KEPT = 16 << 20  # bytes of each stream that --json shows; what comes after is counted


def main(args: list[str]) -> int:
    try:
        options = RunOptions(args)
    except Exception as error:
        return failed(RUN, args, error)
    return go_on(options, args)


def go_on(options: RunOptions, args: list[str], ahead: Ahead | None = None, ended_by: Iterable[int] = ()) -> int:
    """`args` are the words that the options were read from. `ahead`: the box was begun meanwhile; the caller closes it.
    `ended_by`: signals that came meanwhile."""
    try:
        if options.help:
            from husk.cli.options.help_text import print_help

            return print_help("husk run", RUN)
        if options.detach:
            from husk.cli.background.detach import detach

            return detach(options, with_signals)
    except Exception as error:
        return failed(RUN, args, error)
    if ahead is None:
        return run(options, args, None, ended_by)
    denied = ""
    try:
        prepared = Prepared(ahead)
    except Exception as error:
        ahead.close()
        if isinstance(error, NoNamespaces):
            denied = str(error)  # they need not be tried again
        return run(options, args, None, ended_by, denied)  # which fails as well, or does without
    try:
        return run(options, args, prepared, ended_by)
    finally:
        prepared.close()


def run(
    options: RunOptions,
    args: list[str],
    prepared: Prepared | None = None,
    ended_by: Iterable[int] = (),
    denied: str = "",
) -> int:
    """`prepared` is the caller's. `denied`: see `behind_walls`."""
    try:
        return _run(options, prepared, ended_by, denied)
    except Exception as error:
        return failed(RUN, args, error)


def _run(options: RunOptions, prepared: Prepared | None, ended_by: Iterable[int], denied: str) -> int:
    log = EventLog(options.events, options.policy.limits["events"]) if options.events else None
    events = Events(
        log.tell if log else None,
        _trace if options.verbose else None,
        collect=options.summary,
        refused=None if options.quiet or options.json else RepeatedRefusals("husk").note,
    )
    if any(wish.host_port == 0 for wish in options.policy.publish):
        events.tell_port = _say_port
    if log:
        log.begins(options.policy.argv)
    keep = MOST_KEPT if options.json else 0
    runner = Runner(options.policy, events, keep=keep, prepared=prepared, denied=denied)
    result = with_signals(runner, ended_by)
    if log:
        log.ends(result)
    if log and log.failure:
        say(f"husk: --events {options.events} is not complete: {log.failure}.", file=sys.stderr)
    for fault in result.faults:
        say("husk: a fault of husk's own (the guest saw EIO):", *fault.splitlines(), file=sys.stderr)
    for limit in result.limits:
        if not options.summary:
            say(f"husk: {limit}{'; the box was ended' if limit.ended else ''}.", file=sys.stderr)
    if options.json:
        say_json(result.as_dict())
    if options.summary:
        from husk.cli.summary import show

        show(result)
    if result.exit_code and not (options.json or options.quiet):
        from husk.cli.summary import hint, likely_refusal

        advice = hint(options.policy, result)
        if not advice and not options.summary:
            advice = likely_refusal(result, options.profile_file)
        if advice:
            say(f"husk: {advice}", file=sys.stderr)
    if options.kept_by_profile and result.changes and not (options.json or options.quiet):
        from husk.cli.summary import kept_copy

        if advice := kept_copy(options.policy, result):
            say(f"husk: {advice}", file=sys.stderr)
    # Whoever asked for a log must not take half of one for the whole.
    return HuskError.exit_code if log and log.failure and not result.exit_code else result.exit_code


def with_signals(runner: Runner, ended_by: Iterable[int] = ()) -> Result:
    """What a key sends is passed on to the guest, which has a session of its own; SIGTERM and SIGHUP end the box, also
    those of `ended_by`, which came before."""

    def end(number: int, _frame: object) -> None:
        runner.end(number)

    def pass_on(number: int, _frame: object) -> None:
        runner.signal(number)

    wakes, told = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    _signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    for number in (_signal.SIGTERM, _signal.SIGHUP):
        _signal.signal(number, end)
    for number in (_signal.SIGINT, _signal.SIGQUIT, _signal.SIGCONT):
        _signal.signal(number, pass_on)
    if runner.on_terminal:
        _signal.signal(_signal.SIGTSTP, pass_on)
        _signal.signal(_signal.SIGWINCH, lambda *_: runner.resize())
    for number in ended_by:
        runner.end(number)
    return runner.run(wakes)


class RepeatedRefusals:
    """Tells of a network refusal while the program still runs, if it keeps trying: at the third time, a second or more
    after the first. One look-up alone is several refusals at once, and files that are looked for again harm nothing.
    Once for each reason."""

    def __init__(self, who: str, advice: Callable[[str], str] = str) -> None:
        """`advice` turns what would allow it into words that fit the command."""
        self._who, self._advice = who, advice
        self._first: dict[object, float] = {}
        self._told: set[object] = set()

    def note(self, refusal: dict[str, object]) -> None:
        allow, why = str(refusal["allow"]), refusal["reason"]
        if not allow.startswith("--allow-net ") or why in self._told or len(self._first) > MOST_WATCHED:
            return
        now = time.monotonic()
        count = refusal["count"]
        if now - self._first.setdefault(refusal["what"], now) >= INSISTS and isinstance(count, int) and count >= 3:
            self._told.add(why)
            say(
                f"{self._who}: it keeps trying; refused: {refusal['what']}: {why}; to allow it, {self._advice(allow)}",
                file=sys.stderr,
            )


class EventLog:
    """The file of --events: a line of JSON for each event, from the first to the last or to where it failed. After a
    failure nothing more is written: a reader can rely on a beginning without gaps and without half a line."""

    def __init__(self, path: str, room: int | None) -> None:
        import json

        self._encode = json.dumps
        self._room = None if room is None else max(0, room - ROOM_FOR_END)
        self._whole, self.failure = 0, ""
        self._lock = _thread.allocate_lock()
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EIO):
                raise  # no mistake of the caller's
            raise UsageError(f"--events {path}: {error.strerror}.") from None

    def begins(self, argv: list[str]) -> None:
        from husk import __version__

        self._try({"time": time.time(), "event": "begin", "format": FORMAT, "husk": __version__, "argv": argv})

    def ends(self, result: Result) -> None:
        """A log without this line is not complete."""
        ended = {name: getattr(result, name) for name in ("exit_code", "signal", "seconds", "lost")}
        if self._room is not None:
            self._room = ROOM_FOR_END
        self._try({"time": time.time(), "event": "end", **ended})

    def _try(self, event: dict[str, object]) -> None:
        try:
            self.tell(event)
        except (OSError, Full):
            pass  # `failure` says so

    def tell(self, event: dict[str, object]) -> None:
        line = (self._encode(event) + "\n").encode()
        with self._lock:
            self._write(line)

    def _write(self, line: bytes) -> None:
        if self._room is not None:
            if len(line) > self._room:
                self._room = 0  # no later, shorter event either
                raise Full
            self._room -= len(line)
        if self.failure:
            raise OSError(errno.EIO, self.failure)
        try:
            left = memoryview(line)
            while left:
                left = left[os.write(self._fd, left) :]
            self._whole += len(line)
        except OSError as error:
            self.failure = error.strerror or str(error)
            try:
                os.ftruncate(self._fd, self._whole)
            except OSError:
                pass  # no regular file
            raise


def _say_port(host: str, guest: int) -> None:
    """The host chose it, so nobody knows it yet."""
    say(f"husk: {host} leads to port {guest} of the box.", file=sys.stderr)


def _trace(line: str) -> None:
    say(f"husk: {line}", file=sys.stderr)
