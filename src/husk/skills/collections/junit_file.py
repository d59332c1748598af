"""skills/collections: JUnit XML, as Jenkins, GitLab and most others read it. The same cases give the same bytes."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

FAILURE, ERROR, SKIPPED = "failure", "error", "skipped"
# What XML 1.0 cannot hold, not even escaped.
_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class JunitCase:
    """`kind` is empty for a case that passes. `type` is a word for the sort of failure."""

    name: str
    classname: str  # dots where a tree of results is wanted
    seconds: float = 0.0
    kind: str = ""
    message: str = ""
    type: str = ""
    output: str = ""
    remark: str = ""


@dataclass(frozen=True)
class JunitSuite:
    name: str
    cases: Sequence[JunitCase]
    attributes: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)


def junit_file(title: str, suites: Iterable[JunitSuite]) -> bytes:
    every = list(suites)
    totals = _totals([case for suite in every for case in suite.cases])
    del totals[SKIPPED]  # a schema of Jenkins knows it for a `testsuite` alone
    root = ET.Element("testsuites", {"name": _text(title), **totals})
    for suite in every:
        about = {"name": _text(suite.name), **_totals(suite.cases)}
        about |= {name: _text(value) for name, value in suite.attributes.items()}
        element = ET.SubElement(root, "testsuite", about)
        if suite.properties:
            properties = ET.SubElement(element, "properties")
            for name, value in suite.properties.items():
                ET.SubElement(properties, "property", {"name": name, "value": _text(value)})
        for case in suite.cases:
            _add(element, case)
    ET.indent(root, " ")
    content: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return content + b"\n"


def _totals(cases: Sequence[JunitCase]) -> dict[str, str]:
    kinds = [case.kind for case in cases]
    return {
        "tests": str(len(kinds)),
        "failures": str(kinds.count(FAILURE)),
        "errors": str(kinds.count(ERROR)),
        SKIPPED: str(kinds.count(SKIPPED)),
        "time": f"{sum(case.seconds for case in cases):.3f}",
    }


def _add(element: ET.Element, case: JunitCase) -> None:
    about = {"name": _text(case.name), "classname": _text(case.classname), "time": f"{case.seconds:.3f}"}
    made = ET.SubElement(element, "testcase", about)
    if case.kind == SKIPPED:
        ET.SubElement(made, SKIPPED, {"message": _text(case.message)})
    elif case.kind:
        found = ET.SubElement(made, case.kind, {"message": _text(case.message), "type": case.type})
        found.text = _text(case.output) or None
    if case.remark:
        ET.SubElement(made, "system-out").text = _text(case.remark)


def _text(text: str) -> str:
    return _UNWRITABLE.sub("\ufffd", text)
