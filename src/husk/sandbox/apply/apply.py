"""sandbox: `husk apply` — a box's changes below a cow mount, written back to the host directory.

The order: say in the box's directory (a kept one's own, else that of the state it lives in) that an apply begins
(`apply`), stage everything new, look whether the host still
agrees, write the journal, rename, forget the changes in the box. Killed anywhere, `recover` brings the host directory
to what it was before, or finds all done and forgets. docs/design/010-snapshots.md.
"""

from __future__ import annotations

import os
import stat as st

from husk.sandbox.apply.apply_plan import MOST_TOLD, Conflict, Plan, lstat, shown
from husk.sandbox.apply.baseline import pack
from husk.sandbox.apply.journal import DONE, JOURNAL, Journal
from husk.sandbox.apply.stage_changes import Staging
from husk.sandbox.apply.staging_dir import PREFIX
from husk.sandbox.errors import HuskError, UsageError
from husk.sandbox.kept.keeping import Opened
from husk.sandbox.kept.open_box import OpenBox
from husk.sandbox.state_dir import is_there
from husk.store.layout import write_all
from husk.vfs.host.host_file import open_top
from husk.vfs.layer.delta import identity_of, stat_of
from husk.vfs.layer.inodes import LayerDir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.sandbox.apply.apply_plan import Step
    from husk.sandbox.kept.kept_boxes import Kept
    from husk.vfs.layer.delta import Change

POINTER = "apply"


def mount_of(mounts: list[list[str]], wanted: str) -> tuple[str, str]:
    """(source, target) of the cow mount that is meant, of all mounts of a box (source, target, mode)."""
    cow = [(source, target) for source, target, mode in mounts if mode == "cow"]
    found = [(source, target) for source, target in cow if os.path.isdir(source)]
    if wanted:
        meant = wanted.rstrip("/"), os.path.realpath(wanted)
        found = [(source, target) for source, target in found if target == meant[0] or source in meant]
    if len(found) == 1:
        return found[0]
    has = ", ".join(target for _, target in cow) or "none"
    if not found:
        where = f"no cow mount at {wanted}" if wanted else "no directory mounted cow"
        raise UsageError(f"the box has {where} (it has {has}); mount one as SRC:DST:cow.")
    raise UsageError(f"the box has several cow mounts; say which: {has}.")


def plan_of(box: OpenBox, target: str) -> Plan:
    for at, tree in box.files.layers:
        if at == os.fsencode(target):
            return Plan(tree, box.seen(target))
    raise HuskError(f"the box {box.record.name!r} is damaged: it has no tree at {target}; `husk drop` it.")


def apply(box: OpenBox, source: str, target: str, plan: Plan) -> None:
    """The caller holds the box's lock."""
    import json

    root = _root(source)
    journal = Journal(root, PREFIX + os.urandom(8).hex(), box.folder)
    pointer = os.path.join(box.folder, POINTER)
    try:
        _refuse(plan.conflicts(root))
        found = os.fstat(root)
        times = [found.st_atime_ns, found.st_mtime_ns]
        told = {"source": source, "target": target, "staging": journal.place.name, "times": times}
        journal.forget()  # of one that was given up by hand
        _write(pointer, json.dumps(told).encode())
        try:
            journal.place.create()
            journal.steps = Staging(journal, plan, root).steps
            _refuse(plan.conflicts(root))
            journal.write()

            def check(now: bytes, path: bytes) -> None:
                _refuse(list(plan.changed_below(root, now, path, moved=True)))

            journal.perform(check)
        except (OSError, HuskError) as error:
            _settle(pointer, box, journal, target, times)
            if isinstance(error, HuskError):
                raise
            raise HuskError(f"{source} cannot be written ({error.strerror}); nothing was applied.") from None
        _settle(pointer, box, journal, target, times)
    finally:
        journal.place.close()
        os.close(root)


def recover(kept: Kept, name: str) -> str:
    """Undo or finish what a killed apply began: "undone", "finished", or empty. The caller holds the box's lock."""
    pointer = os.path.join(kept.path(name), POINTER)
    if not is_there(pointer):
        return ""
    try:
        box: Opened | None = Opened(kept, kept.get(name))
    except HuskError:
        box = None  # a record that cannot be read is no reason to leave the host directory half done
    return _recover(pointer, box)


def recover_left(folder: str) -> None:
    """The same for the directory of a box that is gone with its husk: only the host directory is left to put right."""
    _recover(os.path.join(folder, POINTER), None)


def _recover(pointer: str, box: Opened | None) -> str:
    import json

    with open(pointer, "rb") as file:
        found = json.loads(file.read() or b"{}")
    folder = os.path.dirname(pointer)
    if found and _is_gone(found["source"]) and Journal(-1, "", folder).state():
        raise HuskError(
            f"an apply to {found['source']} was interrupted, and the directory is not there; bring it back, or remove "
            f"{pointer} to leave it as it is."
        )
    if not found or _is_gone(found["source"]):
        os.unlink(pointer)  # killed before it said where, or before it changed anything
        return ""
    root = _root(found["source"])
    journal = Journal(root, found["staging"], folder)
    try:
        return _settle(pointer, box, journal, found["target"], found["times"])
    finally:
        journal.place.close()
        os.close(root)


def _is_gone(directory: str) -> bool:
    try:
        return not st.S_ISDIR(os.stat(directory).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True  # any other failure is the host's, and what was begun there still has to be put right


def _settle(pointer: str, box: Opened | None, journal: Journal, target: str, times: list[int]) -> str:
    """Before or after, nothing between; then nothing of it is left. `times` are the host directory's from before."""
    outcome, state = "", journal.state()
    there = journal.place.fd >= 0 or journal.place.open()
    if state:
        journal.read(state)
    if state == DONE:
        if box is not None and box.record.name:
            _forget(box.kept, box.record.name, target)
        outcome = "finished"
        now = [what["now"] for kind, at, what in journal.steps if kind == "meta" and not at]
        if now:
            times = [now[0]["atime"], now[0]["mtime"]]
    elif state == JOURNAL:
        if not there or not journal.place.enter():
            raise HuskError(
                f"an apply was interrupted, and {journal.place.name}, which has what it moved out of the host "
                f"directory, is not there; bring it back, or remove {pointer} to leave the directory as it is."
            )
        journal.undo()
        if box is not None:
            _see_again(box, target, journal)
        outcome = "undone"
    # From here on there is nothing to do or undo, so nothing may say so if we are killed.
    journal.forget()
    if there:
        try:
            journal.place.remove()
        except OSError as error:
            raise HuskError(
                f"{journal.place.name} in the host directory cannot be removed ({error.strerror}); what was to be "
                f"applied is {'there' if state == DONE else 'not there'}. Try again."
            ) from None
        # That the staging directory came and went is no change of anybody's.
        os.utime(journal.root, ns=(times[0], times[1]))
    os.unlink(pointer)
    return outcome


def _see_again(box: Opened, target: str, journal: Journal) -> None:
    """Moved out and back, a file has a new time of change, which is our doing and no conflict."""
    seen = box.seen(target)
    for kind, text, _ in journal.steps:
        path = os.fsencode(text)
        now, then = lstat(journal.root, path), seen.get(path)
        if kind != "in" and now is not None and then is not None and identity_of(now)[:5] == identity_of(then)[:5]:
            seen[path] = now
    if seen:
        place = os.path.join(box.kept.layer_path(box.record.layer), f"seen-{box.record.trees.index(target)}")
        _write(place + ".new", pack(seen))
        os.rename(place + ".new", place)


def _forget(kept: Kept, name: str, target: str) -> None:
    """The changes are the host's now; the box has none there."""
    record = kept.get(name)
    record.trees = ["" if tree == target else tree for tree in record.trees]
    kept.write(record, durable=True)


def _root(source: str) -> int:
    try:
        top = open_top(os.fsencode(source))
        try:
            return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=top)
        finally:
            os.close(top)
    except OSError as error:
        raise HuskError(f"{source}: {error.strerror}; bring the directory back and try again.") from None


def _refuse(conflicts: list[str]) -> None:
    if conflicts:
        more = f"; and {len(conflicts) - MOST_TOLD} more" if len(conflicts) > MOST_TOLD else ""
        told = "; ".join(conflicts[:MOST_TOLD])
        raise Conflict(f"the host has changed what the box changed, so nothing was applied: {told}{more}.")


def _write(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        write_all(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)


def _is_told(change: Change) -> bool:
    """The time of a directory follows from what is in it."""
    if not isinstance(change.node, LayerDir) or change.was is None:
        return True
    return stat_of(change).mode != change.was.stat.mode or bool(change.node.xattrs)


def kind_of(step: Step) -> str:
    """What a step does to its name; empty: nothing worth telling."""
    if step.meta:
        return "metadata" if step.new is not None and _is_told(step.new) else ""
    if step.new is None:
        return "deleted"
    return "changed" if step.out else "added"


WORDS = {"added": "add", "changed": "replace", "deleted": "delete", "metadata": "metadata"}


def told(plan: Plan) -> list[str]:
    """The steps, for a person."""
    lines = []
    for step in plan.steps:
        kind = kind_of(step)
        if kind:
            count = f" ({len(step.inside)} below it)" if step.inside else ""
            lines.append(f"{WORDS[kind]:9}{shown(step.path)}{count}")
    return lines
