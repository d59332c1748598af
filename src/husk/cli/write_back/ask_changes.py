"""cli: `husk apply --interactive`: show each change and ask whether it goes to the host."""

from __future__ import annotations

import difflib
import os
import sys
from typing import TYPE_CHECKING

from husk.cli.output import say
from husk.sandbox.apply.apply import WORDS, kind_of, step_name
from husk.sandbox.apply.apply_plan import shown
from husk.sandbox.apply.both_changed import accept_host, host_content
from husk.sandbox.apply.recovery import open_host_directory
from husk.sandbox.apply.selected_steps import is_within, select
from husk.sandbox.errors import UsageError
from husk.sandbox.kept.diff import differences

if TYPE_CHECKING:
    from collections.abc import Iterator

    from husk.sandbox.apply.apply_plan import Clash, Plan, Step
    from husk.sandbox.kept.diff import Difference
    from husk.sandbox.kept.open_box import OpenBox

HELP = (
    "y  apply this change",
    "n  leave it in the box",
    "d  show the changed lines",
    "a  apply this one and all that follow, but conflicts",
    "q  leave this one and all that follow in the box; apply what was chosen",
    "^C ends it, and nothing is applied",
)


def ask_each(
    box: OpenBox, source: str, target: str, plan: Plan, conflicts: list[Clash], *, dry_run: bool
) -> list[Clash]:
    """Leaves the steps in the plan that were chosen; returns the conflicts that nobody was asked about."""
    root = open_host_directory(source)
    try:
        asked = _Asked(box, target, root, plan, conflicts)
        select(plan, lambda step: step if asked.wants(step) else None)
        if not any(kind_of(step) for step in plan.steps):
            plan.left, plan.steps = plan.left + plan.steps, []
        return [] if dry_run or not plan.steps else plan.conflicts(root)
    finally:
        os.close(root)


class _Asked:
    """One question for each step that is worth showing; the others follow (`select`)."""

    def __init__(self, box: OpenBox, target: str, root: int, plan: Plan, conflicts: list[Clash]) -> None:
        self._box, self._root, self._plan = box, root, plan
        self._target = os.fsencode(target)
        self._conflicts = {id(clash.step): clash for clash in conflicts}
        self._for_all = ""
        self._differences: list[Difference] | None = None

    def wants(self, step: Step) -> bool:
        kind, clash = kind_of(step), self._conflicts.get(id(step))
        if not kind:
            return False
        if self._for_all == "q" or (self._for_all == "a" and clash is not None):
            return False
        if self._for_all == "a":
            return True
        say(f"{WORDS[kind]:9}{step_name(step)}")
        if clash is not None:
            say(f"conflict {clash}; y takes the box's version, n leaves the host's")
        while True:
            say("Apply this change? [y,n,d,a,q,?] ", end="")
            line = sys.stdin.readline()
            if not line:
                raise UsageError("the input ended; nothing was applied.")
            answer = line.strip().lower()[:1]
            if answer == "d":
                self._show(step)
            elif answer in ("a", "q"):
                self._for_all = answer
                return answer == "a" and clash is None
            elif answer == "y":
                if clash is not None:
                    accept_host(self._plan, step, self._root)
                return True
            elif answer == "n":
                return False
            else:
                say(*HELP)

    def _show(self, step: Step) -> None:
        lines = list(self._merged(step) if step.merged is not None else self._patch(step))
        # A terminal shows it, so nothing that a guest wrote may control the terminal.
        say(*(shown(line.rstrip("\n").replace("\t", "    ").encode(errors="surrogateescape")) for line in lines))

    def _patch(self, step: Step) -> Iterator[str]:
        if self._differences is None:
            self._differences = differences(self._box.files)
        top = self._target.rstrip(b"/") + b"/" + step.path
        for one in self._differences:
            if is_within(one.path, top):
                lines = list(one.patch())
                yield from lines or [f"{one.change} {os.fsdecode(one.path)}"]

    def _merged(self, step: Step) -> Iterator[str]:
        name = os.fsdecode(step.path)
        before = host_content(self._root, step.path).decode("utf-8", "surrogateescape")
        after = (step.merged or b"").decode("utf-8", "surrogateescape")
        return difflib.unified_diff(
            before.splitlines(keepends=True), after.splitlines(keepends=True), f"host/{name}", f"merged/{name}"
        )
