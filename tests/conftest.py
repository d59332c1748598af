"""Shared by all tests: the installed command, and skips that cannot be overlooked.

A test that needs a guest program says so with `@pytest.mark.needs("java")`. Where the program is missing the test is
skipped with a reason that names the package, and the end of the run counts all skips by reason.
A test marked `both_settings` runs twice: behind all walls the host gives, and as where namespaces are denied.
`make test-fast` runs what is marked `fast`: all of tests/unit, and a few guests and attempts to escape.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.lib import running

ROOT = Path(__file__).resolve().parent.parent
# A resident husk would outlive the tests. HUSK_RESIDENT=1 runs them through one, wherever it may serve.
os.environ.setdefault("HUSK_RESIDENT", "0")

# A shell ignores these for what it starts in the background, nohup ignores the first, and every program of a test
# would inherit that.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

# How long an example takes, or takes to be drawn, says how busy the machine is and nothing about husk. And every run
# tries the same examples: a test that fails today has failed because of a change.
settings.register_profile(
    "husk",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("husk")


def _load(path: Path) -> ModuleType:
    """tools/ is no package and not on the path, so its modules are loaded by file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


guest_programs = _load(ROOT / "tools" / "guest_programs.py")
_found: dict[str, bool] = {}


def _is_there(program: str) -> bool:
    if program not in _found:
        _found[program] = guest_programs.find(program) is not None
    return _found[program]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "both_settings: run with namespaces and without")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if ROOT / "tests" / "unit" in item.path.parents:
            item.add_marker("fast")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.definition.get_closest_marker("both_settings") and not running.OPTIONS:
        metafunc.parametrize("husk_setting", ["walled", "bare"], indirect=True)


# For every test, so that pytest makes it: one that only pytest_generate_tests names has a parameter, an id that says
# "bare", and is never set up. tests/box/test_settings.py looks whether bare is bare.
@pytest.fixture(autouse=True)
def husk_setting(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every `husk run` of the test gets --no-namespaces when the setting is bare."""
    before = running.OPTIONS
    if getattr(request, "param", "walled") == "bare":
        running.need_bare()
        running.OPTIONS = [running.BARE]
    yield
    running.OPTIONS = before


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        for program in mark.args:
            if not _is_there(program):
                package = guest_programs.package_of(program)
                pytest.skip(f"{program} is not installed" + (f" (Debian: {package})" if package else ""))


def pytest_sessionfinish(session: pytest.Session) -> None:
    # A worker of pytest-xdist: what it counted goes to the process that prints the summary.
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["compared"] = running.COMPARED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    for what, count in getattr(node, "workeroutput", {}).get("compared", {}).items():
        running.COMPARED[what] += count


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if compared := running.COMPARED["runs"]:
        lines = running.COMPARED["lines"]
        terminalreporter.section(f"{lines} lines compared, natively and in husk, in {compared} runs")
    reasons = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", []))
    if reasons:
        terminalreporter.section(f"{sum(reasons.values())} tests did not run, and why", yellow=True)
        for reason, count in sorted(reasons.items()):
            terminalreporter.line(f"{count:5}  {reason}")


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    where = report.longrepr
    text = where[2] if isinstance(where, tuple) else str(where)
    return text.removeprefix("Skipped: ")


@pytest.fixture(scope="session")
def husk() -> Path:
    """The command as it was installed next to the Python that runs these tests."""
    command = Path(sys.prefix, "bin", "husk")
    # Not a skip: without the command most of the suite would silently say nothing.
    assert command.exists(), f"{command} does not exist: run the tests with `make test`"
    return command
