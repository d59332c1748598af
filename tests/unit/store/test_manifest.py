"""Manifests: deterministic, the same for both readers, and open without being read."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from husk.native import _core
from husk.store.manifests.check_manifest import check_manifest
from husk.store.manifests.manifest import Entry, Manifest
from husk.store.manifests.plain_manifest import PlainManifest, name_hash
from husk.store.store_errors import BadManifest
from tests.unit.store.trees import Addition, fixed, random_trees, written

# The same on every machine, for ever: a change is a new version of the format.
GOLDEN = "4c368a1f7d3b0e37927a1f3d8b4fcc6769c6c28683b698c9899f6731035ac458"
GOLDEN_SIZE = 2304


def opened(data: bytes) -> Manifest:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        return Manifest(file.fileno())


def test_golden_digest() -> None:
    from blake3 import blake3

    data = written(fixed())
    assert (blake3(data).hexdigest(), len(data)) == (GOLDEN, GOLDEN_SIZE)


def test_what_was_added_is_read_back() -> None:
    manifest = opened(written(fixed()))
    for path, mode, more in fixed():
        entry = manifest.lookup(path)
        assert entry is not None
        assert (entry.path, entry.mode, entry.uid, entry.gid) == (path, mode, more.get("uid", 0), more.get("gid", 0))
        assert entry.mtime_ns == more.get("mtime_ns", 0)
        assert entry.xattrs == more.get("xattrs", {})
        assert entry.blob == more.get("blob", bytes(32))
        assert entry.target == more.get("target", b"")
        assert entry.size == more.get("size", len(entry.target))
        assert (entry.rdev_major, entry.rdev_minor) == more.get("rdev", (0, 0))
        assert entry.flags == more.get("flags", 0)
    assert manifest.listdir(b"") == [b"a", b"a-b", b"dev", b"fifo", b"gone", b"n\xc3\xa4me \xff\n", b"socket"]
    assert manifest.listdir(b"a") == [b"b", b"link"]
    with pytest.raises(KeyError):
        manifest.listdir(b"a/b")


def test_hard_links_share_an_inode_and_directories_count_theirs() -> None:
    manifest = opened(written(fixed()))
    first, second, root, device = (manifest.lookup(path) for path in (b"a/b", b"a-b", b"", b"dev/null"))
    assert first and second and root and device
    assert (first.inode, first.nlink, second.nlink) == (second.inode, 2, 2)
    assert device.nlink == 1
    assert root.nlink == 2 + 2  # a and dev


def test_a_missing_root_is_supplied() -> None:
    root = opened(written([])).lookup(b"")
    assert root is not None and root.is_directory and root.child_count == 0


@pytest.mark.parametrize(
    ("additions", "complaint"),
    [
        ([(b"a/b", 0o040755, {})], "directory it is in is missing"),
        ([(b"a", 0o010600, {}), (b"a/b", 0o010600, {})], "no directory"),
        ([(b"a", 0o010600, {}), (b"a", 0o010600, {})], "twice"),
        ([(b"/a", 0o010600, {})], "relative"),
        ([(b"a/../b", 0o010600, {})], "relative"),
        ([(b"a//b", 0o010600, {})], "relative"),
        ([(b"a/", 0o040755, {})], "relative"),
        ([(b".", 0o040755, {})], "relative"),
        ([(b"a\0b", 0o010600, {})], "relative"),
        ([(b"x" * 256, 0o010600, {})], "relative"),
        ([(b"a", 0o100600, {})], "hash"),
        ([(b"a", 0o120777, {})], "target"),
        ([(b"a", 0o600, {})], "no type"),
        ([(b"a", 0o040755, {"link": 1}), (b"b", 0o040755, {"link": 1})], "hard link"),
        ([(b"a", 0o010600, {"link": 1}), (b"b", 0o010644, {"link": 1})], "different things"),
        ([(b"a", 0o010600, {"flags": 2})], "flags"),
        ([(b"a", 0o010600, {"rdev": (1, 2)})], "device"),
        ([(b"", 0o100600, {"blob": bytes(32)})], "root"),
    ],
)
def test_no_tree(additions: list[Addition], complaint: str) -> None:
    with pytest.raises(BadManifest, match=complaint):
        written(additions)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(random_trees(), some.randoms(use_true_random=False))
def test_order_does_not_matter(tree: list[Addition], chance: random.Random) -> None:
    shuffled = list(tree)
    chance.shuffle(shuffled)
    assert written(tree) == written(shuffled)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(random_trees(), some.lists(some.binary(max_size=12), max_size=20))
def test_both_readers_agree_and_the_checker_is_content(tree: list[Addition], others: list[bytes]) -> None:
    data = written(tree)
    fast, plain = opened(data), check_manifest(data)
    assert len(fast) == len(plain) == len(tree) + (b"" not in [path for path, _, _ in tree])
    for number in range(len(plain)):
        assert fast.entry(number) == Entry(number, plain.entry(number))
    for path in [*others, *(path for path, _, _ in tree), *(path + b"/" for path, _, _ in tree)]:
        found = fast.lookup(path)
        assert (found.number if found else -1) == plain.lookup(path)
        assert (found is not None) == (path in [name for name, _, _ in tree] or path == b"")


def test_many_names() -> None:
    """More than one block of the filter, probes longer than one, and no name found that is not there."""
    names = [b"%06d" % number for number in range(0, 60_000, 2)]
    data = written([(name, 0o010600, {}) for name in names])
    manifest = opened(data)
    assert manifest.listdir(b"") == names
    assert all(manifest.mapped.lookup(name) > 0 for name in names)
    assert all(manifest.mapped.lookup(b"%06d" % number) < 0 for number in range(1, 60_000, 2))
    assert 1 < PlainManifest(data).longest < 64


def test_the_filter_alone_turns_most_absent_names_away() -> None:
    """The format page says fewer than one in fifty; without the filter each would be looked up in the table."""
    data = written([(b"%06d" % number, 0o010600, {}) for number in range(43_000)])
    manifest = PlainManifest(data)
    full = sum(bin(byte).count("1") for byte in data[manifest.bloom_at :]) / (manifest.blocks * 512)
    assert full**6 < 0.02


def test_opening_looks_at_the_header_only() -> None:
    """A damaged body is not noticed when the manifest is opened, and every use of it is refused."""
    data = bytearray(written(fixed()))
    rubbish = random.Random(1)
    data[256:] = rubbish.randbytes(len(data) - 256)
    manifest = opened(bytes(data))
    for path, _, _ in fixed():
        manifest.lookup(path)
    for number in range(len(manifest)):
        with pytest.raises(BadManifest):
            manifest.entry(number)
    with pytest.raises(BadManifest, match="checksum"):
        check_manifest(bytes(data))


@pytest.mark.parametrize("size", [0, 8, 255, 256, 300, -1, -64])
def test_truncated(size: int) -> None:
    data = written(fixed())[:size]
    with pytest.raises(BadManifest):
        opened(data)
    with pytest.raises(BadManifest):
        check_manifest(data)


def test_a_name_longer_than_any_path() -> None:
    assert opened(written([])).lookup(b"x" * 5000) is None
    assert PlainManifest(written([])).lookup(b"x" * 5000) == -1


@settings(derandomize=True)
@given(some.binary(min_size=16, max_size=16), some.binary(max_size=70))
def test_both_hashes_agree(seed: bytes, data: bytes) -> None:
    assert _core.name_hash(seed, data) == name_hash(seed, data)


@pytest.mark.skipif(sys.hash_info.algorithm != "siphash13", reason="this Python hashes bytes in another way")
def test_the_hash_is_the_one_python_uses() -> None:
    """With a zero seed CPython's own SipHash-1-3 has a zero key: an independent implementation."""
    code = "print([hash(bytes(range(n))) & (2**64 - 1) for n in range(1, 40)])"
    out = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert [name_hash(bytes(16), bytes(range(n))) for n in range(1, 40)] == eval(out.stdout)


def test_a_manifest_names_no_host_path(tmp_path: Path) -> None:
    from husk.store.ingest import ingest
    from husk.store.store import Store
    from tests.unit.store.trees import make_tree

    store = Store.create(str(tmp_path / "the-store"))
    report = ingest(store, str(make_tree(tmp_path / "the-tree")))
    data = Path(store.blob_path(report.manifest)).read_bytes()
    assert b"the-store" not in data and b"the-tree" not in data and bytes(tmp_path) not in data
