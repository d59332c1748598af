"""cli: `husk ps`, `diff`, `log`, `commit`, `fork`, `drop`: commands for kept boxes. The work is in the sandbox; here
are the handlers. `husk apply` is in `write_back`."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

from husk.cli.exit_codes import run_command
from husk.cli.options.box_options import COMMIT, DIFF, DROP, FORK, LOG, PS
from husk.cli.output import say, say_json, say_result
from husk.sandbox.apply.apply_plan import shown
from husk.sandbox.errors import UsageError
from husk.sandbox.kept.kept_boxes import KeptBoxes, check_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.cli.options import Command
    from husk.cli.options.parse_words import Values
    from husk.sandbox.kept.diff import Difference


def _ps(options: Values, kept: KeptBoxes) -> int:
    from husk.sandbox.kept.operations import list_boxes

    found = list_boxes(kept, including_stopped=options.all)
    now = time.time_ns()
    lines = [f"{'NAME':20} {'STATE':8} {'AGE':>6} {'SIZE':>8} {'EXIT':>4}  COMMAND"]
    for box in found:
        box["ports"] = [_port(host, guest) for host, guest in box["ports"]]
    for box in found:
        code = "-" if box["exit_code"] is None else box["exit_code"]
        command = shown(os.fsencode(" ".join(box["argv"])))[:60]
        age, size = _age(now - box["since_ns"]), _size(box["bytes"])
        lines.append(f"{box['name']:20} {box['state']:8} {age:>6} {size:>8} {code:>4}  {command}")
        for port in box["ports"]:
            health = "answers" if port["answers"] else "no answer"
            lines.append(f"{'':20} {port['host']} leads to port {port['guest']} ({health})")
    say_result(found, lines, as_json=options.json)
    return 0


def _port(host: str, guest: int) -> dict[str, Any]:
    from husk.api.background_process import Port  # few boxes have ports

    return {"host": host, "guest": guest, "answers": Port(host, guest).answers()}


def _age(nanoseconds: int) -> str:
    seconds = max(0, nanoseconds) // 10**9
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _size(count: float) -> str:
    for unit in ("", "K", "M", "G"):
        if count < 1024:
            return f"{count:.0f}{unit}"
        count /= 1024
    return f"{count:.0f}T"


def _diff(options: Values, kept: KeptBoxes) -> int:
    from husk.sandbox.kept.diff import differences
    from husk.sandbox.kept.open_box import OpenBox

    name = own_box(options.name)
    paths = [os.fsencode(path) for path in options.paths]
    for path in paths:
        if not path.startswith(b"/"):
            raise UsageError(f"{shown(path)}: give an absolute path, as the box calls it.")
    with OpenBox(kept, kept.get(name)) as box:
        found = differences(box.files, paths)
        if options.json:
            told = [one.as_json() | ({"patch": "".join(one.patch())} if options.patch else {}) for one in found]
            say_json({"name": name, "changes": told})
            return 0
        for one in found:
            if options.patch and (lines := list(one.patch())):
                _print_patch(lines)
            else:
                say(f"{one.change:9}{shown(one.path)}{_details(one)}")
    sys.stdout.flush()
    return 0


def _print_patch(lines: list[str]) -> None:
    """On a terminal, escape control characters of the guest; a file or a pipe gets the patch as it is."""
    harmless = sys.stdout.isatty()
    for line in lines:
        text = shown(line.rstrip("\n").replace("\t", "    ").encode()) + "\n" if harmless else line
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
    sys.stdout.buffer.flush()


def _details(one: Difference) -> str:
    if one.change == "added" and one.type != "file":
        return f"  ({one.type})"
    words = []
    for name, (before, now) in one.details.items():
        if name in ("mode", "owner", "type", "target"):
            words.append(
                f"{name} {shown(str(before).encode(errors='replace'))} -> {shown(str(now).encode(errors='replace'))}"
            )
        elif one.change == "metadata" or name != "content":
            words.append(name)
    return f"  ({', '.join(words)})" if words else ""


def _log(options: Values, kept: KeptBoxes) -> int:
    from husk.sandbox.kept.run_log import runs

    name = own_box(options.name)
    kept.get(name)
    found = runs(kept.path(name))[-options.last :]
    lines = [f"{'WHEN':19} {'TOOK':>8} {'EXIT':>4} {'CHANGED':>7} {'REFUSED':>7}  COMMAND"]
    for run in found:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run["time"]))
        changed, refused = len(run["changes"]) + run["more_changes"], len(run["refusals"]) + run["more_refusals"]
        command = shown(os.fsencode(" ".join(run["argv"])))[:60]
        lines.append(f"{when} {run['seconds']:7.1f}s {run['exit_code']:>4} {changed:>7} {refused:>7}  {command}")
        if options.details:
            lines += [f"  {limit}" for limit in run["limits"]]
            lines += [f"  {change} {path}{' on the host' if where == 'host' else ''}"
                      for where, change, path in run["changes"]]  # fmt: skip
            lines += [f"  refused {one['what']}: {one['reason']}" for one in run["refusals"]]
    say_result({"name": name, "runs": found}, lines, as_json=options.json)
    return 0


def _commit(options: Values, kept: KeptBoxes) -> int:
    from husk.sandbox.kept.operations import commit

    made = commit(kept, options.name, options.image, options.store)
    say_result(made, [f"{made['image']}: layer {made['layer'][:16]} upon {made['base']}"], as_json=options.json)
    return 0


def _fork(options: Values, kept: KeptBoxes) -> int:
    from husk.sandbox.kept.operations import fork

    made = fork(kept, options.name, check_name(options.new))
    say_result({"name": made.name, "from": options.name}, [made.name], as_json=options.json)
    return 0


def _drop(options: Values, kept: KeptBoxes) -> int:
    from husk.sandbox.kept.operations import drop

    for name in options.names:
        drop(kept, name)
    say_result({"dropped": options.names}, options.names, as_json=options.json)
    return 0


def own_box(name: str) -> str:
    """The box that is meant: without a name the one that the project's profile keeps."""
    if name:
        return name
    from husk.cli.profiles.find_profile import project_box
    from husk.cli.run_policy import project_file

    found = project_box(project_file())
    if not found:
        raise UsageError("NAME is missing, and no profile keeps a box here; `husk ps -a` lists boxes.")
    return found


def _command(row: Command, handler: Callable[[Values, KeptBoxes], int]) -> Callable[[list[str]], int]:
    """A command's main function: words to exit code."""
    return lambda words: run_command(row, words, lambda options: handler(options, KeptBoxes()))


ps = _command(PS, _ps)
diff = _command(DIFF, _diff)
log = _command(LOG, _log)
commit = _command(COMMIT, _commit)
fork = _command(FORK, _fork)
drop = _command(DROP, _drop)
