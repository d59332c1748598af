"""maps and smaps: host paths become guest paths, husk's own pages do not show."""

from __future__ import annotations

from pathlib import Path

from husk.vfs.proc.maps import maps, smaps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .conftest import Box

# Lines that the guest sees as they are. A line without a name ends in a blank, which $ makes visible here and below.
UNCHANGED = b"""\
700000002000-700000003000 rw-p 00000000 00:00 0 $
700000003000-700000004000 rw-s 00000000 00:01 12                         /dev/zero (deleted)
700000004000-700000005000 rw-s 00000000 00:01 13                         /memfd:mine (deleted)
700000005000-700000006000 rw-p 00000000 00:00 0                          [heap]
700000006000-700000007000 rw-s 00000000 00:0f 14                         anon_inode:[perf_event]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
"""

HOST = (b"""\
00400000-00401000 r-xp 00000000 fe:00 1234                               /state/files/17
567f00000000-567f00004000 rw-p 00000000 00:00 0 $
567f00004000-567f00008000 r-xp 00000000 00:01 99                         /memfd:husk-resident (deleted)
600000000000-600000001000 r-xp 00000000 fe:00 77                         /opt/husk/loader
700000000000-700000001000 r--p 00001000 fe:00 5678                       /srv/secret/lib.so
700000001000-700000002000 r--p 00000000 fe:00 5679                       /state/files/with\\012newline
""" + UNCHANGED).replace(b"$", b"")

GUEST = (b"""\
00400000-00401000 r-xp 00000000 00:29 4321                               /workspace/prog
700000000000-700000001000 r--p 00001000 00:00 0 $
700000001000-700000002000 r--p 00000000 00:29 9765                       /workspace/with\\012newline
""" + UNCHANGED).replace(b"$", b"")


def guest_file(host_path: bytes, dev: int, ino: int) -> tuple[bytes, int, int] | None:
    known = {(b"/state/files/17", 0xFE00, 1234): (b"/workspace/prog", 0x29, 4321),
             (b"/opt/husk/loader", 0xFE00, 77): (b"", 0, 0),
             (b"/state/files/with\nnewline", 0xFE00, 5679): (b"/workspace/with\nnewline", 0x29, 9765)}
    return known.get((host_path, dev, ino))


def test_maps() -> None:
    assert maps(HOST, guest_file) == GUEST


def test_what_touches_the_hidden_window_is_hidden() -> None:
    before = b"567e00000000-567f00000000 rw-p 00000000 00:00 0 \n"
    after = b"567f10000000-567f20000000 rw-p 00000000 00:00 0 \n"
    across = b"567e00000000-567f80000000 rw-p 00000000 00:00 0 \n"
    into = b"567f0ffff000-567f10001000 rw-p 00000000 00:00 0 \n"
    last = b"7fff00000000-7fff00001000 rw-p 00000000 00:00 0                          [stack]\n"
    for text, shown in (
        (before + after + last, before + after + last),
        (across + last, last),
        (before + into + last, before + last),
        (into, b""),
        (b"", b""),
    ):
        assert maps(text, guest_file) == smaps(text, guest_file) == shown


def test_names_that_look_like_anonymous_memory() -> None:
    def ask(host_path: bytes, _dev: int, _ino: int) -> tuple[bytes, int, int] | None:
        asked.append(host_path)
        return None

    asked: list[bytes] = []
    for name in (b"/srv/secret 00:00 0 ", b"socket:[77]", b"/x"):
        line = b"700000000000-700000001000 r--p 00001000 fe:00 5678                       " + name + b"\n"
        assert maps(line, ask) == b"700000000000-700000001000 r--p 00001000 00:00 0 \n"
    assert asked == [b"/srv/secret 00:00 0 ", b"socket:[77]", b"/x"]


def test_smaps_hides_a_region_with_its_details() -> None:
    details = b"Size:                  4 kB\nRss:                   0 kB\nVmFlags: rd ex \n"

    def with_details(text: bytes) -> bytes:
        return b"".join(line + details for line in text.splitlines(keepends=True))

    assert smaps(with_details(HOST), guest_file) == with_details(GUEST)


def test_a_carriage_return_in_a_name_is_no_line_end() -> None:
    line = b"700000004000-700000005000 rw-s 00000000 00:01 13                         /memfd:a\r5fff (deleted)\n"
    assert maps(line, guest_file) == line


def test_own_maps(box: Box) -> None:
    host = {line.split()[0] for line in Path("/proc/self/maps").read_bytes().splitlines()}
    lines = box.read(b"/proc/self/maps").splitlines()
    assert len(lines) > 20 and sum(line.split()[0] in host for line in lines) > 20
    paths = {line.split(None, 5)[5] for line in lines if len(line.split(None, 5)) == 6}
    assert any(path.startswith(b"/guest/usr/lib/") for path in paths)
    assert all(path.startswith((b"/guest/usr/", b"[", b"/memfd", b"/dev/zero", b"anon_inode")) for path in paths)
    assert b"[rollup]" in box.read(b"/proc/self/smaps_rollup")
    assert b"Rss:" in box.read(b"/proc/self/smaps")
