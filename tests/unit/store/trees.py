"""Trees for the store's tests: a fixed one, made on disk, and random ones, as lists of what to add to a manifest."""

from __future__ import annotations

import os
import stat as st
from pathlib import Path
from typing import Any

from hypothesis import strategies

from husk.store.manifests.manifest_writer import ManifestWriter

Addition = tuple[bytes, int, dict[str, Any]]

OLD_NS = 1_600_000_000_123_456_789  # long before any ingest: an index may remember it


def make_tree(top: Path) -> Path:
    """Every type of file. Content and times are fixed; the owner is the user who runs the tests."""
    (top / "bin").mkdir(parents=True)
    (top / "empty-dir").mkdir()
    (top / "bin/tool").write_bytes(b"#!/bin/sh\necho tool\n")
    (top / "bin/tool").chmod(0o755)
    (top / "bin/twin").write_bytes(b"#!/bin/sh\necho tool\n")
    os.link(top / "bin/tool", top / "hard")
    os.symlink("../outside", top / "bin/link")
    os.symlink("/etc/passwd", top / "absolute")
    os.mkfifo(top / "fifo")
    (top / "nothing").write_bytes(b"")
    (top / "bin-more").write_bytes(b"sorts after bin, before what is in bin")
    (top / "large").write_bytes(b"0123456789abcdef" * 100_000)
    make_old(top)
    return top


def make_old(top: Path) -> None:
    for path in [*top.rglob("*"), top]:
        os.utime(path, ns=(OLD_NS, OLD_NS), follow_symlinks=False)


def fixed() -> list[Addition]:
    """Input of the golden digest: every type, every field, hard links, a whiteout, an opaque directory."""
    blob = bytes(range(32))
    common = {"uid": 1000, "gid": 100, "mtime_ns": 1_234_567_890_123_456_789}
    file = {**common, "size": 11, "blob": blob, "link": "one", "xattrs": {b"user.a": b"1", b"user.b": b"\0\xff"}}
    return [
        (b"", st.S_IFDIR | 0o755, {"mtime_ns": 5}),
        (b"a", st.S_IFDIR | 0o1777, common),
        (b"a/b", st.S_IFREG | 0o4755, file),
        (b"a-b", st.S_IFREG | 0o4755, file),
        (b"a/link", st.S_IFLNK | 0o777, {**common, "target": b"../elsewhere"}),
        (b"dev", st.S_IFDIR | 0o755, {"flags": 2}),
        (b"dev/null", st.S_IFCHR | 0o666, {"rdev": (1, 3)}),
        (b"dev/sda", st.S_IFBLK | 0o660, {"rdev": (8, 0), "gid": 6}),
        (b"fifo", st.S_IFIFO | 0o600, {"mtime_ns": -1}),
        (b"gone", 0, {"flags": 1}),
        (b"n\xc3\xa4me \xff\n", st.S_IFREG | 0o600, {"blob": bytes(32 * [255]), "size": 2**40}),
        (b"socket", st.S_IFSOCK | 0o755, {}),
    ]


def written(additions: list[Addition]) -> bytes:
    writer = ManifestWriter()
    for path, mode, more in additions:
        writer.add(path, mode, **more)
    return writer.finish()


_names = strategies.binary(min_size=1, max_size=6).filter(
    lambda name: not set(name) & set(b"/\0") and name not in (b".", b"..")
)
_fields = {
    "uid": strategies.integers(0, 2**32 - 1),
    "gid": strategies.integers(0, 2**32 - 1),
    "mtime_ns": strategies.integers(-(2**63), 2**63 - 1),
}
_xattrs = strategies.dictionaries(
    strategies.binary(min_size=1, max_size=9).filter(lambda name: b"\0" not in name),
    strategies.binary(max_size=9),
    max_size=3,
)


@strategies.composite
def random_trees(draw: strategies.DrawFn) -> list[Addition]:
    """Directories first: each name is put into one that is there."""
    directories = [b""]
    taken = {b""}
    found: list[Addition] = []
    for _ in range(draw(strategies.integers(0, 40))):
        above = draw(strategies.sampled_from(directories))
        path = above + b"/" + draw(_names) if above else draw(_names)
        if path in taken:
            continue
        taken.add(path)
        kind = draw(strategies.sampled_from([st.S_IFDIR, st.S_IFREG, st.S_IFLNK, st.S_IFIFO, st.S_IFCHR, 0]))
        more: dict[str, Any] = {name: draw(values) for name, values in _fields.items()}
        more["xattrs"] = draw(_xattrs)
        if kind == 0:
            more = {"flags": 1}
        elif kind == st.S_IFDIR:
            directories.append(path)
            more["flags"] = draw(strategies.sampled_from([0, 2]))
        elif kind == st.S_IFREG:
            more |= {
                "size": draw(strategies.integers(0, 2**63)),
                "blob": draw(strategies.binary(min_size=32, max_size=32)),
            }
        elif kind == st.S_IFLNK:
            more["target"] = draw(strategies.binary(min_size=1, max_size=20).filter(lambda target: b"\0" not in target))
        elif kind == st.S_IFCHR:
            more["rdev"] = (draw(strategies.integers(0, 4095)), draw(strategies.integers(0, 2**20 - 1)))
        found.append((path, kind | (draw(strategies.integers(0, 0o7777)) if kind else 0), more))
    links = [addition for addition in found if st.S_ISREG(addition[1])]
    if links:
        path, mode, more = links[0]
        more["link"] = "first"
        if b"second name" not in taken:
            found.append((b"second name", mode, dict(more)))
    return found
