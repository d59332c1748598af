"""Resolve extras of pyproject.toml into lock files with every transitive version and its hashes.

The resolver itself is fetched into a throw-away environment: it is needed only here and so stays out of the locks.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

RESOLVER = "uv >= 0.8, < 1"
# Name of the lock -> the extra that it resolves, and what for.
LOCKS = {
    "dev": ("dev", "everything that builds, tests and checks husk: the `dev` extra of pyproject.toml, resolved"),
    "package": ("package", "what `make wheels` needs: the `package` extra of pyproject.toml, resolved"),
    "runtime": ("", "what husk itself needs, as its .deb brings it: the dependencies in pyproject.toml, resolved"),
}


def main(folder: Path, names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        venv.create(place, with_pip=True)
        binaries = Path(place, "bin")
        subprocess.run([binaries / "python", "-m", "pip", "install", "--quiet", RESOLVER], check=True)
        for name in names or LOCKS:
            extra, what = LOCKS[name]
            wanted = ["--extra", extra] if extra else []
            resolved = subprocess.run(
                [
                    binaries / "uv", "pip", "compile", "pyproject.toml", *wanted, "--quiet",
                    # One lock for every Python we support.
                    "--universal", "--python-version", "3.11", "--generate-hashes", "--no-annotate", "--no-header",
                ],
                check=True, stdout=subprocess.PIPE, text=True,
            ).stdout
            head = f"# Exact versions of {what}.\n# Made by `make lock`; not edited by hand.\n"
            (folder / f"{name}.lock").write_text(head + resolved)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
