"""mcp: the result of a run as an answer to a model: short, with every refusal as data and in words. Bytes that are no
text are never shown as if they were.

The session keeps the full result as a resource; the answer says where.
"""

from __future__ import annotations

import base64
import codecs
import os
from typing import TYPE_CHECKING, Any

from husk.abi.text import decoded
from husk.api.run_result import Result, made
from husk.sandbox.result import Result as Ended

if TYPE_CHECKING:
    from collections.abc import Iterable

    from husk.api.run_result import Change, Denial
    from husk.mcp.answer_types import ChangeAnswer, DenialAnswer

CODE = "/tmp/.husk-code"  # where run_code puts its code in the box; not reported as a change
MOST_CHANGES = 50
STREAMS = ("stdout", "stderr")
_RULE = (
    "What this box may see and use is set by the person who runs this server, in its config file. You cannot change "
    "it from here: work without it, or ask that person."
)


def full_result(result: Result, box: str) -> dict[str, Any]:
    """The full result, for the resource."""
    explained = result.explain("mcp")
    if result.denials:
        explained += f"\n{_RULE}"
    return {
        "box": box,
        "argv": result.args,
        "exit_code": result.returncode,
        "timed_out": result.timed_out,
        "seconds": round(result.usage.seconds, 3),
        "explain": explained,
        "denials": [_denial(denial) for denial in result.denials],
        "limits": [str(limit) for limit in result.limits],
        "weakened": result.weakened,
        "changes": changes(result.changes),
        "host_changes": changes(result.host_changes),
        "stdout": result.stdout or b"",
        "stderr": result.stderr or b"",
    }


def as_document(full: dict[str, Any], address: str) -> dict[str, Any]:
    """The full result as JSON can carry it. `address` is that of its resource."""
    return full | {name: shown_output(full[name], f"{address}/{name}") for name in STREAMS}


def _denial(denial: Denial) -> DenialAnswer:
    return {
        "call": denial.call,
        "what": denial.what,
        "errno": denial.errno,
        "reason": denial.reason_for("mcp"),
        "allow": denial.remedy.said("mcp") if denial.remedy is not None else "",
        "count": denial.count,
    }


def short_result(full: dict[str, Any], address: str, most: int) -> Any:
    """The result for the answer, an answer_types.RunAnswer: beginning and end of long output, and the first changes."""
    answer = as_document(full, address) | {"resource": address}
    for stream in STREAMS:
        answer[stream] = shortened(answer[stream], most, f"{address}/{stream}")
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


def shown_output(output: bytes, address: str) -> str:
    """What a program wrote, as text. Single bytes that are no UTF-8 are escaped; a picture or an archive is not."""
    if is_binary(output):
        return f"[{len(output)} bytes that are no text; all of them: {address}]"
    return output.decode("utf-8", "backslashreplace")


def is_binary(output: bytes) -> bool:
    """A NUL byte, or more than one byte in ten that is no UTF-8."""
    if b"\0" in output:
        return True
    return output.decode("utf-8", "replace").count("\ufffd") * 10 > len(output)


def not_started(argv: list[str], code: int, sentence: str, box: str) -> dict[str, Any]:
    """The program is missing or not executable: an ordinary result, so that a model can go on."""
    full = full_result(Result(argv, code), box)
    return full | {"explain": f"The program was not started: {sentence}"}


def skill_result(argv: list[str], ended: Ended) -> Result:
    """Convert how a skill ended to the result of a run."""
    result = made(argv, ended, [])
    result.stdout, result.stderr = ended.stdout, ended.stderr
    return result


def file_text(data: bytes, *, first: bool, last: bool) -> tuple[str, int] | None:
    """A piece of a file as text, and how many bytes that is: a character that the piece's end cuts is left for the next
    piece. None: it is no text. Strict, unlike output: a model may write back what it read."""
    if not first:
        for cut in range(4):  # the piece may begin inside a character
            if cut >= len(data) or data[cut] & 0xC0 != 0x80:
                break
        data, skipped = data[cut:], cut
    else:
        skipped = 0
    try:
        text, used = codecs.utf_8_decode(data, "strict", last)
    except UnicodeDecodeError:
        return None
    if "\0" in text or (used == 0 and data):
        return None
    return text, skipped + used


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
