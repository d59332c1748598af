"""images: the OCI distribution protocol: manifests and blobs of one repository, over httpx.

Why httpx: it is maintained, `husk mcp` brings it already, it streams bodies undecoded, and redirects can be left to us.
The package `oras` speaks the whole protocol, but (0.2.43) checks no digest and bounds no download.

A registry is not trusted. Each answer has a bound before it is read, and each redirect is judged here: no login leaves
the registry's own origin, and what began with TLS stays with TLS.
"""

from __future__ import annotations

import hashlib
import re
import ssl
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urljoin, urlsplit

import httpx

from husk.images.archive_limits import Refused
from husk.images.registry.image_reference import is_loopback
from husk.images.registry.login_files import Login, find_login
from husk.store.store_errors import StoreError, StoreUsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from husk.images.registry.image_reference import Reference

T = TypeVar("T")
DOCUMENT_LIMIT = 4 << 20  # the size of a manifest that the specification asks registries to take
TOKEN_LIMIT = 1 << 16
REDIRECTS = 5
TRIES = 5  # of one blob, each going on where the last one broke
PAUSE = 0.2  # seconds before the second try; doubled each time
SECONDS = 30.0  # to connect, and for each piece of an answer
INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_PARAMETER = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"|(\w+)=([^\s,"]+)')


class _Broken(Exception):
    """The connection broke, or the registry is busy: another try may help."""


class Registry:
    """One repository of a registry. `close` at the end.

    `insecure`: speak plain http to it. Else only to this machine itself, where TLS was tried first.
    """

    def __init__(self, ref: Reference, *, insecure: bool = False) -> None:
        self.ref, self.insecure = ref, insecure
        self._authorization = ""
        self._login: Login | None = None
        # A proxy is for other machines. `verify`: the system's own authorities, so that a company's counts as well.
        self._http = httpx.Client(
            verify=_authorities(), trust_env=not ref.loopback, timeout=SECONDS, follow_redirects=False,
            headers={"Accept-Encoding": "identity", "User-Agent": "husk"},
        )  # fmt: skip
        try:
            self.base = f"{'http' if insecure or self._is_plain() else 'https'}://{ref.server}"
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._http.close()

    def _is_plain(self) -> bool:
        """Does a registry on this machine speak plain http?"""
        if not self.ref.loopback:
            return False
        try:
            self._http.get(f"https://{self.ref.server}/v2/")
        except httpx.TransportError as error:
            if _is_unproven(error):  # it does speak TLS: what it sent is no reason to do without
                raise self._unreachable(error) from None
            return True
        return False

    # -- what the registry has -------------------------------------------------------------------------------------
    def manifest(self, wanted: str) -> tuple[bytes, str]:
        """(bytes, media type) of a manifest or an index, by tag or digest. A digest is verified."""
        url = f"{self.base}/v2/{self.ref.repository}/manifests/{wanted}"
        kinds = ", ".join((*INDEXES, *MANIFESTS))

        def read(answer: httpx.Response) -> tuple[bytes, str]:
            data = _bounded(answer, DOCUMENT_LIMIT, "the manifest")
            promised = wanted if wanted.startswith("sha256:") else answer.headers.get("docker-content-digest", "")
            if promised.startswith("sha256:") and promised != f"sha256:{hashlib.sha256(data).hexdigest()}":
                raise Refused(f"{self.ref.server} sent a manifest that is not {promised}; nothing of it was kept.")
            return data, answer.headers.get("content-type", "").partition(";")[0].strip()

        return self._patiently(lambda: self._asked(url, {"Accept": kinds}, read))

    def blob(self, digest: str, size: int, write: Callable[[bytes], object]) -> None:
        """Hand the blob's bytes to `write`, in order and each once. At most `size` bytes come, and their digest is
        right when this returns. A broken connection is resumed by a range."""
        url = f"{self.base}/v2/{self.ref.repository}/blobs/{digest}"
        hashed = hashlib.sha256()
        done = 0

        def read(answer: httpx.Response) -> None:
            nonlocal done
            skip = done if answer.status_code != 206 else 0  # a server without ranges begins anew
            if answer.status_code == 206 and not _continues(answer, done):
                raise Refused(f"{self.ref.server} answers a range with another; nothing of {digest} was kept.")
            try:
                for piece in answer.iter_raw():
                    if skip:
                        skip, piece = max(0, skip - len(piece)), piece[skip:]
                    if done + len(piece) > size:
                        raise Refused(f"{self.ref.server} sends more of {digest} than the {size} bytes it has.")
                    hashed.update(piece)
                    write(piece)
                    done += len(piece)
            except httpx.TransportError as error:
                raise _Broken(_said(error)) from None
            if done < size:
                raise _Broken(f"only {done} of {size} bytes came")

        def once() -> None:
            self._asked(url, {"Range": f"bytes={done}-"} if done else {}, read)

        if size:
            self._patiently(once)
        if f"sha256:{hashed.hexdigest()}" != digest:
            raise Refused(f"{self.ref.server} sent bytes that are not {digest}; nothing of them was kept.")

    # -- one question ----------------------------------------------------------------------------------------------
    def _patiently(self, ask: Callable[[], T]) -> T:
        pause = PAUSE
        for left in range(TRIES - 1, -1, -1):
            try:
                return ask()
            except _Broken as error:
                if not left:
                    raise StoreError(f"{self.ref.server} cannot be read: {error}; try again later.") from None
            time.sleep(pause)
            pause *= 2
        raise AssertionError

    def _asked(self, url: str, headers: dict[str, str], read: Callable[[httpx.Response], T]) -> T:
        """GET, with a login if the registry wants one, and redirects."""
        for _ in range(2):
            with self._answer(url, headers) as answer:
                own = _origin(str(answer.url)) == _origin(self.base)
                if own and answer.status_code == 401 and self._authorize(answer.headers.get_list("www-authenticate")):
                    continue
                self._check(answer)
                return read(answer)
        raise self._denied()

    @contextmanager
    def _answer(self, url: str, headers: dict[str, str]) -> Iterator[httpx.Response]:
        for _ in range(REDIRECTS + 1):
            own = dict(headers)
            if self._authorization and _origin(url) == _origin(self.base):
                own["Authorization"] = self._authorization
            try:
                answer = self._http.send(self._http.build_request("GET", url, headers=own), stream=True)
            except httpx.TransportError as error:
                raise self._unreachable(error) from None
            except (httpx.InvalidURL, ValueError):
                raise Refused(f"{self.ref.server} sends us to an address that is none.") from None
            try:
                if not answer.has_redirect_location:
                    yield answer
                    return
                url = self._next(url, answer.headers["location"])
            finally:
                answer.close()
        raise Refused(f"{self.ref.server} sends us from place to place, more than {REDIRECTS} times.")

    def _next(self, here: str, location: str) -> str:
        """Where a redirect leads. Nobody but the person at the keyboard may choose plain http, or this machine."""
        try:
            there = urljoin(here, location)
            parts = urlsplit(there)
            host, secure = parts.netloc.rpartition("@")[2], parts.scheme == "https"
            _origin(there)
        except ValueError:  # of a port that is none, too
            host, secure, parts = "", False, urlsplit("")
        plain = parts.scheme == "http" and (self.insecure or (self.ref.loopback and is_loopback(host)))
        if not host or not (secure or plain) or "@" in parts.netloc:
            raise Refused(f"{self.ref.server} sends us to {location[:200]!r}, where husk does not go.")
        if is_loopback(host) and not self.ref.loopback:
            raise Refused(f"{self.ref.server} sends us to this machine itself, {location[:200]!r}.")
        return there

    def _check(self, answer: httpx.Response) -> None:
        """Anything but success is an error; a busy server may be asked again."""
        code, ref = answer.status_code, self.ref
        if code in (200, 206):
            return
        if code in (401, 403):
            raise self._denied()
        if code == 404:
            raise StoreUsageError(
                f"{ref.server} has no {ref.text!r}, or shows it only after `docker login {ref.registry}`."
            )
        if code == 429:
            raise StoreError(f"{ref.server} answers no more for now (too many requests); wait, or log in first.")
        if code in (500, 502, 503, 504):
            raise _Broken(f"it answers {code}")
        raise StoreError(f"{ref.server} answers {code} to {answer.url.path!r}; it may be no registry.")

    # -- logins ----------------------------------------------------------------------------------------------------
    def _authorize(self, challenges: list[str]) -> bool:
        """Answer a challenge; False: there is no other answer than the one that was just refused."""
        if self._login is None:
            self._login = find_login(self.ref)
        elif self._authorization.startswith("Basic "):
            return False
        kinds = {said.partition(" ")[0].lower(): said for said in challenges}
        if "bearer" in kinds:
            named = _PARAMETER.findall(kinds["bearer"])
            found = {(one or three).lower(): two or four for one, two, three, four in named}
            if realm := found.get("realm"):
                token = self._token(self._next(self.base, realm), found.get("service", ""))
                self._authorization = f"Bearer {token}"
                return True
        if "basic" in kinds and self._login.user:
            self._authorization = self._login.basic
            return True
        return False

    def _token(self, realm: str, service: str) -> str:
        """A token for reading this repository and nothing else. The scope is ours, not what the registry asks for."""
        login = self._login or Login()
        scope = f"repository:{self.ref.repository}:pull"
        query = {"service": service, "scope": scope}
        try:
            if login.token:
                form = {**query, "grant_type": "refresh_token", "refresh_token": login.token, "client_id": "husk"}
                request = self._http.build_request("POST", realm, data=form)
            else:
                headers = {"Authorization": login.basic} if login else {}
                request = self._http.build_request("GET", httpx.URL(realm).copy_merge_params(query), headers=headers)
            answer = self._http.send(request, stream=True)
        except httpx.TransportError as error:
            raise self._unreachable(error) from None
        try:
            if answer.status_code in (401, 403):
                raise self._denied()
            if answer.status_code != 200:
                raise StoreError(f"{self.ref.registry} gives no token ({answer.status_code}); try again later.")
            return self._read_token(_bounded(answer, TOKEN_LIMIT, "the token"))
        finally:
            answer.close()

    def _read_token(self, data: bytes) -> str:
        import json

        try:
            found = json.loads(data)
            token = found.get("token") or found.get("access_token")
        except (ValueError, AttributeError, RecursionError):
            token = None
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise Refused(f"{self.ref.registry} gives a token that is none.")
        return token

    def _denied(self) -> StoreUsageError:
        what = "refuses the login it has from you" if self._login else "wants a login"
        return StoreUsageError(
            f"{self.ref.server} {what} for {self.ref.text!r}; `docker login {self.ref.registry}` or `podman login "
            f"{self.ref.registry}` writes one that husk reads, if that image exists."
        )

    def _unreachable(self, error: httpx.TransportError) -> Exception:
        if _is_unproven(error):
            return StoreError(
                f"{self.ref.server} cannot prove who it is ({_said(error)}); SSL_CERT_FILE may name more authorities."
            )
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.UnsupportedProtocol):
            maybe_plain = "refused" in str(error) or "SSL" in str(error)
            named = maybe_plain and not self.insecure and not self.ref.loopback
            http = "; if it speaks plain http only, use --insecure" if named else "; check the name and the network"
            return StoreError(f"{self.ref.server} cannot be reached ({_said(error)}){http}.")
        return _Broken(_said(error))


def _is_unproven(error: httpx.TransportError) -> bool:
    return isinstance(error, httpx.ConnectError) and "CERTIFICATE" in str(error).upper()


def _said(error: Exception) -> str:
    return str(error)[:200] or type(error).__name__


def _origin(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or (443 if parts.scheme == "https" else 80)


def _bounded(answer: httpx.Response, most: int, what: str) -> bytes:
    data = b""
    try:
        for piece in answer.iter_raw():
            data += piece
            if len(data) > most:
                raise Refused(f"{what} of {answer.url.host} is larger than {most} bytes, as no real one is.")
    except httpx.TransportError as error:
        raise _Broken(_said(error)) from None
    return data


def _continues(answer: httpx.Response, done: int) -> bool:
    said = str(answer.headers.get("content-range", ""))
    return said.replace(" ", "").startswith(f"bytes{done}-")


def _authorities() -> ssl.SSLContext:
    paths = ssl.get_default_verify_paths()
    if paths.cafile or paths.capath:
        return ssl.create_default_context()
    import certifi

    return ssl.create_default_context(cafile=certifi.where())
