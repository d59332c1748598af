"""Become an ordinary user, although husk may lie where only root can enter: in /root/.pyenv, for example.

The closed directory is covered, in a mount namespace of its own, by an open one that holds nothing but what is needed.
The files stay the same and keep their paths. The tests start single commands so (tests/lib/ordinary_user.py), and the
benchmark starts itself so, as a whole: what is measured does not pay for it.
"""

from __future__ import annotations

import sys
from pathlib import Path

NOBODY = 65534

# Arguments: the closed directory, what is needed below it, "--", the command. A second mount keeps the closed directory
# within reach while it is covered.
OPEN = """
closed=$1 aside=$(mktemp -d) && shift || exit 125
mount --rbind "$closed" "$aside" && mount -t tmpfs -o mode=755 none "$closed" || exit 125
while [ "$1" != -- ]; do
    mkdir -p "$1" && mount --rbind "$aside/${1#"$closed"/}" "$1" && shift || exit 125
done
umount -l "$aside" && rmdir "$aside" && shift && exec "$@"
"""


def _way_to(*places: Path) -> list[str]:
    """A command that makes these directories, and this Python, reachable for what follows it."""
    needed: dict[Path, list[str]] = {}
    for place in (*places, Path(sys.prefix), Path(sys.base_prefix)):
        if closed := _closed(place.resolve()):
            needed.setdefault(closed, []).append(str(place.resolve()))
    command: list[str] = []
    for closed, inside in needed.items():
        command += ["unshare", "--mount", "--", "sh", "-c", OPEN, "sh", str(closed), *inside, "--"]
    return command


def ordinary_user(*places: Path, uid: int = NOBODY) -> list[str]:
    """The start of a command that `uid` executes."""
    # setpriv itself keeps root's capabilities until it has executed something: hence env.
    drop = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--", "env"]
    return [*_way_to(*places), *drop]


def _closed(place: Path) -> Path | None:
    """The topmost directory on the way that others may not search; None: they can reach `place`."""
    way = [*reversed(place.parents), place]
    return next((folder for folder in way if not folder.stat().st_mode & 0o001), None)
