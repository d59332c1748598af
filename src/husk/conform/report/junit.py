"""conform/report: a run as JUnit XML.

A `testsuite` for each file. A miss is a failure; a crash or a hang is an error. What tells nothing about the runtime
(skipped, not-native, flaky) and a miss with a reason are skipped, with that reason as the message.
"""

from __future__ import annotations

import re

from husk.conform.outcomes import CRASH, FAIL, FLAKY, HANG, MISSES, NOT_NATIVE, SKIP, Judged, RunRecord
from husk.skills.collections.junit_file import ERROR, FAILURE, SKIPPED, JunitCase, JunitSuite, junit_file

_ASIDE = {NOT_NATIVE: "does not pass natively", FLAKY: "passes natively only sometimes", SKIP: "skipped"}


def junit(record: RunRecord) -> bytes:
    """The same record gives the same bytes."""
    info = record.info
    files: dict[tuple[str, str], list[Judged]] = {}
    for one in record.cases:
        files.setdefault((one.name.suite, one.name.file), []).append(one)
    about = {"timestamp": info.started.rstrip("Z")} if info.started else {}
    about |= {"hostname": info.machine} if info.machine else {}
    properties = {
        name: value for name in ("run", "runtime", "version", "kernel", "user") if (value := getattr(info, name))
    }
    suites = [
        JunitSuite(f"{suite}/{file}", [_case(one) for one in cases], about, properties)
        for (suite, file), cases in sorted(files.items())
    ]
    return junit_file(f"husk conform, {info.runtime}", suites)


def _kind(one: Judged) -> str:
    if one.verdict in MISSES and not one.expected:
        return FAILURE if one.verdict == FAIL else ERROR
    return SKIPPED if one.verdict in _ASIDE or one.verdict in MISSES else ""


def _case(one: Judged) -> JunitCase:
    """`classname` has dots where a tree of results is wanted: GoogleTest's `Suite.Case` gives one more level."""
    named = re.fullmatch(r"([\w/]+)\.([\w/]+)", one.name.case)
    group, last = named.groups() if named else ("", one.name.case)
    file = re.sub(r"[/.]", "_", one.name.file)
    kind = _kind(one)
    message = ""
    if kind == SKIPPED:
        reason = f"expected to {one.verdict}: {one.expected}" if one.verdict in MISSES else _ASIDE[one.verdict]
        message = f"{reason}: {one.why}" if one.why and one.verdict not in MISSES else reason
    elif kind:
        message = one.why or {FAIL: "failed", CRASH: "crashed", HANG: "did not end"}[one.verdict]
    return JunitCase(
        last,
        ".".join(part for part in (one.name.suite, file, group) if part),
        one.seconds,
        kind,
        message,
        one.verdict,
        one.output,
        f"passes, though a failure is expected: {one.expected}" if one.unexpected_pass else "",
    )
