"""The HTML report: what it says, that strangers' texts stay texts, and that it works in a real browser."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from husk.conform.matrix.coverage import Row, coverage
from husk.conform.outcomes import FAIL, MISSES, PASS, CaseName, Judged, RunInfo, RunRecord, percent, score
from husk.conform.report.html_report import html_report
from husk.conform.report.page_data import columns, fitted
from husk.conform.report.trend_chart import TrendPoint, chart, trends_of
from husk.sandbox.errors import HuskError
from tests.conform import sample_records as sample
from tests.lib.browser import Browser, Page
from tests.lib.parsed_page import Parsed

GOLDEN = Path(__file__).parent / "golden" / "report.html"
TODAY = "2026-11-16"
MANY = 15_000
ROWS = [
    Row("openat", 257, "virtual", "carries a name", (("gvisor", "open_test"),), 4, 5, (("husk", 4, 5),), ("bash",),
        ("pdf",), "critical", depends=True),
    Row("io_uring_setup", 425, "refused", "ENOSYS: it would pass by the filter", (("gvisor", "io_uring_test"),), 0, 2,
        (), (), (), "low"),
    Row("acct", 163, "refused", "EPERM: switches the host's process accounting", (), 0, 0, (), (), (), "low"),
]  # fmt: skip


def small_page() -> str:
    records = [sample.record(runtime, 66) for runtime in sample.RUNTIMES]
    previous = {records[0].info.run: sample.record("husk", 66, 15, 3.0)}
    return html_report(records, sample.points(4, 400), ROWS, TODAY, previous=previous)


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found is not None
    document: dict[str, Any] = json.loads(found[1])
    return document


# -- what it says ------------------------------------------------------------------------------------------------
def test_the_page_is_as_it_was() -> None:
    """Style, script and data have tests of their own, and so has the registry."""
    page = re.sub(r"(<(?:style|script)[^>]*>).*?(</(?:style|script)>)", r"\1…\2", small_page(), flags=re.S)
    page = re.sub(r"'sha256-[^']+'", "HASH", page)
    if os.environ.get("HUSK_WRITE_GOLDEN"):
        GOLDEN.write_text(page)
    assert page == GOLDEN.read_text()


def test_the_policy_names_exactly_the_style_and_the_script_of_the_page() -> None:
    page = small_page()
    parsed = Parsed(page)
    policy = next(value for tag, name, value in parsed.attributes if tag == "meta" and "default-src" in value)
    assert "'unsafe-inline'" not in policy and "http" not in policy and policy.startswith("default-src 'none'")
    for kind in ("style", "script"):
        (text,) = re.findall(rf"<{kind}>(.*?)</{kind}>", page, re.S)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy


def hostile_records() -> list[RunRecord]:
    bad = sample.HOSTILE
    info = RunInfo(
        bad, bad, bad, bad, (bad,), "2026-11-16T02:30:00Z", "", bad, bad, bad, bad, bad, 1, 1.0, False
    )  # fmt: skip
    cases = [
        Judged(CaseName(bad, bad, f"{bad}{number}"), bad, verdict, FAIL, 1.0, bad, f"{bad}\n{bad}", bad, number == 1)
        for number, verdict in enumerate((FAIL, FAIL, PASS, "flaky"))
    ]
    return [RunRecord(info, cases), RunRecord(replace(info, run=f"{bad}2", runtime=f"{bad}2"), cases)]


def hostile_page() -> str:
    bad = sample.HOSTILE
    records = hostile_records()
    earlier = replace(records[0].info, started="2026-11-15T02:30:00Z", whole=True, case_filter="")
    later = replace(records[0].info, whole=True, case_filter="")
    points = [sample.Point(earlier, score(records[0].cases)), sample.Point(later, score(records[0].cases))]
    rows = [Row(bad, 1, "refused", bad, ((bad, bad),), 1, 2, ((bad, 1, 2),), (bad,), (bad,), "low")]
    previous = {
        records[0].info.run: RunRecord(records[0].info, [replace(one, verdict=PASS) for one in records[0].cases])
    }
    return html_report(records, points, rows, bad, previous=previous, traces={records[0].cases[0].name: bad})


def test_strangers_texts_stay_texts() -> None:
    page = hostile_page()
    parsed = Parsed(page)
    assert parsed.elements.count("script") == 2 and "img" not in parsed.elements
    assert not {name for _, name, _ in parsed.attributes if name.startswith("on") or name == "style"}
    assert not [value for _, name, value in parsed.attributes if name in ("href", "src") and not value.startswith("#")]
    assert "\u202e" not in page and "\x1b" not in page  # neither turns the text around, nor reaches a terminal
    assert page.count("</script>") == 2 and "<" not in page.partition('id="data">')[2].partition("</script>")[0]
    document = data_of(page)
    assert document["cases"][0][2].startswith("</script><script>")
    assert document["outputs"] and document["traces"] and document["calls"][0][0].startswith("</script>")


def test_a_page_about_nothing() -> None:
    assert "How much of Linux" in html_report([], [], [], TODAY)
    page = html_report([RunRecord(sample.info("husk"), [])], [], [], TODAY)
    assert "–" in page and data_of(page)["cases"] == []


def test_without_jinja2_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(HuskError, match=r"huskbox\[conform\]"):
        html_report([], [], [], TODAY)


def test_runs_of_one_runtime_share_a_column_and_the_latest_word_counts() -> None:
    early, late = sample.record("husk", 44, day=14, worse=9.0), sample.record("husk", 44, day=16)
    other = RunRecord(
        sample.info("husk", 15), [Judged(CaseName("ltp", "mmap01", ""), "memory", PASS, PASS)]
    )  # fmt: skip
    (column,) = columns([late, other, early])
    assert len(column.cases) == len(late.cases) + 1
    assert column.score.passed == score(late.cases).passed + 1
    root = RunRecord(replace(late.info, user="root"), late.cases)
    assert [one.label for one in columns([late, root])] == ["husk as user", "husk as root"]


def test_a_name_twice_stands_for_its_worst_verdict() -> None:
    name = CaseName("s", "f", "c")
    twice = [Judged(name, "", FAIL, FAIL), Judged(name, "", PASS, PASS)]
    (column,) = columns([RunRecord(sample.info("husk"), twice)])
    assert column.cases[name].verdict == FAIL


@pytest.mark.parametrize(
    ("lengths", "budget", "kept", "cap"),
    [
        ((10, 20, 30), 100, (10, 20, 30), 50),  # all fit
        ((10, 90, 90), 100, (10, 45, 45), 45),  # what the short one leaves is shared by the long ones
        ((10, 20, 60), 80, (10, 20, 50), 50),  # one alone may have `most`
        ((90, 90), 40, (20, 20), 20),
        ((), 100, (), 50),
    ],
)
def test_outputs_share_the_budget(lengths: tuple[int, ...], budget: int, kept: tuple[int, ...], cap: int) -> None:
    texts, left = fitted(["x" * length for length in lengths], budget, 50)
    assert left == cap
    assert tuple(text.count("x") - text.count("characters") * 0 for text in texts) == kept


def test_a_shortened_output_says_so_and_keeps_its_end() -> None:
    case = Judged(CaseName("s", "f", "c"), "", FAIL, FAIL, 0, "", "first\n" + "m" * 50_000 + "\nlast")
    page = html_report([RunRecord(sample.info("husk"), [case])], [], [], TODAY)
    (output,) = data_of(page)["outputs"]
    assert output.startswith("first") and output.endswith("last") and "characters are left out here" in output
    assert "1 of 1 are shortened to 12,288 characters" in page and "results.json has them whole" in page


def test_outputs_of_cases_that_pass_are_not_kept() -> None:
    case = Judged(CaseName("s", "f", "c"), "", PASS, PASS, 0, "", "all is well")
    assert "all is well" not in html_report([RunRecord(sample.info("husk"), [case])], [], [], TODAY)


@pytest.mark.parametrize(
    ("share", "text"),
    [(None, "–"), (1.0, "100.0 %"), (0.99999, "99.9 %"), (0.0, "0.0 %"), (0.00001, "0.1 %"), (0.9578, "95.8 %")],
)
def test_nothing_is_rounded_to_all_or_nothing(share: float | None, text: str) -> None:
    assert percent(share) == text


# -- trends ------------------------------------------------------------------------------------------------------
def test_only_whole_runs_of_the_same_suites_make_a_line() -> None:
    points: list[TrendPoint] = list(sample.points(3, 200))
    half = replace(points[0].info, whole=False), replace(points[0].info, case_filter="Open*")
    other = replace(points[0].info, suites=("ltp",))
    points += [sample.Point(one, points[0].score) for one in (*half, other)]
    (trend,) = trends_of(points, ["runsc", "husk"])
    assert list(trend.lines) == ["runsc", "husk", "husk-bare"] and all(len(line) == 3 for line in trend.lines.values())


def test_names_of_lines_do_not_cover_each_other() -> None:
    points = [
        sample.Point(sample.info(f"runtime{number}", day), score(sample.record("husk", 22).cases))
        for number in range(6)
        for day in (15, 16)
    ]
    (trend,) = trends_of(points, [])
    drawn = chart(trend, [], width=340, height=220, name="six equal lines")
    heights = sorted(float(found) for found in re.findall(r'<text x="[\d.]+" y="([\d.]+)">runtime', drawn))
    assert len(heights) == 6 and all(below - above >= 13.9 for above, below in pairwise(heights))
    assert heights[0] > 0 and heights[-1] <= 220


# -- in a real browser -------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("chromium")) as one:
        yield one


@pytest.fixture(scope="module")
def records() -> list[RunRecord]:
    return [sample.record("husk", MANY), sample.record("husk-bare", MANY)]


@pytest.fixture(scope="module")
def big(records: list[RunRecord], tmp_path_factory: pytest.TempPathFactory) -> Path:
    first = records[0]
    rows = coverage(records, sample.calls(), sample.uses())
    traces = {one.name: "io_uring_setup(8) = -1 ENOSYS" for one in first.cases if one.name.file == "io_uring_test"}
    previous = {first.info.run: sample.record("husk", MANY, 15, 1.2)}
    page = html_report(records, sample.points(3, 200), rows, TODAY, previous=previous, traces=traces)
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(page)
    return file


@pytest.fixture
def page(browser: Browser, big: Path) -> Iterator[Page]:
    opened = browser.page(big)
    yield opened
    assert opened.complaints() == [] and opened.requests() == [big.as_uri()]  # nothing else is asked for, ever
    opened.close()


def found(page: Page) -> int:
    return int(page.run("document.getElementById('found').textContent").partition(" of ")[0].replace(",", ""))


def names(page: Page) -> list[str]:
    """The cases on this page of the table, as FILE/CASE."""
    return list(
        page.run(
            "[...document.querySelectorAll('#case-rows a')].map(a => a.firstChild.textContent + '/' + a.lastChild.data)"
        )
    )


def choose(page: Page, field: str, value: str) -> None:
    change = f"f.value = {json.dumps(value)}; f.dispatchEvent(new Event('change'));"
    page.run(f"(f => {{ {change} }})(document.getElementById('{field}'))")


def missed(record: RunRecord, **wanted: str) -> list[Judged]:
    return [
        one for one in record.cases if one.verdict in MISSES and all(getattr(one, key) == wanted[key] for key in wanted)
    ]


@pytest.mark.needs("chromium")
def test_thousands_of_cases_are_filtered(page: Page, records: list[RunRecord]) -> None:
    walled, bare = records
    assert found(page) == len(walled.cases) > 14_000
    assert (
        page.run("document.querySelectorAll('#case-rows tr').length") == 100
    )  # a page of them, however many there are
    choose(page, "f-verdict", "unexpected")
    unexpected = [one for one in walled.cases if one.unexpected_miss]
    assert found(page) == len(unexpected) > 0
    choose(page, "f-in", "1")
    assert found(page) == len([one for one in bare.cases if one.unexpected_miss]) > len(unexpected)
    choose(page, "f-family", "semaphores and queues")
    assert found(page) == len(missed(bare, family="semaphores and queues"))
    page.press("/")
    page.type("SEMAPHORE zero")
    page.until("location.hash.includes('q=SEMAPHORE')")
    names_found = [one for one in missed(bare, family="semaphores and queues") if "ZeroLength" in str(one.name)]
    assert found(page) == len([one for one in names_found if one.name.file == "semaphore_test"]) > 0
    page.run("document.getElementById('clear').click()")
    assert found(page) == len(walled.cases)
    page.run("document.getElementById('f-differ').click()")
    twice = {one.name: one.verdict for one in bare.cases}
    differ = [
        one for one in walled.cases if PASS in (both := (one.verdict, twice[one.name])) and set(both) & set(MISSES)
    ]
    assert found(page) == len(differ)


@pytest.mark.needs("chromium")
def test_an_address_leads_to_the_same_cases(browser: Browser, big: Path, records: list[RunRecord]) -> None:
    walled, bare = records
    design = [one for one in walled.cases if one.verdict in MISSES and one.by_design]
    for fragment, wanted in (
        ("verdict=design", len(design)),
        ("in=1&family=semaphores%20and%20queues&verdict=missed", len(missed(bare, family="semaphores and queues"))),
        ("call=io_uring_setup", sum(one.name.file == "io_uring_test" for one in walled.cases)),
        ("verdict=%E0%A4&nonsense&in=77&page=x", len(walled.cases)),  # nothing of ours: all cases
    ):
        opened = browser.page(big, fragment=fragment)
        assert found(opened) == wanted > 0, fragment
        assert opened.complaints() == []
        opened.close()


@pytest.mark.needs("chromium")
def test_links_of_the_static_parts_filter_the_table(page: Page, records: list[RunRecord]) -> None:
    cell = "#families td a[href*='in=1'][href*='sockets']"
    page.run(f"document.querySelector({json.dumps(cell)}).click()")
    page.until("location.hash.includes('sockets')")
    assert found(page) == len(missed(records[1], family="sockets"))
    page.run("document.querySelector('#reasons tbody td a').click()")
    page.until("location.hash.startsWith('#in=0&reason=0')")
    assert found(page) == len([one for one in missed(records[0]) if one.expected == sample.DESIGN["io_uring_test"]])
    page.run("document.querySelector(\"#changes a[href*='change=fixes']\").click()")
    page.until("location.hash.includes('change=fixes')")
    assert found(page) == len(missed(sample.record("husk", MANY, 15, 1.2))) - len(missed(records[0])) > 0


@pytest.mark.needs("chromium")
def test_columns_are_sorted(page: Page, records: list[RunRecord]) -> None:
    def press(label: str) -> str:
        page.run(f"[...document.querySelectorAll('#case-head button')].find(b => b.textContent === '{label}').click()")
        return str(page.run("document.querySelector('#case-head [aria-sort]').textContent"))

    order = sorted(f"{one.name.file}/{one.name.case}" for one in records[0].cases)
    assert press("case") == "case" and names(page) == order[:100]
    assert press("case") == "case" and names(page) == order[:-101:-1]
    assert page.run("document.querySelectorAll('#case-head [aria-sort]').length") == 1
    assert page.run("document.querySelector('#case-head [aria-sort]').getAttribute('aria-sort')") == "descending"
    slowest = sorted((one.seconds for one in records[0].cases), reverse=True)[:3]
    assert press("time") == "time"
    assert page.run("[...document.querySelectorAll('#case-rows .c-time')].slice(0, 3).map(c => c.textContent)") == [
        f"{seconds:.1f} s" for seconds in slowest
    ]
    page.run("document.getElementById('p-next').click()")
    pages = -(-len(order) // 100)
    assert page.run("document.getElementById('p-where').textContent") == f"page 2 of {pages}"
    assert press("husk-bare") == "husk-bare"  # and back to the first page
    assert page.run("document.getElementById('p-where').textContent") == f"page 1 of {pages}"
    assert page.run("[...document.querySelectorAll('#case-rows tr')].every(r => r.cells[3].textContent === 'fail')")


@pytest.mark.needs("chromium")
def test_a_case_shows_its_output_its_trace_and_the_registrys_row(page: Page, records: list[RunRecord]) -> None:
    case = next(one for one in records[0].cases if one.by_design and one.name.file == "io_uring_test" and one.output)
    page.run(f"location.hash = 'verdict=design&case={case.name}'")
    page.until("document.getElementById('drill').open")
    shown = page.run("document.getElementById('drill').innerText")
    for text in (case.name.case, case.output.strip(), sample.DESIGN["io_uring_test"], "io_uring_setup(8) = -1 ENOSYS"):
        assert text in shown
    assert "io_uring_setup is refused ENOSYS in husk" in shown
    assert page.run("document.activeElement.id") == "d-close"
    page.press("ArrowRight")
    second = page.run("document.getElementById('d-title').textContent")
    assert second != case.name.case and f"case={case.name.suite}/{case.name.file}/{second}" in page.run("location.hash")
    page.press("ArrowLeft")
    assert page.run("document.getElementById('d-title').textContent") == case.name.case
    page.press("Escape")
    page.until("!document.getElementById('drill').open")
    page.until("location.hash === '#verdict=design'")  # the page hears of the end a moment later
    assert page.run("document.activeElement.textContent").endswith(case.name.case)  # back where one was


@pytest.mark.needs("chromium")
def test_going_back_closes_a_case(page: Page) -> None:
    page.run("document.querySelector('#changes a').click()")
    page.until("document.getElementById('drill').open")
    page.run("history.back()")
    page.until("!document.getElementById('drill').open")
    assert page.run("location.hash") == ""
    page.run("history.forward()")
    page.until("document.getElementById('drill').open")


# Contrast of every text that is shown against what is behind it, the worst of each colour: WCAG's formula.
CONTRAST = """(() => {
  const parse = (text) => {
    const numbers = text.match(/[\\d.]+/g).map(Number);
    const scale = text.startsWith("color(") ? 255 : 1;
    return [numbers[0] * scale, numbers[1] * scale, numbers[2] * scale, numbers.length > 3 ? numbers[3] : 1];
  };
  const style = (element) => getComputedStyle(element);
  const part = (v) => v <= 10.31475 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4;
  const light = (c) => 0.2126 * part(c[0]) + 0.7152 * part(c[1]) + 0.0722 * part(c[2]);
  const worst = {};
  for (const one of document.querySelectorAll("body *")) {
    if (!one.checkVisibility() || one.closest("svg, :disabled, .unseen, .skip")) continue;
    if (![...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) continue;
    let behind = one, paper = [255, 255, 255, 0];
    for (; behind && paper[3] < 1; behind = behind.parentElement) paper = parse(style(behind).backgroundColor);
    const opacity = Number(style(one).opacity);
    const ink = parse(style(one).color).map((v, n) => n < 3 ? v * opacity + paper[n] * (1 - opacity) : v);
    const [a, b] = [light(ink), light(paper)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const key = `${one.className || one.tagName} ${ink.map(Math.round)} on ${paper}`;
    worst[key] = Math.min(worst[key] || 99, ratio);
  }
  return worst;
})()"""


@pytest.mark.needs("chromium")
def test_light_and_dark_can_be_read(page: Page) -> None:
    papers = {}
    for dark in (False, True):
        page.look(width=1280, height=900, dark=dark)
        papers[dark] = page.run("getComputedStyle(document.body).backgroundColor")
        for fragment in ("verdict=", "verdict=expected", "case=gvisor/io_uring_test/IoUringTest.Basic"):
            page.run(f"location.hash = '{fragment}'")
            contrasts = page.run(CONTRAST)
            assert len(contrasts) > 10
            assert {key: ratio for key, ratio in contrasts.items() if ratio < 4.5} == {}
        page.press("Escape")
        page.until("!document.getElementById('drill').open")
    assert papers == {False: "rgb(255, 255, 255)", True: "rgb(19, 23, 26)"}


@pytest.mark.needs("chromium")
def test_a_phone_is_wide_enough(page: Page) -> None:
    page.look(width=375, height=812)
    outside = (
        "[...document.querySelectorAll('main *')].filter(e => e.checkVisibility() && !e.closest('.scroll, .unseen') &&"
    )
    assert page.run("document.documentElement.scrollWidth") == 375
    assert page.run(f"{outside} e.getBoundingClientRect().right > 376).map(e => e.outerHTML.slice(0, 80))") == []
    assert page.run("document.querySelector('.narrow-chart').checkVisibility()")
    assert not page.run("document.querySelector('.wide-chart').checkVisibility()")
    page.run("document.querySelector('#case-rows a').click()")
    page.until("document.getElementById('drill').open")
    assert page.run("document.getElementById('drill').getBoundingClientRect().width") == 375


@pytest.mark.needs("chromium")
def test_paper_shows_summary_matrix_and_misses_without_controls(page: Page, records: list[RunRecord]) -> None:
    page.look(width=794, height=1123, dark=True, paper=True)
    visible = "(selector => [...document.querySelectorAll(selector)].filter(e => e.checkVisibility()).length)"
    assert page.run(f"{visible}('button, input, select, nav, dialog')") == 0
    assert page.run(f"{visible}('.score')") == 1
    assert page.run(f"{visible}('.misses tbody tr')") == min(len(missed(records[0])), 2000)
    assert page.run(f"{visible}('.calls tbody tr')") > 3  # closed chapters, too
    assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"  # by night, too
    assert page.pdf().startswith(b"%PDF")


@pytest.mark.needs("chromium")
def test_hostile_names_run_nothing(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(hostile_page())
    opened = browser.page(file)
    opened.run("document.querySelector('#case-rows a').click()")
    opened.until("document.getElementById('drill').open")
    assert "</script><script>" in opened.run("document.getElementById('drill').innerText")
    assert "owned" not in opened.run("document.title").partition("</script>")[0] and opened.complaints() == []
    assert opened.run("document.images.length") == 0 and opened.requests() == [file.as_uri()]
    opened.close()


@pytest.mark.needs("chromium")
def test_tables_and_fields_have_names(page: Page) -> None:
    assert page.run("[...document.querySelectorAll('table')].every(t => t.caption && t.tHead)")
    assert page.run("[...document.querySelectorAll('th')].every(t => t.scope)")
    assert page.run("[...document.querySelectorAll('input, select')].every(f => f.labels.length === 1)")
    assert page.run("[...document.querySelectorAll('svg')].every(s => s.getAttribute('aria-label'))")
    assert (
        page.run("(ids => ids.length - new Set(ids).size)([...document.querySelectorAll('[id]')].map(e => e.id))") == 0
    )
    for landmark in ("header", "main", "footer", "nav[aria-label]", "form[role=search]"):
        assert page.run(f"document.querySelectorAll('{landmark}').length") >= 1, landmark
    levels = page.run(
        "[...document.querySelectorAll('h1, h2, h3, h4')].filter(h => h.checkVisibility()).map(h => +h.tagName[1])"
    )
    assert all(below <= above + 1 for above, below in pairwise(levels))
