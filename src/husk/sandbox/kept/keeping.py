"""sandbox: a box that is kept while it is open: lock it, start from what earlier runs left, keep what it is at the end.

No layer of an earlier run is ever written to: a run that is killed leaves the box as it was before.
docs/design/010-snapshots.md argues why.
"""

from __future__ import annotations

import os
import time

from husk.native._core import syncfs
from husk.sandbox.errors import HuskError, UsageError
from husk.sandbox.kept.box_content import FIELDS, BoxContent
from husk.sandbox.kept.kept_boxes import KeptBoxes, LayerLocks
from husk.sandbox.kept.record import Record
from husk.sandbox.kept.run_log import note_run
from husk.sandbox.locked_dir import is_there

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.sandbox.filesystem import Files
    from husk.sandbox.image_source import ImageSource
    from husk.sandbox.policy import Policy
    from husk.sandbox.result import Result
    from husk.sandbox.state_dir import StateDir


class Keeping(BoxContent):
    """For one run, or as long as a box is open: holds the box's lock from before the start until it is kept."""

    def __init__(self, policy: Policy, start: Record | None = None) -> None:
        """`start` is what a new box begins with: the record of a snapshot."""
        kept = KeptBoxes()
        self._lock = kept.claim(policy.keep)
        self._locks: LayerLocks | None = None  # on layers that no record on disk names yet
        super().__init__(kept, Record(policy.keep))
        self.new = False
        self._logs_runs = False
        try:
            kept.collect()
            found = kept.find(policy.keep)
            self.new = found is None
            if is_there(os.path.join(kept.path(policy.keep), "apply")):
                from husk.sandbox.kept.recover_apply import recover_apply

                recover_apply(kept, policy.keep)
                found = kept.find(policy.keep)
            self.record = found or self.record
            if start is not None:
                self._begin_with(start)
            elif not self.new:
                self.prepare(policy)
            self.note_running(policy)
        except BaseException:
            self.close()
            raise

    def _begin_with(self, start: Record) -> None:
        record = self.record
        if not self.new:
            raise UsageError(
                f"there is a box {record.name!r} already; choose another name, or `husk drop {record.name}` first."
            )
        for name in FIELDS:
            setattr(record, name, getattr(start, name))
        self._locks = LayerLocks(self.kept, record.layers)

    def close(self) -> None:
        self._unlock_layers()
        self.kept.give_up(self.record.name)
        try:
            os.unlink(os.path.join(self.kept.path(self.record.name), "running"))
        except OSError:
            pass  # it is read only while the lock is held, so a leftover does no harm
        os.close(self._lock)

    def note_running(self, policy: Policy, ports: list[tuple[str, int]] | None = None) -> None:
        """For `husk ps`. `ports`: of the host, each with the port of the box that it leads to."""
        import json

        from husk.store.layout import write_file

        running = {"pid": os.getpid(), "started_ns": time.time_ns(), "argv": policy.argv, "ports": ports or []}
        write_file(os.path.join(self.kept.path(self.record.name), "running"), json.dumps(running).encode())

    def begin(self, policy: Policy, source: ImageSource | None) -> None:
        """The box is about to be built. The store must keep its image as long as the box is kept."""
        record = self.record
        if not self.new or record.created_ns:
            return
        record.created_ns = time.time_ns()
        record.note_policy(policy)
        if source is not None:
            from husk.sandbox.kept.image_hold import hold_image

            record.image, record.store, record.flat = source.name, source.store.place, source.flat
            record.manifests, record.config = source.manifests, source.config.as_json()
            record.image_layers = source.layers
            hold_image(self.kept.path(record.name), record)

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
        record.note_policy(policy)
        record.argv, record.exit_code, record.changed_ns = policy.argv, result.exit_code, time.time_ns()
        syncfs(files.vfs.state.files_fd)
        with self.kept.without_collection():
            state.publish(self.kept.layer_path(record.layer))
            try:
                self.kept.write(record, durable=True)
            except OSError as error:
                if self._is_recorded():
                    raise HuskError(
                        f"the box {record.name!r} is kept, but may not outlast a crash of the host ({error.strerror})."
                    ) from None
                # On a full disk the layer would take the room that the next run needs.
                state.unpublish(self.kept.layer_path(record.layer))
                raise
        self._unlock_layers()
        self.kept.collect(record, used)
        try:
            if not self._logs_runs:
                note_run(self.kept.path(record.name), policy.argv, result)
        except OSError as error:
            raise HuskError(
                f"the box {record.name!r} is kept, but this run is not in its log ({error.strerror})."
            ) from None

    def log_run(self, argv: list[str], result: Result) -> None:
        """For a box with several runs: each is logged when it has ended, and none by `keep`."""
        self._logs_runs = True
        note_run(self.kept.path(self.record.name), argv, result)

    def _is_recorded(self) -> bool:
        """Does the record on disk name our layer? Yes if it cannot be read: then nothing it may need is removed."""
        try:
            found = self.kept.find(self.record.name)
        except (OSError, HuskError):
            return True
        return found is not None and bool(found.layer) and found.layer == self.record.layer

    def settle(self, state: StateDir, files: Files) -> None:
        """Freeze what the box is now. A box that is built anew starts from it, and snapshots may share it; only `keep`
        and `record_now` write it to the record on disk."""
        from husk.sandbox.kept.freeze import settle

        settle(state, files, self, self.record)
        with self.kept.without_collection():
            state.publish(self.kept.layer_path(self.record.layer), share=True)
            old, self._locks = self._locks, LayerLocks(self.kept, self.record.layers)
        if old is not None:
            old.close()

    def record_now(self, argv: list[str], exit_code: int) -> None:
        """Write what was settled to the record: it is the kept box even if this husk is killed."""
        record = self.record
        record.argv, record.exit_code, record.changed_ns = argv, exit_code, time.time_ns()
        layers = os.open(self.kept.layers, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            syncfs(layers)
        finally:
            os.close(layers)
        self.kept.write(record, durable=True)

    def read_again(self) -> None:
        """After the record on disk was changed for this box, by an apply."""
        self.record = self.kept.get(self.record.name)

    def forget(self) -> None:
        """In a forked child, which must not hold the lock of the parent's box."""
        self._unlock_layers()
        os.close(self._lock)

    def _unlock_layers(self) -> None:
        if self._locks is not None:
            self._locks.close()
            self._locks = None
