"""Resolve the `dev` extra of pyproject.toml into a lock file with every transitive version and its hashes.

The resolver itself is fetched into a throw-away environment: it is needed only here and so stays out of the lock.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

RESOLVER = "uv >= 0.8, < 1"
HEADER = """\
# Exact versions of everything that builds, tests and checks husk: the `dev` extra of pyproject.toml, resolved.
# Made by `make lock`; not edited by hand.
"""


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        binaries = Path(folder, "bin")
        subprocess.run([binaries / "python", "-m", "pip", "install", "--quiet", RESOLVER], check=True)
        resolved = subprocess.run(
            [
                binaries / "uv", "pip", "compile", "pyproject.toml", "--extra", "dev", "--quiet",
                # One lock for every Python we support.
                "--universal", "--python-version", "3.11", "--generate-hashes", "--no-annotate", "--no-header",
            ],
            check=True, stdout=subprocess.PIPE, text=True,
        ).stdout
    target.write_text(HEADER + resolved)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
