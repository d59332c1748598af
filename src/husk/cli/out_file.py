"""cli: a file that an option names to be written."""

from __future__ import annotations

from husk.sandbox.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


def write_text(path: str | Path, text: str, option: str = "--out") -> None:
    """The person's own file: written over if it is there."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"), option)


def write_bytes(path: str | Path, content: bytes, option: str = "--out") -> None:
    try:
        with open(path, "wb") as file:
            file.write(content)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{option} {path}: {reason}; name a file that can be written.") from None
