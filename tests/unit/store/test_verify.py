"""Verify: finds damaged blobs, names the images that use them, quarantines them, and restores them from a copy."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from husk.store.ingest import Report, ingest
from husk.store.repair import repair
from husk.store.store import Store
from husk.store.store_errors import StoreUsageError
from husk.store.verify import Outcome, settle, verify


def blob_of(store: Store, report: Report, path: bytes) -> str:
    entry = store.open_manifest(report.manifest).lookup(path)
    assert entry is not None
    return entry.hash


def damage(store: Store, hash_: str, how: str) -> None:
    path = Path(store.blob_path(hash_))
    mode = path.stat().st_mode
    path.chmod(0o600)
    if how == "changed":
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    elif how == "truncated":
        os.truncate(path, path.stat().st_size // 2)
    elif how == "missing":
        path.unlink()
        return
    path.chmod(mode)


def verified(store: Store, repair_from: str = "") -> Outcome:
    outcome = verify(store)
    settle(store, outcome)
    if repair_from:
        repair(store, outcome, repair_from)
    return outcome


@pytest.mark.parametrize("how", ["changed", "truncated", "missing"])
def test_a_damaged_blob(store: Store, tree: Path, tmp_path: Path, how: str) -> None:
    report = ingest(store, str(tree), "image")
    (tmp_path / "other").mkdir()
    ingest(store, str(tmp_path / "other"), "untouched")
    hash_ = blob_of(store, report, b"bin/twin")
    damage(store, hash_, how)
    outcome = verified(store)
    (finding,) = outcome.findings
    assert (finding.what, finding.hash, finding.images) == ("blob", hash_, ["image"])
    assert finding.paths == ["hard", "bin/tool", "bin/twin"]
    assert finding.quarantined == (how != "missing") and not outcome.clean
    assert not store.has(hash_)
    assert len(os.listdir(os.path.join(store.place, "quarantine"))) == (how != "missing")
    # Ingested again, all is well: no index claims that the blob is there.
    assert ingest(store, str(tree), "image").new_blobs == 1
    assert verify(store).findings == []


@pytest.mark.parametrize("how", ["changed", "truncated", "missing"])
def test_a_damaged_manifest(store: Store, tree: Path, how: str) -> None:
    report = ingest(store, str(tree), "image")
    ingest(store, str(tree), "second")
    damage(store, report.manifest, how)
    (finding,) = verified(store).findings
    assert (finding.what, finding.hash, finding.images) == ("manifest", report.manifest, ["image", "second"])
    assert not store.has(report.manifest)
    ingest(store, str(tree), "image")
    assert verify(store).findings == []


def test_a_damaged_blob_is_never_built_upon(store: Store, tree: Path) -> None:
    from husk.store.store_errors import StoreError

    report = ingest(store, str(tree), "image")
    damage(store, blob_of(store, report, b"bin/twin"), "truncated")
    with pytest.raises(StoreError, match="is damaged; `husk store verify`"):
        ingest(store, str(tree), "second")
    assert store.images.list() == ["image"]


@pytest.mark.parametrize("source", ["store", "directory"])
@pytest.mark.parametrize("what", [b"bin/twin", b"large", None])
def test_repair(store: Store, tree: Path, tmp_path: Path, source: str, what: bytes | None) -> None:
    report = ingest(store, str(tree), "image")
    good = tmp_path / "good"
    if source == "store":
        shutil.copytree(store.place, good)
    elif what is None:
        good.mkdir()
        shutil.copy(store.blob_path(report.manifest), good / "any name")
    else:
        good = tree
    hash_ = report.manifest if what is None else blob_of(store, report, what)
    damage(store, hash_, "changed")
    outcome = verified(store, str(good))
    assert outcome.clean and [finding.repaired for finding in outcome.findings] == [True]
    assert verify(store).findings == []
    assert os.stat(store.blob_path(hash_)).st_mode & 0o7777 == 0o444


def test_repair_from_a_copy_that_is_damaged_too(store: Store, tree: Path, tmp_path: Path) -> None:
    report = ingest(store, str(tree), "image")
    hash_ = blob_of(store, report, b"large")
    damage(store, hash_, "changed")
    shutil.copytree(store.place, tmp_path / "copy")
    assert not verified(store, str(tmp_path / "copy")).clean
    assert not store.has(hash_)


def test_repair_from_nowhere(store: Store, tree: Path) -> None:
    ingest(store, str(tree))
    with pytest.raises(StoreUsageError):
        verified(store, str(tree / "nowhere"))


def test_a_wrong_mode_is_corrected(store: Store) -> None:
    hash_ = store.put_blob(b"x")
    os.chmod(store.blob_path(hash_), 0o755)
    (finding,) = verified(store).findings
    assert (finding.what, finding.repaired) == ("mode", True)
    assert os.stat(store.blob_path(hash_)).st_mode & 0o7777 == 0o444


def test_strangers_below_blake3(store: Store) -> None:
    """A file with another name, a link in place of a blob, a file and a link among the directories."""
    hash_ = store.put_blob(b"x")
    folder = Path(store.blob_path(hash_)).parent
    (folder / "stranger").write_text("x")
    (folder / (hash_[:4] + "0" * 60)).symlink_to("/etc/passwd")
    (folder.parent / hash_).write_text("x")
    (folder.parent / "zz").symlink_to("/etc")
    outcome = verified(store)
    assert len(outcome.findings) == 4 and all(finding.quarantined for finding in outcome.findings)
    assert os.listdir(folder) == [hash_] and os.listdir(folder.parent) == [folder.name]
    assert Path("/etc/passwd").exists()


def test_a_damaged_record(store: Store, tree: Path) -> None:
    ingest(store, str(tree), "image")
    Path(store.place, "images", "image").write_text("{}")
    (finding,) = verified(store).findings
    assert (finding.what, finding.images) == ("image", ["image"])
