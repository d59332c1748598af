"""`husk conform history`, `diff`, `import` and `forget`: what they print, and how they end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from husk.cli import main
from husk.conform.history.database import open_history
from husk.conform.outcomes import CRASH, FAIL, FLAKY, PASS, RunRecord
from husk.conform.results_file import write_results
from tests.conform.records import a_run, judged

NIGHTS = [
    a_run(0, {"open/A": PASS, "open/B": PASS, "open/C": FAIL, "open/F": FLAKY}),
    a_run(1, {"open/A": PASS, "open/B": PASS, "open/C": PASS, "open/F": FAIL}),
    a_run(2, [judged("open/A", FAIL, why="ENOSYS \x1b[2J"), judged("open/B", CRASH), judged("open/D")]),
]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HUSK_CONFORM", str(tmp_path / "conform"))
    return tmp_path


def remember(*records: RunRecord) -> None:
    with open_history() as history:
        for record in records:
            history.add(record)


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(["conform", *words]) == code
    out, err = capsys.readouterr()
    return out if code != 2 else err


def told(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    return json.loads(said(capsys, *words, "--json", code=code))


def test_nothing_yet(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no runs yet" in said(capsys, "history")
    assert told(capsys, "history") == {"runs": []}


def test_runs_with_their_trend(capsys: pytest.CaptureFixture[str]) -> None:
    remember(*NIGHTS, a_run(1, {"open/A": PASS}, "runsc"), a_run(3, {"open/A": PASS}, whole=False))
    lines = said(capsys, "history").splitlines()
    assert lines[0].split() == ["20260101-030000-husk", "66.7", "%", "2", "of", "3", "mini"]
    assert lines[1].split() == ["20260102-030000-husk", "75.0", "%", "+8.33", "3", "of", "4", "mini"]
    assert lines[4].endswith("(not finished)")
    assert lines[6] == "husk (mini): ▇█▁ 66.7 % → 33.3 % in 3 runs"
    assert len(lines) == 7  # one run of runsc is no trend
    assert said(capsys, "history", "--runtime", "runsc").split()[0] == "20260102-030000-runsc"
    assert said(capsys, "history", "--last", "1").startswith("… 4 earlier runs\n20260104")
    assert len(told(capsys, "history")["runs"]) == 5 and len(told(capsys, "history", "--last", "2")["runs"]) == 2
    assert "runs of husk, runsc" in said(capsys, "history", "--runtime", "bwrap", code=2)


def test_a_case_run_by_run(capsys: pytest.CaptureFixture[str]) -> None:
    remember(*NIGHTS)
    assert said(capsys, "history", "--case", "*/A").splitlines() == [
        "mini/open/A",
        "  pass       20260101-030000-husk to 20260102-030000-husk, 2 runs",
        "  fail       20260103-030000-husk: ENOSYS \\x1b[2J",
    ]
    cases = told(capsys, "history", "--case", "mini/*")["cases"]
    assert [one["verdict"] for one in cases["mini/open/C"]] == [FAIL, PASS]


def test_diff_names_what_changed(capsys: pytest.CaptureFixture[str]) -> None:
    remember(*NIGHTS)
    text = said(capsys, "diff", "latest~1", "latest", code=1)
    assert "regressions (2):\n  pass → fail  mini/open/A: ENOSYS \\x1b[2J\n  pass → crash  mini/open/B" in text
    assert "new cases (1):\n  pass  mini/open/D" in text
    assert "cases that are gone (2):\n  pass  mini/open/C" in text
    document = told(capsys, "diff", "latest~2", "20260102-030000-husk")
    assert [one["case"] for one in document["fixes"]] == ["mini/open/C"]
    assert not document["regressions"] and not document["shifted"]  # F was flaky: neither
    assert "no change" in said(capsys, "diff", "latest", "latest")


def test_diff_takes_files(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, record in enumerate(NIGHTS):
        write_results(record, place / f"{number}.json")
    assert "fixes (1)" in said(capsys, "diff", f"{place}/0.json", f"{place}/1.json")


@pytest.mark.parametrize("word", ["latest", "latest~4", "20269999-000000-husk", "none.json"])
def test_no_such_run(capsys: pytest.CaptureFixture[str], word: str) -> None:
    if word != "latest":
        remember(*NIGHTS)
    assert word in said(capsys, "diff", word, word, code=2)


def test_import_and_forget(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, record in enumerate(NIGHTS):
        write_results(record, place / f"{number}.json")
    (place / "bad.json").write_text("{}")
    said(capsys, "import", f"{place}/0.json", f"{place}/bad.json", code=2)
    assert told(capsys, "history") == {"runs": []}
    assert "added" in said(capsys, "import", *(f"{place}/{number}.json" for number in range(3)))
    assert told(capsys, "import", f"{place}/1.json") == {"added": [], "runs": ["20260102-030000-husk"]}
    said(capsys, "forget", "20260102-030000-husk", "none", code=2)
    assert len(told(capsys, "history")["runs"]) == 3
    assert told(capsys, "forget", "20260102-030000-husk") == {"forgotten": ["20260102-030000-husk"]}
    assert [one["run"] for one in told(capsys, "history")["runs"]] == ["20260101-030000-husk", "20260103-030000-husk"]


def test_a_foreign_file(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "conform").mkdir()
    (place / "conform" / "history.db").write_text("my diary")
    for words in (["history"], ["diff", "latest", "latest"]):
        assert main(["conform", *words]) == 125
        assert "not a history of husk" in capsys.readouterr().err
    assert (place / "conform" / "history.db").read_text() == "my diary"


def test_bisect_in_the_history(capsys: pytest.CaptureFixture[str]) -> None:
    remember(*NIGHTS, a_run(2, {"open/A": PASS}, "runsc", commit="c" * 40))
    assert said(capsys, "bisect", "mini/open/A", "--runtime", "husk").splitlines() == [
        "mini/open/A", "  pass  20260102-030000-husk", "  fail  20260103-030000-husk",
    ]  # fmt: skip
    document = told(capsys, "bisect", "*/C", "latest~2", "20260102-030000-husk", "--runtime", "husk")
    assert (document["case"], document["new"]["verdict"]) == ("mini/open/C", PASS)


@pytest.mark.parametrize(("words", "sentence"), [
    (["*"], "5 cases fit"), (["nothing"], "no case"), (["*/A", "latest"], "two runs, or none"),
    (["*/D"], "always the same verdict, pass, in the one run"), (["*/A", "--repo", "/"], "--suite"),
])  # fmt: skip
def test_bisect_cannot(capsys: pytest.CaptureFixture[str], words: list[str], sentence: str) -> None:
    remember(*NIGHTS[1:])
    assert sentence in said(capsys, "bisect", *words, code=2)
