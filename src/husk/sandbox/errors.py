"""sandbox: what can go wrong before a guest runs, each as one sentence with the next step."""

from __future__ import annotations


class HuskError(Exception):
    """husk itself cannot do it. `exit_code` is what the command ends with."""

    exit_code = 125


class UsageError(HuskError):
    """The person asked for something that makes no sense."""

    exit_code = 2


class NotFound(HuskError):
    exit_code = 127


class NotExecutable(HuskError):
    exit_code = 126
