"""The command finds each of husk's modules where Python would have found it, and leaves what is doubtful to Python."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import py_compile
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import husk
from husk.cli.start.module_finder import CompiledLoader, ModuleFinder, find_quickly

FOLDER = Path(husk.__file__).parent
TAG = sys.implementation.cache_tag
FINDER = ModuleFinder(str(TAG))


def names() -> Iterator[str]:
    for path in sorted(FOLDER.rglob("*.py")):
        parts = path.relative_to(FOLDER.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = [name for name in names() if name != "husk"]


def test_every_module_is_found_where_python_finds_it() -> None:
    assert len(MODULES) > 500
    found = 0
    for name in MODULES:
        above = [str(FOLDER.joinpath(*name.split(".")[1:-1]))]
        ours, pythons = FINDER.find_spec(name, above), importlib.machinery.PathFinder.find_spec(name, above)
        assert pythons is not None
        if ours is None:
            continue  # not compiled
        found += 1
        for attribute in ("name", "origin", "cached", "parent", "has_location", "submodule_search_locations"):
            assert getattr(ours, attribute) == getattr(pythons, attribute), (name, attribute)
        loader, python = ours.loader, pythons.loader
        assert isinstance(loader, CompiledLoader) and isinstance(python, importlib.machinery.SourceFileLoader)
        code, expected = loader.get_code(name), python.get_code(name)
        assert code == expected and code is not None and code.co_filename == ours.origin, name
        assert loader.get_source(name) == python.get_source(name)
    assert found > 500, "husk is installed with its modules compiled"


def test_a_run_finds_its_modules_this_way() -> None:
    """Else nothing is gained."""
    code = (
        "import sys; from husk.cli.start.module_finder import find_quickly; find_quickly(); import husk.cli.cmd_run;"
        "print(*[type(module.__spec__.loader).__name__ for name, module in sys.modules.items() if 'husk.vfs' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"CompiledLoader"}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Of a module husk.made, compiled."""
    source = tmp_path / "made.py"
    source.write_text("value = 1\n")
    py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP)
    return tmp_path


def compiled(place: Path) -> Path:
    return place / "__pycache__" / f"made.{TAG}.pyc"


def finds(place: Path, name: str = "husk.made") -> importlib.machinery.ModuleSpec | None:
    return FINDER.find_spec(name, [str(place)])


def test_what_is_compiled_is_loaded(place: Path) -> None:
    spec = finds(place)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    assert spec.loader is not None
    spec.loader.exec_module(module)
    assert module.value == 1 and module.__file__ == str(place / "made.py") and module.__cached__ == str(compiled(place))
    (place / "made.py").write_text("value = 23\n")  # and again from the source, as Python does it
    spec.loader.exec_module(module)
    assert module.value == 23


def test_a_source_that_changed_is_pythons(place: Path) -> None:
    source = place / "made.py"
    when = source.stat().st_mtime_ns
    source.write_text("value = 22\n")  # another size
    os.utime(source, ns=(when, when))
    assert finds(place) is None
    source.write_text("value = 2\n")
    os.utime(source, ns=(when + 10**9, when + 10**9))
    assert finds(place) is None
    os.utime(source, ns=(when, when))  # as for Python: same time, same size
    assert finds(place) is not None


def test_a_source_that_is_gone_is_pythons(place: Path) -> None:
    (place / "made.py").unlink()
    assert finds(place) is None


@pytest.mark.parametrize("change", ["magic", "flags", "empty", "short", "none"])
def test_a_compiled_file_of_another_kind_is_pythons(place: Path, change: str) -> None:
    file = compiled(place)
    content = file.read_bytes()
    if change == "none":
        file.unlink()
    else:
        file.write_bytes({
            "magic": b"\0\0\0\0" + content[4:], "flags": content[:4] + b"\1\0\0\0" + content[8:], "empty": b"",
            "short": content[:15],
        }[change])  # fmt: skip
    assert finds(place) is None


def test_a_package_and_a_stale_module_of_its_name(place: Path) -> None:
    (place / "made").mkdir()
    (place / "made" / "__init__.py").write_text("value = 3\n")
    py_compile.compile(str(place / "made" / "__init__.py"))
    (place / "made.py").unlink()  # what was compiled of it stays
    spec = finds(place)
    assert spec is not None and spec.submodule_search_locations == [str(place / "made")]


def test_no_other_packages_modules(place: Path) -> None:
    assert finds(place, "json.made") is None and finds(place, "huskier.made") is None
    assert FINDER.find_spec("husk.made", None) is None and FINDER.find_spec("husk.made", []) is None
    assert FINDER.find_spec("husk.made", ["/nowhere", str(place)]) is None


def test_settings_that_mean_other_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = list(sys.meta_path)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    find_quickly()
    assert sys.meta_path == before
