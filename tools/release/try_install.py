"""Install a built husk as a stranger would, in an environment of its own, and use it there.

Usage: python -m release.try_install FILE [PYTHON…]. FILE is a wheel or an sdist. A wheel is tried without a compiler:
PATH leads to the environment alone, and pip may take nothing but wheels. Without PYTHON every interpreter on PATH and
of pyenv is tried.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

OLDEST, NEWEST = 11, 14
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "first-skill"
API = "import husk; done = husk.run(['echo', 'yes'], capture_output=True); assert done.stdout == b'yes\\n', done"


def interpreters() -> Iterator[Path]:
    """One for each minor version that husk supports."""
    places = [Path(place) for place in os.environ.get("PATH", "").split(":")]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for minor in range(OLDEST, NEWEST + 1):
        own = sorted(pyenv.glob(f"3.{minor}.*/bin"))
        for place in (*own, *places):
            python = place / f"python3.{minor}"
            # A shim of pyenv is there for every version, and works for the chosen one only.
            if os.access(python, os.X_OK) and _makes_environments(python):
                yield python
                break


def _makes_environments(python: Path) -> bool:
    return subprocess.run([python, "-c", "import venv, ensurepip"], stderr=-3, check=False).returncode == 0


def attempt(file: Path, python: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="husk-install-") as name:
        place = Path(name)
        place.chmod(0o755)  # as an ordinary environment is: the guest's user passes through it
        subprocess.run([python, "-m", "venv", place / "env"], check=True)
        binaries = place / "env" / "bin"
        path, only = str(binaries), ["--only-binary", ":all:"]
        if not file.name.endswith(".whl"):
            path, only = f"{binaries}:{os.environ['PATH']}", ["--no-binary", "huskbox"]
        env = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
        env |= {"PATH": path, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}

        def say(*command: str | Path) -> str:
            done = subprocess.run(
                command, env=env, cwd=place, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                shown = " ".join(str(word) for word in command)
                sys.exit(f"{python}: {shown} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
            return done.stdout

        if path == str(binaries) and any(shutil.which(name, path=path) for name in ("cc", "gcc", "clang")):
            sys.exit(f"{binaries} has a compiler: that would be no proof.")
        say(binaries / "python", "-m", "pip", "install", "--quiet", *only, file)
        say(binaries / "husk", "doctor")
        say(binaries / "husk", "run", "--", "true")
        say(binaries / "husk", "run", "--mount", f"{EXAMPLE}:/skill:ro", "--", "/skill/scripts/report.sh")
        say(binaries / "python", "-c", API)
        version = say(binaries / "husk", "--version").strip()
        print(f"{file.name}: {version} works with {python}")


def main(arguments: list[str]) -> None:
    file = Path(arguments[0]).resolve()
    pythons = [Path(each) for each in arguments[1:]] or list(interpreters())
    if not pythons:
        sys.exit("there is no Python 3.11 or newer with venv to try it with; name one.")
    for python in pythons:
        attempt(file, python)


if __name__ == "__main__":
    main(sys.argv[1:])
