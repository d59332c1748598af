"""The documents: from fixed results always the same bytes; text from suites stays text; what is missing is said."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from husk.conform.history.database import History
from husk.conform.matrix.coverage import coverage
from husk.conform.outcomes import RunRecord
from husk.conform.report.analysis import analysis, labelled
from husk.conform.report.capabilities import capabilities
from husk.conform.report.evaluation import evaluation
from husk.conform.report.junit import junit
from husk.conform.report.markdown import code, escaped, is_as_written, marked
from husk.conform.report.write_reports import write_reports
from husk.conform.results_file import read_results
from husk.sandbox.errors import HuskError
from tests.conform.report_data import BARE, BEFORE, CALLS, HOSTILE, HUSK, INFO, ROWS, TODAY, USES

GOLDEN = Path(__file__).parent / "golden"
ROOT = Path(__file__).resolve().parents[2]


def documents() -> dict[str, bytes]:
    records = [HUSK, BARE]
    return {
        "SYSCALL_ANALYSIS.md": analysis(records, ROWS, CALLS, USES, TODAY).encode(),
        "CAPABILITIES.md": capabilities(ROWS, USES, TODAY).encode(),
        "EVALUATION.md": evaluation(records, {INFO.run: BEFORE}, ROWS, USES, TODAY).encode(),
        "junit.xml": junit(HUSK),
    }


@pytest.mark.parametrize("name", ["SYSCALL_ANALYSIS.md", "CAPABILITIES.md", "EVALUATION.md", "junit.xml"])
def test_documents_are_as_they_were(name: str) -> None:
    """HUSK_WRITE_GOLDEN=1 writes them anew."""
    found = documents()[name]
    if os.environ.get("HUSK_WRITE_GOLDEN"):
        (GOLDEN / name).write_bytes(found)
    assert found.decode() == (GOLDEN / name).read_text()


def test_text_from_suites_stays_text() -> None:
    for name in ("SYSCALL_ANALYSIS.md", "CAPABILITIES.md", "EVALUATION.md"):
        text = documents()[name].decode()
        assert "<script>" not in text and "http://e" not in text and "\x1b" not in text, name
        for row in re.findall(r"^\|.*$", text, re.M):
            head = re.findall(r"(?<!\\)\|", row)
            assert len(head) >= 4, row  # a bar in a cell is escaped: no cell was torn apart
    tables = re.findall(r"(?:^\|.*\n)+", documents()["EVALUATION.md"].decode(), re.M)
    assert tables and all(
        len({len(re.findall(r"(?<!\\)\|", line)) for line in one.splitlines()}) == 1 for one in tables
    )


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a_b", "a_b"), ("_a_", r"\_a\_"), ("# a", r"\# a"), ("1. a", r"1\. a"), ("6.12", "6.12"), ("-1", "-1"),
        ("- a", r"\- a"),        ("a|b", r"a\|b"), ("http://a www.b", "http&#58;//a www&#46;b"),
        ("<b>&", "&lt;b>&amp;"), ("a\n\nb", "a b"), ("", ""),
    ],
)  # fmt: skip
def test_escaping(text: str, wanted: str) -> None:
    assert escaped(text) == wanted


def test_code_spans() -> None:
    assert code("a|b") == r"`a\|b`"
    assert code("a `b` c") == "`` a `b` c ``"
    assert "\n" not in code(HOSTILE) and code("") == ""


def test_the_mark_shows_an_edit() -> None:
    text = documents()["CAPABILITIES.md"].decode()
    assert is_as_written(text)
    assert not is_as_written(text.replace("works", "worked", 1))
    assert not is_as_written(text.replace("# Interpreters", "# Many interpreters"))
    assert not is_as_written(re.sub("<!--.*-->\n", "", text))
    assert is_as_written(marked("# A\n\ntext\n")) and not is_as_written("# A\n\ntext\n")


def test_published_documents_are_not_edited_by_hand() -> None:
    pages = sorted((ROOT / "docs" / "conformance").glob("*.md"))
    assert [page.name for page in pages if not is_as_written(page.read_text())] == []


def test_what_is_missing_is_said() -> None:
    rows = coverage([HUSK], None, None)
    text = analysis([HUSK], rows, None, None, TODAY)
    assert "**not traced**" in text and "**not measured**" in text and "### Not measured" in text
    assert "| not traced |" in text and "### Critical" not in text
    assert "**not measured**" in capabilities(rows, None, TODAY)
    assert "no earlier whole run" in evaluation([HUSK], {}, rows, None, TODAY)
    assert "There is no run." in evaluation([], {}, rows, None, TODAY)


# What the stricter readers of JUnit XML know: attributes of each element, and what may be inside it.
KNOWN = {
    "testsuites": ("name tests failures errors time", "testsuite"),
    "testsuite": ("name tests failures errors skipped time timestamp hostname", "properties testcase"),
    "properties": ("", "property"),
    "property": ("name value", ""),
    "testcase": ("name classname time", "skipped error failure system-out"),
    "skipped": ("message type", ""),
    "error": ("message type", ""),
    "failure": ("message type", ""),
    "system-out": ("", ""),
}


def test_junit_has_nothing_that_a_reader_does_not_know() -> None:
    for element in ET.fromstring(junit(HUSK)).iter():
        attributes, children = (words.split() for words in KNOWN[element.tag])
        assert set(element.attrib) <= set(attributes), element.tag
        assert {child.tag for child in element} <= set(children), element.tag


def test_runs_of_one_runtime_are_told_apart_by_their_suites() -> None:
    other = RunRecord(replace(INFO, run="20260102-050405-husk", suites=("more", "yet")), HUSK.cases[:1])
    assert [name for name, _ in labelled([HUSK, other, BARE])] == ["husk, mini", "husk, more, yet", "husk-bare"]
    results = evaluation([HUSK, other, BARE], {}, ROWS, USES, TODAY).partition("\n## Results\n")[2]
    titles = [line for line in results.splitlines() if line.startswith("###")]
    assert titles == ["### mini", "#### husk", "#### husk-bare", "### more, yet", "#### husk"]


def test_a_run_of_some_cases_says_so() -> None:
    other = RunRecord(replace(INFO, run="20260102-050405-husk-image", case_filter="*/A.* " * 20), HUSK.cases[:1])
    text = evaluation([HUSK, other], {}, ROWS, USES, TODAY)
    assert "### mini\n" in text and text.count("(only \\*/A.\\*") == 2 and "### mini (only" in text


def test_junit_counts_agree() -> None:
    root = ET.fromstring(junit(HUSK))
    assert root.tag == "testsuites"
    assert [suite.get("name") for suite in root] == ["mini/bin/open_test", "mini/bin/pipe_test"]
    for element in (root, *root):
        cases = list(element.iter("testcase"))
        kinds = {"failures": "failure", "errors": "error"} | ({"skipped": "skipped"} if element is not root else {})
        told = {key: int(element.get(key, "")) for key in ("tests", *kinds)}
        counted = {key: sum(one.find(tag) is not None for one in cases) for key, tag in kinds.items()}
        assert told == {"tests": len(cases), **counted}
    assert {one.get("name") for one in root.iter("testcase") if one.find("error") is not None} == {"Ends", "Waits"}
    assert {one.get("name") for one in root.iter("testcase") if one.find("failure") is not None} == {"Strange"}
    known = next(one for one in root.iter("testcase") if one.get("name") == "Known")
    assert "no such thing in a box" in (known.find("skipped").get("message") or "")  # type: ignore[union-attr]


def test_all_documents_in_a_directory(tmp_path: Path) -> None:
    with History(tmp_path / "history.db") as history:
        for record in (BEFORE, HUSK):
            history.add(record)
        first = write_reports([HUSK, BARE], ROWS, history, tmp_path / "a", TODAY, calls=CALLS, uses=USES)
        write_reports([HUSK, BARE], ROWS, history, tmp_path / "b", TODAY, calls=CALLS, uses=USES)
    more = "20260102-040405-husk-bare"
    names = {"SYSCALL_ANALYSIS.md", "CAPABILITIES.md", "EVALUATION_2026-01-02.md"}
    names |= {"report.html", "results.json", "junit.xml", f"results-{more}.json", f"junit-{more}.xml"}
    assert {path.name for path in first} == {path.name for path in (tmp_path / "a").iterdir()} == names
    assert all(path.read_bytes() == (tmp_path / "b" / path.name).read_bytes() for path in first)
    assert isinstance(read_results(tmp_path / "a" / "results.json"), RunRecord)
    text = (tmp_path / "a" / "EVALUATION_2026-01-02.md").read_text()
    assert "Regressions: 1" in text and "Fixes: 1" in text and "20260101-030405-husk" in text


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HuskError, match="nothing recorded is lost"):
        write_reports([HUSK], ROWS, None, tmp_path / "file" / "below", TODAY)
