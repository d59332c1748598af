"""cli/conform: `husk conform uses`: measure which calls interpreters and skills make."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from husk.cli.conform.conform_inputs import USES, kept_file
from husk.cli.output import say, say_result
from husk.conform.matrix.measure_uses import measure_uses
from husk.conform.matrix.uses_file import FAILS, Use, Uses, read_uses, write_uses

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values


def main(options: Values) -> int:
    out = kept_file(options.out, USES)
    known = Uses() if options.fresh or not out.exists() else read_uses(out)

    def told(use: Use, old: bool) -> None:
        if not options.quiet and not options.json:
            say(f"{use.name}: {use.outcome}{', as measured before' if old else ''}", file=sys.stderr)

    today = time.strftime("%Y-%m-%d", time.gmtime())
    uses = measure_uses(
        [Path(name) for name in options.skills], known, today, namespaces=options.setting == "walled", told=told
    )
    write_uses(uses, out)
    lines = [f"{one.kind} {one.name}: {one.outcome}{f': {one.why}' if one.why else ''}" for one in uses.uses if one.why]
    calls = {call for one in uses.uses for call in one.calls}
    lines.append(f"{len(uses.uses)} interpreters and skills make {len(calls)} different calls: {out}")
    say_result({"out": str(out), **asdict(uses)}, lines, as_json=options.json)
    return 1 if any(one.outcome == FAILS for one in uses.uses) else 0
