"""sandbox: the runs of a kept box, one line of JSON each, for `husk log`. docs/formats/box.md has the fields.

The newest are kept: a file that has grown beyond MOST loses its older half."""

from __future__ import annotations

import os
import time

from husk.store.layout import write_all, write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from husk.sandbox.result import Result

NAME = "log"
MOST = 4 << 20  # bytes
MOST_CHANGES, MOST_REFUSALS, LONGEST = 200, 50, 200  # of one run; the length of an argument


def note_run(directory: str, argv: list[str], result: Result) -> None:
    """The caller holds the box's lock."""
    import json

    line = json.dumps(_entry(argv, result)).encode() + b"\n"
    path = os.path.join(directory, NAME)
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":  # a line that was cut short by a full disk or a crash
            write_all(fd, b"\n")
        write_all(fd, line)
    finally:
        os.close(fd)
    if size > MOST:
        with open(path, "rb") as file:
            file.seek(size // 2)
            file.readline()
            rest = file.read()
        write_whole(path, rest)


def runs(directory: str) -> list[dict[str, Any]]:
    """The oldest first. Lines that are not whole are left out."""
    import json

    found = []
    try:
        with open(os.path.join(directory, NAME), "rb") as file:
            lines = file.read(2 * MOST).splitlines()
    except FileNotFoundError:
        return []
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            found.append(entry)
    return found


def _entry(argv: list[str], result: Result) -> dict[str, Any]:
    changes = [["box", *one] for one in result.changes] + [["host", *one] for one in result.host_changes]
    return {
        "time": round(time.time(), 3),
        "seconds": round(result.seconds, 3),
        "argv": [word[:LONGEST] for word in argv[:100]],
        "exit_code": result.exit_code,
        "signal": result.signal,
        "limits": [str(limit) for limit in result.limits],
        "changes": changes[:MOST_CHANGES],
        "more_changes": max(0, len(changes) - MOST_CHANGES),
        "refusals": [
            {name: refusal[name] for name in ("what", "errno", "reason", "allow", "count")}
            for refusal in result.refusals[:MOST_REFUSALS]
        ],
        "more_refusals": max(0, len(result.refusals) - MOST_REFUSALS),
    }
