"""`husk` where names lead where a test says: the first argument is a JSON object from name to addresses."""

from __future__ import annotations

import json
import sys

from husk.cli import main
from husk.kernel.net import egress

NAMES: dict[str, list[str]] = json.loads(sys.argv.pop(1))


def lookup(name: str) -> tuple[list[str], str]:
    if name not in NAMES:
        raise OSError(-2, "no such name")
    return NAMES[name], name


egress.host_lookup = lookup
sys.exit(main())
