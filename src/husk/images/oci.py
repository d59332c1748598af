"""images: find the layers and the configuration of an image in an OCI layout or a `docker save` archive, and verify
their digests.

These documents are untrusted: each value is checked where it is read.
"""

from __future__ import annotations

import hashlib
import json

from husk.images.archive_layer import archive_path
from husk.images.archive_limits import Refused
from husk.store.images import ImageConfig, foreign_labels
from husk.store.store_errors import StoreUsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from husk.images.source import Bundle

LAYER_LIMIT = 1000
DEPTH_LIMIT = 4
DOCUMENT_LIMIT = 1000
REF_NAME = "org.opencontainers.image.ref.name"
OS, ARCHITECTURE = "linux", "amd64"
PLATFORM: tuple[str, ...] = (OS, ARCHITECTURE)
_ARCHITECTURES = {"x86_64": "amd64", "x86-64": "amd64", "aarch64": "arm64"}


class LayerSource:
    """Where a layer is, and which digests it must have. An empty digest was not given."""

    __slots__ = ("diff_id", "digest", "name")

    def __init__(self, name: str, digest: str, diff_id: str) -> None:
        self.name, self.digest, self.diff_id = name, digest, diff_id


class FoundImage:
    """An image in an archive. `name` is the one the archive gives it, or empty."""

    __slots__ = ("config", "layers", "name")

    def __init__(self, name: str, layers: list[LayerSource], config: ImageConfig) -> None:
        self.name, self.layers, self.config = name, layers, config


def read_platform(text: str) -> tuple[str, ...]:
    """`linux/amd64`, perhaps with a variant as in `linux/arm/v7`; empty: this machine's."""
    if not text:
        return PLATFORM
    parts = text.split("/")
    if not 1 < len(parts) < 4 or not all(parts):
        raise StoreUsageError(f"{text!r} is no platform; write it as linux/amd64.")
    return (parts[0], _ARCHITECTURES.get(parts[1], parts[1]), *parts[2:])


def find_image(bundle: Bundle, ref: str, platform: tuple[str, ...] = PLATFORM) -> FoundImage | None:
    """The image, chosen by name if there are several; None: there is no image here."""
    # A newer `docker save` holds both forms; only the OCI form has digests.
    if bundle.has("oci-layout") and bundle.has("index.json"):
        return _find_oci(bundle, ref, platform[:2])
    if bundle.has("manifest.json"):
        return _find_docker(bundle, ref)
    return None


def _find_oci(bundle: Bundle, ref: str, platform: tuple[str, ...]) -> FoundImage:
    layout = _object(bundle, "oci-layout")
    if not str(layout.get("imageLayoutVersion", "")).startswith("1."):
        raise Refused("this OCI layout is of a version husk does not know; convert it to 1.0.0.")
    images = _images(bundle, _object(bundle, "index.json"), "", 0, set())
    fitting = [(name, manifest, config) for name, manifest, config in images if _platform(config) == platform]
    if ref:
        fitting = [image for image in fitting if image[0] == ref]
    different = {json.dumps(manifest, sort_keys=True): (name, manifest, config) for name, manifest, config in fitting}
    if not different:
        others = ", ".join(sorted({"/".join(_platform(config)) for _, _, config in images})) or "nothing"
        raise StoreUsageError(
            f"there is no image {f'{ref!r} ' if ref else ''}for {'/'.join(platform)} in it, only {others}; "
            "fetch the one for this machine."
        )
    if len(different) > 1:
        names = ", ".join(sorted(name or "one without a name" for name, _, _ in fitting))
        raise StoreUsageError(f"there are several images in it ({names}); choose one with --ref.")
    ((name, manifest, config),) = different.values()
    digests = [digest_in(layer) for layer in list_of(manifest, "layers")]
    diff_ids = _diff_ids(config, len(digests))
    layers = [LayerSource(blob_name(one), one, diff_id) for one, diff_id in zip(digests, diff_ids, strict=True)]
    return FoundImage(name, layers, _config(config))


def _images(
    bundle: Bundle, index: dict[str, Any], name: str, depth: int, read: set[tuple[str, str]]
) -> list[tuple[str, Any, Any]]:
    """(name, manifest, configuration) of all images below an index. `read`: digest and name of every document so far,
    none of which is read twice: a few small indexes that name each other's members many times make any number."""
    if depth > DEPTH_LIMIT:
        raise Refused("its indexes lie in one another too deeply.")
    found = []
    for descriptor in list_of(index, "manifests")[:LAYER_LIMIT]:
        notes = descriptor.get("annotations") if isinstance(descriptor, dict) else None
        called = str(notes.get(REF_NAME, "")) if isinstance(notes, dict) else ""
        platform = descriptor.get("platform") if isinstance(descriptor, dict) else None
        if isinstance(platform, dict) and platform.get("os") == "unknown":
            continue  # an attestation about another image
        digest = digest_in(descriptor)
        if (digest, called or name) in read:
            continue
        if len(read) >= DOCUMENT_LIMIT:
            raise Refused(f"its indexes name more than {DOCUMENT_LIMIT} documents.")
        read.add((digest, called or name))
        if not bundle.has(blob_name(digest)):
            if isinstance(platform, dict) and (platform.get("os"), platform.get("architecture")) != (OS, ARCHITECTURE):
                continue  # a layout need not hold images of other platforms
            raise Refused(f"{digest} is missing from the image archive; fetch it again.")
        document = _verified(bundle, digest)
        if "manifests" in document:
            found += _images(bundle, document, called or name, depth + 1, read)
        elif "config" in document:
            found.append((called or name, document, _verified(bundle, digest_in(document["config"]))))
    return found


def _find_docker(bundle: Bundle, ref: str) -> FoundImage:
    images = _json(bundle.document("manifest.json"))
    if not isinstance(images, list) or not all(isinstance(image, dict) for image in images) or not images:
        raise Refused("manifest.json is malformed; save the image again.")
    if not all(isinstance(image.get("RepoTags") or [], list) for image in images):
        raise Refused("manifest.json is malformed; save the image again.")
    tags = [[str(tag) for tag in image.get("RepoTags") or []] for image in images]
    chosen = [number for number in range(len(images)) if ref in tags[number]] if ref else [*range(len(images))]
    if len(chosen) != 1:
        known = ", ".join(tag for names in tags for tag in names) or "without names"
        what = f"there is no image {ref!r} in it" if ref else "there are several images in it"
        raise StoreUsageError(f"{what} ({known}); choose one with --ref.")
    image = images[chosen[0]]
    config = _object(bundle, _member(image.get("Config")))
    if _platform(config) != (OS, ARCHITECTURE):
        raise StoreUsageError(f"the image is for {'/'.join(_platform(config))}; save the one for {OS}/{ARCHITECTURE}.")
    names = [_member(name) for name in list_of(image, "Layers")]
    diff_ids = _diff_ids(config, len(names))
    layers = [LayerSource(name, "", diff_id) for name, diff_id in zip(names, diff_ids, strict=True)]
    return FoundImage(ref or next(iter(tags[chosen[0]]), ""), layers, _config(config))


def _config(document: dict[str, Any]) -> ImageConfig:
    found = document.get("config") or {}
    if not isinstance(found, dict):
        raise Refused("its configuration is malformed; build the image again.")

    def words(key: str) -> list[str]:
        value = found.get(key) or []
        if not isinstance(value, list) or not all(isinstance(word, str) and "\0" not in word for word in value):
            raise Refused(f"its configuration has a malformed {key}; build the image again.")
        return value

    labels = found.get("Labels") or {}
    texts = {key: found.get(key) or "" for key in ("User", "WorkingDir")}
    if (
        not isinstance(labels, dict)
        or not all(isinstance(value, str) for value in (*labels.values(), *texts.values()))
        or any("\0" in text for text in texts.values())
    ):
        raise Refused("its configuration is malformed; build the image again.")
    env = dict(word.partition("=")[::2] for word in words("Env") if not word.startswith("="))
    start = texts["User"], texts["WorkingDir"], words("Entrypoint"), words("Cmd")
    return ImageConfig(env, *start, foreign_labels(labels))


def _platform(config: dict[str, Any]) -> tuple[str, str]:
    return str(config.get("os", "")), str(config.get("architecture", ""))


def _diff_ids(config: dict[str, Any], count: int) -> list[str]:
    rootfs = config.get("rootfs")
    found = list_of(rootfs, "diff_ids") if isinstance(rootfs, dict) else []
    if len(found) != count or not 0 < count <= LAYER_LIMIT:
        raise Refused(f"it has {count} layers, and its configuration speaks of {len(found)}; fetch it again.")
    return [_sha256(one) for one in found]


def _verified(bundle: Bundle, digest: str) -> dict[str, Any]:
    data = bundle.document(blob_name(digest))
    if digest_of(data) != digest:
        raise Refused(f"{digest} is not what its name says; fetch the archive again.")
    return json_object(data, digest)


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _object(bundle: Bundle, name: str) -> dict[str, Any]:
    return json_object(bundle.document(name), name)


def json_object(data: bytes, name: str) -> dict[str, Any]:
    document = _json(data)
    if not isinstance(document, dict):
        raise Refused(f"{name} is malformed; fetch the archive again.")
    return document


def _json(data: bytes) -> Any:
    try:
        found = json.loads(data)
        json.dumps(found, ensure_ascii=False).encode()  # a lone surrogate ("\\ud800") fits no file and no program
        return found
    except (ValueError, RecursionError):
        raise Refused("a description in the image archive is malformed; fetch it again.") from None


def list_of(document: dict[str, Any], key: str) -> list[Any]:
    found = document.get(key)
    if not isinstance(found, list):
        raise Refused(f"a description in the image archive has no list of {key}; fetch it again.")
    return found


def digest_in(descriptor: object) -> str:
    return _sha256(descriptor.get("digest") if isinstance(descriptor, dict) else None)


def _sha256(value: object) -> str:
    text = value if isinstance(value, str) else ""
    kind, _, digits = text.partition(":")
    if kind != "sha256" or len(digits) != 64 or digits.strip("0123456789abcdef"):
        raise Refused(f"{text!r} is no SHA-256 digest; husk takes no other.")
    return text


def blob_name(digest: str) -> str:
    return f"blobs/sha256/{digest.removeprefix('sha256:')}"


def _member(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise Refused("manifest.json is malformed; save the image again.")
    return archive_path(value.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")
