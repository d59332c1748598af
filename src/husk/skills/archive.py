"""skills: unpack a skill that comes as one file (.skill or .zip) into a directory of husk's own.

The archive is untrusted: every entry's name and declared size are checked before anything is written, and what is
written is counted, because a declared size may lie. One bad entry refuses the whole archive.
"""

from __future__ import annotations

import os
import stat as st
import zipfile
from pathlib import Path

from husk.sandbox.errors import UsageError

MOST_BYTES = 512 << 20
MOST_ENTRIES = 20_000
MOST_RATIO = 200  # text compresses 20 to 1, a picture hardly at all; a bomb a thousand to 1
SMALL = 1 << 20  # below this the ratio does not matter
MOST_DEPTH = 100
CHUNK = 1 << 16


def unpack(archive: Path, into: Path) -> None:
    """Unpack into `into`, an empty directory. After a UsageError it may hold some files; none are outside it."""
    try:
        with zipfile.ZipFile(archive) as packed:
            entries = packed.infolist()
            _check_entries(archive, entries)
            room = MOST_BYTES
            for entry in entries:
                room -= _write(archive, packed, entry, into, room)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise UsageError(f"{archive}: not a zip archive that can be read ({error}).") from None
    except UsageError:
        raise
    except OSError as error:
        raise UsageError(f"{archive}: cannot be unpacked ({error.strerror or error}).") from None
    except Exception as error:  # zlib, lzma and bz2 each have errors of their own for broken data
        raise UsageError(f"{archive}: damaged ({error}).") from None


def _check_entries(archive: Path, entries: list[zipfile.ZipInfo]) -> None:
    if len(entries) > MOST_ENTRIES:
        raise UsageError(f"{archive}: {len(entries)} entries; a skill may have {MOST_ENTRIES}.")
    total, kinds = 0, dict[str, bool]()
    for entry in entries:
        name = entry.filename
        parts = name.rstrip("/").split("/")
        if name.startswith("/") or "\\" in name or "\0" in name or any(part in ("", ".", "..") for part in parts):
            raise _bad(archive, name, "a name that leads elsewhere")
        if len(parts) > MOST_DEPTH:
            raise _bad(archive, name[:80], f"in more than {MOST_DEPTH} folders")
        if entry.flag_bits & 1:
            raise _bad(archive, name, "encrypted")
        kind = st.S_IFMT(entry.external_attr >> 16)
        if kind == st.S_IFLNK:
            raise _bad(archive, name, "a symbolic link; a packed skill may hold only files and folders")
        if kind not in (0, st.S_IFREG, st.S_IFDIR):
            raise _bad(archive, name, "neither a file nor a folder")
        path = name.rstrip("/")
        if path in kinds and not (kinds[path] and entry.is_dir()):
            raise _bad(archive, name, "there twice")
        kinds[path] = entry.is_dir()
        total += entry.file_size
        if total > MOST_BYTES:
            raise UsageError(f"{archive}: more than {MOST_BYTES >> 20} MiB when unpacked.")
        if entry.file_size > SMALL and entry.file_size > MOST_RATIO * max(1, entry.compress_size):
            raise _bad(archive, name, f"packed more than {MOST_RATIO} to 1, as archives made to fill disks are")
    for path in kinds:
        folder = os.path.dirname(path)
        while folder:
            if kinds.get(folder, True) is False:
                raise _bad(archive, path, f"inside {folder!r}, which is a file")
            folder = os.path.dirname(folder)


def _write(archive: Path, packed: zipfile.ZipFile, entry: zipfile.ZipInfo, into: Path, room: int) -> int:
    target = into / entry.filename
    if entry.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        return 0
    target.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with packed.open(entry) as source, open(target, "xb") as out:
        while piece := source.read(CHUNK):
            written += len(piece)
            if written > room or written > entry.file_size:
                raise _bad(archive, entry.filename, "larger than it says")
            out.write(piece)
    executable = entry.external_attr >> 16 & 0o111
    target.chmod(0o755 if executable else 0o644)
    return written


def _bad(archive: Path, name: str, what: str) -> UsageError:
    shown = name.encode("unicode_escape").decode()
    return UsageError(f"{archive}: the entry {shown!r} is refused: {what}. Nothing was run.")
