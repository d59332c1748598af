"""A model's API on loopback, for agents that run in tests: it asks for one command, then says what the command printed.

It speaks as much of Anthropic's Messages and OpenAI's Responses as the agents' own clients need, streamed. Written from
the two APIs' public documentation.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "not-a-key"
WAIT = "WaitForMcpServers"  # a tool of Claude Code
Event = tuple[str, dict[str, Any]]


class Model(ThreadingHTTPServer):
    """`seen` has the outputs of the command that came back, `keys` what clients showed to be let in."""

    daemon_threads = True

    def __init__(self, command: str, tool: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.command, self.tool = command, tool
        self.seen: list[str] = []
        self.keys: set[str] = set()

    def handle_error(self, *_: object) -> None:
        pass  # an agent that has ended hangs up as it likes

    @property
    def port(self) -> int:
        return int(self.server_address[1])


@contextmanager
def stand_in_model(command: str, tool: str = "Bash") -> Iterator[Model]:
    """A model that wants to run `command`: with the agent's shell, or with `run` of an MCP server by that name."""
    with Model(command, tool) as model:
        serving = threading.Thread(target=model.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        serving.start()
        try:
            yield model
        finally:
            model.shutdown()
            serving.join()


class _Handler(BaseHTTPRequestHandler):
    server: Model
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._send(b"", "text/plain")

    def do_GET(self) -> None:
        if self.headers.get("upgrade"):  # Codex tries a WebSocket first
            self.send_error(426)
            return
        self._send(b'{"data": [], "models": []}', "application/json")

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        shown = self.headers.get("x-api-key") or self.headers.get("authorization", "").removeprefix("Bearer ")
        self.server.keys.add(shown)
        if self.path.partition("?")[0].endswith("/messages"):
            events = list(_messages(self.server, asked))
        elif self.path.endswith("/responses"):
            events = list(_responses(self.server, asked))
        else:
            self._send(b'{"input_tokens": 1}', "application/json")
            return
        if asked.get("stream"):
            text = "".join(f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n" for name, data in events)
            self._send(text.encode(), "text/event-stream")
        else:
            self._send(json.dumps(events[-1][1].get("whole", {})).encode(), "application/json")

    def _send(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _messages(model: Model, asked: dict[str, Any]) -> Iterator[Event]:
    """Anthropic's Messages: a tool call if there is the tool and no result of it yet."""
    said = [one["content"] for one in asked["messages"] if isinstance(one["content"], list)]
    results = [one for content in said for one in content if one.get("tool_use_id") == "toolu_1"]
    model.seen = [_plain(one.get("content", "")) for one in results] or model.seen
    tools = [tool["name"] for tool in asked.get("tools", [])]
    usage = {"input_tokens": 1, "output_tokens": 1}
    if model.tool in tools and not results:
        words = {"command": model.command, "description": "do it"} if model.tool == "Bash" else {"argv": model.command}
        wish = json.dumps(words)
        block: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": model.tool, "input": {}}
        delta, reason = {"type": "input_json_delta", "partial_json": wish}, "tool_use"
        full = block | {"input": json.loads(wish)}
    elif WAIT in tools and model.tool not in tools and not results:  # its MCP servers are still starting
        block = full = {"type": "tool_use", "id": "toolu_0", "name": WAIT, "input": {}}
        delta, reason = {"type": "input_json_delta", "partial_json": "{}"}, "tool_use"
    else:
        text = f"It printed: {''.join(model.seen)}"
        block, delta, reason = {"type": "text", "text": ""}, {"type": "text_delta", "text": text}, "end_turn"
        full = {"type": "text", "text": text}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": asked["model"], "content": []}
    message |= {"stop_reason": None, "stop_sequence": None, "usage": usage}
    yield "message_start", {"message": message}
    yield "content_block_start", {"index": 0, "content_block": block}
    yield "content_block_delta", {"index": 0, "delta": delta}
    yield "content_block_stop", {"index": 0}
    yield "message_delta", {"delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}
    yield "message_stop", {"whole": message | {"content": [full], "stop_reason": reason}}


def _responses(model: Model, asked: dict[str, Any]) -> Iterator[Event]:
    """OpenAI's Responses: a call of the shell tool, whichever of Codex's it is, if there is no output of one yet."""
    given = asked["input"] if isinstance(asked["input"], list) else []
    outputs = [one for one in given if one.get("type") == "function_call_output"]
    model.seen += [_plain(one.get("output", "")) for one in outputs]
    tools = {tool.get("name", ""): tool for tool in asked.get("tools", [])}
    item: dict[str, Any]
    name = next((one for one in ("exec_command", "shell_command", "shell") if one in tools), "")
    if name and not outputs:
        known = tools[name].get("parameters", {}).get("properties", {})
        words = {"cmd": model.command} if "cmd" in known else {"command": model.command}
        if known.get("command", {}).get("type") == "array":
            words = {"command": ["sh", "-c", model.command]}  # type: ignore[dict-item]
        item = {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": name,
            "arguments": json.dumps(words),
        }
    else:
        text = {"type": "output_text", "text": f"It printed: {''.join(model.seen)}", "annotations": []}
        item = {"type": "message", "id": "msg_1", "role": "assistant", "content": [text]}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    answer = {"id": "resp_1", "object": "response", "status": "completed", "output": [item], "usage": usage}
    yield "response.created", {"response": answer | {"status": "in_progress", "output": [], "usage": None}}
    yield "response.output_item.added", {"output_index": 0, "item": item}
    yield "response.output_item.done", {"output_index": 0, "item": item}
    yield "response.completed", {"response": answer}


def _plain(content: object) -> str:
    if isinstance(content, list):
        return "".join(str(one.get("text", "")) for one in content if isinstance(one, dict))
    return str(content)
