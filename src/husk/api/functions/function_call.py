"""api: one call of a Python function in a box of its own: what husk.map and husk.Executor share.

The function goes into the box as text (function_source), its arguments and result as JSON (plain_values). What comes
out of a box is a stranger's: it is read as values, and never unpickled.
"""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Any

from husk.api.functions import plain_values
from husk.api.functions.function_source import source_of
from husk.api.options import mounts_of
from husk.api.run_result import TimeoutExpired
from husk.api.sandbox import Sandbox
from husk.cluster.work import Stopped

if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.api.options import BoxOptions
    from husk.api.run_result import Result
    from husk.cluster.work import Stop

MOST_STDERR = 4096  # characters of what a function printed that its failure keeps
OWN_KINDS = ("timeout", "ended", "lost", "cancelled")
Failure = tuple[str, str, str, str]  # kind, text, traceback, and the end of standard error

# Prints of the function go to standard error: standard output carries the result.
_STUB = """\
import json, linecache, os, sys, traceback
order = json.load(sys.stdin)
reply_to = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
codec = {"__name__": "codec"}
exec(order["codec"], codec)
try:
    place, lines = {"__name__": "husk_map"}, order["source"].splitlines(True)
    linecache.cache["<husk.map>"] = len(order["source"]), None, lines, "<husk.map>"  # tracebacks show lines
    exec(compile(order["source"], "<husk.map>", "exec"), place)
    words, names = codec["unwrap"](order["given"])
    reply = {"value": codec["wrap"](place[order["function"]](*words, **names))}
except BaseException as error:
    reply = {"raised": type(error).__name__, "text": str(error), "traceback": traceback.format_exc()}
sys.stdout.flush()
reply_to.write(json.dumps(reply))
reply_to.close()
"""


def call_order(
    fn: Callable[..., Any], *, python: str, timeout: float | None, image: str, options: BoxOptions
) -> dict[str, Any]:
    """What is the same for all calls of a function. `given` comes with each. TypeError: it cannot go into a box."""
    if options.get("keep") or options.get("publish"):
        raise ValueError("each call has a new box: neither keep nor publish can be given")
    return {
        "codec": inspect.getsource(plain_values),
        "source": source_of(fn),
        "function": fn.__name__,
        "python": python,
        "timeout": timeout,
        # Links are followed now: a guest of one box might put others there for the next.
        "options": dict(options) | {"image": image, "mounts": mounts_of(options.get("mounts", ()))},
    }


def wrapped(given: object) -> object:
    """Arguments, as they go into a box."""
    try:
        return plain_values.wrap(given)
    except RecursionError:
        raise TypeError("an argument is nested too deeply to go into a box") from None


def call_in_box(order: dict[str, Any], stop: Stop) -> tuple[dict[str, Any], Result]:
    """The reply as JSON has it, for `read_reply`, and how the run ended."""
    given = json.dumps({name: order[name] for name in ("codec", "source", "function", "given")})
    with Sandbox(**order["options"]) as box, stop.calls(box.close):
        if stop.asked:
            raise Stopped("nobody waits for this call any more.")
        try:
            done = box.run([order["python"], "-c", _STUB], input=given.encode(), capture_output=True,
                           timeout=order["timeout"])  # fmt: skip
        except TimeoutExpired as expired:
            return _failure("timeout", f"after {order['timeout']:g} s", expired.result), expired.result
        reply = _read(done.stdout or b"")
        if done.lost.get("stdout"):
            return _failure("ended", "its result is too large", done), done
        if done.returncode or reply is None:
            ended_well = "it ended the interpreter before it had returned"
            return _failure("ended", done.explain() if done.returncode else ended_well, done), done
        if "value" in reply:
            return {"value": reply["value"]}, done
        text, trace = (str(reply.get(name, "")) for name in ("text", "traceback"))
        return _failure(_exception(str(reply.get("raised", ""))), text, done, trace), done


def _exception(name: str) -> str:
    """The name of an exception in the box, told apart from what only husk says."""
    return f"{name} (raised)" if name in OWN_KINDS else name


def _read(stdout: bytes) -> dict[str, Any] | None:
    try:
        reply = json.loads(stdout)
    except (ValueError, RecursionError):
        return None
    return reply if isinstance(reply, dict) else None


def _failure(kind: str, text: str, done: Result, traceback: str = "") -> dict[str, Any]:
    printed = (done.stderr or b"").decode("utf-8", "replace")[-MOST_STDERR:]
    return {"kind": kind, "text": text, "traceback": traceback, "stderr": printed}


def read_reply(reply: dict[str, Any]) -> tuple[Any, Failure | None]:
    """The function's result, or why there is none."""
    if "value" not in reply:
        return None, (reply["kind"], reply["text"], reply["traceback"], reply["stderr"])
    try:
        return plain_values.unwrap(reply["value"]), None
    except (ValueError, TypeError, IndexError, RecursionError):
        return None, ("ended", "what it answered is no result of a function", "", "")
