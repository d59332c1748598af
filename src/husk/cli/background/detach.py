"""cli: `husk run -d`: start a box in the background, and say its name once the program runs."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from husk.cli.background.served_box import ServedBox
from husk.cli.exit_codes import explained
from husk.cli.output import say, say_json
from husk.sandbox.errors import UsageError
from husk.sandbox.kept.kept_boxes import KeptBoxes, check_name
from husk.sandbox.runner import Events, Runner

if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.cli.run_policy import RunOptions
    from husk.sandbox.result import Result


def detach(options: RunOptions, with_signals: Callable[[Runner], Result]) -> int:
    """`with_signals` runs a runner, and passes on the signals that husk gets."""
    policy = options.policy
    if options.events or options.verbose or options.summary or policy.terminal or policy.interactive:
        raise UsageError("-d: there is nobody to read --events, -v or --summary or to type; leave these out.")
    if not policy.keep:
        policy.keep = check_name(f"{os.path.basename(policy.argv[0]) or 'box'}-{os.urandom(3).hex()}"[:40])
    if KeptBoxes().is_running(policy.keep):
        raise UsageError(f"the box {policy.keep!r} runs already; use husk exec, or husk stop it first.")
    told, tells = os.pipe2(os.O_CLOEXEC)
    if os.fork() == 0:
        os.close(told)
        _background(options, with_signals, tells)
    os.close(tells)
    with open(told, "rb") as answer:
        said: dict[str, Any] = json.loads(answer.read() or b'{"error": "husk ended at once.", "code": 125}')
    if "error" in said:
        if options.json:
            say_json(said)
        else:
            say(f"husk: {said['error']}", file=sys.stderr)
        return int(said["code"])
    if options.json:
        say_json(said)
        return 0
    say(said["name"])
    for host, guest in said["ports"]:
        say(f"husk: {host} leads to port {guest} of the box.", file=sys.stderr)
    return 0


def _background(options: RunOptions, with_signals: Callable[[Runner], Result], tells: int) -> None:
    """In the child; does not return."""
    code = 125
    try:
        os.setsid()
        nothing = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(nothing, fd)
        box = ServedBox(options.policy, tells)
        try:
            runner = Runner(options.policy, Events(None, None), (0, box.output.guest, box.output.guest), beside=box)
            box.runner = runner
            result = with_signals(runner)
            box.over(result)
            code = result.exit_code
        finally:
            box.close()
    except BaseException as error:
        sentence, code = explained(error)
        try:
            os.write(tells, json.dumps({"error": sentence, "code": code}).encode())
        except OSError:
            pass  # the program was running already: whoever started it has left
    finally:
        os._exit(code)
