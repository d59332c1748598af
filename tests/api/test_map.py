"""husk.map: each item in a box of its own, results in order, and nothing of a guest's that is more than a value."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from os.path import basename

import pytest

import husk
from husk.api.functions import plain_values
from husk.api.functions.function_source import source_of
from husk.api.run_result import Result

FACTOR = 3
TABLE = {"a": [1, (2.5, b"x")]}
HANDLE = sys.stdout


def times(number: int) -> float:
    return math.sqrt(number * number) * FACTOR


def tells(number: int) -> dict[str, object]:
    """Uses a module, a function beside it, a constant, and a function of another module."""
    print("noise on standard output")
    return {"times": times(number), "table": TABLE, "name": basename("/a/b"), "left": os.listdir("/workspace")}


def leaves(number: int) -> list[str]:
    with open("/workspace/left", "a") as file:
        file.write(str(number))
    return os.listdir("/workspace")


def test_results_in_order_each_from_a_box_of_its_own() -> None:
    assert husk.map(leaves, range(3), jobs=2) == [["left"]] * 3
    assert husk.map(tells, [2]) == [{"times": 6.0, "table": TABLE, "name": "b", "left": []}]
    assert husk.map(times, []) == []


def fails(kind: str) -> object:
    if kind == "raise":
        print("about to")
        raise KeyError("gone")
    if kind == "exit":
        os._exit(7)
    if kind == "late":
        time.sleep(60)
    if kind == "object":
        return object()
    if kind == "deep":
        value: list[object] = []
        for _ in range(5000):
            value = [value]
        return value
    return kind


def test_one_item_that_fails_does_not_lose_the_others() -> None:
    kinds = ["raise", "fine", "exit", "object", "late", "deep"]
    found = husk.map(fails, kinds, jobs=3, timeout=8, return_exceptions=True)
    assert found[1] == "fine"
    failed = {kind: one for kind, one in zip(kinds, found, strict=True) if isinstance(one, husk.ItemFailed)}
    assert {kind: one.kind for kind, one in failed.items()} == {
        "raise": "KeyError",
        "exit": "ended",
        "object": "TypeError",
        "late": "timeout",
        "deep": "RecursionError",
    }
    assert str(failed["raise"]) == "item 0: KeyError: 'gone'" and failed["raise"].stderr == "about to\n"
    assert "in fails" in failed["raise"].traceback and "exit code 7" in failed["exit"].text
    with pytest.raises(husk.ItemFailed, match="item 1: KeyError"):
        husk.map(fails, ["fine", "raise"], jobs=1)


def test_results_as_they_end() -> None:
    asked = []

    def items() -> Iterator[int]:
        for number in range(1000):
            asked.append(number)
            yield number

    results = husk.map_unordered(times, items(), jobs=1)
    assert next(results) == (0, 0.0) and next(results) == (1, 3.0)
    results.close()
    assert len(asked) < 5


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"\x80\x04cos\nsystem\n(S'true'\ntR.",  # a pickle
        b"[1]",
        b'{"value": ["z", 1]}',
        b'{"value": {"a": 1}}',
        b'{"value": []}',
        b'{"value": ["d", [["l"], 1]]}',
        b'{"value": ["b", 5]}',
        b"[" * 100_000,
        b'{"value": ' + b'["l", ' * 900 + b"1" + b"]" * 901 + b"}",
        b'{"value": 1' + b"0" * 5000 + b"}",
        b'{"value": ["d"' + b"".join(b", [%d, 0]" % (each * sys.hash_info.modulus) for each in range(1000)) + b"]}",
    ],
    ids=lambda reply: repr(reply[:16]),
)
def test_what_a_hostile_guest_answers(reply: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no result, or a plain one; the host reads it either way."""
    monkeypatch.setattr(husk.Sandbox, "run", lambda *_, **__: Result(["python3"], 0, stdout=reply, stderr=b""))
    (found,) = husk.map(times, [1], return_exceptions=True)
    assert isinstance(found, husk.ItemFailed | list)  # a dict whose keys all have one hash takes hours


@pytest.mark.parametrize(
    "value", [None, True, -1, 1.5, "é\ud800", b"\0\xff", [], (), {}, [(1, [b""])], {1: "a", (2, "b"): None, "d": {}}]
)
def test_values_come_back_as_they_were(value: object) -> None:
    found = plain_values.unwrap(json.loads(json.dumps(plain_values.wrap(value))))
    assert found == value and type(found) is type(value)


def around() -> Callable[[int], int]:
    outer = 1

    def inside(number: int) -> int:
        return number + outer

    return inside


def uses_handle(number: int) -> int:
    return HANDLE.write(str(number))


def uses_class(number: int) -> object:
    return Own(number)


class Own:
    def __init__(self, number: int) -> None: ...


async def waits(number: int) -> int:
    return number


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda number: number, "a lambda has no text"),
        (len, "not a function written with `def`"),
        (around(), "uses outer of the function around it"),
        (uses_handle, "uses HANDLE, a .* pass it with the items"),
        (uses_class, "uses Own, which cannot go into a box"),
        (waits, "not a plain `def`"),
    ],
)
def test_functions_that_cannot_go_into_a_box(function: Callable[[int], object], why: str) -> None:
    with pytest.raises(TypeError, match=why):
        husk.map(function, [1])


def test_the_text_of_a_function_brings_what_it_uses_once() -> None:
    text = source_of(tells)
    assert text.count("import math as math") == text.count("def times") == text.count("FACTOR = 3") == 1
    assert text.index("FACTOR = 3") < text.index("def times") < text.index("def tells")
    assert "from posixpath import basename as basename" in text and "pytest" not in text


def test_wrong_arguments() -> None:
    with pytest.raises(husk.UsageError, match="/no/such"):
        husk.map(times, [1], mounts=["/no/such:/m"])
    with pytest.raises(husk.NotFound, match="no-python"):
        husk.map(times, [1], python="no-python")
    with pytest.raises(TypeError, match="set is not a plain value"):
        husk.map(times, [{1}])  # type: ignore[arg-type]
    for wrong in ({"jobs": 0}, {"keep": "name"}):
        with pytest.raises(ValueError):
            husk.map(times, [1], **wrong)
