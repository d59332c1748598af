"""TOML that people write: each mistake is one sentence with the file, the key and what is expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from husk.sandbox.errors import UsageError
from husk.sandbox.toml_reader import Table, read_toml
from husk.store.store_errors import StoreUsageError


def table(**data: object) -> Table:
    return Table(data, "f.toml")


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: table(a=1).text("a"), "f.toml: a must be a text, not 1."),
        (lambda: table(a="x\0").text("a"), "f.toml: a must be a text, not 'x\\x00'."),
        (lambda: table(a=True).count("a", 1), "f.toml: a must be a whole number, not true."),
        (lambda: table(a=0).count("a", 1), "f.toml: a must be 1 or more, not 0."),
        (lambda: table(a=["x", 1]).words("a"), "f.toml: a must be a list of texts, not ['x', 1]."),
        (lambda: table(a={"b": 1}).texts("a"), "f.toml: a must be a table of texts, not a table."),
        (lambda: table(a={"b": 1}).table("a").flag("b"), "f.toml: a.b must be true or false, not 1."),
        (lambda: table(a=3).table("a"), "f.toml: a must be a section: [a], not 3."),
        (lambda: table(a={}).tables("a"), "f.toml: a must be sections: [[a]], not a table."),
        (
            lambda: table(a={"m": 1.5}).amounts("a"),
            'f.toml: a.m must be a text such as "512M", or "none", not 1.5.',
        ),
        (lambda: table(bas=1).only(["base"]), "f.toml: there is no bas; do you mean base? there are base."),
        (lambda: table(x={}).only(["base"]), "f.toml: there is no section [x]; there are base."),
        (lambda: table().version(1), "f.toml: `version = 1` must stand at its top."),
        (lambda: table(version=True).version(1), "f.toml: `version = 1` must stand at its top."),
    ],
)
def test_a_mistake_is_a_sentence(ask: object, said: str) -> None:
    assert callable(ask)
    with pytest.raises(UsageError) as error:
        ask()
    assert str(error.value) == said


def test_what_is_right_is_given() -> None:
    found = table(version=1, t="x", n=3, w=["a"], s={"k": "v"}, l={"memory": "1G", "cpu": 5}, each=[{"a": "b"}])
    found.version(1)
    assert (found.text("t"), found.text("none"), found.count("n", 9), found.count("none", 9)) == ("x", "", 3, 9)
    assert (found.words("w"), found.texts("s"), found.amounts("l")) == (["a"], {"k": "v"}, {"memory": "1G", "cpu": "5"})
    assert [one.text("a") for one in found.tables("each")] == ["b"] and list(found.table("none")) == []


@pytest.mark.parametrize("data", [b"x", b"a = \xff", b"a = " + b"[" * 100_000])
def test_no_toml(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "f").write_bytes(data)
    with pytest.raises(StoreUsageError, match=r"f: not TOML: .*; see the page"):
        read_toml(tmp_path / "f", StoreUsageError, "see the page")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere: No such file or directory"):
        read_toml(tmp_path / "nowhere")
