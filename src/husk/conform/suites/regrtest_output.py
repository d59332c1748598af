"""conform/suites: read what `python -m test -v` prints, and the JUnit file it writes. Pure: text in, outcomes out."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field

from husk.conform.outcomes import FAIL, PASS, SKIP

_ID = r"(?P<method>[^\s(]+) \((?P<id>[\w.<>]+)\)"
_START = re.compile(rf"{_ID}(?P<sub> [\[(].*)?(?P<rest>$| \.\.\. .*$)")
_STATUS = re.compile(r"(?:.*\.\.\. |.*?)(ok|FAIL|ERROR|expected failure|unexpected success|skipped ['\"](.*)['\"])$")
_HEADING = re.compile(rf"(FAIL|ERROR): {_ID}")
_RAN = re.compile(r"Ran (\d+) tests? in ")
_SKIPPED = re.compile(r"(\S+) skipped(?: -- (.*))?$")
_FIXTURES = ("setUpClass", "tearDownClass", "setUpModule", "tearDownModule")
MOST_TRACE = 60  # lines


@dataclass
class Told:
    """What a run of one module told. Tests are named without the module."""

    outcomes: dict[str, tuple[str, str, float]] = field(default_factory=dict)
    traces: dict[str, str] = field(default_factory=dict)
    fixtures: dict[str, tuple[str, str]] = field(default_factory=dict)  # by class; empty: the module
    skipped: str = ""  # why the module was
    running: str = ""  # the test that had begun and not ended when the output stopped
    ran: int | None = None


def short_name(method: str, identifier: str, module: str) -> str:
    """3.11 and later print the whole name behind the method, earlier ones that of the class."""
    words = identifier if identifier.split(".")[-1] == method else f"{identifier}.{method}"
    head, found, tail = f".{words}".partition(f".{module}.")
    return tail if found else head.lstrip(".")


def read_lines(text: str, module: str) -> Told:
    told, open_test = Told(), ""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if heading := _HEADING.match(line):
            _failed(told, heading["method"], heading["id"], module, lines[number + 1 : number + MOST_TRACE])
        elif start := _START.match(line):
            name = short_name(start["method"], start["id"], module)
            if open_test and open_test != name:  # its status was lost in what it printed
                told.outcomes.setdefault(open_test, (PASS, "", 0.0))
            status = _STATUS.match(start["rest"])
            if start["method"] in _FIXTURES:
                _fixture(told, start["id"], module, status)
                open_test = ""
                continue
            open_test = "" if _take(told, name, status) else name
        elif open_test and (status := _STATUS.match(line)):
            _take(told, open_test, status)
            open_test = ""
        elif ran := _RAN.match(line):
            told.ran = (told.ran or 0) + int(ran[1])
            if open_test:
                told.outcomes.setdefault(open_test, (PASS, "", 0.0))
                open_test = ""
        elif (skipped := _SKIPPED.match(line)) and skipped[1] == module:
            told.skipped = skipped[2] or "the module"
    told.running = open_test
    return told


def _take(told: Told, name: str, status: re.Match[str] | None) -> bool:
    if status is None:
        return False
    word = status[1]
    if word.startswith("skipped"):
        told.outcomes.setdefault(name, (SKIP, status[2], 0.0))
    elif word in ("ok", "expected failure"):
        told.outcomes.setdefault(name, (PASS, "", 0.0))
    else:
        told.outcomes[name] = (FAIL, word, 0.0)
    return True


def _class_name(identifier: str, module: str) -> str:
    _, found, tail = f".{identifier}.".partition(f".{module}.")
    return tail.strip(".") if found else identifier


def _fixture(told: Told, identifier: str, module: str, status: re.Match[str] | None) -> None:
    if status is not None and status[1].startswith("skipped"):
        told.fixtures[_class_name(identifier, module)] = (SKIP, status[2])


def _failed(told: Told, method: str, identifier: str, module: str, after: list[str]) -> None:
    """The part of the output below the last test: a heading for each failure, and its traceback."""
    trace = []
    for line in after[1:]:
        if line.startswith(("=====", "-----")):
            break
        trace.append(line)
    why = next((line for line in reversed(trace) if line.strip() and not line.startswith(" ")), "it failed")
    if method in _FIXTURES:
        told.fixtures[_class_name(identifier, module)] = (FAIL, f"{method}: {why}")
        return
    name = short_name(method, identifier, module)
    told.outcomes[name] = (FAIL, why, told.outcomes.get(name, ("", "", 0.0))[2])
    told.traces.setdefault(name, "\n".join(trace))


def read_junit(content: bytes, module: str, told: Told) -> None:
    """Add what the file knows: times, and outcomes that lines could not say. A failure that lines told stays one: the
    file leaves out those of sub-tests."""
    # Whatever was tested wrote the file. ElementTree fetches nothing; declarations are refused, so no entity can grow.
    if not content or b"<!DOCTYPE" in content or b"<!ENTITY" in content:
        return
    try:
        tree = ElementTree.fromstring(content)
    except ElementTree.ParseError:
        return
    for case in tree.iter("testcase"):
        identifier = case.get("name", "")
        _, found, name = f".{identifier}".partition(f".{module}.")
        if not found or " " in identifier:  # `setUpClass (…)` is no test
            continue
        seconds = _seconds(case.get("time", ""))
        bad = case.find("failure") if case.find("failure") is not None else case.find("error")
        skipped = case.find("skipped")
        before = told.outcomes.get(name)
        if bad is not None:
            why = ((bad.get("message") or "").strip().splitlines() or ["it failed"])[-1]
            told.outcomes[name] = (FAIL, before[1] if before and before[0] == FAIL else why, seconds)
        elif before is not None and before[0] == FAIL:
            told.outcomes[name] = (*before[:2], seconds)
        elif skipped is not None:
            told.outcomes[name] = (SKIP, skipped.text or "", seconds)
        else:
            told.outcomes[name] = (PASS, "", seconds)
        if told.running == name:
            told.running = ""


def _seconds(text: str) -> float:
    return float(text) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text) else 0.0
