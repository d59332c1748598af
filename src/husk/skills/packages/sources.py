"""skills: where packages come from: the indexes that the machine's own pip and npm are configured to use.

husk names no index and no registry of its own. The configuration goes into the box as options, directories are mounted
there, and the network rules follow from it: these hosts, or the proxy before them, and nothing else. Passwords that npm
keeps for a registry stay with npm.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit

from husk.sandbox.errors import HuskError, UsageError
from husk.sandbox.policy import Mount

CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
SHOWN = "/opt/skill/source"
SECONDS = 60
LINE = re.compile(r"(:env:|[\w-]+)\.([\w-]+)=(.*)")


@dataclass
class Source:
    """`options` for the installer in the box, and the hosts and mounts it needs."""

    name: str  # for messages
    options: list[str] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    mounts: list[Mount] = field(default_factory=list)

    def show(self, path: str) -> str:
        """Mount the host's `path`; returns its path in the box."""
        place = f"{SHOWN}{len(self.mounts)}"
        self.mounts.append(Mount(os.path.realpath(path), place))
        return place

    def certify(self, path: str, option: str) -> None:
        """Use the machine's certificates, which may include a company's own authority."""
        path = path if path and os.path.isfile(path) else CERTIFICATES
        if os.path.isfile(path):
            self.options += [option, path if path == CERTIFICATES else self.show(path)]

    def through(self, proxy: str, option: str) -> None:
        if proxy:
            self.options += [option, proxy]
            self.hosts = [rule_for(proxy, "the proxy")]


def rule_for(address: str, what: str) -> str:
    """The network rule for an address: its host and port."""
    parts = urlsplit(address)
    try:
        port = parts.port or {"https": 443, "http": 80}[parts.scheme]
        if not parts.hostname:
            raise ValueError
    except (KeyError, ValueError):
        raise UsageError(f"{what} {address}: write an address such as https://HOST/PATH.") from None
    return f"[{parts.hostname}]:{port}" if ":" in parts.hostname else f"{parts.hostname}:{port}"


def without_password(address: str) -> str:
    return re.sub(r"//[^/@]*@", "//", address)


# -- pip --------------------------------------------------------------------------------------------------------------


def pip_source(index: str = "", more_hosts: list[str] | None = None) -> Source:
    """The source for pip. If `index` is given, the configuration is not used."""
    told = {} if index else _pip_settings()
    default, files = _pip_default()
    main = index or told.get("index-url", "") or default
    if not main:
        raise UsageError("pip does not say where its package index is; give --index URL.")
    source = Source(without_password(main))
    for option, addresses in (("--index-url", [main]), ("--extra-index-url", told.get("extra-index-url", "").split())):
        for address in addresses:
            _add_index(source, option, address)
    for place in told.get("find-links", "").split():
        path = _local(place)
        if path is None:
            _add_index(source, "--find-links", place)
        elif os.path.isdir(path):
            source.options += ["--find-links", source.show(path)]
    if main == default and files:
        source.hosts.append(f"{files}:443")
    source.hosts += more_hosts or []
    source.certify(told.get("cert", ""), "--cert")
    for host in told.get("trusted-host", "").split():
        source.options += ["--trusted-host", host]
    source.through(told.get("proxy", "") or _proxy(main), "--proxy")
    return source


def _add_index(source: Source, option: str, address: str) -> None:
    path = _local(address)
    if path is None:
        source.options += [option, address]
        source.hosts.append(rule_for(address, "--index" if option == "--index-url" else option))
    elif os.path.isdir(path):
        # At the same path, and with its parent: pages of an index link to files beside it (../../files/…).
        path = os.path.normpath(path)
        whole = os.path.dirname(path) if os.path.basename(path) == "simple" else path
        source.mounts.append(Mount(os.path.realpath(whole), whole))
        source.options += [option, f"file://{quote(path)}"]
    elif option == "--index-url":
        raise UsageError(f"--index {address}: there is no such directory.")


def _local(address: str) -> str | None:
    """The directory of a file address; None: it is on the network."""
    if address.startswith("file://"):
        return unquote(urlsplit(address).path)
    return address if address.startswith("/") else None


def _pip_settings() -> dict[str, str]:
    """As in pip: variables win over settings for `install`, and these over settings for all commands."""
    listing = _ask([sys.executable, "-m", "pip", "config", "list"], "pip")
    ranks, found = {"global": 0, "install": 1, ":env:": 2}, dict[str, tuple[int, str]]()
    for line in listing.splitlines():
        match = LINE.fullmatch(line.strip())
        if match is None or match[1] not in ranks:
            continue
        try:
            value = str(ast.literal_eval(match[3]))
        except (ValueError, SyntaxError):
            continue
        if ranks[match[1]] >= found.get(match[2], (0, ""))[0]:
            found[match[2]] = ranks[match[1]], value
    return {name: value for name, (_, value) in found.items()}


def _pip_default() -> tuple[str, str]:
    """pip's default index, and the host of its files."""
    try:
        from pip._internal.models.index import PyPI  # type: ignore[import-untyped, unused-ignore]

        return str(PyPI.simple_url), str(PyPI.file_storage_domain)
    except (ImportError, AttributeError):
        return "", ""


# -- npm --------------------------------------------------------------------------------------------------------------


def npm_source(registry: str = "", more_hosts: list[str] | None = None) -> Source:
    told = _npm_settings(needed=not registry)
    main = registry or str(told.get("registry") or "")
    if not main:
        raise UsageError("npm does not say where its registry is; give --registry URL.")
    source = Source(without_password(main), ["--registry", main], [rule_for(main, "--registry")])
    source.hosts += more_hosts or []
    source.certify(str(told.get("cafile") or ""), "--cafile")
    source.through(str(told.get("https-proxy") or told.get("proxy") or "") or _proxy(main), "--https-proxy")
    return source


def _npm_settings(*, needed: bool) -> dict[str, object]:
    if shutil.which("npm") is None:
        if needed and "NPM_CONFIG_REGISTRY" not in os.environ:
            raise UsageError("there is no npm on this machine that would know its registry; give --registry URL.")
        return {"registry": os.environ.get("NPM_CONFIG_REGISTRY", "")}
    try:
        told = json.loads(_ask(["npm", "config", "list", "--json"], "npm"))
        return told if isinstance(told, dict) else {}
    except ValueError:
        raise HuskError("npm does not say how it is configured: `npm config list --json` prints no JSON.") from None


def _proxy(address: str) -> str:
    name = "https_proxy" if address.startswith("https:") else "http_proxy"
    return os.environ.get(name) or (os.environ.get(name.upper(), "") if name == "https_proxy" else "")


def _ask(argv: list[str], what: str) -> str:
    """Ask on the host, from the root directory: a file in the working directory must not count."""
    try:
        done = subprocess.run(argv, cwd="/", capture_output=True, text=True, timeout=SECONDS, check=True)
        return done.stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise HuskError(f"{what} does not say how it is configured ({error}).") from None
