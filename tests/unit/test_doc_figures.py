"""Figures on the pages are those of the code: a changed constant fails here until the page says so, too."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from husk.sandbox.limits.limits import NAMES as LIMIT_ROWS

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20
DESIGN = "design/"

# page, its words, file, constant, value
FIGURES: list[tuple[str, str, str, str, float]] = [
    (DESIGN + "001-execution", "more than 4096 other programs ago", "vfs/running_programs.py", "PROGRAMS_KEPT", 4096),
    (DESIGN + "002-signals", "128 slots of 16 bytes", "native/loader/resident.h", "HUSK_THUNKS", 128),
    (DESIGN + "002-signals", "128 slots of 16 bytes", "native/loader/resident.h", "HUSK_THUNK_STRIDE", 16),
    (DESIGN + "002-signals", "every 2 to 20 milliseconds", "kernel/blocking.py", "FIRST_LOOK", 0.002),
    (DESIGN + "002-signals", "every 2 to 20 milliseconds", "kernel/blocking.py", "LONGEST_PAUSE", 0.02),
    (DESIGN + "003-name-cache", "At 32,768 entries", "native/fastpath/namecache.h", "FAST_MOST_DIRS", 32768),
    (DESIGN + "003-name-cache", "4,096 slots", "native/fastpath/namecache.h", "FAST_FILES", 4096),
    (DESIGN + "004-placeholders-and-descriptors", "the last 8,192 files", "vfs/state.py", "ORPHANS_MAX", 8192),
    (DESIGN + "004-placeholders-and-descriptors", "65,536 stand-ins", "vfs/state.py", "STAND_INS_MAX", 65536),
    (DESIGN + "004-placeholders-and-descriptors", "there are 16,384", "vfs/placeholders.py", "KEPT", 16384),
    (DESIGN + "005-inotify", "At most 131,072 stand-ins", "vfs/layer/watch_mirror.py", "STAND_INS_MAX", 131072),
    (DESIGN + "005-inotify", "would exceed 2 KiB", "vfs/layer/watch_mirror.py", "PATH_MAX", 2048),
    (DESIGN + "005-inotify", "up to 64 MiB", "vfs/layer/watch_mirror.py", "COPY_MAX", 64 * MIB),
    (DESIGN + "006-terminals", "256 terminals a box", "vfs/synth/pts.py", "TERMINALS_MAX", 256),
    (DESIGN + "007-network", "up to 20 milliseconds late", "kernel/blocking.py", "LONGEST_PAUSE", 0.02),
    (DESIGN + "008-limits", "exact, read every 20 ms", "sandbox/limits/meter.py", "SHORTEST", 0.02),
    (DESIGN + "008-limits", "16M of each stream are kept", "cli/cmd_run.py", "MOST_KEPT", 16 * MIB),
    (DESIGN + "008-limits", "32 MiB of names", "kernel/events.py", "NAMES_ROOM", 32 * MIB),
    (DESIGN + "008-limits", "| refusals, faults | 1000, 100 |", "kernel/events.py", "MOST_REFUSALS", 1000),
    (DESIGN + "008-limits", "at most 1000 in a box", "kernel/blocking.py", "MOST_WAITING", 1000),
    (DESIGN + "008-limits", "32,768, or twice as many", "vfs/host/host_tree.py", "DIRECTORIES_KEPT", 32768),
    (DESIGN + "008-limits", "64 MiB of paths", "vfs/layer/changes.py", "ROOM", 64 * MIB),
    (DESIGN + "011-copy-up", "there are 64 such files", "vfs/layer/leftovers.py", "FEW", 64),
    (DESIGN + "011-copy-up", "or 16 MiB of them", "vfs/layer/leftovers.py", "SMALL", 16 * MIB),
    ("processes", "at most 256 segments", "kernel/ipc/segments.py", "MOST", 256),
    ("processes", "of 1 TiB together", "kernel/ipc/segments.py", "LARGEST", 1 << 40),
    ("api", "At most 64 MiB of each captured stream", "api/process.py", "MOST_KEPT", 64 * MIB),
    ("scale", "up to 32 MiB", "cluster/trees.py", "LARGEST_SENT", 32 * MIB),
    (DESIGN + "018-cluster", "if it is at most 32 MiB", "cluster/trees.py", "LARGEST_SENT", 32 * MIB),
    ("skills", "more than 100 folders", "skills/archive.py", "MOST_DEPTH", 100),
    ("skills", "20,000 entries", "skills/archive.py", "MOST_ENTRIES", 20_000),
    ("skills", "512 MiB", "skills/archive.py", "MOST_BYTES", 512 * MIB),
    ("skills", "more than 200 to 1", "skills/archive.py", "MOST_RATIO", 200),
    ("images", "beyond 64 MiB", "images/archive_limits.py", "RATIO_MATTERS_FROM", 64 * MIB),
]
LIMITS = {"processes": "`processes` | 4096", "disk-files": "`disk-files` | 500k", "events": "`events` | 256M"}


def constant(path: Path, name: str) -> Any:
    """The value that a module-level assignment or a #define gives."""
    text = path.read_text()
    if path.suffix == ".h":
        found = re.search(rf"^#define {name} (\d+)\b", text, re.M)
        return int(found[1]) if found else None
    for node in ast.parse(text).body:
        if not isinstance(node, ast.Assign):
            continue
        (target,) = node.targets
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        values = node.value.elts if isinstance(node.value, ast.Tuple) and len(names) > 1 else [node.value]
        for each, value in zip(names, values, strict=False):
            if isinstance(each, ast.Name) and each.id == name:
                return eval(compile(ast.Expression(value), str(path), "eval"), {})
    return None


def page(name: str) -> str:
    return " ".join((ROOT / "docs" / f"{name}.md").read_text().split())


@pytest.mark.parametrize(("name", "words", "file", "called", "value"), FIGURES, ids=lambda each: str(each)[:40])
def test_a_figure(name: str, words: str, file: str, called: str, value: float) -> None:
    assert words in page(name), "the page says something else now: correct this list"
    assert constant(ROOT / "src" / "husk" / file, called) == value, f"docs/{name}.md says: {words}"


@pytest.mark.parametrize(("limit", "words"), LIMITS.items())
def test_a_default_limit(limit: str, words: str) -> None:
    figure = {"processes": 4096, "disk-files": 500_000, "events": 256 * MIB}[limit]
    assert words in page("design/008-limits") and LIMIT_ROWS[limit][1] == figure
