"""cli: how another program starts this husk: by its full name, since its PATH may be another."""

from __future__ import annotations

import os
import sys


def own_command() -> list[str]:
    called = sys.argv[0]
    if os.path.basename(called) == "husk-python" and os.path.isabs(called):  # what `husk`, beside it, has become
        called = called.removesuffix("-python")
    if os.path.basename(called) == "husk" and os.path.isabs(called) and os.access(called, os.X_OK):
        return [called]
    beside = os.path.join(os.path.dirname(sys.executable), "husk")
    # -P: it is started in a project, where a stranger may have put a package of that name.
    return [beside] if os.access(beside, os.X_OK) else [sys.executable, "-P", "-m", "husk.cli"]
