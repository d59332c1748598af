"""skills: layers of packages: a directory that was filled once, inside a box, and is shown read-only ever after.

A layer's name is a hash of what was asked for, so the same wish finds it again without pip, npm or network. It appears
under its name in one step, whole: a killed installation leaves only a directory the next one removes.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import stat as st
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from husk.sandbox.errors import HuskError

LOCK_NAME = "packages.lock"


@dataclass
class Layer:
    """`content` is what is mounted; `lock` says in text what is in it, version by version, with hashes."""

    content: Path
    lock: Path
    cached: bool


def cache_base() -> Path:
    """HUSK_CACHE, else the user's cache directory. Only the caller may write there: it holds code that boxes run."""
    given = os.environ.get("HUSK_CACHE")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    base = Path(given or os.path.join(home, "husk")) / "layers"
    try:
        base.mkdir(parents=True, exist_ok=True)
        found = base.stat()
        if found.st_uid != os.geteuid() or st.S_IMODE(found.st_mode) & 0o022:
            raise HuskError(f"{base}: can be written by others; set HUSK_CACHE to a directory of yours.")
        return base.resolve()
    except OSError as error:
        raise HuskError(f"{base}: {error.strerror}; set HUSK_CACHE to a directory of yours.") from None


def layer(wish: dict[str, object], fill: Callable[[Path], str], *, pinned: str = "") -> Layer:
    """The layer for `wish`. `fill` is called, with an empty directory to fill, only when there is none yet; it returns
    the text of the lock. A layer whose lock is `pinned` will do too, whatever wish it was made for: it holds
    the same, to the byte."""
    base = cache_base()
    name = hashlib.sha256(json.dumps(wish, sort_keys=True).encode()).hexdigest()[:32]
    place = base / name
    with open(base / ".lock", "w") as lock:
        # One installation at a time: a second one for the same wish waits and finds the layer. The lock goes with us.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (place / LOCK_NAME).is_file():
            return Layer(place / "content", place / LOCK_NAME, cached=True)
        if pinned and (same := _with_lock(base, pinned, wish)):
            return Layer(same / "content", same / LOCK_NAME, cached=True)
        for left in base.glob("new-*"):
            shutil.rmtree(left, ignore_errors=True)
        staging = base / f"new-{name}"
        (staging / "content").mkdir(parents=True)
        try:
            text = fill(staging / "content")
            (staging / "wish.json").write_text(json.dumps(wish, sort_keys=True, indent=2) + "\n")
            (staging / LOCK_NAME).write_text(text)
            os.replace(staging, place)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    return Layer(place / "content", place / LOCK_NAME, cached=False)


def _with_lock(base: Path, pinned: str, wish: dict[str, object]) -> Path | None:
    """Hashes pin what was installed, but an installation also depends on the Python and the image it was made with."""
    for lock in base.glob(f"*/{LOCK_NAME}"):
        if lock.read_text() == pinned:
            made = json.loads((lock.parent / "wish.json").read_text())
            if all(made.get(name) == wish.get(name) for name in ("python", "image")):
                return lock.parent
    return None
