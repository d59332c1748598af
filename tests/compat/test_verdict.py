"""Verdicts: the rules from what a program asks for to runs, fallback, breaks or unknown; and how they are reported."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from husk.abi.registry import ROWS, by_name
from husk.compat.census import Asked, Census, write_census
from husk.compat.look.facts import LIBRARY, OWN, START, Look, Place, Use
from husk.compat.look.look_at import look_at
from husk.compat.runtimes import find
from husk.compat.surface import ERRNO_NUMBERS, Surface, read_surface
from husk.compat.verdict.judge import BREAKS, FALLBACK, RUNS, UNCLEAR, Measured, Verdict, judge
from husk.compat.verdict.known_cases import known_cases
from husk.compat.verdict.measure import beyond, decided
from husk.compat.verdict.report_pages import html, markdown
from husk.compat.verdict.report_text import look_lines, matrix_lines, verdict_lines
from husk.compat.verdict.sarif import sarif
from tests.compat.known_programs import own_cache, program

GOLDEN = Path(__file__).parent / "golden"
SMALL = """
format = 1
title = "A small runtime (for tests)"
version = "1"
date = "2026-01-01"
source = "here"
measured = false
default = { support = "full" }

[calls]
clone3 = { support = "missing", errno = "ENOSYS" }
statx = { support = "missing", errno = "EPERM" }
mount = { support = "missing", errno = "EPERM", text = "no mounts" }
fork = { support = "missing", errno = "ENOSYS" }
bpf = "unknown"

[calls.arch_prctl]
support = "missing"
errno = "EINVAL"

[[calls.arch_prctl.when]]
option = "ARCH_SET_FS"
support = "full"
"""


@pytest.fixture(scope="module", autouse=True)
def _one_cache() -> Iterator[None]:
    with own_cache():
        yield


@pytest.fixture
def small(tmp_path: Path) -> Surface:
    (tmp_path / "small-1.toml").write_text(SMALL)
    return read_surface(tmp_path / "small-1.toml")


def look(*uses: Use, **more: Any) -> Look:
    return Look("/bin/it", "ELF", "x86-64", 64, "executable", True, uses=list(uses), **more)


def use(call: str, sure: str, *values: tuple[int, int], blind: bool = False) -> Use:
    return Use(call, values, Place("/bin/it", 0x1000), sure, blind)


def test_rules_for_what_was_only_looked_at(small: Surface) -> None:
    def status(*uses: Use, **more: Any) -> str:
        return judge("it", small, look(*uses, **more), None).status

    assert status(use("read", START)) == RUNS
    assert status(use("clone3", OWN)) == FALLBACK
    assert status(use("clone3", OWN), use("mount", START)) == BREAKS
    assert status(use("mount", OWN)) == status(use("fork", LIBRARY)) == UNCLEAR
    assert status(use("mount", LIBRARY)) == RUNS  # EPERM, as Linux gives an ordinary user
    # glibc falls back after ENOSYS only; this runtime says EPERM.
    assert status(use("statx", START)) == BREAKS
    assert status(use("bpf", OWN)) == UNCLEAR and status(use("bpf", LIBRARY)) == RUNS
    assert status(use("read", START), blind=True, unseen=["everything"]) == UNCLEAR
    assert status(use("arch_prctl", START, (0, 0x1002))) == RUNS
    assert status(use("arch_prctl", START, (0, 0x1001))) == BREAKS
    assert status(use("arch_prctl", START, blind=True)) == RUNS  # not seen, and said with the look


def test_a_trace_decides_where_there_is_one(small: Surface) -> None:
    def status(*asked: Asked, look_too: Look | None = None) -> str:
        return judge("it", small, look_too, Census(["it"], calls=list(asked))).status

    assert status(Asked("read", "native", count=3)) == RUNS
    assert status(Asked("mount", "refused", count=1)) == BREAKS
    # It failed in the trace as well, every time: the program does not need it.
    assert status(Asked("mount", "refused", count=2, errors={"EPERM": 2})) == RUNS
    assert status(Asked("mount", "refused", count=2, errors={"EPERM": 1})) == BREAKS
    assert status(Asked("mount", "refused", count=2, errors={"ENOSYS": 2})) == BREAKS  # another errno, another way
    assert status(Asked("read", "native", count=1), look_too=look(use("mount", OWN))) == RUNS


def test_what_is_measured_outweighs_what_was_foreseen(small: Surface) -> None:
    def verdict(same: bool, refused: dict[str, str], ending: str = "", flaky: bool = False) -> Verdict:
        before = judge("it", small, look(use("mount", OWN), use("clone3", OWN)), None)
        assert before.status == UNCLEAR
        return decided(before, Measured(same, "text", ending, refused, flaky))

    runs = verdict(True, {})
    assert runs.status == RUNS and not runs.divergences and not runs.line
    assert beyond(runs, judge("it", small, look(use("mount", OWN), use("read", OWN)), None)) == ["mount"]
    assert verdict(True, {"clone3": "ENOSYS"}).status == FALLBACK
    broken = verdict(False, {"clone3": "ENOSYS", "mount": "EPERM", "umount2": "EPERM"}, "exits with 1")
    assert broken.line == "`mount(…)` → EPERM in A small runtime; then it exits with 1"
    assert [one.need.call for one in broken.divergences] == ["mount", "umount2", "clone3"]
    assert verdict(True, {}, flaky=True).status == UNCLEAR


def test_a_runtime_that_ends_itself_breaks_the_program(small: Surface, tmp_path: Path) -> None:
    (tmp_path / "panics.toml").write_text(SMALL.replace('errno = "EPERM", text = "no mounts"', 'text = "a panic"'))
    before = judge("it", read_surface(tmp_path / "panics.toml"), look(use("mount", OWN)), None)
    after = decided(before, Measured(True, "text", "", {"mount": "ENOSYS"}))
    assert after.status == BREAKS and "no answer at all" in after.line


def test_the_program_that_touches_gs() -> None:
    path = program("touches-gs")
    verdict = judge(path, find("gvisor-20240729"), look_at(path), None)
    assert verdict.status == BREAKS
    assert verdict.line == "`arch_prctl(ARCH_SET_GS, 0x66ae00)` → EINVAL in gVisor; then a fault at %gs:0x4"
    assert verdict.divergences[0].remedy is not None
    assert judge(path, find("husk"), look_at(path), None).status == RUNS
    assert judge(path, find("linux-6.1"), look_at(path), None).status == RUNS


def test_known_cases_name_real_calls_and_errnos() -> None:
    cases = known_cases()
    rows = [*cases.fallbacks, *cases.remedies, *cases.together]
    assert len(cases.fallbacks) > 30 and len(cases.remedies) > 8
    assert all(map(by_name, cases.privileged))
    for case in rows:
        assert by_name(case.call) is not None and set(case.errnos) <= ERRNO_NUMBERS.keys()
        assert case.text and (case.source or case in cases.together)
        assert not case.text.endswith(".")
    plain = [(case.call, case.errnos) for case in cases.fallbacks if not case.tests]
    assert len(plain) == len(set(plain))


def look_at_gs() -> Look:
    """As if it were elsewhere: the place of the file must not change how lines are broken."""
    found = look_at(program("touches-gs"))
    found.path = "bin/touches-gs"
    found.uses = [replace(one, place=replace(one.place, file=found.path)) for one in found.uses]
    return found


def verdicts(small: Surface) -> list[Verdict]:
    gs = judge("bin/touches-gs", small, look_at_gs(), None)
    many = judge("bin/`<b>|evil", small, look(use("clone3", OWN), use("fork", LIBRARY), use("mount", LIBRARY)), None)
    fine = judge("bin/fine", small, look(use("read", START)), None)
    return [gs, many, fine]


def same_as_golden(name: str, text: str) -> None:
    text = re.sub(r"0x40[0-9a-f]{4}", "0x40ADDR", text)
    if os.environ.get("HUSK_WRITE_GOLDEN"):
        (GOLDEN / name).write_text(text)
    assert text == (GOLDEN / name).read_text()


def test_reports_are_as_they_were(small: Surface) -> None:
    found = verdicts(small)
    lines = [*look_lines(look_at_gs()), "", *(line for one in found for line in verdict_lines(one))]
    same_as_golden("check.txt", "\n".join([*lines, "", *matrix_lines(found)]) + "\n")
    same_as_golden("check.md", markdown(found))
    document = sarif(found)
    document["runs"][0]["tool"]["driver"]["version"] = "VERSION"
    same_as_golden("check.sarif", json.dumps(document, indent=2) + "\n")


def test_pages_escape_what_comes_from_files(small: Surface) -> None:
    page = html(verdicts(small))
    assert "<b>" not in page and "bin/`&lt;b&gt;|evil" in page and "<script" not in page
    links = set(re.findall(r'href="#(cell-\d+)"', page))
    assert links and links == set(re.findall(r'id="(cell-\d+)"', page))
    text = markdown(verdicts(small))
    assert "<b>" not in text
    assert set(re.findall(r"\(#(cell-\d+)\)", text)) == set(re.findall(r'id="(cell-\d+)"', text))


def test_sarif_has_what_its_schema_requires(small: Surface) -> None:
    document = sarif(verdicts(small))
    assert document["version"] == "2.1.0" and document["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = document["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] and len({rule["id"] for rule in driver["rules"]}) == len(driver["rules"])
    assert {result["level"] for result in run["results"]} == {"error", "warning", "note"}
    for result in run["results"]:
        assert result["message"]["text"] and result["level"] in ("none", "note", "warning", "error")
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        for location in result["locations"]:
            uri = location["physicalLocation"]["artifactLocation"]["uri"]
            assert re.fullmatch(r"[\w./%~-]+", uri)


def check(husk: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    surrounding = {**os.environ, **environment}
    return subprocess.run([husk, "check", *words], capture_output=True, text=True, check=False, env=surrounding)


def test_exit_codes_and_forms(husk: Path, small: Surface, tmp_path: Path) -> None:
    gs, exact = program("touches-gs"), program("exact")
    against = ["--against", str(tmp_path / "small-1.toml")]
    assert check(husk, exact, *against).returncode == 0
    broken = check(husk, gs, *against, "--against", "husk")
    assert broken.returncode == 1 and "small-1: breaks" in broken.stdout and "husk: runs" in broken.stdout
    assert check(husk, program("computed"), *against).returncode == 3
    both = check(husk, gs, exact, *against, "--json")
    document = json.loads(both.stdout)
    assert both.returncode == 1 == document["exit_code"] and len(document["verdicts"]) == 2
    out = tmp_path / "page.html"
    assert check(husk, gs, exact, *against, "--html", "--out", str(out)).stdout == ""
    assert out.read_text().startswith("<!doctype html>")
    census = tmp_path / "trace.json"
    census.write_text(write_census(Census([exact], calls=[Asked("mount", "native", count=1)])))
    assert check(husk, exact, *against, "--trace", str(census)).returncode == 1


def test_the_page_about_the_format_names_every_key(small: Surface) -> None:
    page = (Path(__file__).parents[2] / "docs" / "formats" / "check.md").read_text()
    told = set(re.findall(r"`(\w+)`", page)) | set(re.findall(r"\w+", " ".join(re.findall(r"`\{([^}]*)\}`", page))))
    verdict = decided(verdicts(small)[0], Measured(True, "text", "", {})).as_json()
    divergence = verdicts(small)[0].as_json()["divergences"][0]
    found = look_at_gs().as_json()
    keys = {*verdict, *divergence, *found, *found["calls"][0], *verdict["measured"], *divergence["remedy"]}
    assert keys <= told


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ([], "say what to check"),
        (["/no/such/thing"], "there is no such file, image or program"),
        (["no-such-program-anywhere"], "there is no such file, image or program"),
        (["/bin/ls", "--json", "--html"], "two forms of the same"),
        (["/bin/ls", "--against", "no-such-runtime"], "there is no runtime"),
        (["/bin/ls", "/bin/cat", "--trace", "x"], "the trace of one program"),
        (["/etc/hostname"], "neither an ELF file nor a script"),
        (["/bin/ls", "--timeout", "x"], "no time; write"),
    ],
)
def test_mistakes_get_one_sentence(husk: Path, words: list[str], wanted: str) -> None:
    done = check(husk, *words)
    assert done.returncode == 2 and wanted in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_skill_is_what_its_scripts_start(husk: Path, tmp_path: Path) -> None:
    skill = tmp_path / "greet"
    (skill / "scripts").mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: greet\ndescription: Greets whoever asks for it.\n---\n")
    (skill / "scripts" / "greet.sh").write_text("#!/bin/sh\ncat /etc/hostname | wc -c\n")
    document = json.loads(check(husk, str(skill), "--json").stdout)
    (found,) = document["looks"]
    assert found["form"] == "skill" and {"sh", "cat", "wc"} <= set(found["programs"])
    assert {os.path.basename(part["path"]) for part in found["parts"]} >= {"sh", "cat", "wc"}


def test_an_image_is_looked_at_in_its_own_files(husk: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "opt").mkdir(parents=True)
    (tree / "opt" / "it").symlink_to("real")
    Path(tree / "opt" / "real").write_bytes(Path(program("touches-gs")).read_bytes())
    (tree / "opt" / "real").chmod(0o755)
    store = str(tmp_path / "store")
    environment = {"HUSK_STORE": store}
    surrounding = {**os.environ, **environment}
    words = [str(husk), "image", "import", str(tree), "--name", "one"]
    subprocess.run(words, check=True, capture_output=True, env=surrounding)
    done = check(husk, "one", **environment)
    assert done.returncode == 2 and "names no program" in done.stderr
    from husk.store.images import Image, ImageConfig
    from husk.store.store import Store

    opened = Store.open(store)
    image = opened.images.get("one")
    opened.images.set("one", Image(image.layers, ImageConfig(entrypoint=["/opt/it"]), flat=image.flat))
    done = check(husk, "one", "--against", "gvisor-20240729", **environment)
    assert done.returncode == 1 and "then a fault at %gs:0x4" in done.stdout


def test_a_command_is_measured(husk: Path) -> None:
    path = program("touches-gs")
    mount = ["--mount", f"{os.path.dirname(path)}:/known"]
    done = check(husk, *mount, "--against", "gvisor-20240729", "--against", "husk", "--", "/known/touches-gs")
    assert done.returncode == 1, done.stderr
    assert "→ EINVAL in gVisor; then a fault at %gs:0x4" in done.stdout
    assert "it is ended by SIGSEGV; plainly it exits with 0" in done.stdout
    assert "husk: runs" in done.stdout


def test_every_call_of_every_runtime_can_be_judged() -> None:
    everything = look(*(use(row.name, OWN) for row in ROWS.values()))
    for name in ("gvisor-20240729", "docker-28.5", "litebox-20260301", "husk", "husk-bare", "linux-5.10"):
        verdict = judge("it", find(name), everything, None)
        assert verdict.status in (UNCLEAR, FALLBACK) and verdict.line
