"""mcp: the state of a box's files at one moment, to go back to or to begin another box with.

An archive that a guest's own `tar` writes and unpacks: what a guest made of its files is read by guests only, and
nothing here has to trust it. It costs time and space for what the box changed, not for its image. Changes below an `rw`
mount are on the host and in no snapshot; nor is anything that runs.
"""

from __future__ import annotations

import tempfile
from typing import IO, TYPE_CHECKING

from husk.api.process import DEVNULL, PIPE
from husk.sandbox.errors import HuskError
from husk.sandbox.statedir import base

if TYPE_CHECKING:
    from husk.api.result import Result
    from husk.api.sandbox import Sandbox

_PACK = [
    *("tar", "--create", "--file=/proc/self/fd/1", "--directory=/", "--no-recursion", "--sparse", "--xattrs"),
    *("--null", "--verbatim-files-from", "--files-from=-"),
]
_UNPACK = [
    "tar",
    "--extract",
    "--file=-",
    "--directory=/",
    "--preserve-permissions",
    "--xattrs",
    "--delay-directory-restore",
]
_REMOVE = ["xargs", "-0", "-r", "rm", "-rf", "--"]


class Snapshot:
    """Closed by `close`, or with the process: the archive has no name on the host. It lies where boxes do, and is no
    larger than a file of the box may be."""

    def __init__(self, box: Sandbox) -> None:
        changes = box.diff()
        self.deleted = [change.path for change in changes if change.kind == "deleted"]
        self.count = len(changes)
        kept = [change.path for change in changes if change.kind != "deleted"]
        self._archive: IO[bytes] = tempfile.TemporaryFile(dir=base())  # noqa: SIM115 — outlives this
        try:
            if kept:
                names = "".join(f"{path.lstrip('/')}\0" for path in kept)
                _well(box.run(_PACK, input=_encoded(names), stdout=self._archive, stderr=PIPE), "be kept")
        except BaseException:
            self.close()
            raise
        self._empty = not kept

    def into(self, box: Sandbox) -> None:
        """Make the files of a fresh box, started the same way, what they were."""
        if self.deleted:
            names = "".join(f"{path}\0" for path in self.deleted)
            _well(box.run(_REMOVE, input=_encoded(names), stdout=DEVNULL, stderr=PIPE), "be restored")
        if not self._empty:
            with open(f"/proc/self/fd/{self._archive.fileno()}", "rb") as archive:  # an offset of its own
                _well(box.run(_UNPACK, stdin=archive, stdout=DEVNULL, stderr=PIPE), "be restored")

    def close(self) -> None:
        self._archive.close()


def _encoded(names: str) -> bytes:
    return names.encode("utf-8", "surrogateescape")


def _well(result: Result, what: str) -> None:
    if result.returncode:
        said = result.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or [result.explain()]
        raise HuskError(f"the files of the box could not {what}: {said[0]}")
