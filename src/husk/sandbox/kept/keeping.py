"""sandbox: a run in a kept box — what an earlier one left is laid over its trees, and what is there at the end is kept.

Nothing of an earlier run is ever written to: a run that dies leaves the box as it was before it.
docs/design/010-snapshots.md argues why.
"""

from __future__ import annotations

import os
import time
from functools import partial

from husk.native._core import syncfs
from husk.sandbox.errors import HuskError, UsageError
from husk.sandbox.kept.kept_boxes import Holding, Kept
from husk.sandbox.kept.record import Record
from husk.sandbox.policy import Mount
from husk.sandbox.state_dir import is_there
from husk.vfs.layer.overlay import FrozenFiles, Overlay

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.native._core import HostStat
    from husk.sandbox.filesystem import Files
    from husk.sandbox.image_source import ImageSource
    from husk.sandbox.policy import Policy
    from husk.sandbox.result import Result
    from husk.sandbox.state_dir import StateDir
    from husk.store import Entry

CONTENT = ("layer", "layers", "trees", "owner", "number", "names", "bytes")  # of a record: what the box's files are


class Opened:
    """A kept box's record, and its trees once they are built. Whoever has one holds the box or `Kept.sharing`."""

    whole = False  # count the image's layer on the host's programs among the changes, too

    def __init__(self, kept: Kept, record: Record) -> None:
        self.kept, self.record = kept, record

    def prepare(self, policy: Policy) -> None:
        """The image and the mounts are the box's; all else is said anew for each run."""
        record = self.record
        if policy.image and policy.image != record.image:
            origin = f"the image {record.image!r}" if record.image else "the host's own programs"
            raise UsageError(f"--image: the box {record.name!r} was started from {origin}; choose another name.")
        policy.image, policy.store = record.image, record.store
        given = {mount.target: mount for mount in policy.mounts}
        for source, target, mode in record.mounts:
            mount = given.pop(target, None)
            if mount is not None and (mount.source, mount.mode) != (source, mode):
                raise UsageError(
                    f"--mount: the box {record.name!r} has {source}:{target}:{mode} already; choose another place."
                )
        of_box = [Mount(source, target, mode) for source, target, mode in record.mounts]
        for mount, (source, _, _) in zip(of_box, record.mounts, strict=True):
            if mount.source != source:  # a guest of another box can have put the link there
                raise UsageError(
                    f"the box {record.name!r} has {source} mounted, which leads to {mount.source} by now; remove the "
                    "symbolic link in it."
                )
            mount.check()
        policy.mounts = of_box + list(given.values())

    def lay_over(self, files: Files) -> None:
        from husk.store.manifest import Manifest
        from husk.store.store_errors import StoreError

        record = self.record
        if not record.layer:
            return
        uids, gids = {record.owner[0]: files.creds.uid}, {record.owner[1]: files.creds.gid}
        trees = dict(files.layers)
        for number, target in enumerate(record.trees):
            tree = trees.get(os.fsencode(target))
            path = os.path.join(self.kept.layer_path(record.layer), f"names-{number}")
            if tree is None:
                continue
            frozen = FrozenFiles(os.fsencode(self.kept.layers), tree.inodes)
            tree.lowers.insert(0, frozen)
            try:
                fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
                try:
                    names = Manifest.checked(fd)
                finally:
                    os.close(fd)
            except (FileNotFoundError, StoreError):  # a host in trouble is no reason to drop a box
                raise HuskError(f"the box {record.name!r} is damaged; `husk drop {record.name}` removes it.") from None
            Overlay(tree, names, partial(_content, frozen), uids=uids, gids=gids).lay()

    def seen(self, target: str) -> dict[bytes, HostStat]:
        from husk.sandbox.apply.baseline import unpack

        if target not in self.record.trees:
            return {}
        number = self.record.trees.index(target)
        try:
            with open(os.path.join(self.kept.layer_path(self.record.layer), f"seen-{number}"), "rb") as file:
                return unpack(file.read())
        except FileNotFoundError:
            return {}


class Keeping(Opened):
    """For one run, or as long as a box is open: holds it from before it starts until what was left is kept."""

    def __init__(self, policy: Policy, start: Record | None = None) -> None:
        """`start` is what a new box begins with: the record of a snapshot."""
        kept = Kept()
        self._lock = kept.claim(policy.keep)
        self._held: Holding | None = None  # layers that no record on disk names yet
        super().__init__(kept, Record(policy.keep))
        self.new = False
        try:
            kept.collect()
            found = kept.find(policy.keep)
            self.new = found is None
            if is_there(os.path.join(kept.path(policy.keep), "apply")):
                from husk.sandbox.apply.apply import recover

                recover(kept, policy.keep)
                found = kept.find(policy.keep)
            self.record = found or self.record
            if start is not None:
                self._begin_with(start)
            elif not self.new:
                self.prepare(policy)
            self._tell(policy)
        except BaseException:
            self.close()
            raise

    def _begin_with(self, start: Record) -> None:
        record = self.record
        if not self.new:
            raise UsageError(
                f"there is a box {record.name!r} already; choose another name, or `husk drop {record.name}` first."
            )
        for name in CONTENT:
            setattr(record, name, getattr(start, name))
        self._held = Holding(self.kept, record.layers)

    def close(self) -> None:
        self._let_go()
        self.kept.give_up(self.record.name)
        try:
            os.unlink(os.path.join(self.kept.path(self.record.name), "running"))
        except OSError:
            pass  # read only while the lock is held; a leftover harms nobody
        os.close(self._lock)

    def _tell(self, policy: Policy) -> None:
        import json

        told = {"pid": os.getpid(), "started_ns": time.time_ns(), "argv": policy.argv}
        with open(os.path.join(self.kept.path(self.record.name), "running"), "w") as file:
            file.write(json.dumps(told))

    def begin(self, policy: Policy, source: ImageSource | None) -> None:
        """The box is about to be built; what it is started from must last as long as it."""
        record = self.record
        if not self.new or record.created_ns:
            return
        record.created_ns = time.time_ns()
        record.mounts = [[mount.source, mount.target, mount.mode] for mount in policy.mounts]
        if source is not None:
            from husk.sandbox.kept.image_hold import hold

            record.image, record.store, record.flat = source.name, source.store.place, source.flat
            record.manifests, record.config = source.manifests, source.config.as_json()
            record.image_layers = source.layers
            hold(self.kept, record)

    def keep(self, state: StateDir, files: Files, policy: Policy, result: Result) -> None:
        try:
            self._keep(state, files, policy, result)
        except OSError as error:
            before = "nothing was kept" if self.new else "it is as it was before this run"
            raise HuskError(
                f"the box {self.record.name!r} cannot be kept ({error.strerror}); {before}. Make room and run it again."
            ) from None

    def _keep(self, state: StateDir, files: Files, policy: Policy, result: Result) -> None:
        from husk.sandbox.kept.freeze import settle

        record = self.record
        used = settle(state, files, self, record)
        record.mounts = [[mount.source, mount.target, mount.mode] for mount in policy.mounts]
        record.argv, record.exit_code, record.changed_ns = policy.argv, result.exit_code, time.time_ns()
        syncfs(files.vfs.state.files_fd)
        with self.kept.sharing():
            state.become(self.kept.layer_path(record.layer))
            try:
                self.kept.write(record, durable=True)
            except OSError as error:
                if self._is_recorded():
                    raise HuskError(
                        f"the box {record.name!r} is kept, but may not outlast a crash of the host ({error.strerror})."
                    ) from None
                state.stay(self.kept.layer_path(record.layer))  # on a full disk it is in the way of what comes next
                raise
        self._let_go()
        self.kept.collect(record, used)

    def _is_recorded(self) -> bool:
        """Is what we have what the disk says? Where that cannot be told, nothing that it may need is to go."""
        try:
            found = self.kept.find(self.record.name)
        except (OSError, HuskError):
            return True
        return found is not None and bool(found.layer) and found.layer == self.record.layer

    def settle(self, state: StateDir, files: Files) -> None:
        """What the box is now becomes what it goes on from, in a ground that is built anew; only `keep` makes it last.
        Others may start from the same (`Snapshot`)."""
        from husk.sandbox.kept.freeze import settle

        settle(state, files, self, self.record)
        with self.kept.sharing():
            state.become(self.kept.layer_path(self.record.layer), share=True)
            held, self._held = self._held, Holding(self.kept, self.record.layers)
        if held is not None:
            held.close()

    def record_now(self, argv: list[str], exit_code: int) -> None:
        """What was settled is the kept box from now on, whatever becomes of this husk."""
        record = self.record
        record.argv, record.exit_code, record.changed_ns = argv, exit_code, time.time_ns()
        layers = os.open(self.kept.layers, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            syncfs(layers)
        finally:
            os.close(layers)
        self.kept.write(record, durable=True)

    def read_again(self) -> None:
        """Somebody changed the record on disk on our behalf."""
        self.record = self.kept.get(self.record.name)

    def forget(self) -> None:
        """In a forked child, which must not hold the parent's box."""
        self._let_go()
        os.close(self._lock)

    def _let_go(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None


def _content(frozen: FrozenFiles, entry: Entry) -> tuple[FrozenFiles, bytes]:
    from husk.sandbox.kept.capture_layer import file_referred_to

    return frozen, file_referred_to(entry.blob)
