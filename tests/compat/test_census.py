"""husk.compat.census: a census is the same after writing and reading, and no file can make reading it fail badly."""

from __future__ import annotations

import copy
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from husk.compat import census
from husk.compat.census import AddressUse, Asked, Census, FileUse, ProgramRun, read_census, write_census
from husk.sandbox.errors import UsageError

FULL = Census(
    command=["sh", "-c", 'echo "\u2603"'],
    husk="0.1",
    started="2026-01-02T03:04:05Z",
    seconds=1.5,
    status=137,
    setting="bare",
    calls=[
        Asked("openat", "virtual", {2: 0o2000000}, {"flags": "O_RDONLY"}, 7, {"ENOENT": 3}, 0.25, ["no"], "x"),
        Asked("read", "native", count=9),
    ],
    files=[FileUse("/etc/passwd", 1, 2, 3, 4, {"EACCES": 5}), FileUse("/")],
    addresses=[AddressUse("connect", "127.0.0.1:80", "ECONNREFUSED", 2)],
    programs=[ProgramRun(2, 1, ["sh", "-c"], 0.5, 1.0, 3, "/usr/bin/dash", 16, [1, 0, 15])],
    crash="SIGSEGV",
    lost={"log lines": 4},
)


def document() -> dict[str, Any]:
    made = json.loads(write_census(FULL))
    assert isinstance(made, dict)
    return made


def read_text(tmp_path: Path, text: str | bytes) -> Census:
    file = tmp_path / "trace.json"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_census(file)


def sentence(tmp_path: Path, text: str | bytes) -> str:
    with pytest.raises(UsageError) as raised:
        read_text(tmp_path, text)
    said = str(raised.value)
    assert said.endswith(".") and "\n" not in said and "Traceback" not in said and len(said) < 500
    return said


def test_what_was_written_is_read(tmp_path: Path) -> None:
    assert read_text(tmp_path, write_census(FULL)) == FULL
    empty = Census(["true"])
    assert read_text(tmp_path, write_census(empty)) == empty
    # The test above is complete: no field of FULL has the value that it would have if nothing was read.
    assert all(getattr(FULL, each.name) != getattr(empty, each.name) for each in fields(Census))


def test_the_same_census_gives_the_same_text() -> None:
    assert write_census(FULL) == write_census(copy.deepcopy(FULL))
    assert write_census(FULL).isascii()


def test_telling_arguments_are_those_with_names() -> None:
    assert census.telling("openat") == ((2, "flags", "O_*"),)
    assert [name for _, name, _ in census.telling("socket")] == ["family", "type"]
    assert census.telling("getpid") == census.telling("no_such_call") == ()
    assert census.spelled("arch_prctl", {0: 0x1001, 5: 1}) == {"option": "ARCH_SET_GS"}


def test_counts_are_sums_over_arguments() -> None:
    made = Census(["x"], calls=[Asked("read", "native", count=2), Asked("read", "native", {0: 1}, count=3)])
    assert made.counts() == {"read": 5}


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("format",), "husk-trace 99"),
        (("format",), None),
        (("command",), "sh"),
        (("command", 0), 5),
        (("seconds",), "long"),
        (("status",), 1.5),
        (("status",), True),
        (("setting",), "walls"),
        (("calls",), {}),
        (("calls", 0), []),
        (("calls", 0, "way"), "sideways"),
        (("calls", 0, "count"), 1 << 64),
        (("calls", 0, "values"), {"6": 1}),
        (("calls", 0, "values"), {"٣": 1}),
        (("calls", 0, "errors"), {"ENOENT": "three"}),
        (("files", 0, "path"), None),
        (("programs", 0, "activity"), [None]),
        (("programs", 0, "began"), None),
        (("lost",), []),
    ],
)
def test_a_wrong_value_is_named(tmp_path: Path, place: tuple[str | int, ...], value: object) -> None:
    made = document()
    target: Any = made
    for step in place[:-1]:
        target = target[step]
    target[place[-1]] = value
    said = sentence(tmp_path, json.dumps(made))
    named = [step for step in place if isinstance(step, str)][-1]
    assert named in said or place == ("calls", 0)


@pytest.mark.parametrize("key", ["command", "calls", "format"])
def test_a_missing_value_is_named(tmp_path: Path, key: str) -> None:
    made = document()
    del made[key]
    assert key in sentence(tmp_path, json.dumps(made))


GARBAGE: list[str | bytes] = ["", "[]", "null", "{", "\x00", '{"format": NaN}', "[" * 100_000, b"\xff\xfe", b"\x7fELF"]


@pytest.mark.parametrize("text", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_is_one_sentence(tmp_path: Path, text: str | bytes) -> None:
    sentence(tmp_path, text)


def test_every_truncation_is_one_sentence(tmp_path: Path) -> None:
    whole = write_census(FULL)
    for size in range(0, len(whole) - 2, 7):
        sentence(tmp_path, whole[:size])


def test_a_number_that_is_no_number(tmp_path: Path) -> None:
    text = write_census(FULL).replace('"seconds": 1.5', '"seconds": Infinity')
    assert "seconds" in sentence(tmp_path, text)


def test_unknown_keys_are_passed_over(tmp_path: Path) -> None:
    made = document()
    made["later"] = made["calls"][0]["later"] = [1]
    assert read_text(tmp_path, json.dumps(made)) == FULL


def test_no_file_and_too_large_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_census(tmp_path / "none")
    with pytest.raises(UsageError, match="directory"):
        read_census(tmp_path)
    monkeypatch.setattr(census, "LARGEST_FILE", 10)
    assert "larger" in sentence(tmp_path, write_census(FULL))
