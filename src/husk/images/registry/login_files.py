"""images: logins for registries, from the files that docker, podman and skopeo write, and from credential helpers.

Read only, and only when a registry asks who is there. A login belongs to one registry; registry_client sends it to that
registry and to the place for tokens which that registry names, and nowhere else.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import subprocess
from typing import TYPE_CHECKING

from husk.images.registry.image_reference import HUB
from husk.store.store_errors import StoreError, StoreUsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from husk.images.registry.image_reference import Reference

HELPER_SECONDS = 60
LARGEST = 1 << 20
_HELPER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_HUB_KEYS = ("https://index.docker.io/v1/", "index.docker.io", "registry-1.docker.io")
_TOKEN_USER = "<token>"  # what a helper gives as user name where the secret is an identity token


class Login:
    """A user and a secret, or an identity token."""

    __slots__ = ("secret", "token", "user")

    def __init__(self, user: str = "", secret: str = "", token: str = "") -> None:
        self.user, self.secret, self.token = user, secret, token

    def __bool__(self) -> bool:
        return bool(self.user or self.token)

    @property
    def basic(self) -> str:
        return "Basic " + base64.b64encode(f"{self.user}:{self.secret}".encode()).decode()


def find_login(ref: Reference, environ: Mapping[str, str] = os.environ) -> Login:
    """The login for a reference's registry; an empty one if no file has any."""
    for path, required in _files(environ):
        document = _read(path, required=required)
        found = _in_file(document, path, ref) if document else Login()
        if found:
            return found
    return Login()


def _files(environ: Mapping[str, str]) -> Iterator[tuple[str, bool]]:
    """The files in the order podman and skopeo look into them, and whether each must be there."""
    if named := environ.get("REGISTRY_AUTH_FILE"):
        yield named, True
        return
    home = environ.get("HOME") or os.path.expanduser("~")
    if runtime := environ.get("XDG_RUNTIME_DIR"):
        yield os.path.join(runtime, "containers", "auth.json"), False
    config = environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    yield os.path.join(config, "containers", "auth.json"), False
    docker = environ.get("DOCKER_CONFIG") or os.path.join(home, ".docker")
    yield os.path.join(docker, "config.json"), False


def _read(path: str, *, required: bool) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST + 1)
        document = json.loads(data) if len(data) <= LARGEST else None
    except (FileNotFoundError, NotADirectoryError):
        if required:
            raise StoreUsageError(f"REGISTRY_AUTH_FILE names {path}, which does not exist.") from None
        return {}
    except OSError as error:
        raise StoreUsageError(f"the logins in {path} cannot be read: {error.strerror}; make it readable.") from None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise StoreUsageError(f"the logins in {path} cannot be read: it is not JSON; log in again or remove it.")
    return document


def _keys(ref: Reference) -> list[str]:
    """The keys a login may stand under, the most specific first: podman knows logins for a part of a registry."""
    parts = ref.repository.split("/")
    found = ["/".join([ref.registry, *parts[:count]]) for count in range(len(parts), -1, -1)]
    return [*found, *(_HUB_KEYS if ref.registry == HUB else (f"https://{ref.registry}", f"https://{ref.registry}/v2/"))]


def _in_file(document: dict[str, Any], path: str, ref: Reference) -> Login:
    helpers, auths = document.get("credHelpers"), document.get("auths")
    keys = _keys(ref)
    if isinstance(helpers, dict):
        for key in keys:
            if isinstance(helpers.get(key), str):
                return _from_helper(helpers[key], key, path)
    if isinstance(auths, dict):
        for key in keys:
            if isinstance(auths.get(key), dict) and (found := _from_entry(auths[key], key, path)):
                return found
    store = document.get("credsStore")
    if isinstance(store, str) and store:
        return _from_helper(store, _HUB_KEYS[0] if ref.registry == HUB else ref.registry, path)
    return Login()


def _from_entry(entry: dict[str, Any], key: str, path: str) -> Login:
    user, secret = entry.get("username"), entry.get("password")
    if token := entry.get("identitytoken"):
        return Login(token=str(token))
    if isinstance(user, str) and isinstance(secret, str) and user:
        return Login(user, secret)
    if not (packed := entry.get("auth")):
        return Login()  # the secret is with a helper
    try:
        name, colon, word = base64.b64decode(str(packed), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        colon = ""
    if not colon:
        raise StoreUsageError(f"the login for {key} in {path} is damaged; log in again.")
    return Login(name, word.rstrip("\0"))


def _from_helper(helper: str, key: str, path: str) -> Login:
    """Ask `docker-credential-NAME get`. A helper that knows no login is no error."""
    if not _HELPER.fullmatch(helper):
        raise StoreUsageError(f"{path} names the credential helper {helper!r}, which is no name of a program.")
    program = f"docker-credential-{helper}"
    try:
        done = subprocess.run(
            [program, "get"], input=key.encode(), capture_output=True, timeout=HELPER_SECONDS, check=False
        )
    except FileNotFoundError:
        raise StoreUsageError(f"{path} names the credential helper {program}, which is not in PATH.") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StoreError(f"the credential helper {program} failed ({type(error).__name__}); run it by hand.") from None
    if done.returncode:
        if b"not found" in done.stdout + done.stderr:
            return Login()
        raise StoreError(f"the credential helper {program} ended with {done.returncode}; run it by hand.")
    try:
        found = json.loads(done.stdout)
        user, secret = str(found["Username"]), str(found["Secret"])
    except (ValueError, KeyError, TypeError):
        raise StoreError(f"the credential helper {program} gave no login; run it by hand.") from None
    return Login(token=secret) if user == _TOKEN_USER else Login(user, secret)
