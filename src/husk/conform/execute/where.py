"""conform/execute: where programs run: natively, in husk, or behind the words of another runtime; and as which user.

Here: the value, and the command line that it makes of a unit's. Not here: starting it (one_unit.py).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from husk.compat.prefixes import Shown, show_paths, split_prefix
from husk.sandbox.errors import UsageError

NATIVE, HUSK, HUSK_BARE = "native", "husk", "husk-bare"
SETTINGS = {"walled": HUSK, "bare": HUSK_BARE}
IMAGE = "-image"  # ends the name of a husk whose boxes show an image, and whose guests may be root there


@dataclass(frozen=True)
class Where:
    """`runtime` names it in results, `words` go before each command. `user` runs the programs, and what starts them;
    empty: whoever runs husk. Plain values: it can be pickled."""

    runtime: str
    words: tuple[str, ...] = ()
    user: str = ""

    @property
    def is_native(self) -> bool:
        return not self.words

    @property
    def is_husk(self) -> bool:
        return self.runtime.removesuffix(IMAGE) in (HUSK, HUSK_BARE)

    def command(self, program: Sequence[str], shown: Shown) -> list[str]:
        """The whole command line for a program that is to find `shown`."""
        return [*show_paths("--under", self.words, shown), *program]


def native(user: str = "") -> Where:
    return Where(NATIVE, (), user)


def in_husk(setting: str = "walled", user: str = "", image: str = "") -> Where:
    """This very husk; `setting` is walled or bare."""
    beside = os.path.join(sys.prefix, "bin", "husk")
    start = [beside] if os.access(beside, os.X_OK) else [sys.executable, "-m", "husk.cli"]
    how = [*(["--no-namespaces"] if setting == "bare" else []), *(["--image", image] if image else [])]
    return Where(SETTINGS[setting] + (IMAGE if image else ""), (*start, "run", *how), user)


def behind(prefix: str, user: str = "") -> Where:
    """Behind the words of `prefix`, split as a shell would."""
    words = split_prefix("--under", prefix)
    if not words:
        raise UsageError("--under '': name husk, native, or the words that start another runtime.")
    return Where(os.path.basename(words[0]), tuple(words), user)


def where(under: str, setting: str = "walled", user: str = "", image: str = "") -> Where:
    """What `--under`, `--setting`, `--user` and `--image` ask for."""
    if under == HUSK:
        return in_husk(setting, user, image)
    if image:
        raise UsageError("--image is for boxes of husk; to another runtime its own words name an image.")
    return native(user) if under == NATIVE else behind(under, user)
