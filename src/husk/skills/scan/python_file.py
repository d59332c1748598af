"""skills: one pass over a Python file: what names are given, calls, texts with addresses, and variables."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from dataclasses import dataclass, field

from husk.skills.scan.languages import Script
from husk.skills.scan.outgoing_calls import HELPING, PRINTING, root_of
from husk.skills.scan.python_commands import Call, Commands
from husk.skills.scan.python_scopes import (
    Function,
    Scope,
    constant,
    dotted,
    joined,
    names_in,
    own_names,
    parameters,
    texts_in,
)
from husk.skills.syntax.name_flow import NameFlow, Text
from husk.skills.syntax.scan_findings import USED, Finding, hosts_in

MOST_WAYS = 8
READING = ("os.getenv", "os.environ.get", "os.environ.setdefault", "os.environ.pop")
USUAL = frozenset(("PATH", "HOME", "USER", "PWD", "SHELL", "LANG", "TMPDIR", "TERM", "PYTHONPATH", "DISPLAY"))


@dataclass
class FileFacts:
    """What the files of a skill say together."""

    flow: NameFlow
    commands: Commands
    texts: dict[Text, str] = field(
        default_factory=dict
    )  # with an address in them: why it may be no more than a mention
    calls: list[tuple[Call, Script]] = field(default_factory=list)
    clients: set[str] = field(default_factory=set)  # names of objects that go out
    loaded: set[str] = field(default_factory=set)  # names that are used in anything but printing


def read_file(facts: FileFacts, script: Script, tree: ast.Module) -> None:
    _File(facts, script).read(tree)


class _File:
    """One pass over a file: definitions, calls, texts with addresses, variables."""

    def __init__(self, facts: FileFacts, script: Script) -> None:
        self.facts, self.script = facts, script
        self.imports: dict[str, str] = {}
        self.documents = set[int]()

    def read(self, tree: ast.Module) -> None:
        for part in ast.walk(tree):  # first: a function may stand above the import that it uses
            if isinstance(part, ast.Import | ast.ImportFrom):
                self._import(part)
        top = Scope("", None, set())
        waiting: list[tuple[ast.AST, Scope, str]] = [(tree, top, "")]
        while waiting:
            node, scope, against = waiting.pop()
            inner, told = scope, against
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                inner = self._function(node, scope)
            if isinstance(node, ast.Expr) and constant(node.value):
                self.documents.add(id(node.value))
            self._look(node, scope, told)
            if isinstance(node, ast.JoinedStr):
                waiting += [(part.value, inner, told) for part in node.values if isinstance(part, ast.FormattedValue)]
                continue
            if isinstance(node, ast.Call):
                waiting += self._arguments(node, inner, told)
                continue
            if isinstance(node, ast.Dict):
                for key, value in zip(node.keys, node.values, strict=True):
                    named = constant(key).lower()
                    about = "a header" if named in ("user-agent", "referer", "http-referer", "origin") else told
                    waiting += [(part, inner, about) for part in (key, value) if part is not None]
                continue
            waiting += [(child, inner, told) for child in ast.iter_child_nodes(node)]
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and told != "printed":
                self.facts.loaded.add(scope.key(node.id))
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and told != "printed":
                self.facts.loaded.add(f".{node.attr}")

    def _arguments(self, node: ast.Call, scope: Scope, told: str) -> list[tuple[ast.AST, Scope, str]]:
        name = self._resolved(node.func)
        prints = "printed" if PRINTING.fullmatch(name) else told
        found: list[tuple[ast.AST, Scope, str]] = [
            (node.func, scope, told),
            *((item, scope, prints) for item in node.args),
        ]
        for word in node.keywords:
            found.append((word.value, scope, "in a help text" if word.arg in HELPING else prints))
        return found

    def _look(self, node: ast.AST, scope: Scope, against: str) -> None:
        flow, path = self.facts.flow, self.script.path
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and part.name == "__init__":
                    made = f"{path}:{part.lineno}.__init__"
                    self.facts.commands.functions.setdefault(node.name, []).append((made, parameters(part)[1:]))
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._define(target, node.value, scope)
        elif isinstance(node, ast.AugAssign):  # more of it: a command still begins as it did
            self._define(node.target, node.value, scope, whole=False)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            self._define(node.target, node.value, scope)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            self._define(node.target, node.iter, scope)
            if isinstance(node.iter, ast.List | ast.Tuple) and isinstance(node.target, ast.Name):
                self.facts.commands.values.setdefault(scope.key(node.target.id), []).extend(
                    (item, scope) for item in node.iter.elts[:MOST_WAYS]
                )
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._define(node.optional_vars, node.context_expr, scope)
        elif isinstance(node, ast.Return) and node.value is not None and scope.outer is not None:
            for key in (scope.name.rpartition(".")[2], f".{scope.name.rpartition('.')[2]}"):
                flow.define(key, names_in(node.value, scope), texts_in(node.value, path))
                self.facts.commands.values.setdefault(key, []).append((node.value, scope))
        elif isinstance(node, ast.Call):
            self._call(node, scope)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            if self._resolved(node.value) == "os.environ":
                self._env(constant(node.slice), node, "needed")
        elif isinstance(node, ast.Constant | ast.JoinedStr):
            text = joined(node) if isinstance(node, ast.JoinedStr) else constant(node)
            if "://" in text and hosts_in(text):
                about = "in a docstring" if id(node) in self.documents else against
                self.facts.texts.setdefault((text, path, node.lineno), about)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                self.imports[alias.asname or alias.name] = f"{node.module or ''}.{alias.name}"
                if alias.asname:
                    self.facts.flow.define(alias.asname, [alias.name], [])
            elif alias.asname:
                self.imports[alias.asname] = alias.name

    def _define(self, target: ast.AST, value: ast.expr, scope: Scope, *, whole: bool = True) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            same = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
            for number, item in enumerate(target.elts):
                self._define(
                    item, value.elts[number] if same and isinstance(value, ast.Tuple | ast.List) else value, scope
                )
            return
        keys = []
        if isinstance(target, ast.Name):
            keys = [scope.key(target.id)]
            if scope.outer is None:
                keys.append(f".{target.id}")  # as other files name it: module.NAME, Class.NAME
        elif isinstance(target, ast.Attribute):
            keys = [f".{target.attr}"]
        elif isinstance(target, ast.Subscript):
            keys = names_in(target.value, scope)[:1]
        names, texts = names_in(value, scope), texts_in(value, self.script.path)
        for key in keys:
            self.facts.flow.define(key, names, texts)
            if whole:
                self.facts.commands.values.setdefault(key, []).append((value, scope))
            made = value.value if isinstance(value, ast.Await) else value
            if isinstance(made, ast.Call) and root_of(self._resolved(made.func)):
                self.facts.clients.add(key)

    def _function(self, node: Function, scope: Scope) -> Scope:
        name = getattr(node, "name", "")
        inner = Scope(f"{self.script.path}:{node.lineno}.{name}", scope, own_names(node))
        given = parameters(node)
        given = given[1:] if given[:1] in (["self"], ["cls"]) else given
        if name:
            self.facts.commands.functions.setdefault(name, []).append((inner.name, given))
        positional = [*node.args.posonlyargs, *node.args.args]
        defaults = list(zip(positional[len(positional) - len(node.args.defaults) :], node.args.defaults, strict=True))
        defaults += [
            (each, value) for each, value in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if value
        ]
        for each, value in defaults:
            self.facts.flow.define(inner.key(each.arg), names_in(value, scope), texts_in(value, self.script.path))
            self.facts.commands.values.setdefault(inner.key(each.arg), []).append((value, scope))
        return inner

    def _resolved(self, node: ast.AST) -> str:
        name = dotted(node)
        first, dot, rest = name.partition(".")
        return f"{self.imports.get(first, first)}{dot}{rest}"

    def _call(self, node: ast.Call, scope: Scope) -> None:
        name = self._resolved(node.func)
        self.facts.calls.append((Call(node, name, scope), self.script))
        last = name.rpartition(".")[2]
        if name in ("os.getenv", "os.environ.get", "os.environ.setdefault", "os.environ.pop") and node.args:
            optional = len(node.args) > 1 or bool(node.keywords)
            self._env(constant(node.args[0]), node, "has a default" if optional else "needed")
        elif last == "add_argument" and node.args:
            flag = next(
                (text for item in node.args if (text := constant(item)).startswith("--")), constant(node.args[0])
            )
            told = {word.arg: word.value for word in node.keywords}
            key = f".{constant(told.get('dest')) or flag.lstrip('-').replace('-', '_')}"
            if value := told.get("default"):
                self.facts.flow.define(key, names_in(value, scope), texts_in(value, self.script.path))
        # What the skill's own functions are called with. They may stand below, or in a file that is read later.
        for number, item in enumerate(node.args[:20]):
            self._hand(last, str(number), item, scope)
        for word in node.keywords[:20]:
            if word.arg:
                self._hand(last, word.arg, word.value, scope)

    def _hand(self, name: str, place: str, value: ast.expr, scope: Scope) -> None:
        names, texts = names_in(value, scope), texts_in(value, self.script.path)
        if names or texts:
            self.facts.flow.define(argument(place, name), names, texts)
            if not place.isdigit() and name[:1].isupper():  # a field of a data class
                self.facts.flow.define(f".{place}", names, texts)
            self.facts.commands.values.setdefault(argument(place, name), []).append((value, scope))

    def _env(self, name: str, node: ast.expr, why: str) -> None:
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name not in USUAL:
            self.script.env_found.append(Finding(name, USED, self.script.path, node.lineno, why))


def argument(place: str, name: str) -> str:
    return f"argument {place} of {name}"


def comments(text: str) -> list[tuple[int, str]]:
    if "://" not in text:
        return []
    found = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and "://" in token.string:
                found.append((token.start[0], token.string))
    except (tokenize.TokenError, SyntaxError, ValueError):
        pass
    return found
