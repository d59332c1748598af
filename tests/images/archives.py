"""Archives for the tests: ordinary ones from the standard library, and those no honest program would write."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

from husk.store.images import Image
from husk.store.store import Store

OLD = 1_000_000_000
Member = tuple[tarfile.TarInfo, bytes]


def member(name: str, kind: bytes = tarfile.REGTYPE, content: bytes = b"", **rest: Any) -> Member:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mtime = kind, len(content), OLD
    info.mode = 0o755 if kind == tarfile.DIRTYPE else 0o644
    for key, value in rest.items():
        setattr(info, key, value)
    return info, content


def folder(name: str, **rest: Any) -> Member:
    return member(name, tarfile.DIRTYPE, **rest)


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> Member:
    return member(name, kind, linkname=target)


def hard(name: str, target: str) -> Member:
    return link(name, target, tarfile.LNKTYPE)


def tar(*members: Member, form: int = tarfile.PAX_FORMAT) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=form) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return made.getvalue()


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


CONFIG = {"Env": ["PATH=/bin", "A=b=c"], "User": "1:2", "WorkingDir": "/w", "Entrypoint": ["/bin/e"], "Cmd": ["x", "y"],
          "Labels": {"l": "v", "husk.cache": "packages", "husk.wish": "{}"}}


class Layout:
    """An OCI layout in the making."""

    def __init__(self, place: Path) -> None:
        self.place = place
        (place / "blobs" / "sha256").mkdir(parents=True)
        (place / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')

    def blob(self, data: bytes) -> dict[str, Any]:
        name = digest(data)
        (self.place / "blobs" / "sha256" / name[7:]).write_bytes(data)
        return {"digest": name, "size": len(data), "mediaType": "application/octet-stream"}

    def image(self, *layers: tuple[bytes, bytes], architecture: str = "amd64", name: str = "") -> dict[str, Any]:
        """Layers as (packed, plain). Its descriptor."""
        config = {"os": "linux", "architecture": architecture, "config": CONFIG,
                  "rootfs": {"type": "layers", "diff_ids": [digest(plain) for _, plain in layers]}}
        manifest = {"schemaVersion": 2, "config": self.blob(json.dumps(config).encode()),
                    "layers": [self.blob(packed) for packed, _ in layers]}
        found = self.blob(json.dumps(manifest).encode())
        found["platform"] = {"os": "linux", "architecture": architecture}
        if name:
            found["annotations"] = {"org.opencontainers.image.ref.name": name}
        return found

    def index(self, *manifests: dict[str, Any]) -> Path:
        (self.place / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": manifests}))
        return self.place


def saved(*layers: bytes, tags: list[str], flat: bool = False) -> bytes:
    """What `docker save` wrote before it knew OCI. `flat`: as podman and skopeo write it, without directories."""
    config = json.dumps({"os": "linux", "architecture": "amd64", "config": CONFIG,
                         "rootfs": {"type": "layers", "diff_ids": [digest(layer) for layer in layers]}}).encode()
    name = hashlib.sha256(config).hexdigest()
    end = ".tar" if flat else "/layer.tar"
    names = [hashlib.sha256(b"%d" % number).hexdigest() + end for number in range(len(layers))]
    manifest = json.dumps([{"Config": f"{name}.json", "RepoTags": tags, "Layers": names}]).encode()
    return tar(*(member(one, content=layer) for one, layer in zip(names, layers, strict=True)),
               member(f"{name}.json", content=config), member("manifest.json", content=manifest))


def lines(store: Store, image: Image) -> dict[str, str]:
    """What a box would see, one line for each name."""
    found = {}
    manifest = store.open_manifest(image.flat)
    for entry in manifest.walk():
        text = f"{entry.mode:o} {entry.uid}:{entry.gid} {entry.mtime_ns}"
        if entry.is_file:
            with open(store.blob_path(entry.hash), "rb") as file:
                content = file.read()
            assert len(content) == entry.size
            text += f" {content!r}" if len(content) < 100 else f" {len(content)} bytes"
        if entry.is_link:
            text += f" -> {entry.target.decode()}"
        if entry.nlink > 1 and not entry.is_directory:
            text += f" of {manifest.entry(entry.inode).path.decode()} ({entry.nlink})"
        if entry.xattrs:
            text += f" {entry.xattrs}"
        found[os.fsdecode(entry.path)] = text
    return found


def everything(place: Path) -> dict[str, bytes]:
    """A whole directory without locks and caches: to see whether it changed."""
    return {str(path.relative_to(place)): path.read_bytes() if path.is_file() else b""
            for path in sorted(place.rglob("*")) if "leases" not in path.parts and path.name != "lock"}


