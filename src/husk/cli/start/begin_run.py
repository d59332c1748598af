"""cli: the first steps of `husk run`, up to where all of husk is imported. What a box needs for its walls comes first:
husk-init makes them while the rest is imported (sandbox/start/launch_ahead.py). Each import here makes it begin later.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the bare C module: see cli/cmd_run.py
import gc

from husk.cli.exit_codes import failed
from husk.cli.options.run_options import RUN
from husk.cli.run_policy import RunOptions
from husk.cli.start.module_finder import load
from husk.cli.start.run_modules import FOR_MOUNTS, REST
from husk.sandbox.start.launch_ahead import Ahead
from husk.sandbox.stdio.std_fds import may_hand_over


def main(args: list[str]) -> int:
    try:
        options = RunOptions(args)
    except Exception as error:
        return failed(RUN, args, error)
    ended_by: list[int] = []
    ahead = _begin(options, ended_by)
    try:
        gc.disable()  # as in main of the package
        load(REST)
        if options.policy.mounts:
            load(FOR_MOUNTS)
        from husk.cli.cmd_run import go_on

        gc.freeze()
        gc.enable()
        return go_on(options, args, ahead, ended_by)
    finally:
        if ahead is not None:
            ahead.close()


def _begin(options: RunOptions, ended_by: list[int]) -> Ahead | None:
    """None: this run needs a box of its own, or none at all. As `Prepared.fits`, as far as that is known here."""
    watches = options.events or options.verbose or options.summary
    if options.help or options.detach or watches or not all(map(may_hand_over, (0, 1, 2))):
        return None
    for number in (_signal.SIGTERM, _signal.SIGHUP):  # from now on something would be left
        _signal.signal(number, lambda number, _frame: ended_by.append(number))
    return Ahead.begin(options.policy)
