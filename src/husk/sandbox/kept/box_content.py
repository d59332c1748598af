"""sandbox: what a box begins with beyond its image: the record of a kept box or snapshot, and its layers on disk.

Not here: the box's own state (`sandbox`), and how a layer comes to be (`freeze`).
"""

from __future__ import annotations

import os
from functools import partial

from husk.sandbox.errors import HuskError, UsageError
from husk.sandbox.policy import Mount
from husk.vfs.layer.overlay import FrozenFiles, Overlay

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.sandbox.apply.baseline import Baseline
    from husk.sandbox.apply.originals import Originals
    from husk.sandbox.kept.kept_boxes import KeptBoxes
    from husk.sandbox.kept.record import Record
    from husk.sandbox.policy import Policy
    from husk.store import Entry
    from husk.vfs.layer.layered_tree import LayeredTree
    from husk.vfs.node import Credentials

# The fields of a record that say what the box's files are.
FIELDS = ("layer", "layers", "trees", "owner", "number", "names", "bytes")


class BoxContent:
    """A record, and the layers it names. The caller holds the box's lock or `KeptBoxes.without_collection`."""

    def __init__(self, kept: KeptBoxes, record: Record, *, whole: bool = False) -> None:
        """`whole`: count the image's layer on the host's programs among the changes too."""
        self.kept, self.record, self.whole = kept, record, whole

    def prepare(self, policy: Policy) -> None:
        """Set image, mounts and their rules, environment and working directory from the record; a run may add to them,
        and gives all other options anew."""
        record = self.record
        if policy.image and policy.image != record.image:
            origin = f"the image {record.image!r}" if record.image else "the host's own programs"
            raise UsageError(f"the box {record.name!r} was started from {origin}; choose another name.", option="image")
        policy.image, policy.store = record.image, record.store
        given = {mount.target: mount for mount in policy.mounts}
        for source, target, mode in record.mounts:
            mount = given.pop(target, None)
            if mount is not None and (mount.source, mount.mode) != (source, mode):
                raise UsageError(
                    f"the box {record.name!r} has {source}:{target}:{mode} already; choose another place.",
                    option="mount",
                )
        of_box = [Mount(source, target, mode) for source, target, mode in record.mounts]
        for mount, (source, _, _) in zip(of_box, record.mounts, strict=True):
            if mount.source != source:  # a guest of another box may have made the link
                raise UsageError(
                    f"the box {record.name!r} has {source} mounted, which leads to {mount.source} by now; remove the "
                    "symbolic link in it."
                )
            mount.check()
        policy.mounts = of_box + list(given.values())
        policy.env = record.env | policy.env
        policy.workdir = policy.workdir or record.workdir
        self._adopt_rules(policy)

    def _adopt_rules(self, policy: Policy) -> None:
        """The rules of a box stay with its mounts; a run may add some."""
        new = [[rule.verb, rule.pattern] for rule in policy.rules]
        policy.default_rules &= self.record.default_rules
        if self.record.rules:
            from husk.sandbox.rules.path_rule import PathRule

            policy.rules += [PathRule(*one) for one in self.record.rules if one not in new]

    def lay_over(self, layers: list[tuple[bytes, LayeredTree]], creds: Credentials) -> None:
        """Lay the names of the record's layer over the trees of a box that is being built."""
        from husk.store.manifests.manifest import Manifest
        from husk.store.store_errors import StoreError

        record = self.record
        if not record.layer:
            return
        uids, gids = {record.owner[0]: creds.uid}, {record.owner[1]: creds.gid}
        trees = dict(layers)
        for number, target in enumerate(record.trees):
            tree = trees.get(os.fsencode(target))
            path = os.path.join(self.kept.layer_path(record.layer), f"names-{number}")
            if tree is None:
                continue
            frozen = FrozenFiles(os.fsencode(self.kept.layers), tree.copy_up.inodes)
            tree.lowers.insert(0, frozen)
            try:
                fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
                try:
                    names = Manifest.checked(fd)
                finally:
                    os.close(fd)
            except (FileNotFoundError, StoreError):  # any other error is the host's, and no reason to drop a box
                raise HuskError(f"the box {record.name!r} is damaged; `husk drop {record.name}` removes it.") from None
            Overlay(tree, names, partial(_content, frozen), uids=uids, gids=gids).lay()

    def baseline(self, target: str) -> Baseline:
        return self.kept.baseline(self.record, target)

    def originals(self, target: str) -> Originals:
        return self.kept.originals(self.record, target)


def _content(frozen: FrozenFiles, entry: Entry) -> tuple[FrozenFiles, bytes]:
    from husk.sandbox.kept.capture_layer import file_referred_to

    return frozen, file_referred_to(entry.blob)
