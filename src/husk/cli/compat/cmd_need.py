"""cli: `husk need`: run a program again and again, each time without one call, and say which calls it needs."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from husk.cli.exit_codes import INTERRUPTED, failed
from husk.cli.options.compat_options import NEED
from husk.cli.output import say, say_json
from husk.cli.run_policy import RunOptions
from husk.cluster.choose_workers import chosen_workers
from husk.compat.need.needs import baseline, listed, patience, try_all, try_together
from husk.compat.need.needs_file import (
    EITHER,
    FAKEABLE,
    MANNERS,
    REQUIRED,
    STUBBABLE,
    Needs,
    Target,
    attempt_line,
    head_line,
    read_needs,
    together_line,
)
from husk.compat.trace import run_traced
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from typing import TextIO

    from husk.sandbox.policy import Policy

FIRST_RUN_SECONDS = 600.0
WORDS = {
    REQUIRED: "required: without it the program fails",
    STUBBABLE: "stubbable: it may fail with ENOSYS",
    FAKEABLE: "fakeable: it may succeed and do nothing",
    EITHER: "either will do",
}


def main(words: list[str]) -> int:
    try:
        options = RunOptions(words, NEED)
        if options.help:
            from husk.cli.options.help_text import print_help

            return print_help("husk need", NEED)
        try:
            return _need(options)
        except KeyboardInterrupt:
            out = options.more.get("out", "")
            say(f"husk need: stopped{f'; the same command goes on from {out}' if out else ''}.", file=sys.stderr)
            return INTERRUPTED
    except Exception as error:
        return failed(NEED, words, error)


def _need(options: RunOptions) -> int:
    policy, more = options.policy, options.more
    if policy.keep or policy.emulation is not None:
        raise UsageError("husk need makes a box for each attempt: leave out --keep and --as.")
    if any(mount.mode == "rw" for mount in policy.mounts):
        say("husk need: an rw mount is changed by every attempt; with cow each one starts afresh.", file=sys.stderr)
    jobs, out, cluster = _count(more.get("jobs", "")), more.get("out", ""), more.get("cluster", "")
    known = _known(out, policy, more.get("test", ""))
    check, longest = baseline(policy, more.get("test", ""), policy.timeout or FIRST_RUN_SECONDS)
    seconds = policy.timeout or patience(longest)
    if known is None:
        census = run_traced(policy.argv, policy=policy, stdin=b"", keep=1, timeout=policy.timeout or FIRST_RUN_SECONDS)
        known = Needs(policy.argv, more.get("test", ""), os.path.basename(policy.argv[0]), listed(census))
    with open(out, "a", encoding="utf-8") if out else open(os.devnull, "w", encoding="utf-8") as file:
        tell = _Progress(file, sum(manner not in need.outcomes for need in known.needs for manner in MANNERS))
        if not file.tell():
            file.write(head_line(known))
        with chosen_workers(cluster, jobs, namespaces=policy.namespaces) as workers:
            try_all(policy, known, check, seconds, workers, tell, elsewhere=bool(cluster))
        if not known.together:
            known.together = try_together(policy, known, check, seconds)
            file.write(together_line(known.together))
    if options.json:
        say_json(_as_json(known, tell.tried))
    else:
        say(*_table(known))
    return 0


class _Progress:
    """Writes each attempt down as it ends, and counts on a terminal."""

    def __init__(self, file: TextIO, left: int) -> None:
        self._file, self._left, self.tried = file, left, 0

    def __call__(self, target: Target, manner: str, outcome: str) -> None:
        self.tried += 1
        self._file.write(attempt_line(target, manner, outcome))
        self._file.flush()
        if sys.stderr.isatty():
            end = "\r" if self.tried < self._left else "\n"
            say(f"{self.tried} of {self._left} attempts", end=end, file=sys.stderr)


def _known(out: str, policy: Policy, test: str) -> Needs | None:
    """What an earlier run left in the file."""
    if not out or not os.path.exists(out) or not os.path.getsize(out):
        return None
    known = read_needs(out)
    if (known.command, known.check) != (policy.argv, test):
        raise UsageError(f"{out} is about another command or another --test; give another --out.")
    # A last line that was cut off goes, so that the next one stands on its own.
    with open(out, "rb+") as file:
        content = file.read()
        file.truncate(content.rfind(b"\n") + 1)
    return known


def _count(text: str) -> int:
    if not text:
        return max(1, os.cpu_count() or 1)
    if not text.isdecimal() or not 0 < int(text) <= 64:
        raise UsageError(f"--jobs {text}: give a number from 1 to 64.")
    return int(text)


def _table(known: Needs) -> list[str]:
    lines = []
    for verdict, words in WORDS.items():
        found = known.of(verdict)
        if found:
            lines += [f"{words} ({len(found)})"]
            width = max(len(str(need.target)) for need in found)
            for need in found:
                reasons = sorted({outcome for outcome in need.outcomes.values() if outcome != "works"})
                lines.append(f"  {need.target!s:<{width}}  {', '.join(reasons)}".rstrip())
    lines.append(f"all that can be left out, left out together: {known.together}")
    return lines


def _as_json(known: Needs, tried: int) -> dict[str, object]:
    return {
        "command": known.command,
        "test": known.check,
        "needs": [
            {"what": str(need.target), "call": need.target.call, "count": need.count, "verdict": need.verdict,
             "outcomes": need.outcomes}
            for need in known.needs
        ],
        "together": known.together,
        "tried": tried,
    }  # fmt: skip
