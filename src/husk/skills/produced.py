"""skills: what a run leaves for `--out`. The box writes into a staging directory of ours; only when it is gone are the
files moved to where the person wants them, so that no guest ever holds a handle in a directory of theirs."""

from __future__ import annotations

import os
import shutil
import stat as st
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from husk.sandbox.errors import UsageError


@dataclass
class Produced:
    files: list[tuple[str, int]] = field(default_factory=list)  # relative name, size
    left: list[str] = field(default_factory=list)  # not handed over, and why


class Staging:
    """Two directories: `out` is /out, `work` the working directory. Inside the target, so that moving is renaming."""

    def __init__(self, target: Path) -> None:
        self.target = target
        try:
            target.mkdir(parents=True, exist_ok=True)
            self.base = Path(tempfile.mkdtemp(prefix=".husk-out-", dir=target.resolve()))
        except OSError as error:
            raise UsageError(f"--out {target}: {error.strerror}.") from None
        for folder in (self.base, self.base / "out", self.base / "work"):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)  # a box that root started has another user

    def hand_over(self) -> Produced:
        """Files and folders only. Links may point anywhere on the host, so they stay behind, as do sockets and FIFOs;
        and nothing is written through a link that is in the target already."""
        found = Produced()
        taken: set[str] = set()
        for source in (self.base / "out", self.base / "work"):
            self._folder(source, "", found, taken)
        found.files.sort()
        return found

    def _folder(self, source: Path, inner: str, found: Produced, taken: set[str]) -> None:
        waiting = [(source, inner)]
        while waiting:
            folder, prefix = waiting.pop()
            folder.chmod(0o700)  # a guest may have taken its own permissions away
            for entry in sorted(os.scandir(folder), key=lambda item: item.name):
                name = f"{prefix}{entry.name}"
                mode = entry.stat(follow_symlinks=False).st_mode
                target = self.target / name
                if st.S_ISDIR(mode):
                    if target.is_symlink() or (target.exists() and not target.is_dir()):
                        found.left.append(f"{name}: in the way there is no folder")
                        continue
                    target.mkdir(exist_ok=True)
                    waiting.append((Path(entry.path), f"{name}/"))
                elif not st.S_ISREG(mode):
                    found.left.append(f"{name}: {'a link' if st.S_ISLNK(mode) else 'no file'}")
                elif name not in taken and (target.is_dir() and not target.is_symlink()):
                    found.left.append(f"{name}: there is a folder of that name")
                elif name not in taken:
                    taken.add(name)
                    os.chmod(entry.path, st.S_IMODE(mode) & 0o777 | 0o600)
                    os.replace(entry.path, target)  # replaces a link, never follows one
                    found.files.append((name, target.stat().st_size))

    def remove(self) -> None:
        shutil.rmtree(self.base, ignore_errors=True)
