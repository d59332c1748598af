"""mcp: the result of a run as an answer to a model: short, with every refusal as data and in words.

The session keeps the full result as a resource; the answer says where.
"""

from __future__ import annotations

import base64
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from husk.abi.text import decoded
from husk.api.run_result import Result, made
from husk.sandbox.result import Result as Ended

if TYPE_CHECKING:
    from collections.abc import Iterable

    from husk.api.run_result import Change
    from husk.mcp.answer_types import ChangeAnswer

CODE = "/tmp/.husk-code"  # where run_code puts its code in the box; not reported as a change
MOST_CHANGES = 50
_RULE = (
    "What this box may see and use is set by the person who runs this server, in its config file. You cannot change "
    "it from here: work without it, or ask that person."
)


def full_result(result: Result, box: str) -> dict[str, Any]:
    """The full result, for the resource."""
    explained = result.explain()
    if result.denials:
        explained += f"\n{_RULE}"
    return {
        "box": box,
        "argv": result.args,
        "exit_code": result.returncode,
        "timed_out": result.timed_out,
        "seconds": round(result.usage.seconds, 3),
        "explain": explained,
        "denials": [asdict(denial) for denial in result.denials],
        "limits": [str(limit) for limit in result.limits],
        "weakened": result.weakened,
        "changes": changes(result.changes),
        "host_changes": changes(result.host_changes),
        "stdout": text_of(result.stdout),
        "stderr": text_of(result.stderr),
    }


def short_result(full: dict[str, Any], address: str, most: int) -> Any:
    """The result for the answer, an answer_types.RunAnswer: beginning and end of long output, and the first changes."""
    answer = full | {"resource": address}
    for stream in ("stdout", "stderr"):
        answer[stream] = shortened(full[stream], most, f"{address}/{stream}")
    for name in ("changes", "host_changes"):
        answer[name] = full[name][:MOST_CHANGES]
        answer[f"{name}_not_shown"] = max(0, len(full[name]) - MOST_CHANGES)
    return answer


def shortened(text: str, most: int, where: str) -> str:
    if len(text) <= most:
        return text
    # The beginning says what a program does, and errors are at the end.
    first, last = most // 3, most - most // 3
    left = len(text) - first - last
    return f"{text[:first]}\n[… {left} characters left out; all of it: {where} …]\n{text[len(text) - last :]}"


def changes(found: Iterable[Change]) -> list[ChangeAnswer]:
    return [
        {"change": one.kind, "path": printable(one.path)}
        for one in found
        if one.path != CODE and not one.path.startswith(f"{CODE}/")
    ]


def printable(name: str) -> str:
    """A file name of the box as text that JSON can carry."""
    return decoded(os.fsencode(name))


def text_of(output: bytes | None) -> str:
    return (output or b"").decode("utf-8", "backslashreplace")


def not_started(argv: list[str], code: int, sentence: str, box: str) -> dict[str, Any]:
    """The program is missing or not executable: an ordinary result, so that a model can go on."""
    full = full_result(Result(argv, code), box)
    return full | {"explain": f"The program was not started: {sentence}"}


def skill_result(argv: list[str], ended: Ended) -> Result:
    """Convert how a skill ended to the result of a run."""
    result = made(argv, ended, [])
    result.stdout, result.stderr = ended.stdout, ended.stderr
    return result


def content(data: bytes, encoding: str) -> str:
    if encoding == "base64":
        return base64.b64encode(data).decode()
    return data.decode("utf-8", "backslashreplace")
