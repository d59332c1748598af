"""api: a Python function as text, with what it needs of its module, so that another Python can run it.

Text and not a pickle: the box may have another version of Python, and need not have the caller's packages. The names
that a function takes from its module are looked up now: imported modules become import statements, functions come along
with their own names, plain values are written down. Anything else is refused by name.
"""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import textwrap
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

_HEAD = "from __future__ import annotations\n"  # what only annotations name is not needed in the box
_LITERALS = (bool, int, float, str, bytes, type(None))


def source_of(function: Callable[..., Any]) -> str:
    """A module's text that defines the function under its own name. TypeError: it cannot be made, and why."""
    if not isinstance(function, FunctionType):
        raise TypeError(f"{function!r} is not a function written with `def`; wrap it in one")
    written: dict[str, str] = {}
    _write(function, function, written)
    return _HEAD + "\n\n".join(written.values()) + "\n"


def _write(function: FunctionType, first: FunctionType, written: dict[str, str]) -> None:
    name = function.__name__
    text = _text(function)
    written[name] = ""  # functions may call each other: each is written once
    needed: dict[str, str] = {}
    for used in sorted(set(_names(compile(_HEAD + text, "<husk.map>", "exec")))):
        if used in written or used in needed:
            continue
        if used not in function.__globals__:
            if hasattr(builtins, used) or used.startswith("__"):
                continue
            raise TypeError(f"{name} uses {used}, which its module does not define")
        value = function.__globals__[used]
        if isinstance(value, ModuleType):
            needed[used] = f"import {value.__name__} as {used}" if "." not in value.__name__ else _dotted(value, used)
        elif isinstance(value, FunctionType) and value.__module__ == first.__module__ and value.__name__ == used:
            _write(value, first, written)
        elif inspect.isclass(value) or callable(value):
            needed[used] = _imported(value, used, name, first)
        elif _is_literal(value):
            needed[used] = f"{used} = {value!r}"
        else:
            raise TypeError(
                f"{name} uses {used}, a {type(value).__name__} of its module, which cannot go into a box; pass it with"
                f" the items, or make it in the function"
            )
    del written[name]
    for used, line in needed.items():
        written.setdefault(used, line)
    written[name] = text


def _text(function: FunctionType) -> str:
    name = function.__name__
    if name == "<lambda>":
        raise TypeError("a lambda has no text of its own; write the function with `def`")
    if function.__closure__:
        raise TypeError(
            f"{name} uses {', '.join(function.__code__.co_freevars)} of the function around it, which stays outside the"
            " box; pass them with the items"
        )
    try:
        text = textwrap.dedent(inspect.getsource(function))
        node = ast.parse(text).body[0]
    except (OSError, SyntaxError, IndexError):
        raise TypeError(f"the text of {name} cannot be found; write it into a file") from None
    if not isinstance(node, ast.FunctionDef):
        raise TypeError(f"{name} is not a plain `def`; asynchronous functions run inside one, with asyncio.run")
    if node.decorator_list:
        raise TypeError(f"{name} has a decorator, which stays outside the box; call it without")
    return text


def _names(code: CodeType) -> Iterator[str]:
    """Names that are looked up in the module: by the body, by defaults, by functions inside."""
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield str(step.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _dotted(module: ModuleType, used: str) -> str:
    parent, _, last = module.__name__.rpartition(".")
    return f"from {parent} import {last} as {used}"


def _imported(value: Any, used: str, name: str, first: FunctionType) -> str:
    """A class or function of another module, found there under its own name."""
    module, own = getattr(value, "__module__", ""), getattr(value, "__qualname__", "")
    if not module or "." in own or not own.isidentifier() or module in (first.__module__, "__main__"):
        raise TypeError(f"{name} uses {used}, which cannot go into a box; define it in the function")
    return f"from {module} import {own} as {used}"


def _is_literal(value: object) -> bool:
    if isinstance(value, list | tuple | set | frozenset):
        return type(value) in (list, tuple, set) and all(map(_is_literal, value)) and value != set()
    if type(value) is dict:
        return all(_is_literal(key) and _is_literal(one) for key, one in value.items())
    return type(value) in _LITERALS
