"""compat: keep what the code of a library says, so that libc is disassembled once.

The key is the hash of the content, not the build id: a file can claim the build id of another, and what it says must
never be believed of that other. Damaged or old entries are left out. Not here: what is kept (code_graph.py).
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from typing import Any

from husk.compat.look.code_graph import Ask, Code, Function
from husk.compat.look.propagate import SegmentUse, Value

VERSION = 6  # of the entries and of what code_graph.py finds; raise it when either changes
MOST_ENTRIES = 200


def cache_folder() -> str:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "husk", "look")


def key_of(content: bytes) -> str:
    return f"{hashlib.sha256(content).hexdigest()}-{VERSION}"


def load(key: str) -> Code | None:
    try:
        with open(os.path.join(cache_folder(), key), "rb") as file:
            return _unpacked(json.load(file))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def keep(key: str, code: Code) -> None:
    """A cache that cannot be written is no fault: the next look takes longer."""
    folder = cache_folder()
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        fd, name = tempfile.mkstemp(dir=folder, prefix=".")
        with os.fdopen(fd, "w") as file:
            json.dump(_packed(code), file, separators=(",", ":"))
        os.replace(name, os.path.join(folder, key))
        _forget_old(folder)
    except OSError:
        pass


def _forget_old(folder: str) -> None:
    names = [os.path.join(folder, name) for name in os.listdir(folder)]
    if len(names) > MOST_ENTRIES:
        for name in sorted(names, key=os.path.getmtime)[: len(names) - MOST_ENTRIES]:
            os.unlink(name)


def _packed(code: Code) -> dict[str, Any]:
    return {
        "functions": [
            [one.start, one.name, sorted(one.edges), sorted(one.imports), [_packed_ask(ask) for ask in one.asks]]
            for one in code.functions.values()
        ],
        "data_functions": sorted(code.data_functions),
        "exports": code.exports,
        "segments": [[use.address, use.segment, use.text, use.displacement] for use in code.segments],
        "thread_pointer": code.thread_pointer,
        "old_calls": code.old_calls,
        "unseen": code.unseen,
    }


def _packed_ask(ask: Ask) -> list[Any]:
    return [ask.address, _packed_value(ask.number), ask.symbol, [_packed_value(one) for one in ask.arguments]]


def _packed_value(value: Value) -> Any:
    if isinstance(value, frozenset):
        return sorted(value)
    return {"at": [value[0], value[1]]} if value is not None else None


def _unpacked(entry: dict[str, Any]) -> Code:
    functions = {}
    for start, name, edges, imports, asks in entry["functions"]:
        functions[start] = Function(start, name, set(edges), set(imports), [_unpacked_ask(ask) for ask in asks])
    return Code(
        functions=functions,
        data_functions=set(entry["data_functions"]),
        exports=dict(entry["exports"]),
        segments=[SegmentUse(*use) for use in entry["segments"]],
        thread_pointer=bool(entry["thread_pointer"]),
        old_calls=list(entry["old_calls"]),
        unseen=list(entry["unseen"]),
    )


def _unpacked_ask(packed: list[Any]) -> Ask:
    address, number, symbol, arguments = packed
    return Ask(address, _unpacked_value(number), symbol, tuple(_unpacked_value(one) for one in arguments))


def _unpacked_value(packed: Any) -> Value:
    if isinstance(packed, list):
        return frozenset(packed)
    return (str(packed["at"][0]), int(packed["at"][1])) if packed is not None else None
