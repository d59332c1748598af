"""Collection: removes only what nothing names, only with `delete`, and never beside a writer."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from husk.store import roots
from husk.store.collect import collect
from husk.store.ingest import ingest
from husk.store.locks import StoreLock
from husk.store.store import Store
from husk.store.store_errors import StoreError
from husk.store.verify import all_blobs, verify


def blobs(store: Store) -> set[str]:
    return set(all_blobs(store.place))


def test_a_dry_run_changes_nothing(store: Store, tree: Path) -> None:
    ingest(store, str(tree))
    before = blobs(store)
    result = collect(store)
    assert (result.blobs, result.kept_blobs, result.deleted) == (len(before), 0, False)
    assert result.bytes == sum(os.stat(store.blob_path(name)).st_size for name in before)
    assert blobs(store) == before and store.generation() == 0


def test_what_an_image_names_stays(store: Store, tree: Path) -> None:
    kept = ingest(store, str(tree), "image")
    (tree / "more").write_bytes(b"more")
    ingest(store, str(tree))
    stray = store.put_blob(b"stray")
    result = collect(store, delete=True)
    assert result.blobs == 3  # the second manifest, `more`, the stray blob
    assert not store.has(stray) and store.has(kept.manifest)
    outcome = verify(store)
    assert outcome.findings == [] and outcome.blobs == kept.blobs + 1
    assert store.generation() == 1


def test_a_replaced_image_frees_what_only_it_had(store: Store, tree: Path) -> None:
    ingest(store, str(tree), "image")
    (tree / "large").write_bytes(b"small now")
    ingest(store, str(tree), "image")
    assert collect(store, delete=True).blobs == 2  # the old manifest and the large file
    assert verify(store).clean


def test_what_is_leased_stays(store: Store, tree: Path) -> None:
    report = ingest(store, str(tree), "image")
    lease, _ = store.lease_image("image")
    store.images.rm("image")
    assert collect(store, delete=True).blobs == 0
    lease.close()
    assert collect(store, delete=True).blobs == report.blobs + 1
    assert blobs(store) == set()


def test_young_blobs_stay_if_asked(store: Store) -> None:
    store.put_blob(b"x")
    result = collect(store, delete=True, unused_for=3600)
    assert (result.blobs, result.young) == (0, 1)
    assert len(blobs(store)) == 1
    assert collect(store, delete=True).blobs == 1


def test_not_beside_a_writer(store: Store) -> None:
    with store.writing() as writing:
        writing.put_blob(b"x")
        with pytest.raises(StoreError, match="writes to the store"):
            collect(store, delete=True, patience=0.1)
    assert collect(store, delete=True, patience=0.1).blobs == 1


def test_writers_do_not_wait_for_each_other(store: Store) -> None:
    with store.writing() as one, store.writing() as two:
        assert one.put_blob(b"x") == two.put_blob(b"x")
    assert len(blobs(store)) == 1


def test_leftovers(store: Store) -> None:
    """Leftovers of killed writers are removed, those of living writers stay."""
    Path(store.place, "tmp", "1-dead").mkdir()
    Path(store.place, "tmp", "1-dead", "half").write_text("x")
    Path(store.place, "images", ".x-1-abc").write_text("x")
    Path(store.place, "leases", "1-dead").write_text("")
    assert collect(store, delete=True).leftovers == 3
    for folder in ("tmp", "images", "leases"):
        assert os.listdir(os.path.join(store.place, folder)) == []


@pytest.mark.parametrize("damage", ["record", "missing manifest", "damaged manifest", "lease"])
def test_what_is_unclear_ends_it(store: Store, tree: Path, damage: str) -> None:
    report = ingest(store, str(tree), "image")
    stray = store.put_blob(b"stray")
    lease = store.lease([report.manifest])
    if damage == "record":
        Path(store.place, "images", "image").write_text("{")
    elif damage == "missing manifest":
        os.unlink(store.blob_path(report.manifest))
    elif damage == "damaged manifest":
        os.chmod(store.blob_path(report.manifest), 0o600)
        Path(store.blob_path(report.manifest)).write_bytes(b"rubbish")
    else:
        (path,) = Path(store.place, "leases").iterdir()
        path.write_text("half a")
    with pytest.raises(StoreError):
        collect(store, delete=True)
    assert store.has(stray)
    lease.close()


def test_nothing_outside_the_store_is_touched(store: Store, tree: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "precious").write_text("keep")
    os.symlink(victim, os.path.join(store.place, "tmp", "1-link"))
    os.symlink(victim / "precious", os.path.join(store.place, "leases", "1-link"))
    (victim / ("ab" + "0" * 62)).write_text("named like a blob")
    ingest(store, str(tree))
    shutil.rmtree(os.path.join(store.place, "blake3", "ab"), ignore_errors=True)
    os.symlink(victim, os.path.join(store.place, "blake3", "ab"))
    with pytest.raises((StoreError, OSError)):
        collect(store, delete=True)
    os.unlink(os.path.join(store.place, "leases", "1-link"))
    collect(store, delete=True)
    assert sorted(os.listdir(victim)) == ["ab" + "0" * 62, "precious"]


def test_the_lock_goes_with_its_process(store: Store) -> None:
    pid = os.fork()
    if not pid:
        StoreLock(store.place, exclusive=False)
        os._exit(0)
    os.waitpid(pid, 0)
    collect(store, delete=True, patience=0.1)


def test_a_root_and_one_that_shares_it_each_keep_it(store: Store, tree: Path) -> None:
    """As a kept box and its fork do: whichever is dropped first, the other still has its image."""
    report = ingest(store, str(tree))
    assert not roots.share(store, "box", "fork"), "there is nothing to share yet"
    roots.add(store, "box", [report.manifest])
    assert roots.share(store, "box", "fork")
    for name in ("box", "fork"):
        assert collect(store, delete=True).blobs == 0
        roots.remove(store.place, name)
    assert collect(store, delete=True).kept_blobs == 0
