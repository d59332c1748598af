"""The C core's names: every external symbol and every struct of a header tells its room, as native/core.h lists them.

Reads the sources, runs nothing. The build refuses an external function that no header declares (-Wmissing-prototypes).
"""

from __future__ import annotations

import collections
import re
from pathlib import Path

import pytest

NATIVE = Path(__file__).resolve().parents[2] / "src" / "husk" / "native"
ROOMS = {
    ".": ("core_",),
    "notify": ("notify_", "guest_"),
    "fastpath": ("fast_",),
    "layer": ("fast_",),
    "direct": ("fast_direct_", "fast_py_"),
    "gate": ("gate_",),
    "remote": ("remote_",),
    "host": ("host_",),
    "trace": ("trace_",),
    "store": ("manifest_", "tree_", "blob_"),
    "client": ("client_",),
    "init": ("init_",),
    "loader": ("loader_",),
}
# Names that Python, the linker, or gcc (for the loader, which has no C library) choose.
GIVEN = {"PyInit__core", "main", "_start", "memcpy", "memmove", "memset", "strlen"}
# C structs of Python classes have the class's name. protocol.h, resident.h and directories.h are shared with tests and
# other programs.
CLASSES = {"Listener", "Call", "Recorder", "Manifest", "Tree", "VfsLock"}
SHARED = {"husk_exec_info", "husk_resident", "husk_names", "husk_directories", "husk_directory", "husk_site"}
SHARED |= {"husk_directory_kind", "husk_exact", "husk_program", "husk_roots", "husk_given"}
# The manifest is the file's own bytes (docs/formats/manifest.md); its reader's struct is called just that.
SHARED |= {"manifest"}

SOURCES = sorted(path for pattern in ("*.c", "*.S") for path in NATIVE.rglob(pattern))
HEADERS = sorted(NATIVE.rglob("*.h"))


def room(path: Path) -> str:
    return str(path.relative_to(NATIVE).parent)


def without_comments(path: Path) -> str:
    return re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)


def external_names(source: Path) -> list[str]:
    """Functions and variables that the file defines and other files can name: they begin a line and are not static."""
    text = without_comments(source)
    if source.suffix == ".S":
        return re.findall(r"\w+", " ".join(re.findall(r"^\s*\.globl\s+(.*)", text, re.M)))
    functions = re.findall(r"^(?!static\b)[A-Za-z_][\w \*()\"]*?[ *](\w+)\([^;{]*\)\n\{", text, re.M)
    variables = re.findall(r"^(?!static\b|extern\b|typedef\b)[A-Za-z_][\w ]*[ *](\w+)(?:\[\w*\])?(?: = |;)", text, re.M)
    return functions + variables


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(NATIVE)))
def test_every_external_name_has_the_prefix_of_its_room(source: Path) -> None:
    names = set(external_names(source)) - GIVEN
    assert {name for name in names if not name.startswith(ROOMS[room(source)])} == set()


def test_external_names_are_found() -> None:
    """The patterns above fit how the sources are written: each function of a header is defined in exactly one place."""
    defined = collections.Counter(name for source in SOURCES for name in external_names(source))
    declared: set[str] = set()
    for header in HEADERS:
        declared |= set(
            re.findall(
                r"^(?!static\b)[a-zA-Z_][\w ]*[ *](\w+)\([^()]*(?:\([^()]*\)[^()]*)*\);", without_comments(header), re.M
            )
        )
    assert len(declared) > 100
    assert {name for name in declared if defined[name] != 1} == set()


@pytest.mark.parametrize("header", HEADERS, ids=lambda path: str(path.relative_to(NATIVE)))
def test_every_type_of_a_header_has_the_prefix_of_its_room(header: Path) -> None:
    text = without_comments(header)
    tags = re.findall(r"^(?:struct|enum|union) (\w+)(?: \{|;)", text, re.M)
    typedefs = re.findall(r"^\} (\w+);", text, re.M)
    allowed = ROOMS[room(header)]
    assert all(name.startswith(allowed) or name in SHARED for name in tags), tags
    assert set(typedefs) <= CLASSES


def test_core_h_lists_the_rooms() -> None:
    head = (NATIVE / "core.h").read_text()
    for folder, prefixes in ROOMS.items():
        name = "core.c" if folder == "." else f"{folder}/"
        line = re.search(rf"^ \*   {re.escape(name)} +(.*?)   ", head, re.M)
        assert line, name
        assert tuple(line[1].split(", ")) == prefixes


def test_one_basename_once() -> None:
    """A header and a source of one name belong together; two sources or two headers of one name do not."""
    counted = collections.Counter(path.name for path in (*SOURCES, *HEADERS))
    assert [name for name, count in counted.items() if count > 1] == []


def test_the_build_file_lists_every_source() -> None:
    recipe = (NATIVE / "meson.build").read_text()
    rooms = [path for path in SOURCES if room(path) not in ("client", "init", "loader")]
    assert [str(p.relative_to(NATIVE)) for p in rooms if f"'{p.relative_to(NATIVE)}'" not in recipe] == []


@pytest.mark.parametrize("path", [*SOURCES, *HEADERS], ids=lambda path: str(path.relative_to(NATIVE)))
def test_lines_have_120_characters_at_most(path: Path) -> None:
    """As ruff holds it for Python."""
    assert [number for number, line in enumerate(path.read_text().splitlines(), 1) if len(line) > 120] == []
