"""sandbox: the image a box starts from, as the store has it — its names, and how it wants to be started."""

from __future__ import annotations

import os

from husk.sandbox.errors import HuskError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from husk.sandbox.kept.record import Record
    from husk.store import Manifest, Store
    from husk.store.locks import Lease

LARGEST_ACCOUNTS = 1 << 20
BASE, HOST = "husk.base", "host"  # a label of images that are committed from a box without an image
OWNER = "husk.owner"  # a label: the guest's uid and gid in that box


class Unnamed:
    """An image without a name: the layers so far of one that is being built."""

    __slots__ = ("config", "flat", "image_layers", "manifests")

    def __init__(self, flat: str, layers: list[str], config: dict[str, Any]) -> None:
        self.flat, self.image_layers, self.config = flat, layers, config
        self.manifests = list(dict.fromkeys([*layers, flat]))


class ImageSource:
    """An image, leased: nothing of it is collected until `close`. `uid` and `gid` are the ids it wants to run with."""

    __slots__ = (
        "_lease",
        "config",
        "flat",
        "gid",
        "home",
        "layers",
        "manifest",
        "manifests",
        "name",
        "store",
        "uid",
        "user",
    )

    def __init__(self, name: str, place: str = "", pinned: Record | Unnamed | None = None) -> None:
        """`pinned`: the record of a kept box, with the image as it was when the box started; or an unnamed image."""
        from husk.store import ImageConfig, Store, StoreError, StoreUsageError

        self.name = name
        try:
            self.store: Store = Store.open(place or None)
            self._lease: Lease
            if pinned is None:
                self._lease, image = self.store.lease_image(name)
                self.flat, self.manifests, config = image.flat, image.manifests, image.config
                self.layers = image.layers
            else:
                self.flat, self.manifests, config = pinned.flat, pinned.manifests, ImageConfig(**pinned.config)
                self.layers = pinned.image_layers
                self._lease = self.store.lease(self.manifests)
            self.config = config
            try:
                self.manifest: Manifest = self.store.open_manifest(self.flat)
            except StoreError:
                self.close()
                raise
        except StoreUsageError as error:
            raise UsageError(str(error)) from None
        except StoreError as error:
            raise HuskError(str(error)) from None
        self.user = self.home = ""
        self.uid = self.gid = 0
        if not self.on_host:
            self.uid, self.gid = self._user(self.config.user)

    @property
    def on_host(self) -> bool:
        """Is it a layer over the host's own programs, rather than a whole system?"""
        return self.config.labels.get(BASE) == HOST

    @property
    def owner(self) -> tuple[int, int]:
        """The guest's uid and gid in the box that an image `on_host` was committed from."""
        uid, _, gid = self.config.labels.get(OWNER, "0:0").partition(":")
        return int(uid), int(gid)

    def close(self) -> None:
        self._lease.close()

    def _user(self, text: str) -> tuple[int, int]:
        """`name` or `uid`, perhaps with `:group`, looked up in the image's own accounts; empty means root."""
        user, _, group = text.partition(":")
        found = self._account("passwd", user or "0", 2)
        if not found and not user.isdigit() and user:
            raise HuskError(f"the image {self.name!r} wants to run as {user!r}, which is not in its /etc/passwd.")
        uid = int(found[2]) if found else int(user or 0)
        gid = int(found[3]) if found else 0
        if group:
            record = self._account("group", group, 2)
            if not record and not group.isdigit():
                raise HuskError(f"the image {self.name!r} wants the group {group!r}, which its /etc/group lacks.")
            gid = int(record[2]) if record else int(group)
        self.user = found[0] if found else str(uid)
        self.home = found[5] if len(found) > 5 and found[5] else "/"
        return uid, gid

    def _account(self, file: str, wanted: str, number_at: int) -> list[str]:
        for line in self._read(f"etc/{file}").splitlines():
            fields = line.split(":")
            if len(fields) > number_at + 1 and fields[number_at].isdigit() and wanted in (fields[0], fields[number_at]):
                return fields
        return []

    def _read(self, path: str) -> str:
        entry = self.manifest.lookup(path.encode())
        if entry is None or not entry.is_file or entry.size > LARGEST_ACCOUNTS:
            return ""
        fd = self.store.open_blob(entry.hash)
        try:
            return os.read(fd, LARGEST_ACCOUNTS).decode("utf-8", "replace")
        finally:
            os.close(fd)
