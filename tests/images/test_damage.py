"""A store that was damaged or forged: each command says so in one sentence, and gives nothing of it away."""

from __future__ import annotations

import io
import json
import os
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from husk.cli.cmd_image import main
from husk.images.image_import import import_image
from husk.store.images import Image, ImageConfig
from husk.store.store import Store
from tests.images.archives import folder, member, tar
from tests.images.hostroot import add_programs
from tests.images.test_command import image
from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import husk
from tests.unit.store.test_forged import FORGERIES, Forger

runs = pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for")


@pytest.fixture
def root(store: Store, tmp_path: Path) -> Path:
    top = tmp_path / "root"
    (top / "d").mkdir(parents=True)
    (top / "d" / "file").write_text("hello\n")
    add_programs(top, "sh", "cat")
    import_image(store, str(top), "whole")
    return top


def spoil(path: str, data: bytes | None = None, size: int = 0) -> None:
    os.chmod(path, 0o644)
    Path(path).write_bytes(Path(path).read_bytes()[:size] if data is None else data)
    os.chmod(path, 0o444)


def blob_of(store: Store, path: bytes) -> str:
    entry = store.open_manifest(store.images.get("whole").flat).lookup(path)
    assert entry is not None
    return store.blob_path(entry.hash)


def run(store: Store, *command: str) -> tuple[int, str, str]:
    done = husk(["run", "--image", "whole", "--store", store.place, *command])
    assert "Traceback" not in done.err
    return done.status, done.out, done.err


@pytest.mark.parametrize("data", [b"jello\n", b"hell", b"hello\nmore"], ids=["other", "shorter", "longer"])
def test_a_damaged_blob_is_not_exported(store: Store, root: Path, tmp_path: Path, data: bytes) -> None:
    spoil(blob_of(store, b"d/file"), data)
    for form in ("tar", "oci"):
        done = image(store, "export", "whole", str(tmp_path / "out"), "--format", form, code=1)
        assert "is damaged; `husk store verify` says what to do." in done.stderr
    assert sorted(os.listdir(tmp_path)) == ["root"]


@runs
@pytest.mark.both_settings
def test_a_missing_blob(store: Store, root: Path, tmp_path: Path) -> None:
    """The program gets EIO, for reading and for writing. husk says why, outside."""
    os.unlink(blob_of(store, b"d/file"))
    status, out, err = run(store, "--summary", "--", "sh", "-c", "cat /d/file; (echo more >> /d/file); echo $?")
    assert status == 0 and out == "2\n", err
    assert err.count("/d/file: the image lacks its content") == 1 and err.count("Input/output error") == 2, err
    assert "is missing" in image(store, "export", "whole", str(tmp_path / "out.tar"), code=1).stderr


@runs
def test_a_manifest_that_is_cut_short(store: Store, root: Path) -> None:
    for size in (0, 300):
        spoil(store.blob_path(store.images.get("whole").flat), size=size)
        status, _, err = run(store, "--", "true")
        assert status == 125 and "a manifest cannot be read" in err and err.count("\n") == 1, err
        for words in (["inspect", "whole"], ["export", "whole", "-"]):
            assert "manifest" in image(store, *words, code=1).stderr
    os.unlink(store.blob_path(store.images.get("whole").flat))
    status, _, err = run(store, "--", "true")
    assert status == 125 and "is missing; `husk store verify`" in err and err.count("\n") == 1, err
    import_image(store, str(root), "whole")  # the same again makes it good
    assert run(store, "--", "cat", "/d/file")[1] == "hello\n"


@runs
@pytest.mark.parametrize("text", [b"", b"{", b"[" * 100_000, b"\xff", b'{"format": 1}', b"null"])
def test_a_record_that_is_none(store: Store, root: Path, tmp_path: Path, text: bytes) -> None:
    (tmp_path / "other.tar").write_bytes(tar(folder("d"), member("d/f", content=b"x")))
    import_image(store, str(tmp_path / "other.tar"), "other")
    Path(store.place, "images", "whole").write_bytes(text)
    status, _, err = run(store, "--", "true")
    assert status == 125 and err == (
        "husk: the record of the image 'whole' is damaged; ingest it again, or `husk store rm` it.\n"
    )
    out = io.StringIO()
    with redirect_stdout(out):
        assert main(["ls", "--json", "--store", store.place]) == 1
    listed = {one["name"]: one for one in json.loads(out.getvalue())}
    assert "is damaged" in listed["whole"]["error"] and listed["other"]["layers"]
    assert "is damaged" in image(store, "export", "whole", "-", code=1).stderr
    image(store, "rm", "whole")
    assert store.images.list() == ["other"]


@pytest.mark.parametrize("name", [name for name, _, _ in FORGERIES])
def test_a_forged_manifest_is_not_exported(store: Store, tmp_path: Path, name: str) -> None:
    forger = Forger()
    next(spoil_it for found, spoil_it, _ in FORGERIES if found == name)(forger)
    with store.writing() as writing:
        forged = writing.put_manifest(forger.sealed())
        writing.publish()
        store.images.set("forged", Image([forged], ImageConfig(), 0, forged))
    done = image(store, "export", "forged", str(tmp_path / "out.tar"), code=1)
    assert f"the manifest {forged[:16]} is none husk wrote: " in done.stderr
    assert os.listdir(tmp_path) == []
