"""sandbox: what people do with kept boxes: list, fork, commit, drop. Not here: showing changes (`diff`) and applying
them (`apply_box`)."""

from __future__ import annotations

import os
import time

from husk.sandbox.errors import HuskError, UsageError
from husk.sandbox.kept.kept_boxes import KeptBoxes
from husk.sandbox.kept.record import Record
from husk.sandbox.locked_dir import is_there, lock_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from husk.sandbox.box import Box


def list_boxes(kept: KeptBoxes, *, including_stopped: bool) -> list[dict[str, Any]]:
    """Running boxes, and with `including_stopped` kept boxes that do not run."""
    found = []
    for name in kept.names():
        running = kept.is_running(name)
        if not running and not including_stopped:
            continue
        record = kept.find(name)
        if record is not None or running:
            found.append(_row(kept, name, record, running=running))
    return found + _not_kept(kept, {box["pid"] for box in found})


def _row(kept: KeptBoxes, name: str, record: Record | None, *, running: bool) -> dict[str, Any]:
    import json

    row: dict[str, Any] = {"name": name, "state": "running" if running else "kept", "kept": record is not None}
    row["ports"] = []
    row["pid"], row["exit_code"] = None, None if record is None else record.exit_code
    row["argv"] = record.argv if record else []
    row["since_ns"] = record.changed_ns if record else 0
    row["image"] = record.image if record else ""
    row["bytes"], row["names"] = (record.bytes, record.names) if record else (0, 0)
    if running:
        try:
            with open(os.path.join(kept.path(name), "running"), "rb") as file:
                now = json.loads(file.read())
            row["pid"], row["since_ns"], row["argv"] = now["pid"], now["started_ns"], now["argv"]
            row["exit_code"], row["ports"] = None, now.get("ports", [])
        except (OSError, ValueError, KeyError):
            pass  # it ended just now, or an apply holds the lock
    return row


def _not_kept(kept: KeptBoxes, known: set[int | None]) -> list[dict[str, Any]]:
    """Boxes that run and will not be kept: their state directories are locked."""
    found = []
    for name in sorted(os.listdir(kept.parent)):
        path = os.path.join(kept.parent, name)
        if not name.startswith("box-"):
            continue
        fd = lock_directory(path, wait=False)
        if fd >= 0:
            os.close(fd)  # a leftover
            continue
        pid = int(name.split("-")[1])
        argv = _argv(pid)
        # A box that will be kept has its state directory before it holds its name.
        if argv is None or pid == os.getpid() or pid in known or any(word.startswith("--keep") for word in argv):
            continue
        try:
            since = os.stat(path).st_ctime_ns
        except FileNotFoundError:
            continue
        program = argv[argv.index("--") + 1 :] if "--" in argv else argv
        found.append(
            {
                "name": name,
                "state": "running",
                "kept": False,
                "pid": pid,
                "exit_code": None,
                "argv": program,
                "since_ns": since,
                "image": "",
                "bytes": 0,
                "names": 0,
                "ports": [],
            }
        )
    return found


def _argv(pid: int) -> list[str] | None:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
    except OSError:
        return None


def fork(kept: KeptBoxes, name: str, new: str) -> Record:
    """A second box with the same content. Nothing is copied: layers are never written to, so both refer to them."""
    kept.create()
    with kept.without_collection():
        record = kept.get(name)
        if kept.find(new) is not None:
            raise UsageError(f"there is a box {new!r} already; choose another name, or `husk drop {new}` first.")
        lock = kept.claim(new)
        try:
            if kept.find(new) is not None:
                raise UsageError(f"another husk has just made a box {new!r}; choose another name.")
            origin = record.id
            record.name, record.id, record.created_ns = new, os.urandom(16).hex(), time.time_ns()
            if record.manifests:
                from husk.sandbox.kept.image_hold import hold_image

                hold_image(kept.path(new), record, origin)
            # Not synced: after a crash of the host the fork is there or not, but never half of it.
            kept.write(record, durable=False)
        except BaseException:
            kept.give_up(new)
            raise
        finally:
            os.close(lock)
    return record


def commit(kept: KeptBoxes, name: str, image: str, store: str = "") -> dict[str, Any]:
    """Commit the changes as a new layer upon the image the box was started from, or as a layer alone if it was started
    from the host's own programs. Changes below mounts belong to their host directories, and are not part of it."""
    record = kept.get(name)
    if record.store and store and os.path.abspath(store) != record.store:
        raise UsageError(
            f"the box {name!r} was started from the store at {record.store}; commit to that one.", option="store"
        )
    return _commit(kept, record, image, store)


def _commit(kept: KeptBoxes, record: Record, image: str, store: str) -> dict[str, Any]:
    from husk.sandbox.image_source import BASE, HOST, OWNER
    from husk.sandbox.kept.capture_layer import layer_of
    from husk.sandbox.kept.open_box import OpenBox
    from husk.store import ImageConfig, Store
    from husk.store.images import check_name

    check_name(image)
    config = ImageConfig(**record.config) if record.config else ImageConfig()
    on_host = not record.image or config.labels.get(BASE) == HOST
    below = [] if on_host else record.image_layers
    if on_host:
        # One layer in any case: flattening several would lose which of the host's names they hide.
        config.labels |= {BASE: HOST, OWNER: f"{record.owner[0]}:{record.owner[1]}"}
    with OpenBox(kept, record, whole=True) as box:
        place = Store.create(record.store or store or None)
        with place.writing() as writing:
            layer = layer_of(box.files.layers[0][1], writing)
            made = writing.set_image(image, [*below, layer], config)
    return {"image": image, "layer": layer, "layers": made.layers, "base": record.image or HOST, "store": place.place}


def commit_open(box: Box, image: str) -> str:
    """Commit the changes so far of a box that is open now. Guests that change something wait meanwhile."""
    from husk.sandbox.image_source import BASE, HOST, OWNER
    from husk.sandbox.kept.capture_layer import layer_of
    from husk.store import ImageConfig, Store
    from husk.store.images import check_name

    check_name(image)
    source, files = box.source, box.files
    if source is None:
        place, below, config = Store.create(box.policy.store or None), [], ImageConfig()
        config.labels |= {BASE: HOST, OWNER: f"{files.creds.uid}:{files.creds.gid}"}
    elif source.on_host:
        # The image's layer and the new one have to become one, but in the open box the former is what it began with.
        from husk.sandbox.kept.take_snapshot import take_snapshot

        snapshot = take_snapshot(box, over=False)
        try:
            return str(_commit(snapshot.kept, snapshot.record, image, "")["layer"])
        finally:
            snapshot.close()
    else:
        place, below, config = source.store, source.layers, source.config
    with files.vfs.lock, place.writing() as writing:
        layer = layer_of(files.layers[0][1], writing)
        writing.set_image(image, [*below, layer], config)
    return layer


def drop(kept: KeptBoxes, name: str) -> Record | None:
    """Remove a box, but not the layers it shares with others. None: its record could not be read."""
    if not os.path.isdir(kept.path(name)):
        kept.get(name)
    fd = kept.lock(name)
    try:
        try:
            record = kept.find(name)
        except HuskError:
            record = None  # damaged, which is a reason to drop it
        if is_there(os.path.join(kept.path(name), "apply")):
            from husk.sandbox.kept.recover_apply import recover_apply

            recover_apply(kept, name)
        kept.retire(name)
    finally:
        os.close(fd)
    kept.collect()
    return record


def waits_of(name: str) -> list[dict[str, Any]]:
    """The calls that a running box waits in, the longest first."""
    from husk.sandbox.kept.ask_box import ask

    kept = KeptBoxes()
    if not kept.is_running(name):
        kept.get(name)  # says so if there is none
        raise UsageError(f"the box {name!r} does not run; `husk run --keep {name}` runs a program in it.")
    try:
        answers = ask(kept.path(name))
    except TimeoutError:
        raise HuskError(f"the husk that runs the box {name!r} does not answer; `husk ps` has its pid.") from None
    return sorted((wait for answer in answers for wait in answer), key=lambda wait: -wait["seconds"])
