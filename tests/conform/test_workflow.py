"""The workflow, the configuration and the how-to of the nightly name what there is: targets, commands, files."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from husk.conform.judge.expected import read_expected
from husk.conform.nightly.night import EXIT_CODES
from husk.conform.nightly.nightly_config import read_nightly
from husk.conform.suite_file import read_suite
from tests.unit.cli.test_documented_commands import check

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "conformance.yml"
HOWTO = ROOT / "docs" / "howto" / "run-it-every-night.md"
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.fixture(scope="module")
def workflow() -> dict[str, Any]:
    found: dict[Any, Any] = yaml.safe_load(WORKFLOW.read_text())
    return {"on" if key is True else key: value for key, value in found.items()}  # YAML 1.1 reads `on` as true


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def commands(workflow: dict[str, Any]) -> list[str]:
    """Each line of every `run` in husk's own checkout, a continued one whole."""
    return [
        line.strip()
        for step in steps(workflow)
        if "working-directory" not in step
        for line in step.get("run", "").replace("\\\n", " ").splitlines()
        if line.strip()
    ]


def test_it_runs_at_night_and_by_hand(workflow: dict[str, Any]) -> None:
    starts = workflow["on"]
    assert re.fullmatch(r"\d+ \d+ \* \* \*", starts["schedule"][0]["cron"])
    assert "workflow_dispatch" in starts and "pull_request_target" not in starts


def test_steps_are_whole(workflow: dict[str, Any]) -> None:
    for step in steps(workflow):
        assert ("uses" in step) != ("run" in step), step
        if "uses" in step:
            assert re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"]), step


def test_only_the_night_may_write(workflow: dict[str, Any]) -> None:
    assert workflow["permissions"] == {"contents": "read"}
    assert [name for name, job in workflow["jobs"].items() if "permissions" in job] == ["nightly"]


def test_nothing_of_a_stranger_is_pasted_into_a_shell(workflow: dict[str, Any]) -> None:
    assert not [step for step in steps(workflow) if "${{" in step.get("run", "")]


def test_commands_exist(workflow: dict[str, Any]) -> None:
    seen = []
    for line in commands(workflow):
        words = shlex.split(line)
        if words[0] == "make":
            assert set(words[1:]) <= TARGETS
        at = next((number for number, word in enumerate(words) if word == ".venv/bin/husk"), None)
        if at is not None:
            ends = [number for number, word in enumerate(words) if word == "||"]
            told = words[at + 1 : min(ends, default=len(words))]
            check(shlex.join("bare" if word == "$SETTING" else word for word in told))
            seen.append(" ".join(told[:2]))
    assert {"conform nightly", "conform run", "conform build", "doctor"} <= {*seen, *(one.split()[0] for one in seen)}


def test_files_exist(workflow: dict[str, Any]) -> None:
    for line in commands(workflow):
        for word in shlex.split(line):
            if re.match(r"(tools|tests|examples)/", word):
                assert (ROOT / word).exists(), word


def test_a_report_is_no_failure(workflow: dict[str, Any]) -> None:
    (line,) = [line for line in commands(workflow) if "conform nightly" in line]
    assert line.endswith(f"|| [ $? -eq {EXIT_CODES['report']} ]")
    assert f"SuccessExitStatus={EXIT_CODES['report']}" in HOWTO.read_text()


def test_kernels_and_settings(workflow: dict[str, Any]) -> None:
    matrices = [job["strategy"]["matrix"] for job in workflow["jobs"].values() if "strategy" in job]
    rows = [row for matrix in matrices for row in matrix["include"]]
    assert {row["setting"] for row in rows} == {"walled", "bare"}
    assert len({row.get("image") or row["debian"] for row in rows}) >= 4
    # Without namespaces husk needs Landlock's scopes: Linux 6.12.
    assert all(row["kernel"] == "6.12" for row in rows if row["setting"] == "bare" and "kernel" in row)


def test_the_configuration_of_this_repository() -> None:
    config = read_nightly(ROOT / "tools" / "nightly.toml")
    assert {run.setting for run in config.runs} == {"walled", "bare"} and config.publish is not None
    assert config.out.resolve().is_relative_to(ROOT)
    for suite in config.suites:
        if "build" not in suite.parts:
            read_suite(suite)
    built = [suite.resolve() for suite in config.suites if "build" in suite.parts]
    assert built == [ROOT / "build" / name for name in ("gvisor", "pjdfstest", "ltp")]
    for made in ("--out build/gvisor", "path: build/pjdfstest", '/build/ltp"'):
        assert made in WORKFLOW.read_text()
    for path in (ROOT / "tools" / "suites").iterdir():
        assert read_suite(path).name == path.stem
    for path in config.expected:
        read_expected(path)


def test_the_how_to(tmp_path: Path) -> None:
    text = HOWTO.read_text()
    example = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
    assert example is not None and tomllib.loads(example[1])
    (tmp_path / "skills").mkdir()
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "nightly.toml").write_text(example[1])
    read_nightly(tmp_path / "tools" / "nightly.toml")
    lines = re.findall(r"^(?:ExecStart=%h/project/|30 2 .*? )\.venv/bin/husk (.*)$", text, re.MULTILINE)
    assert len(lines) == 2
    for line in lines:
        check(line.split(" || ")[0])
    for unit, wanted in (("service", "[Service]"), ("timer", "OnCalendar=")):
        block = re.search(rf"`husk-nightly\.{unit}`[^`]*```ini\n(.*?)```", text, re.DOTALL)
        assert block is not None and wanted in block[1]
