"""sandbox: how much memory the processes of a box take, as far as the host shows it. Compares with one number only.

Shared memory belongs to a file, not to a process: touched pages stay when they are unmapped (`MADV_DONTNEED`, `munmap`
of all but one), and then no process's count has them. So files in memory are counted by themselves, whether a guest has
them open (memfds), only mapped (then the host shows their size to root alone), or husk keeps them (System V segments).
docs/design/008-limits.md says what remains unseen.
"""

from __future__ import annotations

import os

from husk.kernel.fd_tables import tables_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    InMemory = dict[tuple[int, int], int]  # device and inode of a file without a name: its bytes

OWN = b"RssAnon", b"VmSwap", b"VmPTE"
# How /proc/PID/maps names mappings of memory: shared anonymous, a memfd, a System V segment.
NAMED = b" /dev/zero (deleted)", b" /memfd:", b" /SYSV"


class MemoryUse:
    """`kept`: the files in memory that husk itself holds for the box."""

    def __init__(self, kept: Callable[[], InMemory]) -> None:
        self._kept = kept
        self._least = shared_on_host()  # the least that all shared memory of the host was so far

    def above(self, allowed: int, pids: list[int]) -> int:
        """What the processes use if it is more than `allowed`, else 0.

        The cheap sum counts shared pages for each process that has them, and a memfd that is mapped twice. The exact
        number is expensive, so it is computed only when the cheap sum is too large."""
        files = held_in_memory(pids) | self._kept()
        now = shared_on_host()
        self._least = min(self._least, now)
        grown = now - self._least
        known = sum(files.values())
        if sum(resident(pid) for pid in pids) + max(known, grown) <= allowed:
            return 0
        shares = [_proportional(pid) for pid in pids]
        mapped, unknown = _only_mapped(pids, files)
        known += mapped
        # Files of unknown size count no more than their mappings, and no more than the host's shared memory grew.
        known += max(0, min(unknown, grown - known))
        used = sum(share[0] for share in shares) + max(known, sum(share[1] for share in shares))
        return used if used > allowed else 0


def resident(pid: int) -> int:
    return sum(status(pid, (*OWN, b"RssShmem"))) << 10


def status(pid: int, labels: tuple[bytes, ...]) -> list[int]:
    found = []
    try:
        with open(f"/proc/{pid}/status", "rb") as lines:
            for line in lines:
                label, _, value = line.partition(b":")
                if label in labels:
                    found.append(int(value.split()[0]))
    except OSError:
        pass
    return found


def shared_on_host() -> int:
    """All files in memory on the host, of every user."""
    with open("/proc/meminfo", "rb") as lines:
        return next((int(line.split()[1]) << 10 for line in lines if line.startswith(b"Shmem:")), 0)


def held_in_memory(pids: list[int]) -> InMemory:
    return held_unnamed(pids, b"/memfd:")


def held_unnamed(pids: list[int], prefix: bytes) -> InMemory:
    """Files that are deleted but open in these processes."""
    found: InMemory = {}
    for descriptor in (each for pid in pids for each in _descriptors(pid)):
        try:
            link = os.readlink(descriptor)
            if link.startswith(prefix) and link.endswith(b" (deleted)"):
                held = os.stat(descriptor)
                found[held.st_dev, held.st_ino] = held.st_blocks * 512
        except OSError:
            continue
    return found


def _descriptors(pid: int) -> Iterator[bytes]:
    """Of a process or thread that ended meanwhile: none."""
    try:
        tables = tables_of(pid)
    except OSError:
        return
    for table in tables:
        try:
            names = os.listdir(table)
        except OSError:
            continue
        for name in names:
            yield table + name


def _proportional(pid: int) -> tuple[int, int]:
    """(its own memory, its part of shared memory): each page divided by the number of processes that map it."""
    own, shared = sum(status(pid, (b"VmPTE",))) << 10, 0
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as rollup:
            for line in rollup:
                label, _, value = line.partition(b":")
                if label in (b"Pss_Anon", b"SwapPss"):
                    own += int(value.split()[0]) << 10
                elif label == b"Pss_Shmem":
                    shared += int(value.split()[0]) << 10
    except OSError:
        pass  # gone
    return own, shared


def _only_mapped(pids: list[int], known: InMemory) -> tuple[int, int]:
    """Bytes of the files in memory that are mapped and not `known`; and how much is mapped of those whose size the host
    does not show."""
    sizes: InMemory = {}
    spans: InMemory = {}
    for pid in pids:
        try:
            with open(f"/proc/{pid}/maps", "rb") as maps:
                lines = [line for line in maps if any(name in line for name in NAMED)]
        except OSError:
            continue  # gone
        here: InMemory = {}
        for line in lines:
            span, _mode, _offset, dev, ino, _name = line.split(None, 5)
            start, end = (int(word, 16) for word in span.split(b"-"))
            major, minor = (int(word, 16) for word in dev.split(b":"))
            file = os.makedev(major, minor), int(ino)
            if file in known or file in sizes:
                continue
            try:
                sizes[file] = os.stat(f"/proc/{pid}/map_files/{start:x}-{end:x}").st_blocks * 512
            except OSError:
                here[file] = here.get(file, 0) + end - start
        for file, span_size in here.items():
            spans[file] = max(spans.get(file, 0), span_size)
    return sum(sizes.values()), sum(size for file, size in spans.items() if file not in sizes)
