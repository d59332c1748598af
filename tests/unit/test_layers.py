"""Imports point downward: the folder table of the design, held up against every import statement of src/husk.

Reads the sources, runs nothing. Imports made only for type checkers count too: a type from above is knowledge of above.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "husk"

# folder -> what it may import, as dotted prefixes below `husk`. Itself is always allowed.
KERNEL_LAYERS: dict[str, set[str]] = {
    "abi": set(),
    "native": {"abi"},
    "walls": {"abi", "native"},
    # As the vfs below: of native only the C module, whose tree walk and manifest reader know nothing of guests.
    # Of abi only how names are shown.
    "store": {"native._core", "abi.text"},
    # Of native, the vfs may use only the C module's host helpers: opening a host file beneath a directory without
    # following links is a system call the standard library lacks, and it knows nothing of guests or notifications.
    "vfs": {"abi", "store", "native._core"},
    "kernel": {"abi", "native", "vfs"},
    "sandbox": {"abi", "native", "walls", "store", "vfs", "kernel"},
}
# What people use stands on the sandbox and the store. `abi` too: the registry is data that is printed and analysed.
_BELOW_TOP = {"sandbox", "store", "abi"}
LAYERS = KERNEL_LAYERS | {
    "images": _BELOW_TOP | {"native._core"},  # of native as the store: opening beneath a directory
    # The Python API hands out what the kernel shows: calls to hook, files of the box.
    "api": _BELOW_TOP | {"kernel", "vfs"},
    "skills": _BELOW_TOP | {"api", "native._core"},  # of native as the store
    "compat": _BELOW_TOP,
    "conform": _BELOW_TOP,
    "mcp": _BELOW_TOP | {"api", "skills"},
    "cli": _BELOW_TOP | {"native.threads", "api", "images", "skills", "compat", "conform", "mcp"},
}
# Libraries from outside that a kernel layer may import: the few the design names.
LIBRARIES = {"store": {"blake3"}}
# Modules that cost more to import than a cold start can spare; a function that needs one imports it itself.
SLOW = {"asyncio", "dataclasses", "inspect", "json", "logging", "pathlib", "re", "subprocess", "tempfile", "typing"}
START_PATH = set(KERNEL_LAYERS) - {"store"}

FILES = sorted(path for pattern in ("*.py", "*.pyi") for path in SOURCE.rglob(pattern))


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
