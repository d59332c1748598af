"""From a directory to an image: what is included, what is excluded, what is not read twice."""

from __future__ import annotations

import os
import shutil
import stat as st
import tempfile
import traceback
from pathlib import Path

import pytest

from husk.store import ingest as module
from husk.store.ingest import Options, Report, ingest
from husk.store.manifests.check_manifest import check_manifest
from husk.store.manifests.manifest import Manifest
from husk.store.staging import Stage
from husk.store.store import Store
from husk.store.store_errors import StoreError, StoreUsageError
from husk.store.verify import verify
from tests.unit.store.test_store import content
from tests.unit.store.trees import OLD_NS, make_old
from tests.unit.vfs.worlds import next_tick


def manifest_of(store: Store, report: Report) -> Manifest:
    assert verify(store).findings == []
    check_manifest(Path(store.blob_path(report.manifest)).read_bytes())
    return store.open_manifest(report.manifest)


def paths(store: Store, report: Report) -> set[bytes]:
    return {entry.path for entry in manifest_of(store, report).walk()}


def age(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the files had been there for long: ctime cannot be set."""
    monkeypatch.setattr(module, "TOO_YOUNG_NS", -3_600_000_000_000)


def test_every_entry_is_what_lstat_says(store: Store, tree: Path) -> None:
    report = ingest(store, str(tree), "image")
    manifest = manifest_of(store, report)
    found = {os.fsencode(path.relative_to(tree)) for path in tree.rglob("*")} | {b""}
    assert {entry.path for entry in manifest.walk()} == found
    for entry in manifest.walk():
        path = os.path.join(os.fsencode(tree), entry.path) if entry.path else os.fsencode(tree)
        host = os.lstat(path)
        assert (entry.mode, entry.uid, entry.gid, entry.mtime_ns) == (
            host.st_mode,
            host.st_uid,
            host.st_gid,
            host.st_mtime_ns,
        )
        assert entry.nlink == host.st_nlink
        if entry.is_file:
            assert entry.size == host.st_size
            assert content(store, entry.hash) == Path(os.fsdecode(path)).read_bytes()
        if entry.is_link:
            assert entry.target == os.readlink(path) and entry.size == host.st_size
    tool, hard = manifest.lookup(b"bin/tool"), manifest.lookup(b"hard")
    assert tool and hard and tool.inode == hard.inode
    assert (report.files, report.directories, report.links, report.others) == (6, 3, 2, 1)
    assert store.images.get("image").layers == [report.manifest]


def test_the_same_tree_is_the_same_manifest(store: Store, tree: Path, tmp_path: Path) -> None:
    """Made in another order, elsewhere, by other threads, into another store."""
    again = tmp_path / "again"
    shutil.copytree(tree, again, symlinks=True, ignore=shutil.ignore_patterns("hard", "fifo"))
    os.link(again / "bin/tool", again / "hard")
    os.mkfifo(again / "fifo")
    make_old(again)
    other = Store.create(str(tmp_path / "other"))
    assert ingest(store, str(tree)).manifest == ingest(other, str(again), options=Options(jobs=4)).manifest


def test_equal_contents_are_one_blob(store: Store, tree: Path) -> None:
    report = ingest(store, str(tree))
    assert (report.files, report.blobs) == (6, 4)
    assert report.new_blobs == 4 + 1  # and the manifest
    assert report.dedup_ratio > 1
    inodes = {
        os.stat(store.blob_path(entry.hash)).st_ino
        for entry in store.open_manifest(report.manifest).walk()
        if entry.is_file
    }
    assert len(inodes) == 4


def test_an_unchanged_tree_is_not_read(store: Store, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    age(monkeypatch)
    first = ingest(store, str(tree))
    second = ingest(store, str(tree))
    assert (first.unchanged, second.unchanged) == (0, 6)
    assert second.manifest == first.manifest
    assert second.new_blobs == 0


@pytest.mark.parametrize("how", ["content", "time", "mode", "replaced", "hard link", "xattr"])
def test_a_changed_file_is_read_again(store: Store, tree: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    age(monkeypatch)
    ingest(store, str(tree))
    next_tick()  # as an hour would have passed: what is changed now has another change time
    target = tree / "bin-more"
    expected = {b"bin-more"}
    if how == "content":  # of the same size, and with the old time put back
        target.write_bytes(target.read_bytes().upper())
        os.utime(target, ns=(OLD_NS, OLD_NS))
    elif how == "time":
        os.utime(target, ns=(OLD_NS, OLD_NS + 1))
    elif how == "mode":
        target.chmod(0o600)
    elif how == "replaced":
        target.unlink()
        target.write_bytes(b"sorts after bin, before what is in BIN")
        os.utime(target, ns=(OLD_NS, OLD_NS))
    elif how == "hard link":
        os.link(target, tree / "bin-second")
        expected.add(b"bin-second")
    else:
        os.setxattr(target, "user.new", b"1")
    report = ingest(store, str(tree))
    assert report.files - report.unchanged == len(expected)
    entry = manifest_of(store, report).lookup(b"bin-more")
    assert entry and content(store, entry.hash) == target.read_bytes()
    assert entry.mode == target.stat().st_mode
    assert entry.nlink == target.stat().st_nlink
    assert entry.xattrs == ({b"user.new": b"1"} if how == "xattr" else {})


def test_a_young_file_is_not_believed(store: Store, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be written again within the tick of the clock that stamped it; here all were made a moment ago, however
    long that took."""
    monkeypatch.setattr(module, "TOO_YOUNG_NS", 3_600_000_000_000)
    assert ingest(store, str(tree)).unchanged == 0
    assert ingest(store, str(tree)).unchanged == 0


def test_an_index_is_not_believed_after_a_removal(store: Store, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from husk.store.collect import collect

    age(monkeypatch)
    ingest(store, str(tree))
    assert collect(store, delete=True).blobs == 5
    report = ingest(store, str(tree), "image")
    assert report.unchanged == 0
    manifest_of(store, report)


def test_a_damaged_index_is_ignored(store: Store, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    age(monkeypatch)
    ingest(store, str(tree))
    (index,) = Path(store.place, "index").iterdir()
    data = bytearray(index.read_bytes())
    data[-20] ^= 1  # in a hash
    index.write_bytes(data)
    report = ingest(store, str(tree))
    assert report.unchanged == 0
    manifest_of(store, report)


def test_attributes(store: Store, tree: Path) -> None:
    os.setxattr(tree / "bin/tool", "user.b", b"2")
    os.setxattr(tree / "bin/tool", "user.a", b"\0\xff")
    os.setxattr(tree / "large", "user.large", b"yes")
    os.setxattr(tree / "bin", "user.dir", b"")
    manifest = manifest_of(store, ingest(store, str(tree)))
    expected = {
        b"bin/tool": {b"user.a": b"\0\xff", b"user.b": b"2"},
        b"large": {b"user.large": b"yes"},
        b"bin": {b"user.dir": b""},
    }
    for path, attributes in expected.items():
        entry = manifest.lookup(path)
        assert entry and entry.xattrs == attributes


def test_links_out_are_recorded_not_followed(store: Store, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("secret")
    tree = tmp_path / "t"
    tree.mkdir()
    (tree / "dir").symlink_to(tmp_path / "outside")
    (tree / "file").symlink_to(tmp_path / "outside/secret")
    report = ingest(store, str(tree))
    assert paths(store, report) == {b"", b"dir", b"file"}
    assert report.blobs == 0


def test_a_directory_named_through_a_link(store: Store, tree: Path, tmp_path: Path) -> None:
    """The caller named this link: it alone is followed."""
    (tmp_path / "way").symlink_to(tree)
    assert ingest(store, str(tmp_path / "way")).files == 6


@pytest.mark.parametrize(
    ("pattern", "gone"),
    [
        ("bin", {b"bin", b"bin/tool", b"bin/twin", b"bin/link"}),
        ("bin/", {b"bin", b"bin/tool", b"bin/twin", b"bin/link"}),
        ("large/", set()),
        ("t*", {b"bin/tool", b"bin/twin"}),
        ("/t*", set()),
        ("*o*l", {b"bin/tool"}),
        ("bin/t?in", {b"bin/twin"}),
        ("/bin/twin", {b"bin/twin"}),
        ("x/bin/twin", set()),
        ("[hn]*", {b"hard", b"nothing"}),
    ],
)
def test_exclude(store: Store, tree: Path, pattern: str, gone: set[bytes]) -> None:
    everything = {os.fsencode(path.relative_to(tree)) for path in tree.rglob("*")} | {b""}
    report = ingest(store, str(tree), options=Options([pattern]))
    assert everything - paths(store, report) == gone
    assert {path for path, _ in report.excluded} == {path for path in gone if path.rpartition(b"/")[0] not in gone}


@pytest.mark.parametrize("pattern", ["", "/", "//", "../x", "a/../b"])
def test_exclude_that_makes_no_sense(store: Store, tree: Path, pattern: str) -> None:
    with pytest.raises(StoreUsageError):
        ingest(store, str(tree), options=Options([pattern]))


def test_a_store_in_the_tree_is_left_out(tmp_path: Path) -> None:
    store = Store.create(str(tmp_path / "sub/st*re"))
    (tmp_path / "sub/file").write_text("x")
    (tmp_path / "sub/stare").write_text("y")
    report = ingest(store, str(tmp_path))
    assert paths(store, report) == {b"", b"sub", b"sub/file", b"sub/stare"}


def test_a_file_that_changes_while_it_is_read(store: Store, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read is whole and has its own hash; it counts as unstable, and is read again the next time."""
    age(monkeypatch)
    copy = Stage.copy

    def slow(self: Stage, source: int) -> tuple[str, int]:
        made = copy(self, source)
        with open(tree / "large", "ab") as file:
            file.write(b"more")
        return made

    monkeypatch.setattr(Stage, "copy", slow)
    report = ingest(store, str(tree))
    assert report.unstable == 1
    entry = manifest_of(store, report).lookup(b"large")
    assert entry and entry.size == 1_600_000
    monkeypatch.setattr(Stage, "copy", copy)
    again = ingest(store, str(tree))
    assert (again.unchanged, again.unstable) == (5, 0)


def test_in_rounds(store: Store, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With little room, blobs are published in rounds; the result is the same."""
    expected = ingest(Store.create(store.place + "2"), str(tree)).manifest
    monkeypatch.setattr(module, "MOST_STAGED", 10)
    report = ingest(store, str(tree))
    assert report.manifest == expected
    manifest_of(store, report)


def test_names_of_all_bytes(store: Store, tmp_path: Path) -> None:
    tree = tmp_path / "t"
    tree.mkdir()
    names = {bytes([byte]) for byte in range(1, 256)} - {b"/", b"."} | {b"x" * 255}
    for name in names:
        (tree / os.fsdecode(name)).write_bytes(name)
    assert paths(store, ingest(store, str(tree))) == names | {b""}


def test_a_tree_as_deep_as_a_path_can_be(store: Store, tmp_path: Path) -> None:
    tree = tmp_path / "t"
    tree.mkdir()
    fd = os.open(tree, os.O_RDONLY)
    for _ in range(15):
        os.mkdir("d" * 255, dir_fd=fd)
        below = os.open("d" * 255, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    deepest = b"/".join([b"d" * 255] * 15)
    try:
        assert deepest in paths(store, ingest(store, str(tree)))
        os.mkdir("e" * 255, dir_fd=fd)  # 4095 bytes in all: the longest there can be
        assert deepest + b"/" + b"e" * 255 in paths(store, ingest(store, str(tree)))
        below = os.open("e" * 255, os.O_RDONLY, dir_fd=fd)
        os.mkdir("f", dir_fd=below)
        os.close(below)
        with pytest.raises(StoreError, match="too long"):
            ingest(store, str(tree))
    finally:
        os.close(fd)
        shutil.rmtree(tree)


def test_what_cannot_be_read_stops_it() -> None:
    """As an ordinary user: root may read everything."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o777)
        pid = os.fork()
        if not pid:
            try:
                if os.geteuid() == 0:
                    os.setgid(65534)
                    os.setuid(65534)
                closed = Path(place, "tree", "closed")
                closed.parent.mkdir()
                closed.write_text("x")
                closed.chmod(0)
                store = Store.create(place + "/store")
                with pytest.raises(StoreError, match=r"closed cannot be read .Permission denied.; make it readable"):
                    ingest(store, place + "/tree", "image")
                assert store.images.list() == [] and not os.listdir(store.place + "/tmp")
                ingest(store, place + "/tree", "image", Options(["closed"]))
                assert store.images.list() == ["image"]
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0


def test_times_before_1970_and_far_away(store: Store, tree: Path) -> None:
    for ns in (-1, -(10**18), 4 * 10**18):
        os.utime(tree / "nothing", ns=(ns, ns))
        expected = os.stat(tree / "nothing").st_mtime_ns  # the file system may know fewer
        entry = manifest_of(store, ingest(store, str(tree))).lookup(b"nothing")
        assert entry and entry.mtime_ns == expected


def test_blobs_are_never_touched_again(store: Store, tree: Path) -> None:
    """Whatever is done later (ingest again, read, collect): any write would change one of these times."""
    from husk.store.collect import collect

    def states() -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        for path in Path(store.place, "blake3").rglob("*"):
            s = path.lstat()
            if st.S_ISREG(s.st_mode):
                found[path.name] = (s.st_ino, s.st_size, s.st_mode, s.st_mtime_ns, s.st_ctime_ns, s.st_nlink)
        return found

    ingest(store, str(tree), "image")
    before = states()
    next_tick()
    (tree / "new").write_bytes(b"new")
    ingest(store, str(tree), "second", Options(jobs=3))
    store.put_blob(b"new")
    store.put_blob((tree / "large").read_bytes())
    verify(store)
    collect(store, delete=True)
    after = states()
    assert {name: after[name] for name in before} == before
    assert all(mode & 0o7777 == 0o444 for _, _, mode, *_ in after.values())
