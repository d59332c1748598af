"""The benchmarks run and have the shape that docs/performance.md describes. How fast something was is no test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def bench(script: str, out: Path, *options: str) -> dict[str, Any]:
    """The document that a tiny round leaves."""
    command = [sys.executable, str(ROOT / "bench" / script), "--quick", "--out", str(out), *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "tools")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = out.glob("*.json")
    document: dict[str, Any] = json.loads(file.read_text())
    return document


@pytest.mark.needs("gcc")
def test_a_tiny_round_beside_other_sandboxes(tmp_path: Path) -> None:
    document = bench("peers.py", tmp_path, "--no-install", "--only", "stat,spawn,start", "--subjects", "bwrap")
    assert [row["key"] for row in document["rows"]] == ["stat", "spawn", "start"]
    for row in document["rows"]:
        assert {"native", "husk rw", "husk cow"} <= set(row["cells"])
        for name in ("native", "husk rw", "husk cow"):
            cell = row["cells"][name]
            assert cell["failure"] == "" and cell["median"] > 0 and len(cell["samples"]) > 1
    # The processor time of husk itself is known wherever the program says what it used.
    assert document["rows"][1]["cells"]["husk cow"]["own_share"] >= 0
    assert document["machine"]["kernel"] == os.uname().release
    (table,) = tmp_path.glob("*.md")
    assert "| stat, 4 components |" in table.read_text()
    assert ElementTree.parse(tmp_path / "peers.svg").getroot().tag.endswith("svg")


@pytest.mark.needs("gcc")
def test_tiny_curves(tmp_path: Path) -> None:
    document = bench("scale.py", tmp_path, "--only", "entries,descriptors")
    found = {(curve["axis"], curve["operation"], curve["subject"]): curve for curve in document["curves"]}
    for axis, operation in (("entries", "list"), ("entries", "stat"), ("descriptors", "spawn")):
        for subject in ("native", "husk cow"):
            curve = found[axis, operation, subject]
            assert [size for size, _ in curve["points"]] == [10, 100] and curve["ends"] == ""
    assert ElementTree.parse(tmp_path / "scale.svg").getroot().tag.endswith("svg")


def test_growth_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Constant and logarithmic costs of one are within n log n; costs that grow with the number are not."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    from scale import fit

    sizes = (10, 100, 1_000, 10_000)
    assert fit([[size, 7.0] for size in sizes]) == {"exponent": 0.0, "within": True}
    linear = fit([[size, 2.0 * size] for size in sizes])
    assert linear == {"exponent": 1.0, "within": False}
    # Where the host's own cost grows as much, there is nothing to blame husk for.
    assert fit([[size, 2.0 * size] for size in sizes], native=[[size, 1.0 * size] for size in sizes])["within"]


def test_a_table_says_that_the_machine_was_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    from report import heading, machine, machine_afterwards

    about = machine_afterwards(machine() | {"load": 0.0})
    for others, load, loaded in ((0.0, 0.1, False), (0.9, 0.1, True), (0.0, 9.0 * about["cores"], True)):
        words = "\n".join(heading({"when": "20260101-000000", "machine": about | {"others": others, "load": load}}))
        assert f"load {load:.1f} before and" in words and f"{others:.2f} processors meanwhile" in words
        assert ("The machine was loaded" in words) == loaded


def test_what_one_piece_of_work_leaves_is_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import as_user

    clock = [1000.0]
    monkeypatch.setattr("as_user.time.monotonic", lambda: clock[0])
    share = as_user.Share(10)
    assert share.until(2) == 1300.0
    clock[0] = 1100.0
    assert share.until(1) == 1600.0
    clock[0] = 1700.0
    assert share.until(1) == 1700.0
