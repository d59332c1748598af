"""cli: `husk apply`: which changes, what the host says to them, and whether the person agrees. The work is in the
sandbox (`sandbox.apply`, `kept.apply_box`)."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from husk.cli.cmd_boxes import own_box
from husk.cli.exit_codes import run_command
from husk.cli.options.box_options import APPLY
from husk.cli.output import say, say_result
from husk.sandbox.apply.apply import kind_of, refuse, step_lines
from husk.sandbox.apply.apply_plan import shown
from husk.sandbox.apply.selected_steps import mount_for
from husk.sandbox.errors import UsageError
from husk.sandbox.kept.apply_box import apply_box, choose, plan_of
from husk.sandbox.kept.kept_boxes import KeptBoxes
from husk.sandbox.kept.open_box import OpenBox
from husk.sandbox.kept.recover_apply import recover_apply
from husk.sandbox.policy import read_rules

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values
    from husk.sandbox.apply.apply_plan import Clash, Plan


def main(words: list[str]) -> int:
    return run_command(APPLY, words, _apply)


def _apply(options: Values) -> int:
    if options.theirs and options.ours:
        raise UsageError("--theirs lets the box win and --ours the host; give one of them.")
    if options.interactive and (options.json or options.yes):
        raise UsageError(f"--interactive asks for each change; leave out {'--json' if options.json else '--yes'}.")
    if options.interactive and not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask on; give the paths to apply, and --yes.")
    kept, name = KeptBoxes(), own_box(options.name)
    kept.get(name)
    lock = kept.lock(name)
    try:
        outcome = recover_apply(kept, name)
        kept.collect()
        if outcome and not options.json:
            say(f"husk apply: an earlier apply was interrupted; it is {outcome} now.", file=sys.stderr)
        try:
            with OpenBox(kept, kept.get(name), rules=read_rules({"allow": options.allow})) as box:
                return _apply_open(options, box, outcome)
        finally:
            kept.collect()  # what stays in the box was written beside it, also if the apply failed then
    finally:
        os.close(lock)


def _apply_open(options: Values, box: OpenBox, outcome: str) -> int:
    source, target = mount_for(box.record.mounts, options.paths)
    plan = plan_of(box, target)
    prefer = "theirs" if options.theirs else "ours" if options.ours else ""
    conflicts = choose(box, source, target, plan, options.paths, prefer)
    if options.interactive:
        from husk.cli.write_back.ask_changes import ask_each

        conflicts = ask_each(box, source, target, plan, conflicts, dry_run=options.dry_run)
    steps = step_lines(plan)
    document = {
        "name": box.record.name,
        "mount": target,
        "directory": source,
        "steps": steps,
        "conflicts": [{"path": os.fsdecode(clash.path), "why": clash.why} for clash in conflicts],
        "left": sum(1 for step in plan.left if kind_of(step)),
        "applied": False,
        "notes": plan.notes,
        "recovered": outcome,
    }
    lines = _lines(plan, steps, conflicts)
    if not plan.steps or options.dry_run:
        say_result(document, lines or [f"nothing to apply below {target}"], as_json=options.json)
        return 0
    if not options.json and not options.interactive:
        say_result(document, lines, as_json=False)
    refuse(conflicts)
    if not options.yes and not options.interactive:
        if options.json:
            raise UsageError("with --json nothing is asked; look with --dry-run, then say --yes.")
        _ask(source, len(steps))
    apply_box(box, source, target, plan)
    document["applied"] = True
    say_result(document, _told(source, document), as_json=options.json)
    return 0


def _lines(plan: Plan, steps: list[str], conflicts: list[Clash]) -> list[str]:
    lines = steps + [f"note: {note}" for note in plan.notes]
    lines += [f"conflict {clash}" for clash in conflicts]
    if conflicts:
        lines.append("--theirs takes the box's version of these, --ours leaves the host's and applies the rest")
    return lines


def _told(source: str, document: dict[str, Any]) -> list[str]:
    left = document["left"]
    stay = f"; {left} change{'' if left == 1 else 's'} stay{'s' if left == 1 else ''} in the box" if left else ""
    return [f"applied to {shown(os.fsencode(source))}{stay}"]


def _ask(source: str, steps: int) -> None:
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask on; look with --dry-run, then say --yes.")
    what = "this change" if steps == 1 else f"these {steps} changes"
    say(f"Write {what} to {shown(os.fsencode(source))}? [y/N] ", end="")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was applied.")
