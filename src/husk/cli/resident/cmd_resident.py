"""cli: `husk resident status`, `stop`, and `serve`, which is how the client starts one."""

from __future__ import annotations

import os
import stat

from husk.cli.exit_codes import run_command
from husk.cli.options.other_options import RESIDENT
from husk.cli.output import say, say_json
from husk.cli.resident.resident_place import open_place, pid_of, residents, stop
from husk.sandbox.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values


def running(*, end: bool = False) -> list[int]:
    """The processes of this user's residents, one for each installation of husk; `end`: they are told to end."""
    place = open_place()
    if place < 0:
        return []
    pids = []
    try:
        for name, pidfd in residents(place).items():
            pids.append(pid_of(pidfd))
            if end:
                stop(place, name, pidfd)
            os.close(pidfd)
    finally:
        os.close(place)
    return pids


def status_line(pids: list[int]) -> str:
    if not pids:
        return "No resident husk runs"
    return f"A resident husk runs: process {', '.join(map(str, pids))}"


def _status(options: Values) -> int:
    pids = running()
    if options.json:
        say_json({"pids": pids})
    else:
        say(f"{status_line(pids)}.")
    return 0


def _stop(options: Values) -> int:
    pids = running(end=True)
    if options.json:
        say_json({"stopped": pids})
    elif pids:
        say(f"Stopped: process {', '.join(map(str, pids))}; runs that it began go on.")
    else:
        say(f"{status_line(pids)}.")
    return 0


def _serve(options: Values) -> int:
    from husk.cli.resident import zygote

    try:
        given = stat.S_ISREG(os.fstat(zygote.LOCK_FD).st_mode) and stat.S_ISDIR(os.fstat(zygote.PLACE_FD).st_mode)
    except OSError:
        given = False
    if not given:
        raise UsageError("`husk run` starts it, with its place as descriptor 4; there is nothing to do by hand.")
    return zygote.serve(options.socket, options.idle)


_HANDLERS = {"status": _status, "stop": _stop, "serve": _serve}


def main(argv: list[str]) -> int:
    return run_command(RESIDENT, argv, _HANDLERS)
