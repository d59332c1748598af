"""sandbox: the record of a kept box on disk. docs/formats/box.md has its fields."""

from __future__ import annotations

import os

from husk.sandbox.errors import HuskError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from husk.sandbox.policy import Policy

FORMAT = 1


class Record:
    """What is known about a kept box. Plain data, written as JSON with a checksum."""

    __slots__ = (
        "argv",
        "bytes",
        "changed_ns",
        "config",
        "created_ns",
        "default_rules",
        "env",
        "exit_code",
        "flat",
        "id",
        "image",
        "image_layers",
        "layer",
        "layers",
        "manifests",
        "mounts",
        "name",
        "names",
        "number",
        "owner",
        "rules",
        "store",
        "trees",
        "workdir",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.id = os.urandom(16).hex()  # the name of its root in the store
        self.created_ns = self.changed_ns = 0
        self.image = self.store = self.flat = ""  # empty: the host's own programs
        self.manifests: list[str] = []  # all of the image's
        self.image_layers: list[str] = []
        self.config: dict[str, Any] = {}
        self.mounts: list[list[str]] = []  # source, target, mode
        self.rules: list[list[str]] = []  # verb and pattern, for names below mounts
        self.default_rules = True
        self.env: dict[str, str] = {}  # that the caller set
        self.workdir = ""
        self.owner = [0, 0]  # uid and gid of the guest when the names were written
        self.number = 0  # the last inode number in use
        self.layer = ""
        self.layers: list[str] = []  # all that this box uses
        self.trees: list[str] = []  # where the tree of names-N is mounted
        self.argv: list[str] = []  # of the last run
        self.exit_code = 0
        self.names = self.bytes = 0

    def note_policy(self, policy: Policy) -> None:
        """What a box has of the host and the rules for that, and how its programs start."""
        self.mounts = [[mount.source, mount.target, mount.mode] for mount in policy.mounts if not mount.passing]
        self.rules = [[rule.verb, rule.pattern] for rule in policy.rules]
        self.default_rules = policy.default_rules
        self.env, self.workdir = dict(policy.env), policy.workdir

    def leave(self, target: str, rest: dict[str, Any] | None) -> None:
        """The changes at `target` were applied; without `rest`, all of them."""
        if rest is None:
            self.trees = ["" if tree == target else tree for tree in self.trees]
        else:
            for name in ("layer", "layers", "names", "bytes"):
                setattr(self, name, rest[name])

    def dump(self) -> bytes:
        import json

        body = json.dumps({name: getattr(self, name) for name in self.__slots__}, sort_keys=True)
        return f"{body}\n{_sum(body)} husk box {FORMAT}\n".encode()

    @classmethod
    def parse(cls, name: str, data: bytes) -> Record:
        import json

        body, _, tail = data.decode("ascii", "replace").rstrip("\n").partition("\n")
        digest, _, form = tail.partition(" ")
        if form != f"husk box {FORMAT}" and form.startswith("husk box "):
            raise HuskError(f"the box {name!r} was kept by another version of husk; use that one, or `husk drop` it.")
        if digest != _sum(body):
            raise HuskError(f"the record of the box {name!r} is damaged; `husk drop {name}` removes the box.")
        record = cls(name)
        for key, value in json.loads(body).items():
            setattr(record, key, value)
        record.name = name
        return record


def _sum(text: str) -> str:
    from hashlib import blake2b

    return blake2b(text.encode(), digest_size=16).hexdigest()
