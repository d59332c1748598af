"""compat/runtimes: the runtimes husk knows: a TOML file for each version, Linux by version, and husk itself.

Here: finding them by name. The data files beside this one name their sources; docs/howto/add-a-runtime-profile.md tells
how to add one.
"""

from __future__ import annotations

import os
import re
from difflib import get_close_matches
from pathlib import Path

from husk.abi.registry.rules import Walls
from husk.compat.runtimes.linux_surface import LISTED, linux_surface, version_of
from husk.compat.runtimes.own_surface import husk_surface
from husk.compat.surface import Surface, read_surface
from husk.sandbox.errors import UsageError

__all__ = ["ALL_WALLS", "BARE_WALLS", "find", "husk_surface", "names"]

FOLDER = Path(__file__).parent

# husk in its two settings: with every wall, and with `--no-namespaces`, where Landlock ABI 6 is the least it runs with.
ALL_WALLS = Walls(pid=True, net=True, mount=True, ipc=True, user=True, landlock=7, own_placeholders=True)
BARE_WALLS = Walls(landlock=6)
GENERATED = {"husk": ALL_WALLS, "husk-bare": BARE_WALLS}


def names() -> list[str]:
    """Every runtime, in order."""
    return [
        *sorted([*GENERATED, *(path.stem for path in FOLDER.glob("*.toml"))]),
        *(f"linux-{version}" for version in LISTED),
    ]


def find(name_or_path: str) -> Surface:
    """A runtime by its name; by the name without its version, which is the newest; by the beginning of its name if only
    one begins so; or by the path of a file."""
    if "/" in name_or_path or name_or_path.endswith(".toml"):
        return read_surface(name_or_path)
    known = names()
    if name_or_path in known or version_of(name_or_path):
        return _load(name_or_path)
    begins = [name for name in known if name_or_path and name.startswith(name_or_path)]
    if len(begins) == 1:
        return _load(begins[0])
    versions = [name for name in begins if re.match(r"-\d", name.removeprefix(name_or_path))]
    if versions:
        found = [_load(name) for name in versions]  # versions of Linux are in their own order
        return max(enumerate(found), key=lambda entry: (entry[1].date, entry[0]))[1]
    if begins:
        raise UsageError(f"{name_or_path!r} may be {' or '.join(begins)}; write more of the name.")
    near = get_close_matches(name_or_path, known, 2, 0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else "`husk runtimes ls` lists them."
    if os.path.exists(name_or_path):
        hint = f"for the file of that name write ./{name_or_path}."
    raise UsageError(f"there is no runtime {name_or_path!r}; {hint}")


def _load(name: str) -> Surface:
    if name in GENERATED:
        return husk_surface(GENERATED[name], name)
    version = version_of(name)
    if version:
        return linux_surface(version)
    return read_surface(FOLDER / f"{name}.toml")
