"""Untrusted documents: front matter, permission files, cases, build files, image archives. Any text gives its content,
or one sentence about what is wrong with it; never a traceback, and nothing that cannot be printed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from husk.images import oci
from husk.images.archive_limits import Budget, Limits
from husk.images.decompress import FileRange, decompress
from husk.images.recipe import Recipe
from husk.images.source import Bundle
from husk.images.tarread import HEADER, TarReader
from husk.sandbox.errors import UsageError
from husk.sandbox.limits.limits import Limits as BoxLimits
from husk.skills.archive import unpack
from husk.skills.frontmatter import read_head
from husk.skills.permission_file import read_permissions
from husk.skills.testing.cases import _read as read_cases
from husk.store.store_errors import StoreError

FEW = settings(max_examples=20, deadline=None, derandomize=True)
LONG = "9" * 5000
HALF = "\ud800"

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.just(HALF),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@contextlib.contextmanager
def file_of(data: bytes, suffix: str) -> Iterator[Path]:
    """Alone in its directory: cases may look for skills beside their file."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, f"file{suffix}")
        path.write_bytes(data)
        yield path


def refused_or(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (UsageError, StoreError) as error:
        str(error).encode()  # it can be printed
        return None


yaml_values = st.sampled_from(
    [
        "x",
        "1",
        "[",
        "{",
        "!!timestamp x",
        "!!int x",
        "!!binary =",
        "2001-99-99",
        '"\\ud800"',
        "0x" + "f" * 5000,
        "*a",
        "&a b",
        "- 1",
        "|",
        ">",
        "? [a]",
        "1_:_",
        "'",
        "!!python/object:os.system x",
        "~",
        "{a: 1, a: 2}",
        "[" * 60,
        "\x07",
    ]
)


@FEW
@given(
    st.lists(
        st.tuples(st.sampled_from(["name", "description", "metadata", "allowed-tools", "1"]), yaml_values), max_size=4
    ),
    st.text(max_size=20),
)
@example([("name", "!!timestamp x")], "")
@example([("metadata", '{a: "\\ud800"}')], "")
@example([("description", "0x" + "f" * 5000)], "")
def test_front_matter(fields: list[tuple[str, str]], rest: str) -> None:
    text = "---\n" + "".join(f"{key}: {value}\n" for key, value in fields) + rest + "\n---\nbody\n"
    head = read_head(text, "folder")
    shown = [head.name, head.description, head.license, *head.allowed_tools, *head.metadata, *head.metadata.values()]
    for said in (*shown, *(problem.text for problem in head.problems)):
        said.encode()


toml_values = st.sampled_from(
    [
        "1",
        "true",
        '"x"',
        "[]",
        '["a"]',
        '["a:/b:ro"]',
        "[1]",
        "{}",
        LONG,
        "[" * 3000,
        '"512M"',
        f'"{LONG}"',
        "2000-01-01",
        '"\\u0000"',
    ]
)
SECTIONS = ["files", "network", "programs", "packages", "limits", "results", "version", "x"]
KEYS = ["input", "mounts", "hosts", "allow", "pip", "npm", "memory", "cpu", "expected", "x"]


@FEW
@given(st.lists(st.tuples(st.sampled_from(SECTIONS), st.sampled_from(KEYS), toml_values), max_size=4), st.booleans())
@example([("limits", "cpu", f'"{LONG}"')], True)
@example([("limits", "memory", LONG)], True)
@example([("x", "x", "[" * 3000)], True)
def test_permission_files(rows: list[tuple[str, str, str]], good: bool) -> None:
    text = ("version = 1\n" if good else "") + "".join(
        f"[{section}]\n{key} = {value}\n" for section, key, value in rows
    )
    with file_of(text.encode(), ".toml") as path:
        refused_or(lambda: read_permissions(path))
        refused_or(lambda: read_cases(path))
        refused_or(lambda: Recipe(str(path)))


@FEW
@given(st.binary(max_size=60))
def test_any_bytes_are_no_permission(data: bytes) -> None:
    with file_of(data, ".toml") as path:
        assert refused_or(lambda: read_permissions(path)) is None
        refused_or(lambda: Recipe(str(path)))


@FEW
@given(
    st.lists(
        st.dictionaries(st.sampled_from(["name", "skill", "script", "argv", "input", "exit", "files"]), json_values)
    )
)
@example([{"skill": 1}])
@example([{"argv": [HALF]}])
@example([{"skill": "\0"}])
def test_cases(rows: list[dict[str, Any]]) -> None:
    with file_of(json.dumps(rows).encode(), ".json") as path:
        for case in refused_or(lambda: read_cases(path)) or []:
            " ".join([case.name, *case.argv]).encode()


@FEW
@given(
    st.text(alphabet="0123456789kmgtshKMGT=-. ", max_size=12) | st.just(LONG),
    st.sampled_from(["memory", "cpu", "files", "x"]),
)
def test_limits(value: str, name: str) -> None:
    refused_or(lambda: BoxLimits().read(f"{name}={value}"))


# -- image archives ----------------------------------------------------------------------------------------------------


class Memory(Bundle):
    """Files of an archive, by name."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self._files, self._fds = files, dict[str, int]()

    def piece(self, name: str) -> FileRange:
        if name not in self._fds:
            self._fds[name] = os.memfd_create("piece")
            os.write(self._fds[name], self._files.get(name) or self._forget(name))
        return FileRange(self._fds[name], 0, len(self._files[name]))

    def _forget(self, name: str) -> bytes:
        os.close(self._fds.pop(name))
        raise KeyError(name)

    def close(self) -> None:
        for fd in self._fds.values():
            os.close(fd)


def document(value: object) -> bytes:
    return json.dumps(value).encode() or b" "


KEYS_OF_A_CONFIG = ["Env", "Cmd", "Entrypoint", "User", "WorkingDir", "Labels"]


@FEW
@given(st.dictionaries(st.sampled_from(KEYS_OF_A_CONFIG), json_values), json_values, json_values)
@example(
    {"Env": [f"A={HALF}"]}, {"type": "layers", "diff_ids": ["sha256:" + "0" * 64]}, [{"digest": "sha256:" + "0" * 64}]
)
@example({"User": "a\0b"}, {"diff_ids": ["sha256:" + "0" * 64]}, [{"digest": "sha256:" + "0" * 64}])
def test_image_configurations(config: dict[str, Any], rootfs: Any, layers: Any) -> None:
    whole = document({"os": "linux", "architecture": "amd64", "config": config, "rootfs": rootfs})
    digest = "sha256:" + hashlib.sha256(whole).hexdigest()
    manifest = document({"config": {"digest": digest}, "layers": layers})
    files = {
        "oci-layout": document({"imageLayoutVersion": "1.0.0"}),
        "index.json": document({"manifests": [{"digest": "sha256:" + hashlib.sha256(manifest).hexdigest()}]}),
        f"blobs/sha256/{digest[7:]}": whole,
        f"blobs/sha256/{hashlib.sha256(manifest).hexdigest()}": manifest,
    }
    _look(files)
    _look({"manifest.json": document([{"Config": "c", "Layers": layers, "RepoTags": rootfs}]), "c": whole})


@FEW
@given(json_values, json_values)
@example([{"Config": HALF, "Layers": [HALF], "RepoTags": [HALF]}], None)
@example([{"Config": "index.json", "Layers": ["../x"]}], {})
def test_image_indexes(saved: Any, index: Any) -> None:
    _look({"manifest.json": document(saved)})
    _look({"oci-layout": document({"imageLayoutVersion": "1.0.0"}), "index.json": document(index)})


def _look(files: dict[str, bytes]) -> None:
    bundle = Memory(files)
    try:
        found = refused_or(lambda: oci.find_image(bundle, ""))
        if found is not None:
            config = found.config
            words = [
                found.name,
                config.user,
                config.workdir,
                *config.entrypoint,
                *config.cmd,
                *config.env,
                *config.env.values(),
            ]
            for word in words:
                os.fsencode(word)
                assert "\0" not in word
    finally:
        bundle.close()


octal = (
    st.binary(max_size=12)
    | st.integers(0, 2**40).map(lambda number: b"%o\0" % number)
    | st.just(b"\x80" + b"\xff" * 11)
)


@FEW
@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"a", b"../a", b"/etc", b"a/b", b"x" * 100, b"", b"\xff"]),
            st.sampled_from(b"01234567gxKLS\0"),
            octal,
            octal,
            st.sampled_from(
                [b"11 path=abc\n", b"9 size=x\n", b"30 SCHILY.xattr.user.a=water\n", b"", b"0 \n", b"12 mtime=1.5\n"]
            ),
        ),
        max_size=3,
    ),
    st.binary(max_size=700),
    st.booleans(),
)
def test_tar_archives(entries: list[tuple[bytes, int, bytes, bytes, bytes]], tail: bytes, sound: bool) -> None:
    """Headers with correct checksums, so that the code after the check is reached."""
    made = b""
    for name, kind, size, number, body in entries:
        length = b"%011o" % len(body) if sound else size[:12]
        fields = [
            name,
            b"0000644",
            number[:8],
            b"0",
            length,
            number[:12],
            b" " * 8,
            bytes([kind]),
            b"target",
            b"ustar\x0000",
        ]
        header = bytearray(HEADER.pack(*fields, b"", b"", b"0", b"0", b""))
        header[148:156] = b"%06o\0 " % sum(header)
        made += bytes(header) + body.ljust((len(body) + 511) // 512 * 512, b"\0")
    data = made + (bytes(1024) if sound else tail)
    fd = os.memfd_create("tar")
    try:
        os.write(fd, data)
        refused_or(lambda: _read_tar(fd, len(data)))
    finally:
        os.close(fd)


def _read_tar(fd: int, size: int) -> None:
    budget = Budget(Limits(1 << 20, 100, 200))
    reader = TarReader(decompress(FileRange(fd, 0, size), budget), budget)
    for entry in reader:
        assert entry.size >= 0  # what it claims; where less is there, reading it is refused
        assert len(reader.content(entry.size)) == entry.size


@FEW
@given(st.sampled_from([b"\x1f\x8b\x08", b"BZh9", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b""]), st.binary(max_size=200))
def test_packed_archives(magic: bytes, rest: bytes) -> None:
    fd = os.memfd_create("packed")
    try:
        os.write(fd, magic + rest)
        refused_or(lambda: _read_tar(fd, len(magic + rest)))
    finally:
        os.close(fd)


@FEW
@given(
    st.integers(0, 65535),
    st.integers(0, 2**32 - 1),
    st.binary(max_size=20),
    st.sampled_from([b"a", b"../a", b"/a", b"a/", b"\xff\0"]),
)
def test_packed_skills(flags: int, size: int, body: bytes, name: bytes) -> None:
    """A zip with a consistent but false central directory."""
    local = struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, flags, 0, 0, 0, 0, len(body), size, len(name), 0) + name + body
    head = struct.pack(
        "<IHHHHHHIIIHHHHHII", 0x02014B50, 20, 20, flags, 0, 0, 0, 0, len(body), size, len(name), 0, 0, 0, 0, size, 0
    )
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 1, 1, len(head + name), len(local), 0)
    with file_of(local + head + name + end, ".zip") as path, tempfile.TemporaryDirectory() as into:
        refused_or(lambda: unpack(path, Path(into)))
        assert all(found.resolve().is_relative_to(Path(into).resolve()) for found in Path(into).rglob("*"))


@pytest.mark.parametrize("text", ["80:" + LONG, "x:1", "65536:1", "[::1]:1"])
def test_ports(text: str) -> None:
    from husk.sandbox.policy import Publish

    with pytest.raises(UsageError):
        Publish.parse(text)
