"""Compiles the guest programs of tests/guests, once, and keeps them by content.

Every `build: NAME FLAGS` line in the head of a C file makes one program. The result is one directory with all programs
and scripts in it; the native side runs them there, husk sees the directory as /guests.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "guests"
BASE_FLAGS = ["-O1", "-Wall", "-Wextra"]
_BUILD_LINE = re.compile(r"^.*\bbuild: (\S+)(.*?)(?:\*/)?$", re.MULTILINE)


def _cache() -> Path:
    """A directory other users can read and enter but not write: programs in it are executed by an unprivileged user."""
    place = Path(tempfile.gettempdir(), f"husk-guests-{os.getuid()}")
    place.mkdir(mode=0o755, exist_ok=True)
    if place.stat().st_uid != os.getuid():
        raise RuntimeError(f"{place} belongs to somebody else: remove it")
    return place


def _compile(target: Path, source: Path, name: str, flags: list[str]) -> None:
    """A program whose source, headers and flags are as before is taken from the last time."""
    parts = [source, *sorted(SOURCES.glob("*.h"))]
    content = b"\0".join([" ".join([*BASE_FLAGS, *flags]).encode(), *(path.read_bytes() for path in parts)])
    kept = target.parent / "programs" / f"{name}-{hashlib.sha256(content).hexdigest()[:12]}"
    if not kept.exists():
        kept.parent.mkdir(exist_ok=True)
        command = ["gcc", *BASE_FLAGS, f"-I{SOURCES}", "-o", str(target / name), str(source), *flags]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or done.stderr:
            raise RuntimeError(f"{' '.join(command)}:\n{done.stderr}")
        (target / name).rename(kept)
    shutil.copy(kept, target / name)


@functools.cache
def guest_programs() -> Path:
    """The directory of all guest programs, built if it is not there yet."""
    files = sorted(path for path in SOURCES.iterdir() if path.is_file())
    digest = hashlib.sha256(" ".join(BASE_FLAGS).encode())
    for path in files:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    final = _cache() / digest.hexdigest()[:12]
    # One process of several compiles, and the others wait for it.
    with (final.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not final.is_dir():
            _build(final, files)
    return final


def _build(final: Path, files: list[Path]) -> None:
    work = Path(tempfile.mkdtemp(dir=final.parent))
    jobs = [
        (source, match[1], match[2].split())
        for source in files
        if source.suffix == ".c"
        for match in _BUILD_LINE.finditer(source.read_text().split("#include")[0])
    ]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda job: _compile(work, *job), jobs))
    for script in files:
        if script.suffix in (".py", ".sh", ".js"):
            shutil.copy(script, work / script.name)
            (work / script.name).chmod(0o755)
    make_ape = [sys.executable, str(SOURCES / "make_ape.py"), str(work / "ape_payload"), str(work / "hello.ape")]
    subprocess.run(make_ape, check=True)
    work.chmod(0o755)
    work.rename(final)
