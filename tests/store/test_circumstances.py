"""A disk that is full, a store that cannot be written, and many at once."""

from __future__ import annotations

import os
import random
import shlex
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from husk.images.image_export import export
from husk.images.image_import import import_image
from husk.store.collect import collect
from husk.store.ingest import Options, ingest
from husk.store.store import Store
from husk.store.store_errors import StoreError
from husk.store.verify import verify
from tests.images.hostroot import add_programs
from tests.lib.harness import NATIVE_ONLY
from tests.lib.killing import rounds
from tests.lib.running import husk_command, scratch

UNSHARE = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]


def in_mount_namespace(script: str) -> subprocess.CompletedProcess[str]:
    """A shell script that may mount what it likes; no other process sees the mounts."""
    if subprocess.run([*UNSHARE, "true"], capture_output=True).returncode:
        pytest.skip("a private mount namespace cannot be had here")
    return subprocess.run([*UNSHARE, "sh", "-euc", script], capture_output=True, text=True, timeout=300)


def words(*rest: str) -> str:
    return shlex.join([*husk_command(), "store", *rest])


def make_files(top: Path, count: int, size: int, seed: int = 0) -> Path:
    top.mkdir()
    chance = random.Random(seed)
    for number in range(count):
        (top / f"f{number}").write_bytes(chance.randbytes(size))
    return top


@pytest.mark.parametrize(("count", "size"), [(200, 20_000), (2, 3_000_000)], ids=["small files", "large files"])
def test_a_full_disk(tmp_path: Path, count: int, size: int) -> None:
    """Nothing is committed, nothing is left, space can be freed on a completely full disk, and then ingest works."""
    disk, small = tmp_path / "disk", make_files(tmp_path / "small", 20, 1000)
    tree, lost = make_files(tmp_path / "tree", count, size), make_files(tmp_path / "lost", 3, 9_000, seed=9)
    disk.mkdir()
    store = f"--store {disk}/store"
    script = f"""
        mount -t tmpfs -o size=3m,mode=0700 none {disk}
        {words("ingest", str(small), "--name", "small")} {store} >/dev/null
        {words("ingest", str(lost), "--name", "lost")} {store} >/dev/null
        used=$(du -s {disk} | cut -f1)
        {words("ingest", str(tree), "--name", "big")} {store} && exit 90 || echo "exit $?"
        test "$(ls {disk}/store/tmp)" = ""
        test "$(du -s {disk} | cut -f1)" = "$used"
        cat /dev/zero >{disk}/full 2>/dev/null || {words("rm", "lost")} {store} >/dev/null
        cat /dev/zero >>{disk}/full 2>/dev/null || {words("gc", "--delete")} {store} | grep -q "^removed [1-9]"
        rm {disk}/full
        test "$(ls {disk}/store/images)" = small
        test "$(du -s {disk} | cut -f1)" -lt "$used"
        {words("verify")} {store}
        mount -o remount,size=30m {disk}
        {words("ingest", str(tree), "--name", "big")} {store} >/dev/null
        {words("verify")} {store}
    """
    done = in_mount_namespace(script)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "exit 1" in done.stdout
    assert done.stderr == (
        f"husk store: there is no space left for the store at {disk}/store; `husk store gc --delete` may free some.\n"
    )
    assert done.stdout.count("everything is as it should be") == 2


def test_a_read_only_store(tmp_path: Path) -> None:
    tree = make_files(tmp_path / "tree", 5, 100)
    place = tmp_path / "store"
    store = Store.create(str(place))
    ingest(store, str(tree), "image")
    stray = store.put_blob(b"stray")
    lease = f"""
from husk.store.store import Store
from husk.store.collect import collect
from husk.store.store_errors import StoreError
store = Store.open({str(place)!r})
lease, image = store.lease_image("image")
assert len(list(store.open_manifest(image.flat).walk())) == 6
try:
    collect(store, patience=0.1)
except StoreError as error:
    print("held:", error)
lease.close()
print("free:", collect(store, patience=0.1).blobs)
"""
    script = f"""
        mount --bind {place} {place}
        mount -o remount,ro,bind {place}
        for command in ls stat 'stat image' verify gc; do {words()} $command --store {place}; done
        {words("ingest", str(tree), "--name", "x")} --store {place} && exit 90 || echo "exit $?"
        {words("gc", "--delete")} --store {place} && exit 91 || echo "exit $?"
        {words("rm", "image")} --store {place} && exit 92 || echo "exit $?"
        {shlex.join([sys.executable, "-c", lease])}
    """
    done = in_mount_namespace(script)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("exit 1") == 3 and "everything is as it should be" in done.stdout
    assert "held: another process" in done.stdout and "free: 1" in done.stdout
    assert len(done.stderr.splitlines()) == 3 and "Traceback" not in done.stderr
    assert all(line.startswith("husk store: ") and "Read-only" in line for line in done.stderr.splitlines())
    assert store.has(stray)


def test_damage_in_a_read_only_store_is_said_at_least(tmp_path: Path) -> None:
    place = tmp_path / "store"
    store = Store.create(str(place))
    hash_ = store.put_blob(b"good")
    os.chmod(store.blob_path(hash_), 0o600)
    Path(store.blob_path(hash_)).write_bytes(b"evil")
    os.chmod(store.blob_path(hash_), 0o444)
    script = f"""
        mount --bind {place} {place}
        mount -o remount,ro,bind {place}
        {words("verify")} --store {place} && exit 90 || echo "exit $?"
    """
    done = in_mount_namespace(script)
    assert done.returncode == 0 and "exit 1" in done.stdout and "its content has changed" in done.stdout
    assert "make the store writable" in done.stderr
    assert store.has(hash_)


# Everyday commands on images and boxes, in a store that cannot be written: each says so in one sentence and leaves
# nothing. `try` prints the exit code and the last line of stderr.
BOXES = """
    cd {top}; export HUSK_STORE=$PWD/disk/store HUSK_STATE=$PWD/state
    husk() {{ {husk} "$@"; }}
    try() {{ code=0; husk "$@" >/dev/null 2>err || code=$?; echo "$1 $2: $code $(tail -n 1 err)"; }}
    mkdir disk state; mount -t tmpfs -o size=60m,mode=0755 none disk
    husk image import root --name base >/dev/null
    husk run --keep box --image base -- sh -c 'cat /random /random > /more'
    before=$(ls -R disk | wc -l)
    {spoil}
    try image import big.tar --name new
    try image build recipe.toml
    try commit box made
    husk run --image base -- sh -c 'cat /random > /dev/null; echo it runs'
    husk image export base - | cmp - base.tar
    {mend}
    test "$(ls -R disk | wc -l)" = "$before"
    husk store verify; husk commit box made >/dev/null; husk image build recipe.toml >/dev/null 2>&1; husk drop box
    husk image ls | cut -d' ' -f1
"""


@pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for")
@pytest.mark.skipif(os.geteuid() != 0, reason="boxes in a mount namespace of the test's own: for root only")
@pytest.mark.parametrize(
    ("spoil", "mend", "why"),
    [
        ("cat /dev/zero >disk/full 2>/dev/null || true", "rm disk/full", "there is no space left for the store"),
        ("mount -o remount,ro disk", "mount -o remount,rw disk", "cannot be written (Read-only file system)"),
    ],
    ids=["full", "read-only"],
)
def test_images_and_boxes(spoil: str, mend: str, why: str) -> None:
    with scratch() as top:
        root = make_files(top / "root", 1, 3_000_000)
        (root / "f0").rename(root / "random")
        add_programs(root, "sh", "cat")
        other = Store.create(str(top / "other"))
        import_image(other, str(root), "base")
        export(other, "base", str(top / "base.tar"))
        make_files(top / "big", 30, 200_000, seed=5)
        subprocess.run(["tar", "-cf", top / "big.tar", "-C", top / "big", "."], check=True)
        (top / "recipe.toml").write_text('base = "base"\n[run]\ncommands = ["cat /random /random > /two"]\n')
        done = in_mount_namespace(BOXES.format(top=top, husk=shlex.join(husk_command()), spoil=spoil, mend=mend))
        assert done.returncode == 0, done.stdout + done.stderr
        tried = [line for line in done.stdout.splitlines() if ": " in line]
        assert len(tried) == 3 and done.stdout.count("it runs") == 1
        for line in tried:
            assert ": 1 husk " in line and why in line and line.endswith("."), tried
        assert done.stdout.endswith("everything is as it should be\nbox\nbase\nmade\nrecipe\n"), done.stdout


@rounds(6)
def test_two_writers_and_a_collector(tmp_path: Path, times: int) -> None:
    """The writers share most files; each round a name is given, replaced or taken away. Nothing is ever missing."""
    store = Store.create(str(tmp_path / "store"))
    trees = [make_files(tmp_path / f"tree{number}", 40, 500, seed=0) for number in range(2)]
    failures: list[BaseException] = []
    finished = threading.Event()

    def write(number: int) -> None:
        chance = random.Random(number)
        try:
            for turn in range(times):
                (trees[number] / f"f{turn % 7}").write_bytes(b"turn %d" % (turn // 2))
                ingest(store, str(trees[number]), f"image{number}", Options(jobs=2))
                if chance.random() < 0.3:
                    store.images.rm(f"image{number}")
        except BaseException as failure:
            failures.append(failure)

    def sweep() -> None:
        while not finished.wait(0.005):  # the moment in which a writer that waits for the lock can have it
            try:
                collect(store, delete=True, patience=5)
            except StoreError as error:
                if "writing into" not in str(error):
                    failures.append(error)
            except BaseException as failure:
                failures.append(failure)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    collector = threading.Thread(target=sweep)
    for thread in [*writers, collector]:
        thread.start()
    for thread in writers:
        thread.join()
    finished.set()
    collector.join()
    assert failures == []
    outcome = verify(store)
    assert [finding.as_json() for finding in outcome.findings] == []
    collect(store, delete=True)
    assert verify(store).clean
    for number, tree in enumerate(trees):
        ingest(store, str(tree), f"image{number}")
        entries = store.open_manifest(store.images.get(f"image{number}").layers[0]).walk()
        for entry in entries:
            if entry.is_file:
                with os.fdopen(store.open_blob(entry.hash), "rb") as blob:
                    assert blob.read() == (tree / os.fsdecode(entry.path)).read_bytes()
