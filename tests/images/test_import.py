"""Import of everything an image can come from, and export back."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import stat
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from husk.images.image_export import export
from husk.images.image_import import ImportReport, import_image
from husk.store.store import Store
from husk.store.store_errors import StoreError, StoreUsageError
from husk.store.verify import verify
from tests.images.archives import OLD, Layout, everything, folder, hard, lines, link, member, saved, tar
from tests.snapshots.place import picture

ROOT = (
    folder("./", mode=0o711),
    folder("./bin", uid=3, gid=4),
    member("./bin/tool", content=b"#!/bin/sh\n", mode=0o4755),
    hard("./bin/same", "./bin/tool"),
    link("./sh", "bin/tool"),
    member("./empty"),
    member("./fifo", tarfile.FIFOTYPE),
    member("./time", content=b"x", mtime=1.5, uid=5_000_000_000 % (1 << 32)),
    member("./" + "long/" * 60 + "name", content=b"deep"),
    member("./marked", content=b"m", pax_headers={"SCHILY.xattr.user.a": "1", "SCHILY.xattr.security.selinux": "no"}),
    member("./large", content=b"0123456789" * 300_000),
    member("./.wh.not-a-whiteout", content=b"plain"),
    member("./dev/null", tarfile.CHRTYPE, devmajor=1, devminor=3),
    hard("./dev/zero", "./dev/null"),
)


def write(tmp_path: Path, name: str, data: bytes) -> str:
    (tmp_path / name).write_bytes(data)
    return str(tmp_path / name)


def shown(store: Store, report: ImportReport) -> dict[str, str]:
    return lines(store, store.images.get(report.image))


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress, bz2.compress, zstandard.compress])
def test_a_root_as_tar(store: Store, tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    report = import_image(store, write(tmp_path, "root.tar.x", pack(tar(*ROOT))), "r")
    assert (report.kind, report.files, report.image) == ("tar", 7, "r")
    assert report.left_out == [(b"dev/null", "a device"), (b"dev/zero", "a device")]
    found = shown(store, report)
    at = OLD * 10**9
    assert found[""] == f"40711 0:0 {at}"
    assert found["bin"] == f"40755 3:4 {at}"
    assert found["bin/tool"] == f"104755 0:0 {at} b'#!/bin/sh\\n' of bin/same (2)"
    assert found["bin/same"] == found["bin/tool"]
    assert found["sh"] == f"120777 0:0 {at} -> bin/tool"
    assert found["fifo"].startswith("10644 ")
    assert found["time"] == f"100644 {5_000_000_000 % (1 << 32)}:0 1500000000 b'x'"
    assert found["long"] == "40755 0:0 0"
    assert found["long/" * 60 + "name"].endswith("b'deep'")
    assert found["marked"].endswith(" b'm' {b'user.a': b'1'}")
    assert found["large"].endswith(" 3000000 bytes")
    assert ".wh.not-a-whiteout" in found
    assert not [name for name in found if name.startswith("dev/")]
    assert verify(store, 1).clean


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_the_formats_of_tar_agree(store: Store, tmp_path: Path, form: int) -> None:
    plain = [folder("d"), member("d/" + "n" * 90, content=b"1"), member("d/f" * 30 + "/x", content=b"2")]
    report = import_image(store, write(tmp_path, "a.tar", tar(*plain, form=form)), "a")
    assert report.flat == import_image(store, write(tmp_path, "b.tar", tar(*plain)), "b").flat


def test_two_packed_pieces_are_one(store: Store, tmp_path: Path) -> None:
    whole = tar(folder("d"), member("d/a", content=os.urandom(5000)))
    packed = gzip.compress(whole[:1000]) + gzip.compress(whole[1000:])
    assert import_image(store, write(tmp_path, "a.tgz", packed), "a").files == 1


def test_a_directory(store: Store, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "dev").mkdir(parents=True)
    (root / "a").write_text("a")
    os.link(root / "a", root / "b")
    (root / ".env").write_text("TOKEN=1")
    os.mkfifo(root / "pipe")
    if os.geteuid() == 0:
        os.mknod(root / "dev" / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    report = import_image(store, str(root))
    assert report.image == "root" and report.kind == "directory"
    assert report.left_out == ([(b"dev/null", "a device")] if os.geteuid() == 0 else [])
    assert set(shown(store, report)) == {"", "a", "b", ".env", "dev", "pipe"}
    again = import_image(store, _exported(store, "root", tmp_path / "x.tar", "tar"), "again")
    assert again.flat == report.flat


def test_an_export_unpacks_to_the_same_tree(store: Store, tmp_path: Path) -> None:
    """Unpacked by tar, which sets the time of a directory when it is done with it: nothing in it may come later."""
    root = tmp_path / "root"
    for name in ("b/c/d", "b/e", "a"):
        (root / name).mkdir(parents=True)
        (root / name / "file").write_text(name)
    os.link(root / "b/e/file", root / "a/linked")
    os.link(root / "b/e/file", root / "z")
    for path in sorted(root.rglob("*"), reverse=True):
        os.utime(path, (OLD, OLD))
    os.utime(root, (OLD, OLD))
    import_image(store, str(root), "r")
    (tmp_path / "out").mkdir()
    archive = _exported(store, "r", tmp_path / "r.tar", "tar")
    subprocess.run(["tar", "-xpf", archive, "-C", tmp_path / "out"], check=True)
    assert picture(tmp_path / "out") == picture(root)


BASE = tar(folder("./", mode=0o700), folder("etc", mode=0o750), member("etc/a", content=b"1"),
           member("etc/b", content=b"2"), folder("old"), member("old/x", content=b"3"), folder("gone"),
           member("gone/y", content=b"4"), member("file", content=b"5"), hard("file2", "file"),
           folder("tmp", mode=0o1777))
ABOVE = tar(member("etc/.wh.a"), member("etc/c", content=b"6"), folder("old"), member("old/.wh..wh..opq"),
            member("old/z", content=b"7"), member(".wh.gone"), folder("file"), member("file/in", content=b"8"),
            member("tmp/new", content=b"9"), hard("tmp/twin", "tmp/new"), member(".wh..wh.plnk"))
TOP = tar(folder("gone", mode=0o701), member("gone/again", content=b"10"), member(".wh.old"),
          folder("old"), member("old/last", content=b"11"))
EXPECTED = {"", "etc", "etc/b", "etc/c", "old", "old/last", "gone", "gone/again", "file", "file/in", "file2", "tmp",
            "tmp/new", "tmp/twin"}


def check_layers(store: Store, report: ImportReport) -> None:
    assert report.kind == "oci" and len(report.layers) == 3
    found = shown(store, report)
    assert set(found) == EXPECTED
    assert found[""].startswith("40700 ") and found["etc"].startswith("40750 ") and found["tmp"].startswith("41777 ")
    assert found["tmp/twin"].endswith("(2)") and not found["file2"].endswith("(2)")
    config = store.images.get(report.image).config
    assert config.env == {"PATH": "/bin", "A": "b=c"}
    assert config.labels == {"l": "v"}, "husk's own notes do not come from outside"
    assert (config.user, config.workdir, config.entrypoint, config.cmd) == ("1:2", "/w", ["/bin/e"], ["x", "y"])


def three_layers(place: Path) -> Layout:
    layout = Layout(place)
    amd = layout.image((gzip.compress(BASE), BASE), (zstandard.compress(ABOVE), ABOVE), (TOP, TOP), name="it:1")
    arm = layout.image((BASE, BASE), architecture="arm64", name="it:1")
    nested = layout.blob(json.dumps({"schemaVersion": 2, "manifests": [arm, amd]}).encode())
    note = {"digest": "sha256:" + "0" * 64, "platform": {"os": "unknown", "architecture": "unknown"}}
    layout.index(note, nested)
    return layout


def test_an_oci_layout(store: Store, tmp_path: Path) -> None:
    place = three_layers(tmp_path / "oci").place
    report = import_image(store, str(place))
    assert report.image == "it:1"
    check_layers(store, report)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.add(place, ".")
    assert import_image(store, write(tmp_path, "layout.tar.gz", packed.getvalue())).layers == report.layers


def test_an_archive_does_not_call_itself_installed_packages(store: Store, tmp_path: Path) -> None:
    """Such a layer is found by its name and trusted to hold what a lock pins."""
    (tmp_path / "x.tar").write_bytes(saved(BASE, tags=["packages/pip-0123:1"]))
    assert import_image(store, str(tmp_path / "x.tar")).image == "x"


def test_docker_save(store: Store, tmp_path: Path) -> None:
    data = saved(BASE, ABOVE, TOP, tags=["it:2", "it:latest"])
    report = import_image(store, write(tmp_path, "saved.tar", data))
    assert report.image == "it:2"
    check_layers(store, report)
    assert import_image(store, write(tmp_path, "saved.tar.xz", lzma.compress(data)), "x").layers == report.layers
    with tarfile.open(tmp_path / "saved.tar") as archive:
        archive.extractall(tmp_path / "saved")
    assert import_image(store, str(tmp_path / "saved")).layers == report.layers


def _exported(store: Store, name: str, place: Path, form: str) -> str:
    export(store, name, str(place), form)
    return str(place)


def test_there_and_back(store: Store, tmp_path: Path) -> None:
    """Layers, configuration, and the bytes of what is written, twice."""
    first = import_image(store, str(three_layers(tmp_path / "oci").place), "it")
    for place in ("out", "out.tar"):
        again = import_image(store, _exported(store, "it", tmp_path / place, "oci"), place)
        assert (again.layers, again.flat) == (first.layers, first.flat)
        assert store.images.get(place).config.as_json() == store.images.get("it").config.as_json()
        _exported(store, "it", tmp_path / f"again-{place}", "oci")
    assert everything(tmp_path / "out") == everything(tmp_path / "again-out")
    assert (tmp_path / "out.tar").read_bytes() == (tmp_path / "again-out.tar").read_bytes()
    assert import_image(store, _exported(store, "it", tmp_path / "flat.tar", "tar"), "flat").flat == first.flat


def test_a_root_there_and_back(store: Store, tmp_path: Path) -> None:
    report = import_image(store, write(tmp_path, "root.tar", tar(*ROOT)), "r")
    out = _exported(store, "r", tmp_path / "out.tar", "tar")
    assert import_image(store, out, "again").flat == report.flat
    with tarfile.open(out) as archive:  # another reader sees the same
        assert {info.name for info in archive} == {name or "." for name in shown(store, report)}
        assert archive.getmember("bin/tool").linkname == "bin/same"
    with pytest.raises(StoreError, match="would mean something else"):
        export(store, "r", str(tmp_path / "oci"), "oci")
    assert {*os.listdir(tmp_path)} - {"store"} == {"out.tar", "root.tar"}


@pytest.mark.parametrize("name", [b"caf\xe9", b"n" * 99 + b"\xff/" + b"m" * 200, "ü".encode() * 60])
def test_names_of_any_bytes(store: Store, tmp_path: Path, name: bytes) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"root", name)
    os.makedirs(os.path.dirname(path))
    with open(path, "wb") as file:
        file.write(b"x")
    os.symlink(name, path + b"2")
    report = import_image(store, str(tmp_path / "root"), "a")
    assert import_image(store, _exported(store, "a", tmp_path / "a.tar", "tar"), "b").flat == report.flat


def test_several_images(store: Store, tmp_path: Path) -> None:
    layout = Layout(tmp_path / "oci")
    layout.index(layout.image((BASE, BASE), name="one"), layout.image((TOP, TOP), name="two"))
    with pytest.raises(StoreUsageError, match=r"several images in it \(one, two\); choose one with --ref"):
        import_image(store, str(layout.place))
    assert import_image(store, str(layout.place), ref="two").image == "two"
    with pytest.raises(StoreUsageError, match="no image 'three'"):
        import_image(store, str(layout.place), ref="three")


def test_another_machine_s_image(store: Store, tmp_path: Path) -> None:
    layout = Layout(tmp_path / "oci")
    layout.index(layout.image((BASE, BASE), architecture="arm64"))
    with pytest.raises(StoreUsageError, match="only linux/arm64"):
        import_image(store, str(layout.place), "x")
    assert store.images.list() == []


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("first", [(), (member("README", content=b"read me"),)])
def test_an_archive_whose_description_comes_last(
    store: Store, tmp_path: Path, pack: Callable[[bytes], bytes], first: tuple[Any, ...]
) -> None:
    """podman and skopeo begin with a layer, named by its digest."""
    data = saved(BASE, ABOVE, tags=["it:2"], flat=True)
    if first:
        data = tar(*first)[:1024] + data  # without the zeros at the end
    report = import_image(store, write(tmp_path, "it.tar", pack(data)))
    assert (report.kind, report.image, len(report.layers)) == ("oci", "it:2", 2)


def test_a_root_that_has_a_manifest_of_its_own(store: Store, tmp_path: Path) -> None:
    data = tar(member("manifest.json", content=b'{"name": "app"}'), folder("bin"), member("bin/x", mode=0o755))
    report = import_image(store, write(tmp_path, "app.tar", data), data=False)
    assert report.kind == "tar" and "manifest.json" in shown(store, report)


@pytest.mark.parametrize("kind", ["tar", "directory"])
def test_a_root_without_a_program_is_no_root(store: Store, tmp_path: Path, kind: str) -> None:
    """Such as an archive of layers that husk does not know."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "layer").write_text("x")
    archive = write(tmp_path, "d.tar", tar(member("layer", content=b"x")))
    source = str(tmp_path / "d") if kind == "directory" else archive
    with pytest.raises(StoreUsageError, match=r"holds no program.*--data"):
        import_image(store, source, "d", data=False)
    assert store.images.list() == []
    assert import_image(store, source, "d").image == "d"
