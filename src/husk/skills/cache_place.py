"""skills: directories of husk's own in the user's cache: for packages on their way to the store, for journals."""

from __future__ import annotations

import os
from pathlib import Path

from husk.sandbox.errors import HuskError


def cache_place(name: str) -> Path:
    """The directory `name` in HUSK_CACHE, else in the user's cache directory; made if it is not there."""
    given = os.environ.get("HUSK_CACHE")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    base = Path(given or os.path.join(home, "husk")) / name
    try:
        base.mkdir(parents=True, exist_ok=True)
        found = base.stat()
        if found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise HuskError(f"{base}: can be written by others; set HUSK_CACHE to a directory of yours.")
        return base.resolve()
    except OSError as error:
        raise HuskError(f"{base}: {error.strerror}; set HUSK_CACHE to a directory of yours.") from None
