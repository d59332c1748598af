"""`husk image pull`: references, logins, what comes out, and registries that lie."""

from __future__ import annotations

import base64
import gzip
import json
import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from husk.images.archive_limits import Limits
from husk.images.image_import import import_image
from husk.images.registry import registry_client
from husk.images.registry.image_reference import Reference, is_loopback, spellings
from husk.images.registry.login_files import find_login
from husk.images.registry.pull_image import pull
from husk.store.store import Store
from husk.store.store_errors import StoreError, StoreUsageError
from tests.images.archives import CONFIG, Layout, digest, everything, folder, lines, member, tar
from tests.images.registry_server import INDEX, SECRET, TOKEN, USER, Content, Stand, push, serve
from tests.images.test_command import document, image

LOWER = tar(folder("bin"), member("bin/sh", content=b"#!", mode=0o755), member("old", content=b"o"))
UPPER = tar(member(".wh.old"), member("new", content=b"n" * 3000))
LAYERS = ((gzip.compress(LOWER), LOWER, "+gzip"), (zstandard.compress(UPPER), UPPER, "+zstd"))


@pytest.fixture(autouse=True)
def logins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No login of the person who runs the tests, and no waiting."""
    for name in ("REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    monkeypatch.setattr(registry_client, "PAUSE", 0.001)


@pytest.fixture
def stand() -> Iterator[Stand]:
    with serve() as found:
        found.content.image(*LAYERS, tag="1")
        yield found


def log_in(tmp_path: Path, address: str) -> None:
    (tmp_path / "docker").mkdir(exist_ok=True)
    auth = base64.b64encode(f"{USER}:{SECRET}".encode()).decode()
    (tmp_path / "docker" / "config.json").write_text(json.dumps({"auths": {address: {"auth": auth}}}))


REFERENCES = {
    "debian": ("docker.io", "library/debian", "latest"),
    "debian:12": ("docker.io", "library/debian", "12"),
    "a/b": ("docker.io", "a/b", "latest"),
    "index.docker.io/x": ("docker.io", "library/x", "latest"),
    "localhost/x:1": ("localhost", "x", "1"),
    "localhost:5000/x/y:tag": ("localhost:5000", "x/y", "tag"),
    "[::1]:5000/x": ("[::1]:5000", "x", "latest"),
    f"ghcr.io/a/b@sha256:{'0' * 64}": ("ghcr.io", "a/b", f"sha256:{'0' * 64}"),
    f"ghcr.io/a/b:1@sha256:{'0' * 64}": ("ghcr.io", "a/b", f"sha256:{'0' * 64}"),
    "docker://quay.io/a/b__c-d.e": ("quay.io", "a/b__c-d.e", "latest"),
}


def test_references() -> None:
    for text, expected in REFERENCES.items():
        ref = Reference(text)
        assert (ref.registry, ref.repository, ref.wanted) == expected, text
    assert Reference("debian").server == "registry-1.docker.io"
    for text in ("", "Debian", "a//b", "a:b:c", "x@sha256:12", "x@md5:00", "host.io/", "a/../b", "x y", "http://a/b"):
        with pytest.raises(StoreUsageError, match="no reference to an image"):
            Reference(text)
    assert [name for name in ("localhost:1", "127.3.2.1", "[::1]:5", "[::1]", "localhost.evil.org", "10.0.0.1:1")
            if is_loopback(name)] == ["localhost:1", "127.3.2.1", "[::1]:5", "[::1]"]
    assert spellings("docker.io/library/debian") == [
        "docker.io/library/debian", "debian:latest", "debian", "docker.io/library/debian:latest",
    ]  # fmt: skip


def test_the_same_image_as_from_a_layout(store: Store, stand: Stand, tmp_path: Path) -> None:
    report, name = pull(store, f"{stand.address}/a/b:1", "pulled")
    layout = Layout(tmp_path / "layout")
    import_image(store, str(layout.index(layout.image(*((packed, plain) for packed, plain, _ in LAYERS)))), "imported")
    pulled, imported = store.images.get("pulled"), store.images.get("imported")
    assert (pulled.layers, pulled.config.as_json()) == (imported.layers, imported.config.as_json())
    assert name == digest(stand.content.manifests["1"][0]) and report.files == 3
    assert set(lines(store, pulled)) == {"", "bin", "bin/sh", "new"}
    by_digest = f"{stand.address}/a/b@{name}"
    assert pull(store, by_digest)[0].image == by_digest


def test_platforms(store: Store, stand: Stand) -> None:
    other = tar(member("arm", content=b"a", mode=0o755))
    note = {**stand.content.put({"x": 1}, "y"), "platform": {"os": "unknown", "architecture": "unknown"}}
    arm = stand.content.image((other, other, ""), architecture="arm64")
    stand.content.index(note, arm, stand.content.image(*LAYERS), tag="many")
    ref = f"{stand.address}/a/b:many"
    assert pull(store, ref)[0].files == 3
    pull(store, ref, "arm", platform="linux/aarch64")
    assert set(lines(store, store.images.get("arm"))) == {"", "arm"}
    with pytest.raises(StoreUsageError, match="for linux/s390x, only for linux/arm64, linux/amd64; --platform"):
        pull(store, ref, platform="linux/s390x")
    with pytest.raises(StoreUsageError, match="no platform"):
        pull(store, ref, platform="amd64")


@pytest.mark.parametrize("way", ["basic", "bearer"])
def test_logins(store: Store, stand: Stand, tmp_path: Path, way: str) -> None:
    stand.login = way
    ref = f"{stand.address}/a/b:1"
    with pytest.raises(StoreUsageError, match=f"wants a login for .*`docker login {stand.address}`"):
        pull(store, ref)
    log_in(tmp_path, stand.address)
    pull(store, ref)
    for path, said in stand.asked("/blobs/"):
        assert said == (f"Bearer {TOKEN}" if way == "bearer" else said) and said, path
    (tmp_path / "docker" / "config.json").write_text(json.dumps({"auths": {stand.address: {"auth": "eDp5"}}}))
    with pytest.raises(StoreUsageError, match="refuses the login"):
        pull(store, ref)


def test_where_logins_come_from(tmp_path: Path) -> None:
    ref, home = Reference("example.org/a/b"), tmp_path / "home"
    environ = {"HOME": str(home), "XDG_RUNTIME_DIR": str(tmp_path / "run")}
    assert not find_login(ref, environ)
    (home / ".docker").mkdir(parents=True)
    (home / ".docker" / "config.json").write_text('{"auths": {"https://example.org": {"auth": "ZG9ja2VyOm9uZQ=="}}}')
    assert find_login(ref, environ).user == "docker"
    (tmp_path / "run" / "containers").mkdir(parents=True)
    auths = {"example.org": {"auth": "d2hvbGU6eA=="}, "example.org/a": {"auth": "cGFydDp4"}}
    (tmp_path / "run" / "containers" / "auth.json").write_text(json.dumps({"auths": auths}))
    assert find_login(ref, environ).user == "part"
    assert find_login(Reference("example.org/c"), environ).user == "whole"
    assert not find_login(Reference("debian"), environ)
    (tmp_path / "named").write_text('{"auths": {"example.org": {"identitytoken": "t"}}}')
    assert find_login(ref, {**environ, "REGISTRY_AUTH_FILE": str(tmp_path / "named")}).token == "t"
    for text, why in (("[]", "not JSON"), ("{", "not JSON"),
                      ('{"auths": {"example.org": {"auth": "%"}}}', "is damaged"),
                      ('{"credsStore": "../x"}', "no name of a program"), ('{"credsStore": "none"}', "not in PATH")):
        (tmp_path / "named").write_text(text)
        with pytest.raises(StoreUsageError, match=why):
            find_login(ref, {"REGISTRY_AUTH_FILE": str(tmp_path / "named")})
    with pytest.raises(StoreUsageError, match="does not exist"):
        find_login(ref, {"REGISTRY_AUTH_FILE": str(tmp_path / "missing")})


def test_a_credential_helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper = tmp_path / "docker-credential-mine"
    helper.write_text(
        "#!/bin/sh\nread server\n"
        'case $server in example.org) echo \'{"Username": "u", "Secret": "s"}\';;\n'
        'token.org) echo \'{"Username": "<token>", "Secret": "s"}\';;\n'
        "*) echo credentials not found in native keychain; exit 1;; esac\n"
    )
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "file").write_text('{"credHelpers": {"example.org": "mine"}, "credsStore": "mine"}')
    environ = {"REGISTRY_AUTH_FILE": str(tmp_path / "file")}
    assert find_login(Reference("example.org/a"), environ).secret == "s"
    assert find_login(Reference("token.org/a"), environ).token == "s"
    assert not find_login(Reference("debian"), environ)


def twisted(stand: Stand, how: str, elsewhere: Stand) -> None:
    """Make the stand-in misbehave for one thing it is asked."""
    blob = stand.content.manifests["1"][0]
    layer = json.loads(blob)["layers"][1]["digest"]

    def twist(handler: Any, kind: str, name: str) -> bool:
        if how in ("tag", "long-tag") and kind == "manifests" and name == "1":
            data = b"{}" if how == "tag" else b" " * (registry_client.DOCUMENT_LIMIT + 1)
            handler.send(data, Content_Type="x", Docker_Content_Digest=digest(blob))
        elif name != layer:
            return False
        elif how == "digest":
            handler.send(bytes(len(stand.content.blobs[layer])))
        elif how == "short":
            handler.send(stand.content.blobs[layer][:-1])
        elif how == "range":
            data = stand.content.blobs[layer]
            if handler.headers.get("Range"):
                handler.send(data, 206, Content_Range=f"bytes 0-{len(data) - 1}/{len(data)}")
            else:
                handler.send(data[:5])
        elif how == "endless":
            handler.send_response(200)
            handler.end_headers()
            for _ in range(1 << 10):  # 64 MiB are no end, but no test's disk is filled by them
                handler.wfile.write(bytes(1 << 16))
        elif how == "loop":
            handler.send(b"", 307, Location=handler.path)
        elif how == "plain":
            handler.send(b"", 307, Location="http://192.0.2.1/x")
        elif how == "file":
            handler.send(b"", 307, Location="file:///etc/passwd")
        elif how == "port":
            handler.send(b"", 307, Location="https://192.0.2.1:99999/x")
        elif how == "busy":
            handler.send(b"", 503)
        elif how == "gone":
            handler.send(b"", 404)
        elif how == "many":
            handler.send(b"", 429)
        elif how == "foreign":
            # Another port is another origin. It must not learn the token, whatever it asks for.
            handler.send(b"", 307, Location=f"http://{elsewhere.address}/v2/a/b/blobs/{layer}")
        else:
            raise AssertionError(how)
        return True

    stand.twist = twist


LIES = {
    "tag": "sent a manifest that is not sha256:",
    "long-tag": "is larger than 4194304 bytes",
    "digest": "sent bytes that are not sha256:",
    "short": "cannot be read: only",
    "range": "answers a range with another",
    "endless": "sends more of sha256:",
    "loop": "more than 5 times",
    "plain": "where husk does not go",
    "file": "where husk does not go",
    "port": "where husk does not go",
    "busy": "it answers 503; try again later",
    "gone": "has no ",
    "many": "too many requests",
}


@pytest.mark.parametrize("how", LIES)
def test_a_registry_that_lies(store: Store, stand: Stand, how: str) -> None:
    before = everything(Path(store.place))
    twisted(stand, how, stand)
    fetched = [0]
    with pytest.raises(StoreError, match=LIES[how]) as caught:
        pull(store, f"{stand.address}/a/b:1", advance=lambda done, _: fetched.append(done))
    assert fetched[-1] <= sum(map(len, stand.content.blobs.values()))
    assert "\n" not in str(caught.value)
    assert everything(Path(store.place)) == before


def test_a_login_stays_with_its_registry(store: Store, stand: Stand, tmp_path: Path) -> None:
    stand.login = "bearer"
    log_in(tmp_path, stand.address)
    with serve() as other:
        other.content = stand.content
        twisted(stand, "foreign", other)
        pull(store, f"{stand.address}/a/b:1")
        assert [said for _, said in other.seen] == [""]
        for other.login in ("basic", "bearer"):  # it asks who is there, and names a place of its own for tokens
            with pytest.raises(StoreUsageError):
                pull(store, f"{stand.address}/a/b:1", "x")
        assert {said for _, said in other.seen} == {""}


def test_a_broken_connection_is_resumed(store: Store, stand: Stand) -> None:
    layer = json.loads(stand.content.manifests["1"][0])["layers"][0]["digest"]
    ranges: list[str] = []

    def twist(handler: Any, kind: str, name: str) -> bool:
        data = stand.content.blobs.get(name, b"")
        if name != layer:
            return False
        ranges.append(handler.headers.get("Range", ""))
        if len(ranges) == 3:  # a server may ignore a range
            handler.send(data)
            return True
        start = int(ranges[-1].removeprefix("bytes=").rstrip("-") or 0)
        handler.send_response(206 if start else 200)
        handler.send_header("Content-Length", str(len(data) - start))
        handler.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        handler.end_headers()
        handler.wfile.write(data[start : start + 20])
        handler.close_connection = True
        return True

    stand.twist = twist
    assert pull(store, f"{stand.address}/a/b:1")[0].files == 3
    assert ranges == ["", "bytes=20-", "bytes=40-"]


def test_tls(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry must prove who it is. One that cannot is not asked without TLS instead, on this machine neither."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    make += ["-days", "2", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"]
    make += ["-keyout", "key", "-out", "certificate"]
    subprocess.run(make, cwd=tmp_path, check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "certificate", tmp_path / "key")
    with serve(tls) as stand:
        stand.content.image(*LAYERS, tag="1")
        with pytest.raises(StoreError, match=r"cannot prove who it is .*SSL_CERT_FILE"):
            pull(store, f"{stand.address}/a/b:1")
        assert stand.seen == []
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate"))
        assert pull(store, f"{stand.address}/a/b:1")[0].files == 3


def test_limits_and_layers_that_husk_cannot_read(store: Store, stand: Stand) -> None:
    with pytest.raises(StoreError, match="--max-bytes allows 100"):
        pull(store, f"{stand.address}/a/b:1", limits=Limits(size=100))
    manifest = json.loads(stand.content.manifests["1"][0])
    for change, why in (({"size": None}, "how large its parts are"), ({"size": -1}, "how large"),
                        ({"size": 1 << 60}, "--max-bytes"), ({"mediaType": "a+encrypted"}, "'a\\+encrypted'"),
                        ({"digest": "sha256:../../x"}, "no SHA-256 digest")):
        stand.content.put({**manifest, "layers": [{**manifest["layers"][0], **change}]}, manifest["mediaType"], "2")
        with pytest.raises(StoreError, match=why):
            pull(store, f"{stand.address}/a/b:2")
    deep = stand.content.put({"manifests": []}, INDEX)
    for _ in range(5):
        deep = stand.content.put({"manifests": [deep]}, INDEX, "deep")
    with pytest.raises(StoreError, match="too deeply"):
        pull(store, f"{stand.address}/a/b:deep")


def test_the_command(store: Store, stand: Stand) -> None:
    ref = f"{stand.address}/a/b:1"
    done = image(store, "pull", ref, "--name", "web")
    assert done.stdout.startswith(f"{ref} is sha256:") and "husk run --image web" in done.stdout
    found = document(store, "pull", ref)
    assert (found["image"], found["ref"], found["digest"]) == (ref, ref, digest(stand.content.manifests["1"][0]))
    assert document(store, "inspect", ref)["config"]["cmd"] == CONFIG["Cmd"]
    assert "no reference" in image(store, "pull", "A B", code=2).stderr
    assert "has no " in image(store, "pull", f"{stand.address}/a/b:none", code=2).stderr
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        assert "cannot be reached" in image(store, "pull", f"localhost:{port}/x", code=1).stderr


def test_debians_registry(store: Store, tmp_path: Path) -> None:
    """The real thing, where it is installed (Debian: docker-registry)."""
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip("docker-registry is not installed; the stand-in was asked instead")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    (tmp_path / "config.yml").write_text(
        f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {tmp_path}/data}}}}\n"
        f"http: {{addr: '{address}'}}\n"
    )
    content = Content()
    content.index(content.image(*LAYERS), content.image(*LAYERS[:1], architecture="arm64"), tag="1")
    with subprocess.Popen([program, "serve", str(tmp_path / "config.yml")], stdout=-3, stderr=-3) as server:
        try:
            for _ in range(200):
                try:
                    push(content, address, "a/b", "1")
                    break
                except OSError:
                    time.sleep(0.05)
            report, name = pull(store, f"{address}/a/b:1")
            assert report.files == 3 and name in content.manifests
            assert pull(store, f"{address}/a/b:1", "arm", platform="linux/arm64")[0].files == 2
        finally:
            server.terminate()
