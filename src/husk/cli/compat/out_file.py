"""cli/compat: the file that `--out` names."""

from __future__ import annotations

from husk.sandbox.errors import UsageError


def write_text(path: str, text: str) -> None:
    """The person's own file: written over if it is there."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"--out {path}: {reason}; name a file that can be written.") from None
