"""Compilers, linkers and make run from an image, and build the same bytes as natively.

The image is made of the host's own files, as few as will do. A whole Debian root is tried by hand: docs/images.md.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from husk.images.bring import bring
from husk.images.export import export
from husk.store.store import Store
from tests.guest.harness import NATIVE_ONLY
from tests.guest.running import husk
from tests.images.hostroot import add_file, add_programs

pytestmark = [
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.needs("gcc", "make", "ld"),
]

# No headers: they are thousands of files, and what is compiled needs none.
PROJECT = {
    "main.c": "int puts(const char *);\nint add(int, int);\n"
              "int main(void) { puts(add(2, 3) == 5 ? \"good\" : \"bad\"); return 0; }\n",
    "add.c": "int add(int a, int b) { return a + b; }\n",
    "start.S": ".globl answer\nanswer: ret\n.section .note.GNU-stack,\"\",@progbits\n",
    "Makefile": "prog: main.o add.o start.o libadd.a\n\tgcc -Wl,--build-id=sha1 -o $@ main.o start.o -L. -ladd\n"
                "libadd.a: add.o\n\tar rcsD $@ $^\n%.o: %.S\n\tgcc -nostdinc -c -o $@ $<\n"
                "%.o: %.c\n\tgcc -O2 -nostdinc -c -o $@ $<\n",
}  # fmt: skip
BUILD = "set -e; cp /src/* .; make -s; ./prog; sha256sum prog main.o add.o libadd.a"


def _gcc_files() -> list[str]:
    """What the driver itself says it would use."""
    found = []
    for name in ("cc1", "collect2", "lto-wrapper", "liblto_plugin.so", "as", "ld"):
        path = subprocess.run(["gcc", f"-print-prog-name={name}"], capture_output=True, text=True).stdout.strip()
        if "/" not in path:
            path = subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()
        found.append(path)
    for name in ("crt1.o", "Scrt1.o", "crti.o", "crtn.o", "crtbegin.o", "crtbeginS.o", "crtend.o", "crtendS.o",
                 "libgcc.a", "libgcc_s.so", "libgcc_s.so.1", "libc.so", "libc.so.6", "libc_nonshared.a"):  # fmt: skip
        found.append(subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip())
    return [os.path.normpath(path) for path in found if "/" in path]


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with tempfile.TemporaryDirectory(prefix="husk-test-") as place:
        root = Path(place, "root")
        (root / "tmp").mkdir(parents=True)
        (root / "src").mkdir()
        for name, text in PROJECT.items():
            (root / "src" / name).write_text(text)
        add_programs(root, "sh", "cp", "make", "gcc", "as", "ld", "ar", "sha256sum", "ranlib")
        for path in _gcc_files():
            add_file(root, path)
            if os.access(path, os.X_OK) and not path.endswith((".so", ".1", ".6", ".o")):
                add_programs(root, path)
        made = Store.create(place + "/store")
        bring(made, str(root), "gcc")
        yield made


@pytest.mark.both_settings
def test_the_same_bytes_as_natively(store: Store, tmp_path: Path) -> None:
    for name, text in PROJECT.items():
        (tmp_path / name).write_text(text)
    here = BUILD.replace("cp /src/* .; ", "")
    native = subprocess.run(["sh", "-c", here], cwd=tmp_path, capture_output=True, text=True)
    assert native.returncode == 0, native.stderr
    inside = husk(["run", "--image", "gcc", "--store", store.place, "--workdir", "/tmp", "--", "sh", "-c", BUILD])
    assert (inside.status, inside.err) == (0, ""), inside
    assert inside.out == native.stdout
    assert inside.out.startswith("good\n")


def test_the_same_image_by_way_of_an_archive(store: Store, tmp_path: Path) -> None:
    export(store, "gcc", str(tmp_path / "gcc.tar"), "oci")
    again = bring(store, str(tmp_path / "gcc.tar"), "again")
    assert again.flat == store.images.get("gcc").flat
    inside = husk(["run", "--image", "again", "--store", store.place, "--workdir", "/tmp", "--", "sh", "-c", BUILD])
    assert (inside.status, inside.out[:5]) == (0, "good\n"), inside


def test_the_digest_is_of_what_is_there(store: Store) -> None:
    """The shell inside is the host's, byte for byte."""
    shell = os.path.realpath(shutil.which("sh") or "/bin/sh")
    inside = husk(["run", "--image", "gcc", "--store", store.place, "--", "sha256sum", "/bin/sh"])
    assert inside.out.split()[0] == hashlib.sha256(Path(shell).read_bytes()).hexdigest()
