#!/usr/bin/python3
"""What coding agents do, in thirty lines: ask the model, run the command it wants, tell it what that printed."""

import json
import os
import subprocess
import sys
import urllib.request
from typing import Any


def ask(path: str, question: dict[str, Any]) -> dict[str, Any]:
    base = os.environ["ANTHROPIC_BASE_URL"]
    headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "content-type": "application/json"}
    request = urllib.request.Request(base + path, json.dumps(question).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        told: dict[str, Any] = json.load(answer)
        return told


def main() -> None:
    assert "--dangerously-skip-permissions" in sys.argv
    said: list[dict[str, Any]] = [{"role": "user", "content": sys.argv[-1]}]
    question = {"model": "stand-in", "max_tokens": 100, "tools": [{"name": "Bash"}], "messages": said}
    (wish,) = ask("/v1/messages", question)["content"]
    ran = subprocess.run(["bash", "-c", wish["input"]["command"]], capture_output=True, text=True, check=False)
    result = {"type": "tool_result", "tool_use_id": wish["id"], "content": ran.stdout + ran.stderr}
    said += [{"role": "assistant", "content": [wish]}, {"role": "user", "content": [result]}]
    print(ask("/v1/messages", question)["content"][0]["text"])


main()
