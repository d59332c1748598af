"""docs/design/012-credentials.md: every call that husk makes in a guest's place has a row that says what holds it."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "husk"
# Modules whose functions act on the host; `_core` is husk's own, in C.
ACTING = {"os", "fcntl", "_socket", "socket", "signal", "resource", "ctypes", "_core"}

RAW = {
    method.name
    for node in ast.parse((SOURCE / "native" / "_core.pyi").read_text()).body
    if isinstance(node, ast.ClassDef) and node.name == "Call"
    for method in node.body
    if isinstance(method, ast.FunctionDef)
}

_spec = importlib.util.spec_from_file_location("credentials_table", ROOT / "tools" / "credentials_table.py")
assert _spec is not None and _spec.loader is not None
credentials_table = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(credentials_table)


def calls_in(source: str) -> Iterator[str]:
    """Functions of acting modules, `open`, methods of the C core's Call (`raw`), and C functions by ctypes (`libc`)."""
    tree = ast.parse(source)
    modules: dict[str, str] = {}
    names: dict[str, str] = {}
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            module = node.module.rpartition(".")[2]
            names |= {alias.asname or alias.name: f"{module}.{alias.name}" for alias in node.names if module in ACTING}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Attribute(value=ast.Name(id=name), attr=function) if modules.get(name) in ACTING:
                yield f"{modules[name]}.{function}"
            case ast.Attribute(value=ast.Name(id="libc"), attr=function):
                yield f"libc.{function}"
            case ast.Attribute(value=ast.Name(id="raw") | ast.Attribute(attr="raw"), attr=function) if function in RAW:
                yield f"raw.{function}"
            case ast.Name(id="open") if "open" not in defined:
                yield "open"
            case ast.Name(id=name) if name in names:
                yield names[name]


def found() -> dict[tuple[str, str], str]:
    """(room, function) -> a file that calls it."""
    made: dict[tuple[str, str], str] = {}
    for layer in ("kernel", "vfs"):
        for path in sorted((SOURCE / layer).rglob("*.py")):
            for function in calls_in(path.read_text()):
                made.setdefault((str(path.parent.relative_to(SOURCE)), function), str(path.relative_to(SOURCE)))
    return made


@pytest.fixture(scope="module")
def listed() -> set[tuple[str, str]]:
    rows = credentials_table.data()["row"]
    return {(room, name) for row in rows for room, names in row["calls"].items() for name in names}


def test_every_call_has_a_row(listed: set[tuple[str, str]]) -> None:
    harmless = credentials_table.data()["harmless"]
    missing = {f"{call} in {where}" for (room, call), where in found().items() if (room, call) not in listed}
    missing = {text for text in missing if text.split(" in ")[0] not in harmless}
    assert missing == set(), "say in docs/design/012-credentials.toml with which credentials, and what holds it"


def test_every_row_is_about_a_call(listed: set[tuple[str, str]]) -> None:
    gone = listed - set(found())
    assert gone == set(), "no such call in that room: correct docs/design/012-credentials.toml"


def test_the_page_shows_the_table() -> None:
    page = credentials_table.PAGE.read_text()
    assert page == credentials_table.written(), "write it anew: python tools/credentials_table.py"


def test_a_new_call_would_be_noticed() -> None:
    source = "import os as h\nfrom husk.native._core import make_as\nh.chmod(1, 2)\nmake_as(0, 0, f)\nself.raw.map()\n"
    assert list(calls_in(source)) == ["os.chmod", "_core.make_as", "raw.map"]
