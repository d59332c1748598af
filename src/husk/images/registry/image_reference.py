"""images: references to images in registries, as docker writes them: `debian:12`, `ghcr.io/a/b@sha256:…`.

Only what a reference means. Talking to a registry is registry_client's.
"""

from __future__ import annotations

import ipaddress
import re

from husk.store.store_errors import StoreUsageError

HUB, HUB_SERVER = "docker.io", "registry-1.docker.io"
_HUB_NAMES = (HUB, "index.docker.io", HUB_SERVER)
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*")
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_HOST = re.compile(r"(?:\[[0-9a-fA-F:]+\]|[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?)(?::[0-9]{1,5})?")
LONGEST = 255


class Reference:
    """A parsed reference. `registry` is the name people log in with, `server` the host to connect to."""

    __slots__ = ("digest", "registry", "repository", "tag", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        name, at, digest = text.removeprefix("docker://").partition("@")
        if at and not _DIGEST.fullmatch(digest):
            raise _wrong(text, f"{digest!r} is no sha256 digest")
        first, slash, rest = name.partition("/")
        # As docker decides it: a first part that looks like a host is one.
        if slash and ("." in first or ":" in first or first == "localhost"):
            registry, path = first, rest
        else:
            registry, path = HUB, name
        folder, colon, tag = path.rpartition(":")
        if not colon:
            folder, tag = path, ""
        elif not _TAG.fullmatch(tag):
            raise _wrong(text, f"{tag!r} is no tag")
        if registry in _HUB_NAMES:
            registry = HUB
            folder = folder if "/" in folder else f"library/{folder}"
        if not _HOST.fullmatch(registry):
            raise _wrong(text, f"{registry!r} is no host")
        if not _REPOSITORY.fullmatch(folder) or len(folder) > LONGEST:
            why = "names are written in small letters" if folder.lower() != folder else "that is no name of an image"
            raise _wrong(text, why)
        self.registry, self.repository, self.digest = registry.lower(), folder, digest
        self.tag = tag or ("" if digest else "latest")

    @property
    def wanted(self) -> str:
        """What to ask the registry for. A digest says more than a tag."""
        return self.digest or self.tag

    @property
    def server(self) -> str:
        return HUB_SERVER if self.registry == HUB else self.registry

    @property
    def name(self) -> str:
        """What the image is called in the store: as it was written."""
        return self.text.removeprefix("docker://")

    @property
    def loopback(self) -> bool:
        return is_loopback(self.server)


def is_loopback(server: str) -> bool:
    """Does `host:port` name this machine itself? By its spelling alone: a name that resolves to 127.0.0.1 does not
    count, since another resolver may say something else."""
    host = server.rpartition(":")[0] if server.rpartition(":")[2].isdigit() and not server.endswith("]") else server
    host = host.strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _wrong(text: str, why: str) -> StoreUsageError:
    return StoreUsageError(f"{text!r} is no reference to an image: {why}; write it as debian:12 or ghcr.io/owner/name.")


def spellings(name: str) -> list[str]:
    """The names that an image may have in the store where a Dockerfile says `name`: with and without what docker adds
    by itself. As written comes first."""
    found = [name]
    try:
        ref = Reference(name)
    except StoreUsageError:
        return found
    tail = f"@{ref.digest}" if ref.digest else f":{ref.tag}"
    short = ref.repository.removeprefix("library/") if ref.registry == HUB else f"{ref.registry}/{ref.repository}"
    for stem in dict.fromkeys((short, f"{ref.registry}/{ref.repository}")):
        found += [f"{stem}{tail}", *([stem] if ref.tag == "latest" and not ref.digest else [])]
    return list(dict.fromkeys(found))
