"""cli: print on stderr, in a few lines, what a run read, changed and was refused."""

from __future__ import annotations

import sys

from husk.cli.output import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.sandbox.result import Result

SYSTEM = ("/usr/", "/lib", "/bin/", "/sbin/", "/proc/", "/dev/", "/sys/", "/etc/ld.so")
MOST = 20


def show(result: Result) -> None:
    out = sys.stderr
    say("", f"husk: exit code {result.exit_code} after {result.seconds:.2f} s", file=out)
    if result.weakened:
        say(f"  weakened: {', '.join(result.weakened)}", file=out)
    for limit in result.limits:
        say(f"  {limit}{'; the box was ended' if limit.ended else ''}", file=out)
    own = [path for path in result.read if not path.startswith(SYSTEM)]
    _list("read", own, f"and {len(result.read) - len(own)} files of the system")
    _list("changed", [f"{path} ({change})" for change, path in result.changes], "")
    if result.written:
        _list("written on the host", result.written, "")
    _list("refused", [f"{item['what']}: {item['reason']}{_allow(item)}" for item in result.refusals], "")
    lost = [f"{count} {kind}" for kind, count in result.lost.items() if count]
    if lost:
        say(f"  not written down: {', '.join(lost)}", file=out)


def _allow(item: dict[str, object]) -> str:
    return f"; to allow it, {item['allow']}" if item.get("allow") else ""


def _list(title: str, lines: list[str], rest: str) -> None:
    say(f"  {title}:" + ("" if lines else " nothing"), file=sys.stderr)
    for line in lines[:MOST]:
        say(f"    {line}", file=sys.stderr)
    if len(lines) > MOST:
        say(f"    … and {len(lines) - MOST} more", file=sys.stderr)
    if rest:
        say(f"    {rest}", file=sys.stderr)
