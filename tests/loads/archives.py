"""Archives and packages that the loads unpack and install, made here: the same bytes every time."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

LONG_AGO = 1_500_000_000


def tree(path: Path, files: int) -> None:
    """A tar archive of `files` files in directories of a hundred, with links of both kinds, modes and old times."""
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:

        def add(
            name: str, kind: bytes = tarfile.REGTYPE, *, content: bytes = b"", mode: int = 0o644, to: str = ""
        ) -> None:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode, entry.linkname, entry.size = kind, mode, to, len(content)
            entry.mtime = LONG_AGO + entry.size
            archive.addfile(entry, io.BytesIO(content))

        add("tree", tarfile.DIRTYPE, mode=0o755)
        for number in range(files):
            folder = f"tree/{number // 1000:02d}/{number // 100 % 10}"
            if number % 1000 == 0:
                add(f"tree/{number // 1000:02d}", tarfile.DIRTYPE, mode=0o755)
            if number % 100 == 0:
                add(folder, tarfile.DIRTYPE, mode=0o700 if number % 300 == 0 else 0o755)
            mode = (0o644, 0o755, 0o600, 0o444)[number % 4]
            add(f"{folder}/file{number}", content=b"%d\n" % number * (number * 7 % 400), mode=mode)
            if number % 50 == 7:
                add(f"{folder}/link{number}", tarfile.SYMTYPE, to=f"file{number}")
                add(f"{folder}/same{number}", tarfile.LNKTYPE, to=f"{folder}/file{number}")
            if number % 500 == 9:
                add(f"{folder}/näme with späce {number}", content=b"text\n")


def unpack(path: Path, into: Path) -> None:
    """Owned by the user who runs the tests; times and modes as in the archive."""
    with tarfile.open(path) as archive:
        # Not as an argument: Python 3.11.2, which Debian 12 has, knows no filters, and newer ones warn without one.
        archive.extraction_filter = lambda entry, _: entry
        for entry in archive.getmembers():
            entry.uid, entry.gid, entry.uname, entry.gname = os.getuid(), os.getgid(), "", ""
        archive.extractall(into)
