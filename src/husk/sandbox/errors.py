"""sandbox: what can go wrong before a guest runs, each as one sentence with the next step."""

from __future__ import annotations

import os

from husk.abi.text import shown


class HuskError(Exception):
    """husk itself cannot do it. `exit_code` is that of the command."""

    exit_code = 125


class UsageError(HuskError):
    """The person asked for something that makes no sense."""

    exit_code = 2


class NotFound(HuskError):
    exit_code = 127


class NotExecutable(HuskError):
    exit_code = 126


class NoNamespaces(HuskError):
    """The host does not give namespaces; a box without them is still possible."""


def missing(name: str, seen: str = "") -> HuskError:
    """The doctor's own sentence about a mechanism the box cannot do without."""
    from husk.sandbox.doctor.rows import BY_NAME

    return HuskError(BY_NAME[name].sentence() + (f" (Seen: {seen}.)" if seen else "") + " `husk doctor` tells more.")


def host_failure(error: OSError) -> str:
    """A full disk, no descriptors left: a failure of the host, told without a traceback."""
    what = f"{shown(os.fsencode(error.filename))}: " if isinstance(error.filename, str | bytes) else ""
    return f"the host fails husk: {what}{error.strerror or error}."
