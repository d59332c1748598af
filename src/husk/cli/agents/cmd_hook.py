"""cli: `husk hook`: a pre-tool hook that puts an agent's shell commands into boxes.

The agent goes on without the hook if that fails with any exit code but 2. So every failure here is exit code 2: a
command that could not be put into a box must not run outside.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

from husk.cli.agents.own_command import own_command
from husk.cli.exit_codes import run_command
from husk.cli.options.agent_options import HOOK
from husk.cli.output import say, say_json
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values

STOP = 2
MOST = 16 << 20  # bytes of a call


def main(argv: list[str]) -> int:
    try:
        return STOP if run_command(HOOK, argv, _answer) else 0
    except BaseException as error:  # a fault of our own must not let the command through
        say(f"husk hook: a fault of husk's own: {type(error).__name__}: {error}", file=sys.stderr)
        return STOP


def _answer(options: Values) -> int:
    call = _read_call()
    if call["tool_name"] != "Bash":
        return 0  # another tool: nothing to say
    given = call["tool_input"]
    command = given.get("command") if isinstance(given, dict) else None
    if not isinstance(command, str) or "\0" in command:
        raise UsageError("the call has no tool_input.command; is this the hook of another tool?")
    words = _run_words(options, str(call.get("cwd") or os.getcwd()))
    decided = {
        "hookEventName": "PreToolUse",
        "permissionDecision": "allow" if options.approve else "ask",
        "permissionDecisionReason": "husk runs it in a box",
        "updatedInput": {**given, "command": shlex.join([*words, "--", "bash", "-c", command])},
    }
    try:
        say_json({"hookSpecificOutput": decided}, indent=None)
        sys.stdout.flush()
    except OSError:
        return STOP  # the agent did not get the answer
    return 0


def _read_call() -> dict[str, Any]:
    try:
        text = sys.stdin.read(MOST + 1)
        call = json.loads(text) if len(text) <= MOST else None
    except (OSError, ValueError, RecursionError):
        call = None
    if not isinstance(call, dict) or call.get("hook_event_name") != "PreToolUse" or "tool_name" not in call:
        raise UsageError(
            "standard input has no call of a PreToolUse hook; an agent calls this command, not a person "
            "(docs/howto/hook-a-coding-agent.md)."
        )
    return call


def _run_words(options: Values, cwd: str) -> list[str]:
    words = [*own_command(), "run"]
    if not any(word == "--profile" or word.startswith("--profile=") for word in options.program):
        # A profile may keep its box, and an agent runs several commands at once.
        words += ["--profile", "none"]
    if options.mode != "none":
        root = os.path.realpath(os.environ.get("CLAUDE_PROJECT_DIR") or cwd)
        start = os.path.realpath(cwd)
        if root == "/":
            raise UsageError("the project is the whole file system; start the agent in a project's directory.")
        if ":" in root:
            raise UsageError(f"{root} has a colon in its name, which a mount cannot have; rename it.")
        inside = start == root or start.startswith(f"{root}/")
        words += ["--mount", f"{root}:{root}:{options.mode}", "--workdir", start if inside else root]
    return words + options.program
