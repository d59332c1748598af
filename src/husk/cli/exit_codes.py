"""cli: how commands end: exit codes, errors as one sentence or one JSON object, and broken pipes.

Here: what every command does around its own work. Not here: what the options mean (cli.options) and what goes wrong
(sandbox.errors, store.store_errors).
"""

from __future__ import annotations

import os
import sys

from husk.cli.options.parse_words import Values, find_command, wants_json
from husk.cli.output import say, say_json
from husk.sandbox.errors import HuskError, host_failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from husk.cli.options import Command

    Handler = Callable[[Values], int]

INTERRUPTED = 130
KINDS = {1: "store", 2: "usage", 125: "husk", 126: "not-executable", 127: "not-found", INTERRUPTED: "interrupted"}


def reader_left() -> int:
    """After BrokenPipeError: the reader, `head` for one, has seen enough. What Python still flushes goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def cannot_print(error: OSError) -> int:
    """For what is printed without a command."""
    if isinstance(error, BrokenPipeError):
        return reader_left()
    _say_on_stderr(f"husk: {host_failure(error)}")
    return HuskError.exit_code


def _say_on_stderr(*lines: str) -> None:
    """There may be nowhere to say it: then the exit code must do. Python would try again at the end, what it could not
    print on either stream, and make it exit code 120."""
    try:
        say(*lines, file=sys.stderr)
    except OSError:
        pass
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), stream.fileno())


def run_command(
    command: Command, words: list[str], handlers: Handler | Mapping[str, Handler], *, stopped: str = "stopped."
) -> int:
    """Parse the words and call the handler, or the one of the sub-command. Every failure becomes an exit code."""
    try:
        path, row, left = find_command(command, words)
        if row.commands:
            from husk.cli.options.help_text import print_help

            return print_help(path, row)
        values = Values(path, row, left)
        if values.help:
            from husk.cli.options.help_text import print_help

            return print_help(path, row)
        return handlers(values) if callable(handlers) else handlers[row.name](values)
    except BrokenPipeError:
        return reader_left()
    except KeyboardInterrupt:
        return _report(command, words, stopped, "interrupted", INTERRUPTED)
    except Exception as error:
        return failed(command, words, error)


def handler_in(module: str, function: str = "main") -> Handler:
    """The handler `function(values) -> exit code` of a module that is imported only when it is called."""

    def handle(values: Values) -> int:
        __import__(module)
        code: int = getattr(sys.modules[module], function)(values)
        return code

    return handle


def failed(command: Command, words: list[str], error: Exception) -> int:
    """Report what went wrong; returns the exit code. A fault of husk's own is raised again, unless --json asks for it
    as an object."""
    if isinstance(error, HuskError):
        return _report(command, words, str(error), KINDS[error.exit_code], error.exit_code)
    if isinstance(error, OSError):
        return _report(command, words, host_failure(error), "host", HuskError.exit_code)
    from husk.store.store_errors import StoreError

    if isinstance(error, StoreError):
        return _report(command, words, str(error), KINDS[error.exit_code], error.exit_code)
    if not wants_json(command, words):
        raise error
    import traceback

    sentence = f"a fault of husk's own: {type(error).__name__}: {error}"
    print_error(sentence, "fault", HuskError.exit_code, traceback="".join(traceback.format_exception(error)))
    return HuskError.exit_code


def explained(error: BaseException) -> tuple[str, int]:
    """The sentence and the exit code, for another process to report."""
    if isinstance(error, HuskError):
        return str(error), error.exit_code
    if isinstance(error, OSError):
        return host_failure(error), HuskError.exit_code
    from husk.store.store_errors import StoreError

    if isinstance(error, StoreError):
        return str(error), error.exit_code
    return f"a fault of husk's own: {type(error).__name__}: {error}", HuskError.exit_code


def _report(command: Command, words: list[str], sentence: str, kind: str, code: int) -> int:
    if wants_json(command, words):
        try:
            print_error(sentence, kind, code)
        except OSError:  # a reader that left, a full disk
            reader_left()
    name = "husk" if command.name in ("run", "shell") else f"husk {command.name}"
    _say_on_stderr(*f"{name}: {sentence}".split("\n"))
    return code


def print_error(sentence: str, kind: str, code: int, **more: object) -> None:
    """What every command prints on standard output instead of its result, where --json is given."""
    say_json({"error": sentence, "kind": kind, "exit_code": code, **more}, indent=None)
