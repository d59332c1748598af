"""Archives that attack. Each is refused with the name of the entry; nothing of it is in the store, nothing outside it
was touched."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from husk.images import archive_limits as limits
from husk.images.archive_limits import Limits
from husk.images.image_import import import_image
from husk.images.tarwrite import TarWriter
from husk.store.store import Store
from husk.store.store_errors import StoreError
from tests.images.archives import Layout, digest, everything, folder, hard, link, member, saved, tar


def sparse() -> bytes:
    return tar(member("holes", content=b"x", pax_headers={"GNU.sparse.major": "1", "GNU.sparse.name": "h"}))


def with_bytes(data: bytes, at: int, new: bytes) -> bytes:
    """Some bytes of the first header changed, its checksum made good again."""
    header = bytearray(data[:512])
    header[at : at + len(new)] = new
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + data[512:]


ONE = tar(member("one", content=b"1"), form=tarfile.USTAR_FORMAT)


def raw_pax(records: bytes, kind: bytes = tarfile.XHDTYPE) -> bytes:
    """An extended header, then the entry it is for."""
    info = tarfile.TarInfo("x")
    info.type, info.size = kind, len(records)
    head = info.tobuf(tarfile.USTAR_FORMAT) + records + bytes(-len(records) % 512)
    return head + ONE


def raw_head(kind: bytes, size: int) -> bytes:
    """An extension that claims to be so long."""
    field = b"%011o\0" % size if size >= 0 else size.to_bytes(12, "big", signed=True)
    return with_bytes(with_bytes(with_bytes(ONE, 0, b"x\0\0"), 156, kind), 124, field)


CASES: dict[str, tuple[bytes, str]] = {
    "traversal": (tar(folder("a"), member("a/../../x", content=b"x")), "at 'a/../../x': its name leads out"),
    "parent alone": (tar(folder("..")), "at '../': its name leads out"),
    "absolute": (tar(member("/etc/x", content=b"x")), "at '/etc/x': its name is absolute"),
    "symlink, then write": (tar(link("x", "/etc"), member("x/passwd", content=b"r")), "at 'x/passwd': it lies in 'x'"),
    "symlink, then directory": (tar(link("x", "/etc"), folder("x")), "at 'x/': the name comes twice"),
    "hard link, then write": (
        tar(member("a"), hard("b", "a"), member("b/c")), "at 'b/c': it lies in 'b'"),
    "directory in a file": (tar(member("f", content=b"f"), folder("f/d")), "at 'f/d/': it lies in 'f'"),
    "hard link outside": (tar(hard("x", "../../etc/passwd")), "at '../../etc/passwd': what it is linked to leads out"),
    "absolute hard link": (tar(hard("x", "/etc/passwd")), "at '/etc/passwd': what it is linked to is absolute"),
    "hard link to nothing": (tar(hard("x", "y"), member("y")), "at 'x': it is linked to"),
    "hard link to itself": (tar(hard("x", "x")), "at 'x': it is linked to"),
    "hard link to a directory": (tar(folder("d"), hard("x", "d")), "at 'x': it is linked to"),
    "twice": (tar(member("a", content=b"1"), member("./a", content=b"2")), "at './a': the name comes twice"),
    "twice, by a link": (tar(member("a"), member("b"), hard("b", "a")), "at 'b': the name comes twice"),
    "file, then directory": (tar(member("a"), folder("a")), "at 'a/': the name comes twice"),
    "NUL": (raw_pax(b"12 path=a\0b\n"), "its name has a NUL"),
    "NUL in a target": (
        tar(member("s", tarfile.SYMTYPE, linkname="x", pax_headers={"linkpath": "a\0b"})), "at 's': what it leads to"),
    "no target": (tar(link("s", "")), "at 's': what it leads to"),
    "too long": (tar(member("n" * 256)), "its name is longer than Linux allows"),
    "too deep": (tar(member("d/" * 2100 + "x")), "its name is longer than Linux allows"),
    "sparse": (sparse(), "at 'holes': it is a sparse file"),
    "GNU sparse": (with_bytes(ONE, 156, b"S"), "at 'one': it is a sparse file"),
    "unknown type": (with_bytes(ONE, 156, b"Z"), "at 'one': its type is"),
    "size below zero": (with_bytes(ONE, 124, b"\xff" * 12), "at 'one': it has -1 bytes"),
    "size of words": (with_bytes(ONE, 124, b"1234567890x\0"), "where a number belongs"),
    "a directory with content": (with_bytes(ONE, 156, b"5"), "at 'one': it has 1 bytes"),
    "file and directory": (with_bytes(ONE, 0, b"one/"), "at 'one/': it is a file for some"),
    "negative owner": (with_bytes(ONE, 108, b"\xff" * 8), "at 'one': its owner"),
    "wrong checksum": (b"other" + ONE[5:], "the checksum of its header is wrong"),
    "pax size of words": (raw_pax(b"12 size=abc\n"), "at 'one': its size is"),
    "pax twice": (raw_pax(b"9 path=a\n9 path=b\n"), "at 'x': its extended header is malformed"),
    "pax length": (raw_pax(b"99 path=a\n"), "at 'x': its extended header is malformed"),
    "pax length 0": (raw_pax(b"0 path=a\n"), "at 'x': its extended header is malformed"),
    "pax size too large": (raw_pax(b"29 size=99999999999999999999\n"), "at 'one': its size is"),
    "pax size as large as can be": (raw_pax(b"28 size=9223372036854775807\n"), "cut short"),
    "size as large as can be": (with_bytes(ONE, 124, b"\x80\x00\x00\x00\x7f" + b"\xff" * 7), "cut short"),
    "an extended header without end": (raw_head(b"x", 3 << 20), "at 'x': its extended header has 3145728 bytes"),
    "a long name without end": (raw_head(b"L", 3 << 20), "at 'x': its extended header has 3145728 bytes"),
    "an extended header that leads back": (raw_head(b"x", -512), "at 'x': its extended header has -512 bytes"),
    "a header for all that leads back": (raw_head(b"g", -512), "at 'x': its extended header has -512 bytes"),
    "a long name that leads back": (raw_head(b"L", -512), "at 'x': its extended header has -512 bytes"),
    "a header for all without end": (raw_head(b"g", 3 << 20), "at 'x': its extended header has 3145728 bytes"),
    "more attributes than Linux has room for": (
        tar(member("a", pax_headers={"SCHILY.xattr.user.a": "x" * 70_000})), "at 'a': an attribute of it"),
    "an attribute without name": (raw_pax(b"20 SCHILY.xattr.=v\n"), "one|malformed"),
    "pax that shrinks": (raw_pax(b"9 size=0\n"), "checksum|no tar archive"),
    "pax for all": (raw_pax(b"9 path=a\n", tarfile.XGLTYPE), "a header for all entries sets 'path'"),
    "pax for nothing": (raw_pax(b"9 path=a\n")[:1024] + bytes(1024), "an entry should follow"),
    "pax twice over": (raw_pax(b"9 path=a\n")[:1024] + raw_pax(b"9 path=b\n"), "two extended headers"),
    "cut short": (tar(member("a", content=b"x" * 3000))[:2048], "cut short"),
    "cut in a header": (ONE[:300], "cut short|no tar archive"),
    "no end": (ONE[:1024], "cut short"),
    "two archives": (ONE + tar(member("../x")), "something follows the end"),
    "not an archive": (b"hello " * 1000, "no tar archive"),
    "empty file": (b"", "cut short"),
    "cut gzip": (gzip.compress(ONE)[:-4], "cut short"),
    "gzip with more": (gzip.compress(ONE) + b"more", "something else follows"),
    "damaged gzip": (gzip.compress(ONE)[:-8] + b"12345678", "cannot be unpacked"),
    "gzip in gzip": (gzip.compress(gzip.compress(ONE)), "no tar archive|checksum"),
}


def refused(store: Store, source: Path, why: str, bounds: Limits | None = None) -> None:
    before = everything(Path(store.place))
    around = everything(source.parent)
    with pytest.raises(StoreError, match=why) as caught:
        import_image(store, str(source), "hostile", limits=bounds)
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)
    assert everything(Path(store.place)) == before
    assert everything(source.parent) == around


@pytest.mark.parametrize("case", CASES)
def test_a_hostile_archive(store: Store, tmp_path: Path, case: str) -> None:
    data, why = CASES[case]
    store.put_blob(b"was here before")
    (tmp_path / "in").mkdir()
    source = tmp_path / "in" / "it.tar"
    source.write_bytes(data)
    refused(store, source, why)


def test_a_hostile_layer(store: Store, tmp_path: Path) -> None:
    """The second layer attacks: nothing of the first is kept either."""
    good = tar(member("a", content=b"good"))
    for name, bad, why in (
        ("out", tar(member("../x")), "leads out"),
        ("hides", tar(member(".wh...")), "hides what is no name"),
        ("nothing", tar(member(".wh.")), "it hides nothing"),
        ("hides above", tar(member("d/../../.wh.x")), "leads out"),
    ):
        place = tmp_path / name
        place.mkdir()
        (place / "it.tar").write_bytes(saved(good, bad, tags=["a:1"]))
        refused(store, place / "it.tar", why)


LIES: dict[str, tuple[Callable[[Layout], object], str]] = {
    "a layer is another": (lambda layout: _swap(layout), "not what its digest says"),
    "a layer unpacks to another": (
        lambda layout: layout.index(layout.image((gzip.compress(tar(member("b"))), tar()))), "not what its digest"),
    "a digest leads out": (lambda layout: layout.index({"digest": "sha256:../../../etc/passwd"}), "no SHA-256 digest"),
    "a digest of another kind": (lambda layout: layout.index({"digest": "md5:" + "0" * 32}), "no SHA-256 digest"),
    "an index in itself": (lambda layout: _deep(layout), "too deeply"),
    "indexes of indexes": (lambda layout: _wide(layout), "more than 1000 documents"),
    "no index": (lambda layout: (layout.place / "index.json").write_text("[]"), "index.json is malformed"),
    "a deep index": (lambda layout: (layout.place / "index.json").write_text("[" * 100_000), "is malformed"),
    "a missing layer": (lambda layout: _drop(layout), "the layer .* is missing"),
    "a configuration of numbers": (lambda layout: _configured(layout, {"Env": [1, 2]}), "malformed Env"),
    "a configuration of lists": (lambda layout: _configured(layout, {"Labels": [1]}), "configuration is malformed"),
}


def _swap(layout: Layout) -> None:
    plain = tar(member("a"))
    layout.index(layout.image((plain, plain)))
    (layout.place / "blobs" / "sha256" / digest(plain)[7:]).write_bytes(tar(member("b")))


def _deep(layout: Layout) -> None:
    found = layout.image((tar(member("a")), tar(member("a"))))
    for _ in range(8):
        found = layout.blob(json.dumps({"manifests": [found]}).encode())
    layout.index(found)


def _wide(layout: Layout) -> None:
    """Each level names the one below many times, under names of their own: a few small documents, a billion images."""
    found = layout.image((tar(member("a")), tar(member("a"))))
    for _ in range(4):
        ref = "org.opencontainers.image.ref.name"
        several = [{**found, "annotations": {ref: f"n{number}"}} for number in range(300)]
        found = layout.blob(json.dumps({"manifests": several}).encode())
    layout.index(found)


def _drop(layout: Layout) -> None:
    plain = tar(member("a"))
    layout.index(layout.image((plain, plain)))
    (layout.place / "blobs" / "sha256" / digest(plain)[7:]).unlink()


def _configured(layout: Layout, config: object) -> None:
    plain = tar(member("a"))
    whole = {"os": "linux", "architecture": "amd64", "config": config, "rootfs": {"diff_ids": [digest(plain)]}}
    manifest = {"config": layout.blob(json.dumps(whole).encode()), "layers": [layout.blob(plain)]}
    layout.index(layout.blob(json.dumps(manifest).encode()))


@pytest.mark.parametrize("lie", LIES)
def test_a_layout_that_lies(store: Store, tmp_path: Path, lie: str) -> None:
    layout = Layout(tmp_path / "oci")
    make, why = LIES[lie]
    make(layout)
    refused(store, layout.place, why)


def test_a_layout_of_links(store: Store, tmp_path: Path) -> None:
    """A blob that is a symbolic link would bring a host file into the store."""
    secret = tmp_path / "secret"
    secret.write_bytes(tar(member("stolen")))
    plain = secret.read_bytes()
    layout = Layout(tmp_path / "oci")
    layout.index(layout.image((plain, plain)))
    blob = layout.place / "blobs" / "sha256" / digest(plain)[7:]
    blob.unlink()
    blob.symlink_to(secret)
    refused(store, layout.place, "the layer .* is missing|cannot be read")


# -- bombs -------------------------------------------------------------------------------------------------------------


def zeros(count: int) -> bytes:
    made = io.BytesIO()
    with gzip.GzipFile(fileobj=made, mode="wb", compresslevel=1) as packed:
        writer = TarWriter(packed.write)
        writer.add(b"zeros", 0o100644, size=count, content=(bytes(1 << 20) for _ in range(count >> 20)))
        writer.finish()
    return made.getvalue()


def test_a_bomb(store: Store, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    source = tmp_path / "in" / "bomb.tgz"
    source.write_bytes(zeros(100 << 20))
    refused(store, source, "more than 200 times its size.*--max-ratio")
    refused(store, source, "more than 1000000 bytes.*--max-bytes", Limits(size=1_000_000))
    source.write_bytes(zstandard.compress(gzip.decompress(zeros(100 << 20))))
    refused(store, source, "more than 200 times its size.*--max-ratio")
    small = _write(source, zeros(2 << 20))  # small ones may be as dense as they like
    assert import_image(store, small, "small").files == 1


def _write(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


@pytest.mark.parametrize("pack", [bz2.compress, lzma.compress, zstandard.compress, gzip.compress])
def test_a_bomb_in_a_layer(
    store: Store, tmp_path: Path, pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packed, in a layout, which is packed again: what counts is what comes out."""
    monkeypatch.setattr(limits, "RATIO_MATTERS_FROM", 1 << 20)
    (tmp_path / "in").mkdir()
    layout = Layout(tmp_path / "oci")
    plain = gzip.decompress(zeros(4 << 20))
    layout.index(layout.image((pack(plain), plain)))
    source = tmp_path / "in" / "it.tar.gz"
    subprocess.run(["tar", "-czf", source, "-C", layout.place, "oci-layout", "index.json", "blobs"], check=True)
    refused(store, source, "more than 200 times its size.*--max-ratio")


def test_a_stream_that_asks_for_memory(store: Store, tmp_path: Path) -> None:
    """A reader would have to hold half a gigabyte to unpack a few bytes."""
    (tmp_path / "in").mkdir()
    source = tmp_path / "in" / "it.tar.zst"
    parameters = zstandard.ZstdCompressionParameters(window_log=29, compression_level=1)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    source.write_bytes(packer.compress(ONE) + packer.flush())
    refused(store, source, "cannot be unpacked")


@pytest.mark.parametrize("version", ["", "0.0", "0.1", "1.0"])
def test_sparse_archives_of_tar(store: Store, tmp_path: Path, version: str) -> None:
    """A file of a few bytes that stands for a terabyte."""
    with open(tmp_path / "holes", "wb") as file:
        file.truncate(1 << 40)
        file.seek(1 << 39)
        file.write(b"data")
    (tmp_path / "in").mkdir()
    source = tmp_path / "in" / "it.tar"
    form = f"--sparse-version={version}" if version else "--format=gnu"
    subprocess.run(["tar", "--sparse", form, "-cf", source, "-C", tmp_path, "holes"], check=True)
    assert source.stat().st_size < 1 << 20
    refused(store, source, "holes.*it is a sparse file; make the archive without --sparse")


def test_too_many_entries(store: Store, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    source = tmp_path / "in" / "many.tar"
    source.write_bytes(tar(*(folder(f"d{number}") for number in range(50))))
    refused(store, source, "at 'd40/': there are more than 40 entries.*--max-entries", Limits(entries=40))


def test_directories_nobody_mentions_count_too(store: Store, tmp_path: Path) -> None:
    """Each entry implies all directories above it, so a few kilobytes could fill the memory with their paths."""
    (tmp_path / "in").mkdir()
    source = tmp_path / "in" / "deep.tgz"
    with gzip.open(source, "wb") as packed:
        writer = TarWriter(packed.write)
        for number in range(50):
            writer.add(b"%d/%sfile" % (number, b"d/" * 1900), 0o100644)
        writer.finish()
    assert source.stat().st_size < 10_000
    refused(store, source, "at '[0-9]+/d/.* … .*/d/file': up to here its names and attributes take 7[0-9] MiB")
    refused(store, source, "at '0/d/.*': there are more than 40 entries", Limits(entries=40))


def test_names_in_a_refusal_do_not_speak_to_the_terminal(store: Store, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    source = tmp_path / "in" / "speaks.tar"
    source.write_bytes(tar(folder("a\x1b]0;b\n/../..")))
    refused(store, source, r"at 'a\\x1b\]0;b\\n/../../': its name leads out")


MANY = """
import sys
from husk.images.image_import import import_image
from husk.store.store import Store
report = import_image(Store.create(sys.argv[1]), sys.argv[2], "many")
assert report.files == int(sys.argv[3]), report.files
# Not ru_maxrss: that begins with what the process had that started this one.
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:")))
"""


def many(path: Path, count: int) -> str:
    with gzip.open(path, "wb", compresslevel=1) as packed:
        writer = TarWriter(packed.write)
        for number in range(count):
            writer.add(b"d%03d/file%07d" % (number % 1000, number), 0o100644)
        writer.finish()
    return str(path)


A_MILLION = pytest.param(1_000_000, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])


@pytest.mark.parametrize("count", [10_000, A_MILLION])
def test_many_entries_take_little_memory(store: Store, tmp_path: Path, count: int) -> None:
    """Each costs a few hundred bytes, of which a kilobyte is a generous bound."""
    base, used = (
        int(subprocess.run(
            [sys.executable, "-c", MANY, store.place, many(tmp_path / f"{size}.tgz", size), str(size)],
            check=True, capture_output=True, text=True, timeout=1800).stdout)
        for size in (100, count)
    )  # fmt: skip
    assert (used - base) * 1024 < count * 1024
