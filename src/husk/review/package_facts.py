"""review: the packages of a skill with versions and licences: from layers that were installed for it, from directories
that the user gave, or from what is installed on this machine. Their code is not run.
"""

from __future__ import annotations

import email.parser
import importlib.metadata
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from husk.review.wants import NPM, OPTIONAL, PIP, Want
from husk.sandbox.errors import HuskError
from husk.skills.packages.npm_packages import name_of
from husk.skills.provide_packages import PackageProvider
from husk.skills.running import Request
from husk.skills.scan.describe import Description
from husk.skills.scan.distributions import distribution_key
from husk.store import Store, StoreError
from husk.store.manifests.manifest import Manifest

MOST_ABOUT = 1 << 18
_SYSTEM = ("/usr/lib/python3/dist-packages", "/usr/local/lib", "/usr/lib")
INSTALLED, GIVEN, MACHINE = "installed for this review", "from --packages", "on this machine"


@dataclass(frozen=True)
class Package:
    """`wanted` is the skill's own word; empty: another package brings it. `how`: where version and licence come from,
    empty where they are not known."""

    kind: str
    name: str
    wanted: str = ""
    optional: bool = False
    version: str = ""
    licence: str = ""
    how: str = ""
    where: str = ""

    def as_dict(self) -> dict[str, object]:
        return dict(vars(self))


def package_facts(found: Description, wants: list[Want], request: Request) -> tuple[list[Package], list[str]]:
    """The packages, those that the skill names first; and notes on what could not be found out."""
    known, notes = _of_layers(found, request)
    made = []
    for want in wants:
        if want.kind not in (PIP, NPM):
            continue
        key = want.key[1]
        about = known.pop((want.kind, key), None) or _elsewhere(want.kind, key, request)
        version, licence, how = about or ("", "", "")
        made.append(Package(want.kind, key, want.name, want.sure == OPTIONAL, version, licence, how, want.where))
    made += [
        Package(kind, key, "", False, version, licence, how) for (kind, key), (version, licence, how) in known.items()
    ]
    return made, notes


def _of_layers(
    found: Description, request: Request
) -> tuple[dict[tuple[str, str], tuple[str, str, str]], list[str]]:
    if not found.pip and not found.npm:
        return {}, []
    provider = PackageProvider(request, request.setting.policy([], []), [])
    known: dict[tuple[str, str], tuple[str, str, str]] = {}
    try:
        provider.provide(found, None)
        store = Store.open(request.setting.store or None) if provider.layers else None
        for layer in provider.layers:
            assert store is not None
            manifest = store.open_manifest(store.images.get(layer.image).flat)
            for kind, name, version, licence in (*_pip_in(store, manifest), *_npm_in(store, manifest)):
                known[kind, name] = version, licence, INSTALLED
    except (HuskError, StoreError) as error:
        return known, [f"Versions and licences of packages that are not on this machine are unknown: {error}"]
    finally:
        provider.close()
    return known, []


def _pip_in(store: Store, manifest: Manifest) -> Iterator[tuple[str, str, str, str]]:
    for name in manifest.listdir(b""):
        if name.endswith(b".dist-info"):
            about = email.parser.Parser().parsestr(_text(store, manifest, name + b"/METADATA"), headersonly=True)
            if about.get("Name"):
                yield PIP, distribution_key(about["Name"]), about.get("Version", ""), _licence(about)


def _npm_in(store: Store, manifest: Manifest) -> Iterator[tuple[str, str, str, str]]:
    for name in manifest.listdir(b""):
        inner = [name + b"/" + below for below in manifest.listdir(name)] if name.startswith(b"@") else [name]
        for path in inner:
            try:
                about = json.loads(_text(store, manifest, path + b"/package.json") or "{}")
                if isinstance(about, dict) and "version" in about:
                    licence = about.get("license", "")
                    yield NPM, path.decode(), str(about["version"]), licence if isinstance(licence, str) else ""
            except ValueError:
                continue


def _text(store: Store, manifest: Manifest, path: bytes) -> str:
    entry = manifest.lookup(path)
    if entry is None or not entry.is_file:
        return ""
    with open(store.open_blob(entry.hash), "rb") as file:
        return file.read(MOST_ABOUT).decode("utf-8", "replace")


def _licence(about: email.message.Message) -> str:
    """The licence of a distribution: by expression, by one line of text, or by its classifiers."""
    for field in ("License-Expression", "License"):
        text = str(about.get(field, "")).strip()
        if text and text != "UNKNOWN" and "\n" not in text and len(text) < 100:
            return text
    found = [text.rpartition(" :: ")[2] for text in about.get_all("Classifier", []) if text.startswith("License ::")]
    return ", ".join(found)


def _elsewhere(kind: str, key: str, request: Request) -> tuple[str, str, str] | None:
    if kind == NPM:
        for folder in request.packages:
            modules = folder if folder.name == "node_modules" else folder / "node_modules"
            try:
                about = json.loads((modules / name_of(key) / "package.json").read_text("utf-8"))
                return str(about.get("version", "")), str(about.get("license", "")), GIVEN
            except (OSError, ValueError, AttributeError):
                continue
        return None
    given = [str(site) for folder in request.packages for site in folder.glob("lib/python3*/site-packages")]
    system = [_SYSTEM[0], *(str(path) for base in _SYSTEM[1:] for path in Path(base).glob("python3*/*-packages"))]
    for how, places in ((GIVEN, given + [str(path) for path in request.packages]), (MACHINE, system)):
        for one in importlib.metadata.distributions(name=key, path=places):
            try:
                about = email.parser.Parser().parsestr((one.read_text("METADATA") or one.read_text("PKG-INFO") or ""),
                                                       headersonly=True)  # fmt: skip
                return about.get("Version", ""), _licence(about), how
            except (OSError, UnicodeDecodeError):
                continue
    return None
