"""Print the Python files of a package folder, one per line and sorted, relative to it: what the build installs.

Called by meson while configuring. Build leftovers (bytecode, modules built in place) are not part of the package.
"""

from __future__ import annotations

import sys
from pathlib import Path

SUFFIXES = {".py", ".pyi", ".typed", ".txt", ".toml", ".j2", ".html", ".css", ".js"}  # from .txt on: data


def package_files(folder: Path) -> list[str]:
    found = (path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file())
    return sorted(str(path.relative_to(folder)) for path in found if "__pycache__" not in path.parts)


if __name__ == "__main__":
    print("\n".join(package_files(Path(sys.argv[1]))))
