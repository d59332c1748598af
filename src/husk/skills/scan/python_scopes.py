"""skills: names, texts and scopes of a Python syntax tree, as the scanners need them. Nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from husk.skills.scan.outgoing_calls import HELPING
from husk.skills.syntax.name_flow import Text
from husk.skills.syntax.syntax_parser import CLOSE, OPEN

MOST_NODES = 2000  # looked at in one expression
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Scope:
    """A function's own names; `outer` is the one around it, None at the top of the file."""

    def __init__(self, name: str, outer: Scope | None, own: set[str]) -> None:
        self.name, self.outer, self.own = name, outer, own

    def key(self, name: str) -> str:
        """The name for the flow: one per function for its own names, one per skill for the others."""
        scope: Scope | None = self
        while scope is not None and scope.outer is not None:
            if name in scope.own:
                return f"{scope.name}/{name}"
            scope = scope.outer
        return name


def parameters(node: Function) -> list[str]:
    given = node.args
    return [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def own_names(node: Function) -> set[str]:
    found = set(parameters(node))
    for extra in (node.args.vararg, node.args.kwarg):
        if extra is not None:
            found.add(extra.arg)
    shared: set[str] = set()
    waiting: list[ast.AST] = list(node.body) if isinstance(node.body, list) else [node.body]
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            found.add(part.id)
        elif isinstance(part, ast.Global | ast.Nonlocal):
            shared.update(part.names)
        if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            waiting += ast.iter_child_nodes(part)
    return found - shared


def dotted(node: ast.AST) -> str:
    """`a.b.c`; a part that is no name is `?`."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    parts.append(node.id if isinstance(node, ast.Name) else "?")
    return ".".join(reversed(parts))


def constant(node: ast.AST | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def joined(node: ast.JoinedStr) -> str:
    """An f-string, with a mark for what is filled in."""
    return "".join(
        part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else f"{OPEN}{CLOSE}"
        for part in node.values
    )


def walk_some(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of an expression, an f-string as one text; no more than MOST_NODES."""
    waiting, seen = [node], 0
    while waiting and seen < MOST_NODES:
        part = waiting.pop()
        seen += 1
        yield part
        if isinstance(part, ast.JoinedStr):
            waiting += [inner.value for inner in part.values if isinstance(inner, ast.FormattedValue)]
        elif isinstance(part, ast.Call):  # a help text is for people
            waiting += [part.func, *part.args, *(word.value for word in part.keywords if word.arg not in HELPING)]
        else:
            waiting += ast.iter_child_nodes(part)


def names_in(node: ast.AST, scope: Scope) -> list[str]:
    found = []
    for part in walk_some(node):
        if isinstance(part, ast.Name):
            found.append(scope.key(part.id))
        elif isinstance(part, ast.Attribute):
            found.append(f".{part.attr}")
    return found


def texts_in(node: ast.AST, path: str) -> list[Text]:
    found = []
    for part in walk_some(node):
        text = joined(part) if isinstance(part, ast.JoinedStr) else constant(part)
        if text:
            found.append((text, path, getattr(part, "lineno", 0)))
    return found
