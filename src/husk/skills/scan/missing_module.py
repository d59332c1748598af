"""skills: does a script go on without a module it tries to import? Read from what follows the failed import."""

from __future__ import annotations

import ast
import re
import sys

EXITS = frozenset(["sys.exit", "exit", "quit", "os._exit", "os.abort", "SystemExit"])
ASKING = re.compile(
    r"pip3? install|uv (?:add|pip)|\brequire[sd]?\b|\bneeded\b|must be installed|not installed|missing", re.I
)
GOING_ON = re.compile(r"optional|fall ?back|without|skipp|using .* instead", re.I)


class MissingModules:
    """The imports of one file. What needs all of it is looked up once."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self._leavers: set[str] | None = None
        self._bodies: list[list[ast.stmt]] = []

    @property
    def leavers(self) -> set[str]:
        if self._leavers is None:
            self._leavers = _leaving_functions(self.tree)
            functions = [
                node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            ]
            self._bodies = [self.tree.body, *(node.body for node in functions)]
        return self._leavers

    def goes_on_without(self, handlers: list[ast.ExceptHandler]) -> bool:
        """False if a missing module ends the script: then the module is required, `try` or not."""
        for handler in handlers:
            if _leaves(handler.body, self.leavers) or _installs(handler.body) or _says_and_returns(handler.body):
                return False
            instead = [name for node in handler.body for name in _imported(node)]
            if instead and not any(name in sys.stdlib_module_names for name in instead):
                return False  # one of two packages from outside: the first is as good as required
            flags = {target.id for node in handler.body for target in _targets(node)}
            if flags and any(_checks(body, flags, self.leavers) for body in self._bodies):
                return False
        return True


def _leaves(body: list[ast.stmt], leavers: set[str]) -> bool:
    """Does the block end the script, on every way through it that is seen?"""
    for node in body:
        if isinstance(node, ast.Raise):
            return True
        if isinstance(node, ast.Expr | ast.Return) and isinstance(node.value, ast.Call):
            name = _dotted(node.value.func)
            if name in EXITS or name.rpartition(".")[2] in leavers:
                return True
        if isinstance(node, ast.If) and node.orelse and _leaves(node.body, leavers) and _leaves(node.orelse, leavers):
            return True
    return False


def _says_and_returns(body: list[ast.stmt]) -> bool:
    """`print("… pip install …"); return 1`: the function gives up, and says what is required."""
    last = body[-1] if body else None
    if not isinstance(last, ast.Return):
        return False
    texts = " ".join(
        part.value
        for node in body
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    )
    return bool(ASKING.search(texts)) and not GOING_ON.search(texts)


def _installs(body: list[ast.stmt]) -> bool:
    words = [
        part.value
        for node in body
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ]
    calls = any(
        isinstance(part, ast.Call) and "subprocess" in _dotted(part.func) for node in body for part in ast.walk(node)
    )
    calls = calls or any(
        isinstance(part, ast.Call) and _dotted(part.func) == "os.system" for node in body for part in ast.walk(node)
    )
    return calls and "install" in " ".join(words)


def _checks(body: list[ast.stmt], flags: set[str], leavers: set[str]) -> bool:
    """Does a block give up where the flag says that the module is missing? A check below another condition is about
    one feature only; but `if __name__ == "__main__"` is the file itself."""
    for node in body:
        if not isinstance(node, ast.If):
            continue
        if _missing(node.test, flags) and (_leaves(node.body, leavers) or _says_and_returns(node.body)):
            return True
        if "__name__" in ast.dump(node.test) and _checks(node.body, flags, leavers):
            return True
    return False


def _missing(test: ast.expr, flags: set[str]) -> bool:
    """`not FLAG`, `FLAG is None`, `FLAG == False`, a name such as MISSING_X itself, or one of these in an `or`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return isinstance(test.operand, ast.Name) and test.operand.id in flags
    if isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id in flags:
        return isinstance(test.ops[0], ast.Is | ast.Eq)
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        return any(_missing(value, flags) for value in test.values)
    return isinstance(test, ast.Name) and test.id in flags and bool(re.search("missing|error|fail", test.id, re.I))


def _leaving_functions(tree: ast.Module) -> set[str]:
    """The file's own functions that end the script: `def die(text): print(text); sys.exit(1)`."""
    found: set[str] = set()
    for node in tree.body:
        if (
            isinstance(node, ast.FunctionDef)
            and _leaves(node.body, found)
            and not isinstance(node.body[-1], ast.Return)
        ):
            found.add(node.name)
    return found - {"main"}


def _targets(node: ast.stmt) -> list[ast.Name]:
    if isinstance(node, ast.Assign):
        found = [part for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Name)]
        return found
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target]
    return []


def _imported(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [(node.module or "").partition(".")[0]]
    return []


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"
