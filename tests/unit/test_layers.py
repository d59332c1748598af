"""Imports point downward, also inside folders, and names say what is in a module: the table of tools/layers.py, held
against every import statement and every file name of src/husk.

Reads the sources, runs nothing. Imports made only for type checkers count too: a type from above is knowledge of above.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from layers import (
    C_FOLDERS,
    EMPTY_NAMES,
    KERNEL_LAYERS,
    LAYERS,
    LIBRARIES,
    MOST_FILES,
    ORDER,
    SLOW,
    START_PATH,
    TYPES_FROM_ABOVE,
)

SOURCE = Path(__file__).resolve().parents[2] / "src" / "husk"
C_SUFFIXES = (".c", ".h", ".S")
SOURCE_SUFFIXES = (".py", *C_SUFFIXES)
FILES = sorted(path for pattern in ("*.py", "*.pyi") for path in SOURCE.rglob(pattern))
SOURCES = sorted(path for path in SOURCE.rglob("*") if path.suffix in SOURCE_SUFFIXES)


def layer_of(path: Path) -> str | None:
    """The folder a file belongs to; None for the files of the package's own root."""
    parts = path.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else None


def imported(path: Path, tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, absolute dotted name) of everything a file imports; names taken from a package count as submodules."""
    package = ("husk", *path.relative_to(SOURCE).parent.parts)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            module = ".".join(base + ([node.module] if node.module else []))
            for alias in node.names:
                yield node.lineno, f"{module}.{alias.name}"


def allowed(layer: str, target: str) -> bool:
    return any(target == prefix or target.startswith(f"{prefix}.") for prefix in LAYERS[layer] | {layer})


def complaints(path: Path, text: str) -> list[str]:
    """What is wrong with the imports of one file, one sentence each."""
    layer = layer_of(path)
    if layer is None:
        return []  # husk/__init__.py and __main__.py are the public surface: above everything
    if layer not in LAYERS:
        return [f"{path}: the folder `{layer}` is not in the design's table"]
    found = []
    for line, name in imported(path, ast.parse(text)):
        top, _, rest = name.partition(".")
        if top == "husk":
            if rest != "__version__" and not allowed(layer, rest):
                found.append(f"{path}:{line}: `{layer}` must not know about {name}")
        elif layer in KERNEL_LAYERS and top not in sys.stdlib_module_names | LIBRARIES.get(layer, set()):
            found.append(f"{path}:{line}: `{layer}` may import only the standard library and husk itself, not {name}")
    return found


def slow_imports(path: Path, text: str) -> list[str]:
    """Slow modules imported when the file is: at its top level, outside `if TYPE_CHECKING`."""
    top_level = ast.Module([node for node in ast.parse(text).body if isinstance(node, ast.Import | ast.ImportFrom)], [])
    return [
        f"{path}:{line}: {name} is imported on every start"
        for line, name in imported(path, top_level)
        if name.partition(".")[0] in SLOW
    ]


def test_there_is_something_to_check() -> None:
    assert {layer_of(path) for path in FILES} >= {"abi", "kernel", "vfs"}


@pytest.mark.parametrize("layer", sorted(LAYERS))
def test_imports_point_downward(layer: str) -> None:
    files = [path for path in FILES if layer_of(path) == layer]
    assert [fault for path in files for fault in complaints(path, path.read_text())] == []


def test_every_folder_is_in_the_table() -> None:
    assert {layer_of(path) for path in FILES} - {None} <= set(LAYERS)


def test_the_table_has_no_cycle() -> None:
    """A cycle in our own table would make every other check here worthless."""
    heights: dict[str, int] = {}

    def height(layer: str, above: tuple[str, ...]) -> int:
        assert layer not in above, f"{layer} stands on itself: {above}"
        if layer not in heights:
            below = {target.partition(".")[0] for target in LAYERS[layer]}
            heights[layer] = 1 + max((height(target, (*above, layer)) for target in below), default=0)
        return heights[layer]

    for layer in LAYERS:
        height(layer, ())


def test_a_cold_start_imports_nothing_slow() -> None:
    files = [path for path in FILES if path.suffix == ".py" and layer_of(path) in START_PATH]
    assert [fault for path in files for fault in slow_imports(path, path.read_text())] == []


@pytest.mark.parametrize(
    ("where", "text", "faults"),
    [
        ("abi/x.py", "import husk.native", 1),
        ("abi/x.py", "from husk import kernel", 1),
        ("abi/x.py", "from . import errno_names", 0),
        ("vfs/x.py", "from husk.native import _core", 0),
        ("vfs/x.py", "from husk.native._core import open_beneath", 0),
        ("vfs/x.py", "from husk.native import memory", 1),
        ("vfs/x.py", "from ..kernel.task import Task", 1),
        ("kernel/syscalls/x.py", "from ...vfs.node import Node\nfrom ..task import Task", 0),
        ("kernel/syscalls/x.py", "def late() -> None:\n    from husk.sandbox import Sandbox", 1),
        ("kernel/x.py", "if TYPE_CHECKING:\n    from husk.cli import main", 1),
        ("sandbox/x.py", "import blake3", 1),
        ("store/x.py", "import blake3", 0),
        ("store/x.py", "import rich", 1),
        ("cli/x.py", "import rich\nfrom husk.abi.registry import rows", 0),
        ("skills/x.py", "from husk.cli import main", 1),
        ("utils/x.py", "", 1),
    ],
)
def test_the_check_itself(where: str, text: str, faults: int) -> None:
    assert len(complaints(SOURCE / where, text)) == faults


# -- no cycles ---------------------------------------------------------------------------------------------------------
def module_of(path: Path) -> str:
    """The dotted name below `husk`; of a package, that of its folder."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def for_type_checkers(tree: ast.AST) -> set[int]:
    """Lines of imports that only type checkers see."""
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    return {
        node.lineno for block in blocks for node in ast.walk(block) if isinstance(node, ast.Import | ast.ImportFrom)
    }


def edges(texts: dict[str, str], *, types: bool) -> dict[str, dict[str, int]]:
    """Module -> modules of husk that it imports anywhere, in functions too, with a line. `texts`: path -> source.
    `types`: only imports for type checkers, or only the others."""
    modules = {module_of(SOURCE / path) for path in texts}
    found: dict[str, dict[str, int]] = {module: {} for module in modules}
    for path, text in texts.items():
        tree, me = ast.parse(text), module_of(SOURCE / path)
        apart = for_type_checkers(tree)
        for line, name in imported(SOURCE / path, tree):
            target = name.removeprefix("husk.")
            while target and target not in modules:
                target = target.rpartition(".")[0]  # a name in a module, or in a package
            if name.startswith("husk.") and target not in ("", me) and (line in apart) == types:
                found[me][target] = line
    return found


def cycle(graph: dict[str, dict[str, int]]) -> list[str]:
    """The modules of one import cycle, in order; empty if there is none."""
    done: set[str] = set()

    def search(module: str, above: list[str]) -> list[str]:
        if module in above:
            return [*above[above.index(module) :], module]
        if module not in done:
            for target in graph[module]:
                if found := search(target, [*above, module]):
                    return found
            done.add(module)
        return []

    return next((found for module in sorted(graph) if (found := search(module, []))), [])


def source_texts() -> dict[str, str]:
    return {str(path.relative_to(SOURCE)): path.read_text() for path in FILES if path.suffix == ".py"}


def test_no_import_cycle() -> None:
    """An import inside a function only postpones a cycle: the two modules still know each other."""
    assert cycle(edges(source_texts(), types=False)) == []


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ({"vfs/a.py": "from husk.vfs import b", "vfs/b.py": "import os"}, []),
        ({"vfs/a.py": "from husk.vfs import b", "vfs/b.py": "from husk.vfs.a import A"}, ["vfs.a", "vfs.b", "vfs.a"]),
        (
            {"vfs/a.py": "import husk.vfs.b", "vfs/b.py": "def late():\n    from husk.vfs.a import A"},
            ["vfs.a", "vfs.b", "vfs.a"],
        ),
        ({"vfs/a.py": "import husk.vfs.b", "vfs/b.py": "if TYPE_CHECKING:\n    from husk.vfs.a import A"}, []),
        (
            {"vfs/__init__.py": "from husk.vfs.b import B", "vfs/b.py": "from husk.vfs import A"},
            ["vfs", "vfs.b", "vfs"],
        ),
    ],
    ids=["none", "plain", "lazy", "types only", "package"],
)
def test_the_check_for_cycles_itself(texts: dict[str, str], found: list[str]) -> None:
    assert cycle(edges(texts, types=False)) == found


# -- the order inside a folder -----------------------------------------------------------------------------------------
def level(folder: str, module: str) -> int:
    """The level of a module of this folder: that of the longest name in the table which it is or lies in."""
    levels = {name: number for number, names in enumerate(ORDER[folder]) for name in names.split()}
    name = module.removeprefix(f"{folder}.")
    while name and name not in levels:
        name = name.rpartition(".")[0]
    return levels[name or "*"]


def out_of_order(texts: dict[str, str]) -> list[str]:
    """Imports that point up inside a folder, and imports between two sub-packages of one level."""
    found = []
    for types in (False, True):
        for module, targets in edges(texts, types=types).items():
            folder = module.partition(".")[0]
            for target, line in targets.items():
                if folder not in ORDER or target.partition(".")[0] != folder or target == folder or module == folder:
                    continue
                if types and module.rpartition(".")[0] == target.rpartition(".")[0]:
                    continue  # two modules side by side may name each other's types
                if types and target in TYPES_FROM_ABOVE.get(module, ()):
                    continue
                mine, other = level(folder, module), level(folder, target)
                rooms = {name.split(".")[1] for name in (module, target) if is_in_room(name, texts)}
                if other > mine or (other == mine and len(rooms) > 1):
                    found.append(f"{module}:{line} must not know about {target}: it stands higher, or beside it")
    return found


def is_in_room(module: str, texts: dict[str, str]) -> bool:
    """Does it lie in a sub-package of its folder?"""
    return module.count(".") > 1 or f"{module.replace('.', '/')}/__init__.py" in texts


def test_rooms_stand_in_order() -> None:
    assert out_of_order(source_texts()) == [], "put the module into the right room, or change ORDER in tools/layers.py"


def test_the_order_names_what_exists() -> None:
    known = set(edges(source_texts(), types=False))
    named = [f"{folder}.{name}" for folder, levels in ORDER.items() for names in levels for name in names.split()]
    assert [name for name in named if not name.endswith("*") and name not in known] == []
    assert len(named) == len(set(named)), "a name stands twice in the table"
    upward = edges(source_texts(), types=True)
    excused = [(module, target) for module, targets in TYPES_FROM_ABOVE.items() for target in targets]
    assert [pair for pair in excused if pair[1] not in upward[pair[0]]] == [], "an excuse that is not needed any more"


@pytest.mark.parametrize(
    ("where", "text", "faults"),
    [
        ("kernel/syscalls/x.py", "from husk.kernel.call import Call", 0),
        ("kernel/call.py", "from husk.kernel.syscalls.open import openat", 1),
        ("kernel/call.py", "def late():\n    from husk.kernel.syscalls.open import openat", 1),
        ("kernel/call.py", "if TYPE_CHECKING:\n    from husk.kernel.syscalls.open import openat", 1),
        ("kernel/call.py", "if TYPE_CHECKING:\n    from husk.kernel.kernel import Kernel", 0),
        ("kernel/exec/x.py", "from husk.kernel.net.ports import Ports", 1),
        ("kernel/net/x.py", "from husk.kernel.net.ports import Ports", 0),
        ("sandbox/apply/x.py", "from husk.sandbox.kept.kept_boxes import KeptBoxes", 1),
        ("sandbox/kept/x.py", "from husk.sandbox.apply.journal import Journal", 0),
    ],
)
def test_the_check_of_the_order_itself(where: str, text: str, faults: int) -> None:
    kernel = ["kernel/call.py", "kernel/kernel.py", "kernel/syscalls/open.py", "kernel/net/ports.py"]
    sandbox = ["sandbox/kept/kept_boxes.py", "sandbox/apply/journal.py"]
    assert len(out_of_order(dict.fromkeys([*kernel, *sandbox], "") | {where: text})) == faults


# -- names and sizes ---------------------------------------------------------------------------------------------------
def used_twice(paths: Iterable[Path]) -> list[str]:
    """File names that two files have. `__init__` and `__main__` are Python's own."""
    counts = Counter(path.name for path in paths if not path.stem.startswith("__"))
    return [name for name, count in counts.items() if count > 1]


def crowded(paths: Iterable[Path]) -> list[str]:
    """Folders with too many source files directly in them."""
    counts = Counter(path.parent for path in paths if path.name != "__init__.py")
    return [str(folder) for folder, count in counts.items() if count > MOST_FILES]


def empty_names(paths: Iterable[Path]) -> list[str]:
    """Files and folders with a name that says nothing."""
    return [str(path) for path in paths if EMPTY_NAMES & set(re.split(r"[/_.]", str(path)))]


def test_one_basename_once() -> None:
    assert used_twice(SOURCES) == []


def test_folders_can_be_read_at_a_glance() -> None:
    assert crowded(SOURCES) == []


def test_names_say_something() -> None:
    assert empty_names(path.relative_to(SOURCE) for path in SOURCES) == []


def test_folders_of_c_are_described() -> None:
    """Where C and Python share a folder, its package docstring does it."""
    folders = {path.parent for path in SOURCES if path.suffix in C_SUFFIXES}
    bare = {str(folder.relative_to(SOURCE)) for folder in folders if not (folder / "__init__.py").exists()}
    assert bare == set(C_FOLDERS)


def test_the_checks_of_names_themselves() -> None:
    assert used_twice([Path("vfs/a.py"), Path("kernel/a.py"), Path("vfs/__init__.py"), Path("__init__.py")]) == ["a.py"]
    assert used_twice([Path("native/a.c"), Path("native/a.h"), Path("vfs/a.py"), Path("loader/a.c")]) == ["a.c"]
    many = [Path(f"vfs/m{number}.py") for number in range(MOST_FILES)]
    assert crowded([*many, Path("vfs/__init__.py"), Path("vfs/host/x.py")]) == []
    assert crowded([*many, Path("vfs/x.py")]) == ["vfs"]
    wrong = ["vfs/utils.py", "cli/helpers/x.py", "vfs/mount_manager.py", "native/misc.c"]
    assert empty_names(map(Path, [*wrong, "vfs/node.py", "vfs/permissions.py"])) == wrong
