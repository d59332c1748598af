"""compat: `husk` as the first word of a prefix means this husk, also where no shell would find it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence


def with_own_husk(words: Sequence[str]) -> list[str]:
    """The words, with the path of this husk's command where they begin with one that is not on the path."""
    beside = os.path.join(sys.prefix, "bin", "husk")
    if words and words[0] == "husk" and shutil.which("husk") is None and os.access(beside, os.X_OK):
        return [beside, *words[1:]]
    return list(words)
