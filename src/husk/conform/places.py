"""conform: where runs and history are kept: HUSK_CONFORM, else the user's data directory."""

from __future__ import annotations

import os
from pathlib import Path

from husk.sandbox.errors import HuskError


def conform_directory() -> Path:
    """Made if it is missing. history.db lies here, and runs/NAME for each run that was begun."""
    given = os.environ.get("HUSK_CONFORM")
    data = os.environ.get("XDG_DATA_HOME", "")
    if not data.startswith("/"):  # the XDG specification: a relative one is to be ignored
        data = os.path.join(os.path.expanduser("~"), ".local", "share")
    place = Path(os.path.abspath(given) if given else os.path.join(data, "husk", "conform"))
    try:
        (place / "runs").mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise HuskError(f"{place}: {error.strerror}; set HUSK_CONFORM to a directory of yours.") from None
    return place
