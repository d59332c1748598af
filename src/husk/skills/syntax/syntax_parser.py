"""skills: parse shell and JavaScript in another process (`syntax_worker`), bounded in size and time.

A text that crashes the parser or takes too long is not read, and the caller says so; the next one gets a new process.
After `MOST_LOST` of these nothing more is parsed: a skill must not keep a person waiting.

Chosen: tree-sitter, which reads what is half wrong too, has wheels for each Python, and is maintained. bashlex stops
at the first construct it does not know and is under the GPL; lists of words found programs in variable names.
"""

from __future__ import annotations

import importlib.util
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from husk.sandbox.errors import HuskError

MOST_TEXT = 1 << 20
MOST_ANSWER = 64 << 20
SECONDS, MOST_LOST = 5.0, 3
WORKER = Path(__file__).with_name("syntax_worker.py")
LIBRARIES = ("tree_sitter", "tree_sitter_bash", "tree_sitter_typescript")
OPEN, CLOSE = "\ue000", "\ue001"  # as in syntax_worker: around the name of a variable in a word
Facts = dict[str, Any]


class Unparsed(Exception):
    """The text was not read; the message says why."""


_spare: list[subprocess.Popen[bytes]] | None = None  # inside `kept_worker`: at most one process that waits


@contextmanager
def kept_worker() -> Iterator[None]:
    """For many skills in a row: a parser hands its process on to the next one instead of ending it. Each still has its
    own bounds."""
    global _spare
    if _spare is not None:
        yield
        return
    _spare = []
    try:
        yield
    finally:
        left, _spare = _spare, None
        for worker in left:
            _stop(worker)


class SyntaxParser:
    """A context manager. The process starts with the first text, and ends with the block (but see `kept_worker`)."""

    def __init__(self) -> None:
        self._worker: subprocess.Popen[bytes] | None = None
        self._lost = 0
        self._known: dict[tuple[str, str], Facts] = {}

    def __enter__(self) -> SyntaxParser:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if _spare == [] and self._worker is not None:
            _spare.append(self._worker)
            self._worker = None
        self._end()

    def parse(self, language: str, text: str) -> Facts:
        """What the text says, as lists of facts. For "shell": commands [line, function, words], assigns [line, name,
        words], functions, comments [line, text], variables [line, name, sign], loops, redirects, heredocs. For
        "javascript" and "typescript": imports, calls, assigns, strings, comments, env, functions."""
        if len(text) > MOST_TEXT:
            raise Unparsed(f"it is longer than {MOST_TEXT >> 20} MiB")
        key = (language, text)
        if key not in self._known:
            if self._lost >= MOST_LOST:
                raise Unparsed("too many texts before it could not be parsed")
            try:
                data = text.encode("utf-8", "replace")
                self._known[key] = self._ask(f"{language} {len(data)}\n".encode() + data)
            except (OSError, ValueError, TimeoutError):
                self._lost += 1
                self._end()
                raise Unparsed(f"the parser gave no answer within {SECONDS:.0f} seconds, or crashed") from None
        return self._known[key]

    def _ask(self, request: bytes) -> Facts:
        worker = self._worker = self._worker or (_spare.pop() if _spare else _start())
        assert worker.stdin is not None and worker.stdout is not None
        to, source = worker.stdin.fileno(), worker.stdout.fileno()
        deadline, answer, sent = time.monotonic() + SECONDS, bytearray(), 0
        while not answer.endswith(b"\n"):
            left = deadline - time.monotonic()
            readable, writable, _ = select.select([source], [to] if sent < len(request) else [], [], max(left, 0))
            if not readable and not writable:
                raise TimeoutError
            if writable:
                sent += os.write(to, request[sent : sent + 65536])
            if readable:
                piece = os.read(source, 1 << 16)
                answer += piece
                if not piece or len(answer) > MOST_ANSWER:
                    raise ValueError
        found = json.loads(answer)
        if not isinstance(found, dict):
            raise ValueError
        return found

    def _end(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            _stop(worker)


def _stop(worker: subprocess.Popen[bytes]) -> None:
    worker.kill()
    for pipe in (worker.stdin, worker.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except OSError:
                pass
    worker.wait()


def _start() -> subprocess.Popen[bytes]:
    folders = dict[str, None]()
    for name in LIBRARIES:
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            raise HuskError(
                f"the Python that runs husk lacks {name}, which reads a skill's scripts; install husk again."
            )
        folders[str(Path(spec.submodule_search_locations[0]).parent)] = None
    worker = subprocess.Popen(
        [sys.executable, "-I", "-S", "-B", str(WORKER), *folders],
        cwd="/", env={}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
    )  # fmt: skip
    assert worker.stdin is not None
    os.set_blocking(worker.stdin.fileno(), False)
    return worker
