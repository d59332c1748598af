"""Blobs, images, leases: what other layers build on."""

from __future__ import annotations

import os
import stat as st
import threading
from pathlib import Path

import pytest
from blake3 import blake3

from husk.store.images import Image, ImageConfig
from husk.store.layout import default_place
from husk.store.locks import StoreLock, leased
from husk.store.manifests.manifest_writer import ManifestWriter
from husk.store.store import Store
from husk.store.store_errors import StoreError, StoreUsageError


def content(store: Store, hash_: str) -> bytes:
    fd = store.open_blob(hash_)
    with os.fdopen(fd, "rb") as file:
        return file.read()


@pytest.mark.parametrize("data", [b"", b"x", b"y" * 3_000_000])
def test_a_blob_goes_in_and_comes_out(store: Store, data: bytes) -> None:
    hash_ = store.put_blob(data)
    assert hash_ == blake3(data).hexdigest()
    assert content(store, hash_) == data
    assert store.has(hash_)
    assert os.listdir(os.path.join(store.place, "tmp")) == []


def test_a_blob_from_a_descriptor_is_read_from_its_beginning(store: Store, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc" * 1_000_000)
    fd = os.open(tmp_path / "f", os.O_RDONLY)
    os.lseek(fd, 5, os.SEEK_SET)
    hash_ = store.put_blob(fd)
    os.close(fd)
    assert content(store, hash_) == b"abc" * 1_000_000


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o777])
def test_a_blob_is_0444_whatever_the_umask(store: Store, mask: int) -> None:
    before = os.umask(mask)
    try:
        with store.writing() as writing:
            hashes = [writing.put_blob(b"%o" % mask)]
            fd = os.open("/proc/self/cmdline", os.O_RDONLY)
            hashes.append(writing.put_blob(fd))
            os.close(fd)
    finally:
        os.umask(before)
    for hash_ in hashes:
        assert st.S_IMODE(os.stat(store.blob_path(hash_)).st_mode) == 0o444


def test_a_blob_cannot_be_written_through_its_descriptor(store: Store) -> None:
    fd = store.open_blob(store.put_blob(b"x"))
    with pytest.raises(OSError):
        os.write(fd, b"y")
    os.close(fd)


def test_nothing_is_there_before_it_is_published(store: Store) -> None:
    with store.writing() as writing:
        hash_ = writing.put_blob(b"x")
        assert not store.has(hash_)
        writing.publish()
        assert store.has(hash_)


def test_an_exception_publishes_nothing(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), store.writing() as writing:
        hash_ = writing.put_blob(b"x")
        raise ZeroDivisionError
    assert not store.has(hash_)
    assert os.listdir(os.path.join(store.place, "tmp")) == []


def test_the_same_blob_from_many_threads(store: Store) -> None:
    found = []
    with store.writing() as writing:

        def put() -> None:
            found.append(writing.put_blob(b"same"))
            found.append(writing.put_blob(source))

        source = os.open("/proc/self/status", os.O_RDONLY)
        os.close(source)
        source = os.memfd_create("same")
        os.write(source, b"same")
        threads = [threading.Thread(target=put) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        os.close(source)
    assert found == [blake3(b"same").hexdigest()] * 16
    assert content(store, found[0]) == b"same"


def test_what_is_no_hash(store: Store) -> None:
    for wrong in ("", "ab", "../../etc/passwd", "G" * 64, "a" * 63):
        with pytest.raises(StoreUsageError):
            store.open_blob(wrong)
        with pytest.raises(StoreUsageError):
            store.has(wrong)
    with pytest.raises(StoreError, match="missing"):
        store.open_blob("0" * 64)


def manifest(store: Store) -> str:
    writer = ManifestWriter()
    writer.add(b"f", st.S_IFREG | 0o644, size=1, blob=store.put_blob(b"x"))
    return store.put_manifest(writer.finish())


def test_manifests_and_images(store: Store) -> None:
    layer = manifest(store)
    config = ImageConfig({"PATH": "/bin"}, "1000:1000", "/work", ["/bin/sh"], ["-c", "x"], {"a": "b"})
    with store.writing() as writing:
        writing.set_image("team/base:1.0", [layer, layer], config)
    assert store.images.list() == ["team/base:1.0"]
    image = store.images.get("team/base:1.0")
    assert image.layers == [layer, layer]
    assert image.config.as_json() == config.as_json()
    assert image.created_ns > 0
    entry = store.open_manifest(layer).lookup(b"f")
    assert entry is not None and content(store, entry.hash) == b"x"
    store.images.rm("team/base:1.0")
    assert store.images.list() == []
    with pytest.raises(StoreUsageError):
        store.images.rm("team/base:1.0")


def test_an_image_cannot_name_what_is_not_there(store: Store) -> None:
    with pytest.raises(StoreUsageError, match="no such manifest"), store.writing() as writing:
        writing.set_image("x", ["0" * 64])
    assert store.images.list() == []


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/../b", "/a", "a/", "a//b", ".hidden", "-x", "a b", "a%b", "a\nb", "ä", "x" * 201]
)
def test_names_no_image_can_have(store: Store, name: str) -> None:
    with pytest.raises(StoreUsageError):
        store.images.get(name)
    with pytest.raises(StoreUsageError):
        store.images.set(name, Image(["0" * 64]))
    assert os.listdir(os.path.join(store.place, "images")) == []


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"format": 1, "layers": ["../x"], "config": {}, "created_ns": 1}',
             '{"format": 1, "layers": [], "config": {}, "created_ns": 1}',
             '{"format": 1, "layers": [1], "config": {}, "created_ns": 1}',
             '{"format": 1, "layers": ["%s"], "config": {"x": 1}, "created_ns": 1}' % ("0" * 64),
             '{"format": 1, "layers": ["%s"], "config": {"env": {"A": 1}}, "created_ns": 1}' % ("0" * 64)],
)  # fmt: skip
def test_a_damaged_record_says_so(store: Store, text: str) -> None:
    Path(store.place, "images", "x").write_text(text)
    with pytest.raises(StoreError, match="damaged"):
        store.images.get("x")


def test_a_lease_is_held_and_given_back(store: Store) -> None:
    layer = manifest(store)
    with store.writing() as writing:
        writing.set_image("x", [layer])
    lease, image = store.lease_image("x")
    assert image.manifests == [layer]
    with StoreLock(store.place, exclusive=True):
        assert leased(store.place) == ({layer}, [])
    lease.close()
    assert leased(store.place) == (set(), [])
    assert os.listdir(os.path.join(store.place, "leases")) == []


def test_a_lease_of_a_dead_process_is_stale(store: Store) -> None:
    layer = manifest(store)
    pid = os.fork()
    if not pid:
        store.lease([layer])
        os._exit(0)
    os.waitpid(pid, 0)
    used, stale = leased(store.place)
    assert used == set() and len(stale) == 1


def test_where_the_store_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUSK_STORE", "/given")
    assert default_place() == "/given"
    monkeypatch.delenv("HUSK_STORE")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_place() == "/data/husk/store"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/me")
    assert default_place() == "/home/me/.local/share/husk/store"


def test_what_is_not_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreUsageError, match="no store"):
        Store.open(str(tmp_path / "nothing"))
    (tmp_path / "precious").write_text("keep")
    with pytest.raises(StoreUsageError, match="not empty"):
        Store.create(str(tmp_path))
    assert os.listdir(tmp_path) == ["precious"]


def test_a_store_others_can_write(store: Store) -> None:
    os.chmod(store.place, 0o777)
    with pytest.raises(StoreError, match="written by others"):
        Store.open(store.place)


def test_a_store_of_another_version(store: Store) -> None:
    Path(store.place, "version").write_text("husk store 9\n")
    with pytest.raises(StoreError, match="another version"):
        Store.open(store.place)


def test_a_run_without_an_image_does_not_import_the_store() -> None:
    import subprocess
    import sys

    unwanted = ("blake3", "rich", "husk.store.")
    code = f"import sys, husk.cli.cmd_run; print([name for name in sys.modules if name.startswith({unwanted})])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "[]\n"
