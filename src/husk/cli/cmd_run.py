"""cli: `husk run`. It is on the path of every start: each import here makes every run slower."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the bare C module: `signal` itself costs an import of enum
import errno
import os
import sys

from husk.cli.exit_codes import failed  # not when something failed: there may be no descriptor left to import it with
from husk.cli.options.run_options import RUN
from husk.cli.output import say, say_json
from husk.cli.run_policy import RunOptions
from husk.sandbox import orphans
from husk.sandbox.errors import UsageError
from husk.sandbox.runner import Events, Full, Runner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.sandbox.result import Result

MOST_KEPT = 16 << 20  # bytes of each stream that --json shows; what comes after is counted


def main(args: list[str]) -> int:
    try:
        options = RunOptions(args)
        if options.help:
            from husk.cli.options.help_text import print_help

            return print_help("husk run", RUN)
        return _run(options)
    except Exception as error:
        return failed(RUN, args, error)


def _run(options: RunOptions) -> int:
    tell, trace = _listeners(options)
    events = Events(tell, trace, collect=options.summary)
    result = _with_signals(Runner(options.policy, events, keep=MOST_KEPT if options.json else 0))
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
    if result.exit_code and not options.json:
        from husk.cli.summary import hint

        advice = hint(options.policy, result)
        if advice:
            say(f"husk: {advice}", file=sys.stderr)
    return result.exit_code


def _with_signals(runner: Runner) -> Result:
    """What a key sends is passed on to the guest, which has a session of its own; SIGTERM and SIGHUP end the box."""

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
    orphans.adopt()
    return runner.run(wakes)


def _listeners(options: RunOptions) -> tuple[Callable[[dict[str, object]], None] | None, Callable[[str], None] | None]:
    tell = trace = None
    if options.events:
        import json

        try:
            log = open(options.events, "w", buffering=1, encoding="utf-8")  # noqa: SIM115 — open for the whole run
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EIO):
                raise  # no mistake of the caller's
            raise UsageError(f"--events {options.events}: {error.strerror}.") from None

        room = options.policy.limits["events"]

        def tell(event: dict[str, object]) -> None:
            nonlocal room
            line = json.dumps(event) + "\n"
            if room is not None:
                if len(line) > room:
                    room = 0  # no later, shorter event is written: the file is a beginning without gaps
                    raise Full
                room -= len(line)
            log.write(line)

    if options.verbose:

        def trace(line: str) -> None:
            say(f"husk: {line}", file=sys.stderr)

    return tell, trace
