"""store: images. A record names layers (manifests, lowest first) and how to start what is in them.

The record is JSON with sorted keys, replaced as a whole. Its format is in docs/formats/image.md.
"""

from __future__ import annotations

import os

from husk.store.layout import is_hash, sync_directory, write_whole
from husk.store.store_errors import StoreError, StoreUsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

FORMAT = 1
PACKAGES = "packages/"  # the names of package layers, which husk makes itself and finds again by name, begin so
# Labels that begin so are husk's own notes. Those of the second line describe what an image is and may travel with it.
RESERVED = "husk."
TRAVELS = frozenset(("husk.base", "husk.owner"))
CACHE = "husk.cache"  # a label: no user named this image, so a collection may remove it while it is not in use
_FIRST = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_ALLOWED = _FIRST | frozenset("._-:+@/")


class ImageConfig:
    """How to start it, with OCI's field names. Empty: not given."""

    __slots__ = ("cmd", "entrypoint", "env", "labels", "user", "workdir")

    def __init__(
        self,
        env: dict[str, str] | None = None,
        user: str = "",
        workdir: str = "",
        entrypoint: Sequence[str] = (),
        cmd: Sequence[str] = (),
        labels: dict[str, str] | None = None,
    ) -> None:
        self.env = dict(env or {})
        self.user = user
        self.workdir = workdir
        self.entrypoint = list(entrypoint)
        self.cmd = list(cmd)
        self.labels = dict(labels or {})

    def as_json(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


class Image:
    """`layers`: hashes of manifests, lowest first. `flat`: the manifest of all layers flattened. `created_ns`: when the
    record was written."""

    __slots__ = ("config", "created_ns", "flat", "layers")

    def __init__(
        self, layers: Sequence[str], config: ImageConfig | None = None, created_ns: int = 0, flat: str = ""
    ) -> None:
        flat = flat or (layers[0] if len(layers) == 1 else "")
        if not layers or not all(map(is_hash, [*layers, flat])):
            raise StoreUsageError("an image has at least one layer, each the hash of a manifest.")
        self.layers = list(layers)
        self.flat = flat
        self.config = config or ImageConfig()
        self.created_ns = created_ns

    @property
    def manifests(self) -> list[str]:
        """All manifests of the image, each once."""
        return list(dict.fromkeys([*self.layers, self.flat]))

    def as_json(self) -> dict[str, object]:
        return {
            "format": FORMAT,
            "layers": self.layers,
            "flat": self.flat,
            "config": self.config.as_json(),
            "created_ns": self.created_ns,
        }


def check_name(name: str) -> str:
    parts = name.split("/")
    # No part may begin with a dot or dash: it would be hidden, `..`, or taken for an option.
    if len(name) > 200 or not set(name) <= _ALLOWED or not all(part and part[0] in _FIRST for part in parts):
        raise StoreUsageError(
            f"{name!r} cannot name an image; use letters, digits and . _ - : + @ /, beginning with a letter or digit."
        )
    return name


class Images:
    """The images of a store. Writers call `set` while they hold the store's lock (Writing.set_image does)."""

    __slots__ = ("_folder",)

    def __init__(self, place: str) -> None:
        self._folder = os.path.join(place, "images")

    def _path(self, name: str) -> str:
        # A percent sign cannot be part of a name, so this is one to one, and every image is one file.
        return os.path.join(self._folder, check_name(name).replace("/", "%"))

    def list(self) -> list[str]:
        names = (name.replace("%", "/") for name in os.listdir(self._folder) if not name.startswith("."))
        return sorted(names)

    def get(self, name: str) -> Image:
        try:
            with open(self._path(name), "rb") as file:
                data = file.read()
        except FileNotFoundError:
            raise StoreUsageError(f"there is no image {name!r}; `husk image ls` lists them.") from None
        return parse(name, data)

    def set(self, name: str, image: Image) -> None:
        import json

        text = json.dumps(image.as_json(), sort_keys=True, indent=1, ensure_ascii=False)
        write_whole(self._path(name), text.encode("utf-8", "surrogateescape") + b"\n")

    def used(self, name: str) -> None:
        """Note in the mtime of the record that a box starts from it. If that fails, it only looks older than it is."""
        try:
            os.utime(self._path(name))
        except OSError:
            pass

    def last_used(self, name: str) -> float:
        return os.stat(self._path(name)).st_mtime

    def rm(self, name: str) -> None:
        try:
            os.unlink(self._path(name))
        except FileNotFoundError:
            raise StoreUsageError(f"there is no image {name!r}; `husk image ls` lists them.") from None
        sync_directory(self._folder)


class _Scanning:
    """Settings for the C half of json."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float = parse_constant = float
    parse_int = int


def _read_json(data: bytes) -> Any:
    """json.loads without the modules it imports: they would take a fifth of every start from an image."""
    try:
        from _json import make_scanner
    except ImportError:  # another Python than CPython
        import json

        return json.loads(data)
    text = data.decode().strip()
    try:
        found, end = make_scanner(_Scanning)(text, 0)  # type: ignore[arg-type]
    except (StopIteration, RecursionError, SystemError):
        # The C half raises an exception that the Python half defines; if that was never imported, it raises these.
        raise ValueError from None
    if end != len(text):
        raise ValueError
    return found


def parse(name: str, data: bytes) -> Image:
    try:
        record = _read_json(data)
        if record["format"] != FORMAT:
            raise StoreError(f"the image {name!r} was written by another version of husk; ingest it again.")
        config = ImageConfig(**record["config"])
        known = (
            all(isinstance(part, str) for part in [config.user, config.workdir, *config.entrypoint, *config.cmd])
            and all(isinstance(part, str) for pair in config.env.items() for part in pair)
            and isinstance(record["created_ns"], int)
            and all(isinstance(layer, str) for layer in [record["flat"], *record["layers"]])
        )
        if not known:
            raise ValueError
        return Image(record["layers"], config, record["created_ns"], record["flat"])
    except (ValueError, TypeError, KeyError, StoreUsageError):
        raise StoreError(
            f"the record of the image {name!r} is damaged; ingest it again, or `husk store rm` it."
        ) from None


def foreign_labels(labels: dict[str, str]) -> dict[str, str]:
    """Without husk's own notes: an imported image must not claim to be a cache, which a collection may remove."""
    return {key: value for key, value in labels.items() if not key.startswith(RESERVED) or key in TRAVELS}
