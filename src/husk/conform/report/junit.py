"""conform/report: JUnit XML, as Jenkins, GitLab and most others read it.

A `testsuite` for each file. A miss is a failure; a crash or a hang is an error. What tells nothing about the runtime
(skipped, not-native, flaky) and a miss with a reason are skipped, with that reason as the message.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable

from husk.conform.outcomes import CRASH, FAIL, FLAKY, HANG, MISSES, NOT_NATIVE, SKIP, Judged, RunRecord

# What XML 1.0 cannot hold, not even escaped.
_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ASIDE = {NOT_NATIVE: "does not pass natively", FLAKY: "passes natively only sometimes", SKIP: "skipped"}


def junit(record: RunRecord) -> bytes:
    """The same record gives the same bytes."""
    info = record.info
    files: dict[tuple[str, str], list[Judged]] = {}
    for one in record.cases:
        files.setdefault((one.name.suite, one.name.file), []).append(one)
    root = ET.Element("testsuites", {"name": _text(f"husk conform, {info.runtime}"), **_totals(record.cases)})
    del root.attrib["skipped"]  # a schema of Jenkins knows it for a `testsuite` alone
    for (suite, file), cases in sorted(files.items()):
        about = {"name": _text(f"{suite}/{file}"), **_totals(cases)}
        about |= {"timestamp": info.started.rstrip("Z")} if info.started else {}
        about |= {"hostname": _text(info.machine)} if info.machine else {}
        element = ET.SubElement(root, "testsuite", about)
        properties = ET.SubElement(element, "properties")
        for name in ("run", "runtime", "version", "kernel", "user"):
            if value := getattr(info, name):
                ET.SubElement(properties, "property", {"name": name, "value": _text(value)})
        for one in cases:
            _add(element, one)
    ET.indent(root, " ")
    content: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return content + b"\n"


def _kind(one: Judged) -> str:
    if one.verdict in MISSES and not one.expected:
        return "failure" if one.verdict == FAIL else "error"
    return "skipped" if one.verdict in _ASIDE or one.verdict in MISSES else ""


def _totals(cases: Iterable[Judged]) -> dict[str, str]:
    every = list(cases)
    kinds = [_kind(one) for one in every]
    return {
        "tests": str(len(every)),
        "failures": str(kinds.count("failure")),
        "errors": str(kinds.count("error")),
        "skipped": str(kinds.count("skipped")),
        "time": f"{sum(one.seconds for one in every):.3f}",
    }


def _add(element: ET.Element, one: Judged) -> None:
    """`classname` has dots where a tree of results is wanted: GoogleTest's `Suite.Case` gives one more level."""
    named = re.fullmatch(r"([\w/]+)\.([\w/]+)", one.name.case)
    group, last = named.groups() if named else ("", one.name.case)
    file = re.sub(r"[/.]", "_", one.name.file)
    path = ".".join(part for part in (one.name.suite, file, group) if part)
    about = {"name": _text(last), "classname": _text(path), "time": f"{one.seconds:.3f}"}
    case = ET.SubElement(element, "testcase", about)
    kind = _kind(one)
    if kind == "skipped":
        reason = f"expected to {one.verdict}: {one.expected}" if one.verdict in MISSES else _ASIDE[one.verdict]
        said = f"{reason}: {one.why}" if one.why and one.verdict not in MISSES else reason
        ET.SubElement(case, "skipped", {"message": _text(said)})
    elif kind:
        words = {FAIL: "failed", CRASH: "crashed", HANG: "did not end"}[one.verdict]
        found = ET.SubElement(case, kind, {"message": _text(one.why or words), "type": one.verdict})
        found.text = _text(one.output) or None
    if one.unexpected_pass:
        ET.SubElement(case, "system-out").text = _text(f"passes, though a failure is expected: {one.expected}")


def _text(text: str) -> str:
    return _UNWRITABLE.sub("\ufffd", text)
