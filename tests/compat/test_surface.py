"""Runtime files: every one that husk brings loads and names only real calls; wrong ones get one sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from husk.abi.registry import ROWS
from husk.abi.registry.rules import Walls
from husk.compat.runtimes import ALL_WALLS, BARE_WALLS, find, husk_surface, names
from husk.compat.surface import FULL, MISSING, PARTIAL, SUPPORT, UNKNOWN, Surface, read_surface
from husk.compat.surface_writer import write_surface
from husk.sandbox.errors import UsageError

HEAD = 'format = 1\ntitle = "T"\nversion = "1"\ndate = "2026-01-01"\nsource = "here"\n'


def surface(tmp_path: Path, text: str) -> Surface:
    path = tmp_path / "some.toml"
    path.write_text(HEAD + text)
    return read_surface(path)


@pytest.mark.parametrize("name", names())
def test_every_runtime_loads_and_is_written_as_it_is_read(name: str, tmp_path: Path) -> None:
    found = find(name)
    assert found.name == name and found.title and found.version and found.source
    assert found.date == "" if name.startswith("husk") else re.fullmatch(r"\d{4}-\d{2}-\d{2}", found.date)
    assert set(found.claims) <= {row.name for row in ROWS.values()}
    written = write_surface(found)
    (tmp_path / f"{name}.toml").write_text(written)
    again = read_surface(tmp_path / f"{name}.toml")
    assert write_surface(again) == written and again.claims.keys() == found.claims.keys()
    for args in samples(found):
        for call in found.claims:
            assert again.answer(call, args) == found.answer(call, args), (call, args)


def samples(found: Surface) -> list[list[int]]:
    """Arguments that make notes hold, at every place."""
    tests = [test for claim in found.claims.values() for note in claim.notes for test in note.tests]
    values = sorted({value for test in tests for value in test.values})
    return [[0] * 6, [0x7FFFABCD] * 6, *([value] * 6 for value in values[:: max(1, len(values) // 20)])]


def test_a_note_decides_before_the_claim(tmp_path: Path) -> None:
    found = surface(tmp_path, """
default = { support = "missing", errno = "ENOSYS" }
[calls]
read = "full"
[calls.socket]
support = "full"
[[calls.socket.when]]
family = "AF_VSOCK"
support = "missing"
errno = "EPERM"
[[calls.socket.when]]
type = "SOCK_RAW"
support = "partial"
text = "only as root"
[[calls.socket.when]]
about = "a remark decides nothing"
support = "missing"
[calls.clone]
support = "full"
[[calls.clone.when]]
clone_flags = { has = ["CLONE_NEWUSER", 0x20000] }
support = "missing"
errno = "EPERM"
""")
    assert found.answer("read", [0, 0, 0]) == (FULL, 0, "")
    assert found.answer("write", [0, 0, 0]) == (MISSING, 38, "")
    assert found.answer("socket", [40, 1, 0]) == (MISSING, 1, "")
    assert found.answer("socket", [2, 1, 0]) == (FULL, 0, "")
    assert found.answer("socket", [2, 3 | 0o2000000, 0])[0] == PARTIAL  # SOCK_CLOEXEC is no part of the choice
    assert found.answer("clone", [0x10000011])[:2] == (MISSING, 1)
    assert found.answer("clone", [0x00020011])[:2] == (MISSING, 1)
    assert found.answer("clone", [0x11])[0] == FULL
    assert found.claim("socket").level == PARTIAL and found.claim("read").level == FULL


def test_conditions_are_written_as_they_are_read(tmp_path: Path) -> None:
    text = """
[calls.openat]
support = "full"
[[calls.openat.when]]
flags = [{ has = ["O_DIRECT"] }, { is = [0], mask = 0x3 }]
mode = { within = [0o644] }
support = "missing"
errno = "EINVAL"
[[calls.openat.when]]
filename = { is = [0], wide = true }
support = "missing"
errno = "EFAULT"
"""
    found = surface(tmp_path, text)
    (tmp_path / "again.toml").write_text(write_surface(found))
    again = read_surface(tmp_path / "again.toml")
    for args in ([0, 1, 0o40000, 0o600], [0, 1, 0o40001, 0o600], [0, 1, 0o40000, 0o755], [0, 0, 0, 0], [0, 1 << 32]):
        padded = [*args, 0, 0, 0, 0]
        assert found.answer("openat", padded) == again.answer("openat", padded)
    assert found.answer("openat", [0, 1, 0o40000, 0o600])[:2] == (MISSING, 22)
    assert found.answer("openat", [0, 1 << 32, 0, 0])[0] == FULL


@pytest.mark.parametrize(("text", "sentence"), [
    ("[calls]\nreed = 'full'", "calls.reed: Linux on x86-64 has no such call (do you mean read?)"),
    ("[calls]\nread = 'ful'", "calls.read.support: it is one of full, partial, missing, unknown"),
    ("[calls]\nread = 3", "calls.read: it must be a table, not 3."),
    ("[calls.read]\nsupport = 'missing'\nerrno = 'ENOSY'", "do you mean ENOSYS?"),
    ("[calls.read]\nsupport = 'missing'\nerrno = 38", "38 is no errno"),
    ("[calls.read]\nsupport = 'full'\nwhen = 1", "calls.read.when: write [[calls.read.when]]"),
    ("[calls.read]\nsupport = 'full'\n[[calls.read.when]]\nsupport = 'full'", "give values of arguments"),
    ("[calls.read]\nsupport = 'full'\n[[calls.read.when]]\nflags = 1\nsupport = 'full'", "when[0].flags: there is no"),
    ("[calls.socket]\nsupport = 'full'\n[[calls.socket.when]]\nfamily = 'AF_VSOK'\nsupport = 'full'", "AF_VSOCK?"),
    ("[calls.socket]\nsupport = 'full'\n[[calls.socket.when]]\nfamily = []\nsupport = 'full'", "at least one value"),
    ("[calls.socket]\nsupport = 'full'\n[[calls.socket.when]]\ntype = { is = 1, mask = 0 }\nsupport = 'full'", "mask"),
    ("[calls.socket]\nsupport = 'full'\n[[calls.socket.when]]\nfamily = 0x100000000\nsupport = 'full'", "32 bits"),
    ("[[paths]]\npath = 'proc'\nsupport = 'full'", "paths[0].path: write an absolute path"),
    ("colour = 1", "colour: there is no such key"),
    ("default = 'full'", "default: it must be a table"),
    ("measured = 1", "measured: write true or false"),
    ("x = [", "not TOML"),
    ("x = " + "[" * 5000, "not TOML"),
])  # fmt: skip
def test_a_wrong_file_gets_one_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        surface(tmp_path, text)
    assert sentence in str(error.value) and "some.toml: " in str(error.value) and "\n" not in str(error.value)


def test_what_is_no_file_at_all(tmp_path: Path) -> None:
    (tmp_path / "large.toml").write_bytes(b"#" * (5 << 20))
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\0")
    for name, sentence in (("none", "No such file"), ("large", "larger than 4 MiB"), ("binary", "not TOML")):
        with pytest.raises(UsageError, match=sentence):
            read_surface(tmp_path / f"{name}.toml")
    with pytest.raises(UsageError, match="`format = 1` must stand"):
        (tmp_path / "old.toml").write_text("format = 2")
        read_surface(tmp_path / "old.toml")


def test_names_may_be_shortened(tmp_path: Path) -> None:
    assert find("gvisor-20240729").name == "gvisor-20240729" == find("gvisor-20240").name
    assert find("husk").name == "husk" and find("linux-4.19").version == "4.19"
    assert find("gvisor").name == max(name for name in names() if name.startswith("gvisor-"))
    assert find("linux").name == "linux-6.18"
    wrong = {"hus": "may be husk or husk-bare", "gvisr": "did you mean gvisor", "": "no runtime ''"}
    wrong |= {"gvisor-2": "may be gvisor-2", "linux-3.2": "there is no runtime", "linux-9.9": "there is no runtime"}
    for name, sentence in wrong.items():
        with pytest.raises(UsageError, match=sentence):
            find(name)


@pytest.mark.parametrize("walls", [ALL_WALLS, BARE_WALLS, Walls()], ids=["walled", "bare", "none"])
def test_husks_own_surface_says_what_the_rows_say(walls: Walls) -> None:
    """For every value that a rule compares with, and one that none does, the surface answers as the row decides."""
    own = husk_surface(walls)
    assert own.claims.keys() == {row.name for row in ROWS.values()}
    for row in ROWS.values():
        samples = [[0] * 6, [0x7FFFABCD] * 6]
        for rule in row.rules:
            for test in rule.tests:
                for value in test.values - {-1}:
                    samples.append([value if index == test.index else 0 for index in range(6)])
        for args in samples:
            verdict = row.verdict(args, walls)
            support, errno, _ = own.answer(row.name, args)
            expected = FULL if verdict.way in ("native", "virtual") else MISSING if verdict.errno else PARTIAL
            assert (support, errno) == (expected, verdict.errno), (row.name, args)


def test_supports_are_four() -> None:
    assert set(SUPPORT) == {FULL, PARTIAL, MISSING, UNKNOWN}


def test_what_is_known_of_gvisor() -> None:
    """The case that started it all: %gs cannot be set, and programs that ignore the error fault."""
    for name in ("gvisor-20221219", "gvisor-20240729", "gvisor-20260817"):
        found = find(name)
        support, errno, text = found.answer("arch_prctl", [0x1001, 0x66AE00])
        assert (support, errno) == (MISSING, 22) and "%gs" in text and "Cosmopolitan" in text
        assert found.answer("arch_prctl", [0x1002, 0])[0] == FULL
        assert found.answer("madvise", [0, 0, 8])[:2] == (MISSING, 22)
        assert found.answer("fallocate", [3, 1, 0, 1])[:2] == (MISSING, 95)
        assert found.answer("openat", [0, 0, 0o20200002, 0])[:2] == (MISSING, 95)
        assert found.answer("openat", [0, 0, 0o200000, 0])[0] == FULL, "O_DIRECTORY is a part of O_TMPFILE"
        assert found.claim("fchmodat2").errno == 38, "what is not in the table is ENOSYS"
        assert {path.path: path.support for path in found.paths}["/proc/self/pagemap"] == MISSING
    assert find("gvisor-20221219").claim("clone3").errno == 38 and find("gvisor-20240729").claim("clone3").errno == 22


def test_linux_by_version() -> None:
    old, new = find("linux-5.10"), find("linux-6.18")
    assert old.answer("landlock_create_ruleset", [0] * 6)[:2] == (MISSING, 38)
    assert old.answer("madvise", [0, 0, 22])[:2] == (MISSING, 22) and new.answer("madvise", [0, 0, 22])[0] == FULL
    assert find("linux-6.7").claim("lookup_dcookie").support == FULL
    assert new.claim("lookup_dcookie").support == MISSING and new.claim("listns").support == MISSING
    assert find("linux-4.14").answer("mmap", [0, 0, 0, 0x100022, 0, 0])[0] == PARTIAL
    assert find("linux-4.14").answer("futex", [0, 13 | 128, 0])[:2] == (MISSING, 38)
    assert {claim.support for claim in new.claims.values()} == {FULL, MISSING}
