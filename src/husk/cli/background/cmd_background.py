"""cli: `husk exec`, `logs`, `attach` and `stop`: commands for boxes that run in the background."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from husk.cli.exit_codes import print_error, run_command
from husk.cli.options.box_options import ATTACH, EXEC, LOGS, STOP
from husk.cli.output import say, say_bytes, say_result
from husk.cli.run_policy import variable
from husk.sandbox.errors import UsageError
from husk.sandbox.kept.control import call
from husk.sandbox.kept.kept_boxes import KeptBoxes
from husk.sandbox.kept.output_log import NAME, OLDER

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO

    from husk.cli.options import Command
    from husk.cli.options.parse_words import Values
    from husk.sandbox.kept.control import Connection

PAUSE = 0.1  # seconds between two looks at a file that grows
CHUNK = 1 << 20


def _connection(name: str) -> Connection:
    kept = KeptBoxes()
    if not kept.is_running(name):
        kept.get(name)  # says so if there is none
    return call(kept.path(name), name)


def _execute(options: Values) -> int:
    if not options.program:
        raise UsageError(f"say what to run: husk exec {options.name} -- PROGRAM ARGS…")
    if options.workdir and not options.workdir.startswith("/"):
        raise UsageError(f"--workdir {options.workdir}: give an absolute path inside the box.")
    env = dict(variable(text) for text in options.env)
    connection = _connection(options.name)
    request = {"do": "exec", "argv": options.program, "env": env, "workdir": options.workdir}
    connection.send(request, (0, 1, 2))
    signal.signal(signal.SIGWINCH, lambda *_: connection.send({"do": "resize"}))
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, lambda number, _: connection.send({"do": "signal", "number": number}))
    answer, _ = connection.receive()
    if answer is None:
        raise UsageError(f"the box {options.name!r} has ended.")
    if "error" in answer:
        if options.json:
            print_error(answer["error"], "husk", answer["code"])
        say(f"husk exec: {answer['error']}", file=sys.stderr)
    elif options.json:
        say_result({"exit_code": answer["code"], "refusals": answer["refusals"]}, [], as_json=True)
    elif answer["code"] and answer["refusals"]:
        last = answer["refusals"][-1]
        say(f"husk: refused: {last['what']}: {last['reason']}", file=sys.stderr)
    return int(answer["code"])


def _logs(options: Values) -> int:
    kept = KeptBoxes()
    if not kept.is_running(options.name):
        kept.get(options.name)
    directory = kept.path(options.name)
    older, newer = (_content(directory, name) for name in (OLDER, NAME))
    written = older + newer
    if not written and not os.path.exists(os.path.join(directory, NAME)):
        raise UsageError(f"the box {options.name!r} never ran in the background; husk log shows its runs.")
    if options.tail:
        written = b"".join(written.splitlines(keepends=True)[-options.tail :])
    if options.json:
        if options.follow:
            raise UsageError("--json prints one document; leave out --follow.")
        say_result({"name": options.name, "output": written.decode("utf-8", "backslashreplace")}, [], as_json=True)
        return 0
    say_bytes(written)
    if options.follow:
        _follow(kept, options.name, len(newer))
    return 0


def _content(directory: str, name: str) -> bytes:
    try:
        with open(os.path.join(directory, name), "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _follow(kept: KeptBoxes, name: str, position: int | None = None) -> None:
    """From there, or from the end, until the box ends. A file that was set aside is read to its end first. A box that
    is not kept takes its files with it, at any moment."""
    path = os.path.join(kept.path(name), NAME)
    file = _opened(path)
    if file is None:
        return
    try:
        file.seek(*((0, os.SEEK_END) if position is None else (position, os.SEEK_SET)))
        while True:
            running = kept.is_running(name)
            while data := file.read(CHUNK):
                say_bytes(data)
            newer = _opened(path)
            if newer and not os.path.samestat(os.fstat(newer.fileno()), os.fstat(file.fileno())):
                file.close()
                file = newer
                continue
            if newer:
                newer.close()
            if not running:
                return
            time.sleep(PAUSE)
    finally:
        file.close()


def _opened(path: str) -> IO[bytes] | None:
    try:
        return open(path, "rb")
    except FileNotFoundError:
        return None


def _attach(options: Values) -> int:
    kept = KeptBoxes()
    connection = _connection(options.name)
    connection.send({"do": "wait"})
    try:
        if not options.json:
            _follow(kept, options.name)
        answer, _ = connection.receive()
    except KeyboardInterrupt:
        say("", f"husk: {options.name} runs on; husk stop {options.name} ends it.", file=sys.stderr)
        return 0
    code = int(answer["code"]) if answer else 0
    say_result({"name": options.name, "exit_code": code}, [], as_json=options.json)
    return code


def _stop(options: Values) -> int:
    connection = _connection(options.name)
    connection.send({"do": "stop", "seconds": options.seconds})
    answer, _ = connection.receive()
    code = answer["code"] if answer else None
    say_result({"name": options.name, "exit_code": code}, [options.name], as_json=options.json)
    return 0


def _command(row: Command, handler: Callable[[Values], int]) -> Callable[[list[str]], int]:
    return lambda words: run_command(row, words, handler)


execute = _command(EXEC, _execute)
logs = _command(LOGS, _logs)
attach = _command(ATTACH, _attach)
stop = _command(STOP, _stop)
