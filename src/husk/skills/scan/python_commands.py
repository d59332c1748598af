"""skills: the commands that Python code starts: which words a call to subprocess and the like may be given."""

from __future__ import annotations

import ast
import shlex
from dataclasses import dataclass, field

from husk.skills.scan.outgoing_calls import ASKING, RUNNERS, SECOND, SHELLED, SPREAD
from husk.skills.scan.python_scopes import Scope, constant, dotted
from husk.skills.syntax.syntax_parser import CLOSE, OPEN

MOST_WAYS, DEEPEST, ROUNDS = 8, 10, 4
MOST_STEPS = 300_000  # for a whole skill: names that stand for each other could keep this busy for ever
UNKNOWN = f"{OPEN}{CLOSE}"
How = tuple[int, str]  # which argument is the command, and how it is read: "words", "shell" or "spread"


@dataclass
class Call:
    node: ast.Call
    name: str  # with the names of imports resolved
    scope: Scope


@dataclass
class Commands:
    """`values`: what each name is given, `functions`: for the skill's own functions their scopes and parameters."""

    values: dict[str, list[tuple[ast.expr, Scope]]] = field(default_factory=dict)
    functions: dict[str, list[tuple[str, list[str]]]] = field(default_factory=dict)
    runners: dict[str, How] = field(default_factory=dict)  # the skill's own functions that start what they are given
    steps: int = 0

    def find_runners(self, calls: list[Call]) -> None:
        """A function that hands one of its parameters on to a call that starts it starts it too."""
        owners = {scope: (name, given) for name, declared in self.functions.items() for scope, given in declared}
        for _ in range(ROUNDS):
            before = len(self.runners)
            for call in calls:
                how, owner = self.how(call), owners.get(call.scope.name)
                if how is None or owner is None or how[0] >= len(call.node.args):
                    continue
                leading = _leading(call.node.args[how[0]], call.scope)
                for number, word in enumerate(owner[1]):
                    if leading == f"{call.scope.name}/{word}":
                        self.runners.setdefault(owner[0], (number, how[1]))
            if len(self.runners) == before:
                break

    def how(self, call: Call) -> How | None:
        name = call.name
        if name in SECOND:
            return 1, "words"
        if name in RUNNERS:
            shell = name in SHELLED or any(
                word.arg == "shell" and not (isinstance(word.value, ast.Constant) and not word.value.value)
                for word in call.node.keywords
            )
            return 0, "shell" if shell else "spread" if name in SPREAD else "words"
        last = name.rpartition(".")[2]
        if last in self.runners and (name == last or name.startswith(("self.", "cls.", "?."))):
            return self.runners[last]
        return None

    def of(self, call: Call, how: How) -> list[list[str]]:
        """What the call may start, each a list of words; a text for a shell is a list of one."""
        number, kind = how
        if kind == "spread":
            return self._lists(call.node.args, call.scope, DEEPEST)
        if number < len(call.node.args):
            return self._ways(call.node.args[number], call.scope, DEEPEST)[:MOST_WAYS]
        named = [word.value for word in call.node.keywords if word.arg in ("args", "cmd", "command")]
        return [way for value in named for way in self._ways(value, call.scope, DEEPEST)][:MOST_WAYS]

    def _ways(self, node: ast.AST | None, scope: Scope, depth: int) -> list[list[str]]:
        self.steps += 1
        if depth <= 0 or node is None or self.steps > MOST_STEPS:
            return []
        if isinstance(node, ast.List | ast.Tuple):
            return self._lists(node.elts, scope, depth - 1)
        if isinstance(node, ast.JoinedStr):
            return [[self._filled(node, scope, depth)]]
        if text := constant(node):
            return [[text]]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._sum(node, scope, depth)
        if isinstance(node, ast.IfExp):
            return self._ways(node.body, scope, depth - 1) + self._ways(node.orelse, scope, depth - 1)
        if isinstance(node, ast.BoolOp):
            return [way for value in node.values for way in self._ways(value, scope, depth - 1)][:MOST_WAYS]
        if isinstance(node, ast.Name | ast.Attribute):
            if dotted(node) == "sys.executable":
                return [["python3"]]
            key = scope.key(node.id) if isinstance(node, ast.Name) else f".{node.attr}"
            found = self.values.get(key, [])[:MOST_WAYS]
            return [way for value, place in found for way in self._ways(value, place, depth - 1)][:MOST_WAYS]
        if isinstance(node, ast.Subscript):
            return self._entries(node, scope, depth)
        return self._ways_of_call(node, scope, depth) if isinstance(node, ast.Call) else []

    def _entries(self, node: ast.Subscript, scope: Scope, depth: int) -> list[list[str]]:
        """An entry of a dictionary that is written down: the one of a known key, else any."""
        held, wanted = node.value, constant(node.slice)
        key = (
            scope.key(held.id)
            if isinstance(held, ast.Name)
            else f".{held.attr}"
            if isinstance(held, ast.Attribute)
            else ""
        )
        found: list[list[str]] = []
        for value, place in self.values.get(key, [])[:MOST_WAYS]:
            if isinstance(value, ast.Dict):
                for name, entry in zip(value.keys, value.values, strict=True):
                    if not wanted or constant(name) == wanted:
                        found += self._ways(entry, place, depth - 1)
        return found[:MOST_WAYS]

    def _sum(self, node: ast.BinOp, scope: Scope, depth: int) -> list[list[str]]:
        left, right = (self._ways(side, scope, depth - 1) for side in (node.left, node.right))
        tail = right[0] if right else [UNKNOWN]
        if constant(node.left) or isinstance(node.left, ast.JoinedStr):
            return [[(way[0] if way else "") + "".join(tail)] for way in left]
        return [[*way, *tail] for way in left]

    def _ways_of_call(self, node: ast.Call, scope: Scope, depth: int) -> list[list[str]]:
        name = dotted(node.func)
        held, given = getattr(node.func, "value", None), node.args[0] if node.args else None
        if name == "shlex.split" or name.endswith(".split"):
            found = []
            for way in self._ways(given if name == "shlex.split" else held, scope, depth - 1):
                try:
                    found.append(shlex.split(way[0]))
                except (ValueError, IndexError):
                    pass
            return found
        if name.endswith(".join") and constant(held) == " ":
            return [[" ".join(way)] for way in self._ways(given, scope, depth - 1)]
        if name in ("str", "list", "shlex.quote", "which", "Path") or name in ASKING:
            return self._ways(given, scope, depth - 1)
        # One of the skill's own functions: what it returns.
        if name.rpartition(".")[2] in self.functions:
            return self._ways(node.func, scope, depth - 1)
        return []

    def _lists(self, parts: list[ast.expr], scope: Scope, depth: int) -> list[list[str]]:
        """A list of words; several if its first word may be several things."""
        if not parts:
            return []
        rest: list[str] = []
        for part in parts[1:200]:
            ways = self._ways(part.value if isinstance(part, ast.Starred) else part, scope, depth - 1)
            way = ways[0] if ways and ways[0] else [UNKNOWN]
            rest += way if isinstance(part, ast.Starred) else way[:1]
        first = parts[0].value if isinstance(parts[0], ast.Starred) else parts[0]
        firsts = self._ways(first, scope, depth - 1) or [[UNKNOWN]]
        return [[*(way if isinstance(parts[0], ast.Starred) else way[:1]), *rest] for way in firsts if way]

    def _filled(self, node: ast.JoinedStr, scope: Scope, depth: int) -> str:
        """An f-string, with constants filled in where a name has one value."""
        out = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                ways = self._ways(part.value, scope, depth - 1)
                out.append(ways[0][0] if len(ways) == 1 and len(ways[0]) == 1 else UNKNOWN)
            else:
                out.append(constant(part))
        return "".join(out)


def _leading(node: ast.AST | None, scope: Scope, depth: int = DEEPEST) -> str:
    """The name that a command begins with; empty: it begins with something else."""
    if depth == 0 or node is None:
        return ""
    if isinstance(node, ast.Name):
        return scope.key(node.id)
    if isinstance(node, ast.List | ast.Tuple) and node.elts:
        return _leading(node.elts[0], scope, depth - 1)
    if isinstance(node, ast.Starred | ast.FormattedValue):
        return _leading(node.value, scope, depth - 1)
    if isinstance(node, ast.JoinedStr) and node.values:
        return _leading(node.values[0], scope, depth - 1)
    if isinstance(node, ast.BinOp):
        return _leading(node.left, scope, depth - 1)
    if isinstance(node, ast.Call):
        inner = getattr(node.func, "value", None) if dotted(node.func).endswith(".split") else None
        return _leading(node.args[0] if node.args else inner, scope, depth - 1)
    return ""
