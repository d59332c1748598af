"""sandbox: what can be done with kept boxes: list, fork, commit, drop. Showing and applying changes have files of their
own (differences.py, apply.py)."""

from __future__ import annotations

import os
import time

from husk.sandbox.errors import UsageError
from husk.sandbox.kept.kept_boxes import Kept
from husk.sandbox.kept.record import Record
from husk.sandbox.state_dir import lock_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from husk.sandbox.ground import Ground


def listed(kept: Kept, *, all_of_them: bool) -> list[dict[str, Any]]:
    """Running boxes, and with `all_of_them` kept ones that do not run."""
    found = []
    for name in kept.names():
        running = kept.is_running(name)
        if not running and not all_of_them:
            continue
        record = kept.find(name)
        if record is not None or running:
            found.append(_told(kept, name, record, running=running))
    return found + _passing(kept, {box["pid"] for box in found})


def _told(kept: Kept, name: str, record: Record | None, *, running: bool) -> dict[str, Any]:
    import json

    told: dict[str, Any] = {"name": name, "state": "running" if running else "kept", "kept": record is not None}
    told["pid"], told["exit_code"] = None, None if record is None else record.exit_code
    told["argv"] = record.argv if record else []
    told["since_ns"] = record.changed_ns if record else 0
    told["image"] = record.image if record else ""
    told["bytes"], told["names"] = (record.bytes, record.names) if record else (0, 0)
    if running:
        try:
            with open(os.path.join(kept.path(name), "running"), "rb") as file:
                now = json.loads(file.read())
            told["pid"], told["since_ns"], told["argv"] = now["pid"], now["started_ns"], now["argv"]
            told["exit_code"] = None
        except (OSError, ValueError, KeyError):
            pass  # it ended just now, or is being applied
    return told


def _passing(kept: Kept, known: set[int | None]) -> list[dict[str, Any]]:
    """Boxes that run and will not be kept: their state directories are locked."""
    found = []
    for name in sorted(os.listdir(kept.place)):
        path = os.path.join(kept.place, name)
        if not name.startswith("box-"):
            continue
        fd = lock_directory(path, wait=False)
        if fd >= 0:
            os.close(fd)  # a leftover
            continue
        pid = int(name.split("-")[1])
        argv = _argv(pid)
        # One that is about to be kept has its state directory before it holds its name.
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
            }
        )
    return found


def _argv(pid: int) -> list[str] | None:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
    except OSError:
        return None


def fork(kept: Kept, name: str, new: str) -> Record:
    """A second box with the same content. Nothing is copied: layers are never written to, so both refer to them."""
    kept.create()
    with kept.sharing():
        record = kept.get(name)
        if kept.find(new) is not None:
            raise UsageError(f"there is a box {new!r} already; choose another name, or `husk drop {new}` first.")
        lock = kept.claim(new)
        try:
            if kept.find(new) is not None:
                raise UsageError(f"somebody has just made a box {new!r}; choose another name.")
            origin = record.id
            record.name, record.id, record.created_ns = new, os.urandom(16).hex(), time.time_ns()
            if record.manifests:
                from husk.sandbox.kept.image_hold import hold

                hold(kept, record, origin)
            # Not synced: a machine that dies in this moment may have the fork or not, but never half of it.
            kept.write(record, durable=False)
        except BaseException:
            kept.give_up(new)
            raise
        finally:
            os.close(lock)
    return record


def commit(kept: Kept, name: str, image: str, store: str = "") -> dict[str, Any]:
    """The changes as a new layer upon the image the box was started from; upon the host's own programs, a layer alone.
    Changes below mounts belong to their host directories, and are not part of it."""
    record = kept.get(name)
    if record.store and store and os.path.abspath(store) != record.store:
        raise UsageError(f"--store: the box {name!r} was started from the store at {record.store}; commit to that one.")
    return _commit(kept, record, image, store)


def _commit(kept: Kept, record: Record, image: str, store: str) -> dict[str, Any]:
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
        # One layer, whatever it came from: several would be laid together without what they hide of the host's.
        config.labels |= {BASE: HOST, OWNER: f"{record.owner[0]}:{record.owner[1]}"}
    with OpenBox(kept, record, whole=True) as box:
        place = Store.create(record.store or store or None)
        with place.writing() as writing:
            layer = layer_of(box.files.layers[0][1], writing)
            made = writing.set_image(image, [*below, layer], config)
    return {"image": image, "layer": layer, "layers": made.layers, "base": record.image or HOST, "store": place.place}


def commit_open(ground: Ground, image: str) -> str:
    """The same for a box that is open now: its changes so far. Guests that change something wait meanwhile."""
    from husk.sandbox.image_source import BASE, HOST, OWNER
    from husk.sandbox.kept.capture_layer import layer_of
    from husk.store import ImageConfig, Store
    from husk.store.images import check_name

    check_name(image)
    source, files = ground.source, ground.files
    if source is None:
        place, below, config = Store.create(ground.policy.store or None), [], ImageConfig()
        config.labels |= {BASE: HOST, OWNER: f"{files.creds.uid}:{files.creds.gid}"}
    elif source.on_host:
        # Its layer has to become one with the new one, and in the open box it is what the box began with.
        from husk.sandbox.kept.snapshot import take

        snapshot = take(ground, over=False)
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
