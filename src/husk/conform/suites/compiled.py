"""conform/suites: compile a suite's C files, once for each content, to where every user can execute the programs."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

from husk.sandbox.errors import HuskError, UsageError

_BUILD_LINE = re.compile(r"^.*\bbuild: ([A-Za-z0-9_.-]+)(.*?)(?:\*/)?$", re.MULTILINE)
SECONDS = 120


def programs_of(source: Path, compiler: list[str]) -> list[Path]:
    """The programs that a C file makes: one for each line `build: NAME FLAGS` in its head, else one of its own name."""
    head = source.read_text("utf-8", "replace").split("#include")[0]
    wanted = [(match[1], match[2].split()) for match in _BUILD_LINE.finditer(head)] or [(source.stem, [])]
    digest = hashlib.sha256("\0".join(compiler).encode())
    for path in [source, *sorted(source.parent.glob("*.h"))]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    final = _cache() / digest.hexdigest()[:16]
    if not final.is_dir():
        _build(source, compiler, wanted, final)
    return [final / name for name, _ in wanted]


def _cache() -> Path:
    """Readable by all, writable by us alone: programs in it are executed."""
    place = Path(tempfile.gettempdir(), f"husk-conform-{os.getuid()}")
    place.mkdir(mode=0o755, exist_ok=True)
    found = place.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise HuskError(f"{place}: it is not a directory that only you can write to; remove it.")
    return place


def _build(source: Path, compiler: list[str], wanted: list[tuple[str, list[str]]], final: Path) -> None:
    work = Path(tempfile.mkdtemp(dir=final.parent))
    try:
        for name, flags in wanted:
            words = [*compiler, f"-I{source.parent}", "-o", str(work / name), str(source), *flags]
            try:
                done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=SECONDS)
            except (OSError, subprocess.TimeoutExpired) as error:
                raise UsageError(f"{source}: cannot be compiled: {error}.") from None
            if done.returncode:
                said = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip()[:200])
                raise UsageError(f"{source}: cannot be compiled: {said}.")
        work.chmod(0o755)
        try:
            work.rename(final)
        except OSError:  # another process was faster; the content is the same
            if not final.is_dir():
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
