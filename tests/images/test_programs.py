"""Compilers, linkers, builders and interpreters run from an image, and build the same bytes as natively.

The image is made of the host's own files, as few as possible: the installed files of each tool. A whole Debian root is
tried by hand: docs/images.md.
"""

from __future__ import annotations

import glob
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from husk.images.image_export import export
from husk.images.image_import import import_image
from husk.store.store import Store
from tests.conftest import guest_programs
from tests.images.hostroot import add_file, add_programs, add_tree
from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import husk

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
    "Makefile": "CC = gcc\nprog: main.o add.o start.o libadd.a\n"
                "\t$(CC) -Wl,--build-id=sha1 -o $@ main.o start.o -L. -ladd\n"
                "libadd.a: add.o\n\tar rcsD $@ $^\n%.o: %.S\n\t$(CC) -nostdinc -c -o $@ $<\n"
                "%.o: %.c\n\t$(CC) -O2 -nostdinc -c -o $@ $<\n",
    "CMakeLists.txt": "cmake_minimum_required(VERSION 3.13)\nproject(x LANGUAGES C)\nadd_library(add STATIC add.c)\n"
                      "add_executable(prog main.c)\ntarget_link_libraries(prog add)\n",
    "module.py": "import json, zlib\nGOOD = json.loads('{\"a\": \"good\"}')['a']\n"
                 "def packed(text):\n    return zlib.crc32(zlib.compress(text.encode()))\n"
                 "if __name__ == '__main__':\n    print(GOOD)\n",
    "build.js": "const fs = require('fs'), crypto = require('crypto'), zlib = require('zlib');\n"
                "const names = fs.readdirSync('.').filter(name => name.endsWith('.c')).sort();\n"
                "const text = names.map(name => fs.readFileSync(name, 'utf8')).join('');\n"
                "fs.writeFileSync('bundle', zlib.deflateRawSync(text));\n"
                "const sum = crypto.createHash('sha1').update(text).digest('hex');\n"
                "console.log(sum.length === 40 ? 'good' : 'bad');\n",
}  # fmt: skip
SUMS = "sha256sum prog main.o add.o libadd.a"
BUILDS = {
    "gcc": f"make -s; ./prog; {SUMS}",
    "clang": f"make -s CC=clang; ./prog; {SUMS}",
    "ninja": "cmake -G Ninja -B out . -DCMAKE_C_FLAGS='-O2 -nostdinc' -DCMAKE_C_COMPILER=gcc >log; "
             "ninja -C out >>log; out/prog; sha256sum out/prog out/libadd.a",
    "python3": "python3 -m compileall -q --invalidation-mode unchecked-hash module.py; python3 module.py; "
               "sha256sum __pycache__/*",
    "node": "node build.js; sha256sum bundle",
}  # fmt: skip
ALSO = {"ninja": ["cmake"]}
COPY = "set -e; cp /src/* .; "


def _gcc_files() -> list[str]:
    """The files that the compiler driver says it would use."""
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
        import_image(made, str(root), "gcc")
        _add_others(root)
        import_image(made, str(root), "tools")
        yield made


def _add_others(root: Path) -> None:
    """The other tools that this host has, with what they need besides libraries."""
    for program in ("clang", "cmake", "ninja", "node", "python3"):
        if path := guest_programs.find(program):
            add_programs(root, path)
    for folder in glob.glob("/usr/share/cmake-*"):
        add_tree(root, folder, "Help", "Find*")
    if path := guest_programs.find("python3"):
        ask = "import sysconfig; print(sysconfig.get_path('stdlib'))"
        library = subprocess.run([path, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()
        add_tree(root, library, "test", "tests", "idlelib", "lib2to3", "config-*", "dist-packages", "__pycache__")


def inside(store: Store, image: str, script: str) -> str:
    done = husk(["run", "--image", image, "--store", store.place, "--workdir", "/tmp", "--", "sh", "-c", COPY + script])
    assert (done.status, done.err) == (0, ""), done
    return done.out


@pytest.mark.both_settings
@pytest.mark.parametrize(
    "tool", [pytest.param(tool, marks=pytest.mark.needs(tool, *ALSO.get(tool, []))) for tool in BUILDS]
)
def test_the_same_bytes_as_natively(store: Store, tmp_path: Path, tool: str) -> None:
    for name, text in PROJECT.items():
        (tmp_path / name).write_text(text)
    environment = {"PATH": guest_programs.GUEST_PATH}
    command = ["sh", "-c", f"set -e; {BUILDS[tool]}"]
    native = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert native.returncode == 0, native.stderr
    assert native.stdout.startswith("good\n")
    assert inside(store, "tools", BUILDS[tool]) == native.stdout


def test_the_same_image_by_way_of_an_archive(store: Store, tmp_path: Path) -> None:
    export(store, "gcc", str(tmp_path / "gcc.tar"), "oci")
    again = import_image(store, str(tmp_path / "gcc.tar"), "again")
    assert again.flat == store.images.get("gcc").flat
    assert inside(store, "again", BUILDS["gcc"]).startswith("good\n")


def test_the_digest_is_of_what_is_there(store: Store) -> None:
    """The shell inside is the host's, byte for byte."""
    shell = os.path.realpath(shutil.which("sh") or "/bin/sh")
    shown = inside(store, "gcc", "sha256sum /bin/sh")
    assert shown.split()[0] == hashlib.sha256(Path(shell).read_bytes()).hexdigest()
