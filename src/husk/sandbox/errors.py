"""sandbox: what can go wrong before a guest runs, each as one sentence with the next step."""

from __future__ import annotations

import os

from husk.abi.text import shown


class HuskError(Exception):
    """husk itself cannot do it. `exit_code` is that of the command. `option` of `husk run` (its long name) and its
    `value`, if it is about one; others who ask have other words for it (husk.api.asker_words)."""

    exit_code = 125

    def __init__(self, sentence: str = "", *, option: str = "", value: str | None = None) -> None:
        self.sentence, self.option, self.value = sentence, option, value
        given = f"--{option}" if value is None else f"--{option} {value}"
        super().__init__(f"{given}: {sentence}" if option else sentence)

    def say(self, text: str) -> None:
        """Say it in other words."""
        self.args = (text,)


class UsageError(HuskError):
    """The person asked for something that makes no sense."""

    exit_code = 2


class NotFound(HuskError):
    """There is no such program in the box."""

    exit_code = 127


class NotExecutable(HuskError):
    """There is such a file in the box, and it cannot be executed."""

    exit_code = 126


class NoWorkdir(UsageError):
    """The directory to start in is not there, or is none. `errno` says which."""

    def __init__(self, sentence: str, workdir: str, errno: int) -> None:
        super().__init__(sentence, option="workdir", value=workdir)
        self.errno: int | None = errno


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
