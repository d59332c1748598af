"""docs/howto/add-a-syscall.md works: its blocks are applied to a copy of the tree, and its commands are run there.

A block after `<!-- create FILE -->` is that file. Two blocks after `<!-- replace FILE -->` are old and new text. Blocks
without a language are commands.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "howto" / "add-a-syscall.md"
BLOCKS = re.compile(r"(?:<!-- (create|replace) (\S+) -->\n)?```(\w*)\n(.*?)```", re.DOTALL)
FILE_GETATTR = 468


def steps() -> list[tuple[str, str, str, str]]:
    """What to do, with which file, old text, new text or commands; in the order of the page."""
    found: list[tuple[str, str, str, str]] = []
    blocks = BLOCKS.findall(PAGE.read_text())
    while blocks:
        deed, name, language, text = blocks.pop(0)
        if deed == "replace":
            found.append((deed, name, text, blocks.pop(0)[3]))
        elif deed == "create":
            found.append((deed, name, "", text))
        else:
            assert not language, "a block of code says where it belongs"
            found.append(("run", "", "", text))
    return found


def copy_of_the_tree(place: Path) -> Path:
    """The files under version control, new ones included, and this machine's tools in `.venv`; what mypy knows of the
    files is copied with them."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place / name)
    shutil.copytree(Path(sys.prefix), place / ".venv", symlinks=True)
    if (ROOT / ".mypy_cache").exists():
        shutil.copytree(ROOT / ".mypy_cache", place / ".mypy_cache")
    return place


def needs() -> None:
    if not (ROOT / ".git").exists() or not (Path(sys.prefix) / ".tools").exists():
        pytest.skip("the tree is no clone with a .venv made by `make setup`")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(FILE_GETATTR, -1, b"", None, 0, 0) == -1 and ctypes.get_errno() == errno.ENOSYS:
        pytest.skip("this kernel is older than 6.17 and has no file_getattr, the example of the page")


@pytest.mark.timeout(900)  # builds husk twice
def test_the_page_adds_a_call(tmp_path: Path) -> None:
    needs()
    tree = copy_of_the_tree(tmp_path / "tree")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HUSK_", "PYTEST_"))}
    said = ""
    for deed, name, old, new in steps():
        if deed == "create":
            assert not (tree / name).exists()
            (tree / name).write_text(new)
        elif deed == "replace":
            text = (tree / name).read_text()
            old, new = old.removesuffix("\n"), new.removesuffix("\n")
            assert text.count(old) == 1, f"{name} has this {text.count(old)} times: {old}"
            (tree / name).write_text(text.replace(old, new))
        else:
            done = subprocess.run(
                ["sh", "-ec", new], cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=900
            )
            assert done.returncode == 0, f"{new}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
            said += done.stdout + done.stderr
    assert "refused ENOSYS" in said, "at first"
    answer = 'file_getattr(77, "file", &attributes, sizeof attributes, 1) = -1 EINVAL'
    assert said.count(answer) > 1, "from Linux, and in the end from husk"
    assert 'file_getattr(3, "file", 0x' in said, "in the end, as husk run -v prints it"
    assert "answered in kernel/syscalls/stat.py" in subprocess.run(
        [".venv/bin/husk", "syscalls", "file_getattr"], cwd=tree, capture_output=True, text=True, check=True
    ).stdout
