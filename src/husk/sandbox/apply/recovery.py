"""sandbox: finish or undo an apply, even if husk was killed: the host directory is as before, or all is applied.

The box's directory says that an apply began: the file `apply` names the host directory and the staging directory. The
journal beside it says how far the apply got. docs/design/010-snapshots.md.
"""

from __future__ import annotations

import os
import stat as st

from husk.sandbox.apply.journal import DONE, JOURNAL, Journal
from husk.sandbox.errors import HuskError
from husk.vfs.host.host_file import open_top

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

POINTER = "apply"


class GoneBox:
    """What recovery tells the box that the changes came from. This one is gone with its husk: only the host directory
    has to be recovered."""

    def changes_applied(self, target: str, rest: dict[str, Any] | None) -> None:
        """The changes at `target` are the host's now; the box has none there but `rest` (fields of a record)."""

    def changes_undone(self, target: str, root: int, paths: list[bytes]) -> None:
        """These paths of the host directory were moved out and back, which changed their ctime."""


def recover(folder: str, box: GoneBox) -> str:
    """Undo or finish what a killed apply began: "undone", "finished", or empty. `folder`: the box's own directory,
    which the caller has locked."""
    import json

    pointer = os.path.join(folder, POINTER)
    with open(pointer, "rb") as file:
        found = json.loads(file.read() or b"{}")
    if found and _is_gone(found["source"]) and Journal(-1, "", folder).state():
        raise HuskError(
            f"an apply to {found['source']} was interrupted, and the directory is not there; bring it back, or remove "
            f"{pointer} to leave it as it is."
        )
    if not found or _is_gone(found["source"]):
        os.unlink(pointer)  # killed before it wrote where, or before it changed anything
        return ""
    root = open_host_directory(found["source"])
    journal = Journal(root, found["staging"], folder)
    try:
        return settle(pointer, box, journal, found)
    finally:
        journal.staging.close()
        os.close(root)


def settle(pointer: str, box: GoneBox, journal: Journal, begun: dict[str, Any]) -> str:
    """Undo or finish, then remove every trace. `begun`: what the pointer says; its `times` are those the host directory
    had before the apply."""
    target, times = begun["target"], begun["times"]
    outcome, state, staging = "", journal.state(), journal.staging
    there = staging.fd >= 0 or staging.open()
    if state and not journal.steps:  # whoever performed them knows them
        journal.read(state)
    if state == DONE:
        box.changes_applied(target, begun.get("rest"))
        outcome = "finished"
        now = [what["now"] for kind, at, what in journal.steps if kind == "meta" and not at]
        if now:
            times = [now[0]["atime"], now[0]["mtime"]]
    elif state == JOURNAL:
        if not there or not staging.enter():
            raise HuskError(
                f"an apply was interrupted, and {staging.name}, which has what it moved out of the host "
                f"directory, is not there; bring it back, or remove {pointer} to leave the directory as it is."
            )
        journal.undo()
        box.changes_undone(target, journal.root, [os.fsencode(path) for kind, path, _ in journal.steps if kind != "in"])
        outcome = "undone"
    # From here on there is nothing to do or undo. The journal goes first: if we are killed, it must not say otherwise.
    journal.forget()
    if there:
        try:
            staging.remove()
        except OSError as error:
            raise HuskError(
                f"{staging.name} in the host directory cannot be removed ({error.strerror}); what was to be "
                f"applied is {'there' if state == DONE else 'not there'}. Try again."
            ) from None
        # Making and removing the staging directory is no change that the host directory's times should show.
        os.utime(journal.root, ns=(times[0], times[1]))
    os.unlink(pointer)
    return outcome


def open_host_directory(source: str) -> int:
    try:
        top = open_top(os.fsencode(source))
        try:
            return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=top)
        finally:
            os.close(top)
    except OSError as error:
        raise HuskError(f"{source}: {error.strerror}; bring the directory back and try again.") from None


def _is_gone(directory: str) -> bool:
    try:
        return not st.S_ISDIR(os.stat(directory).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True  # with any other error the directory may be there, and what was begun must be recovered
