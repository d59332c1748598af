"""skills: what a Python script uses, read from its syntax tree. Nothing is imported or run."""

from __future__ import annotations

import ast
import re
import tomllib
import warnings
from pathlib import PurePosixPath

from husk.skills.open_skill import Skill
from husk.skills.scan.distributions import NAMESPACES, is_standard
from husk.skills.scan.languages import Script
from husk.skills.scan.missing_module import MissingModules
from husk.skills.scan.python_uses import PythonUses

MOST = 2 << 20
WRITERS = {"write_text", "write_bytes", "savefig", "save", "to_csv", "to_excel", "to_json", "mkdir", "makedirs"}
SCRIPT_BLOCK = re.compile(r"(?m)^# /// script\s*$\n((?:^#(?: .*)?$\n)+?)^# ///\s*$")


def scan_python(skill: Skill, script: Script, uses: PythonUses | None) -> None:
    """`uses` None: only modules, files and usage are wanted."""
    text = skill.text(script.path, MOST)
    _declared(text, script)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd escape in the skill's strings is not husk's to report
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        script.problems.append(f"{script.path}: not Python that this Python can read ({error})")
        return
    _Visitor(skill, script, tree).visit_all(tree)
    if uses is not None:
        uses.add(script, tree, text)
    script.usage = _usage(tree)


def _declared(text: str, script: Script) -> None:
    """PEP 723: a TOML block in comments at the top of a single-file script."""
    found = SCRIPT_BLOCK.search(text)
    if found is None:
        return
    body = "".join(line[2:] + "\n" if line.startswith("# ") else "\n" for line in found[1].splitlines())
    try:
        wanted = tomllib.loads(body).get("dependencies", [])
    except (ValueError, RecursionError) as error:  # no TOML, or a number or nesting that is too long
        script.problems.append(f"{script.path}: its `# /// script` block is not TOML ({error})")
        return
    if isinstance(wanted, list):
        script.requirements += [word for word in wanted if isinstance(word, str)]


class _Visitor:
    """One pass. `optional` is true below a `try` that catches ImportError and goes on without the module."""

    def __init__(self, skill: Skill, script: Script, tree: ast.Module) -> None:
        self.skill, self.script, self.missing = skill, script, MissingModules(tree)
        # A folder that is a package itself may be imported by its own name.
        self.own = {skill.root.name, skill.name.replace("-", "_")} if "__init__.py" in skill.files else set()
        self.here = PurePosixPath(script.path).parent
        self.files = set(skill.files)
        self.folders = {str(folder) for file in skill.files for folder in PurePosixPath(file).parents}

    def visit_all(self, tree: ast.AST) -> None:
        waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
        while waiting:
            node, optional = waiting.pop()
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self._module(alias.name, optional)
            elif isinstance(node, ast.ImportFrom):
                self._from(node, optional)
            elif isinstance(node, ast.Call):
                self._call(node, optional)
            if isinstance(node, ast.If) and _never(node.test):
                waiting += [(child, optional) for child in node.orelse]
            elif isinstance(node, ast.Try) and (caught := [each for each in node.handlers if _catches_import(each)]):
                can = self.missing.goes_on_without(caught)
                waiting += [(child, optional or can) for child in node.body]
                waiting += [(child, optional) for child in (*node.orelse, *node.finalbody)]
                # What stands in the handler replaces what is missing: it is not needed itself.
                waiting += [(child, True) for handler in node.handlers for child in handler.body]
            else:
                waiting += [(child, optional) for child in ast.iter_child_nodes(node)]

    def _from(self, node: ast.ImportFrom, optional: bool) -> None:
        if node.level:
            base = self.here
            for _ in range(node.level - 1):
                base = base.parent
            inner = base.joinpath(*(node.module or "").split(".")) if node.module else base
            for name in [inner, *(inner / alias.name for alias in node.names)]:
                self._file(name)
            return
        module = node.module or ""
        self._module(module, optional)
        if self._is_local(module):
            for alias in node.names:
                self._module(f"{module}.{alias.name}", optional)

    def _is_local(self, module: str) -> bool:
        return any(self._places(module))

    def _places(self, module: str) -> list[str]:
        """Where a module of the skill may be: beside the script, at the skill's root, or in a folder that some script
        put on sys.path."""
        parts = module.split(".")
        tops = [self.here, PurePosixPath("."), PurePosixPath("scripts"), PurePosixPath("lib"), PurePosixPath("src")]
        found = []
        for top in dict.fromkeys(tops):
            for end in (f"{parts[-1]}.py", f"{parts[-1]}/__init__.py"):
                name = str(top.joinpath(*parts[:-1]) / end)
                if name in self.files:
                    found.append(name)
            if not found and str(top.joinpath(*parts)) in self.folders:
                found.append("")  # a namespace package: local, with no file of its own
        return found

    def _module(self, module: str, optional: bool) -> None:
        places = self._places(module)
        if places:
            self.script.local.update(name for name in places if name)
            if outer := module.rpartition(".")[0]:  # the packages around a module are imported before it
                self._module(outer, optional)
            return
        if (
            not module
            or is_standard(module)
            or module.partition(".")[0] in self.own
            or self._places(module.partition(".")[0])
        ):
            return
        parts = module.split(".")
        top = ".".join(parts[: NAMESPACES.get(".".join(parts[:2])) or NAMESPACES.get(parts[0], 1)])
        known = self.script.modules.get(top, True)
        self.script.modules[top] = known and optional

    def _file(self, name: PurePosixPath) -> None:
        for end in (f"{name}.py", f"{name}/__init__.py"):
            if end in self.files:
                self.script.local.add(end)

    def _call(self, node: ast.Call, optional: bool) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in ("import_module", "__import__") and node.args:
            self._module(_constant(node.args[0]), optional)
        elif name == "open" and isinstance(node.func, ast.Name | ast.Attribute) and _writes(node):
            self._written(node.args[0] if node.args else None)
        elif name in WRITERS and isinstance(node.func, ast.Attribute):
            self._written(node.args[0] if node.args and name not in ("write_text", "write_bytes") else node.func.value)

    def _written(self, node: ast.AST | None) -> None:
        if isinstance(node, ast.Call) and node.args:  # Path("x").write_text
            node = node.args[0]
        text = _constant(node)
        if text and len(text) < 200:
            self.script.writes.add(text)


def _never(test: ast.expr) -> bool:
    """Is it a condition for type checkers, or for another operating system?"""
    words = {getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(test)}
    values = {node.value for node in ast.walk(test) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return "TYPE_CHECKING" in words or bool(
        {"platform", "name", "system"} & words and {"win32", "nt", "Windows"} & values
    )


def _catches_import(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    names = {getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(handler.type)}
    return bool(names & {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


def _constant(node: ast.AST | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _writes(node: ast.Call) -> bool:
    modes = [_constant(item) for item in node.args[1:2]]
    modes += [_constant(word.value) for word in node.keywords if word.arg == "mode"]
    return any(set(mode) & set("wax+") for mode in modes)


def _usage(tree: ast.Module) -> str:
    """The usage line that argparse or click would print, from the calls that build the parser."""
    words: list[str] = []
    about = ""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for node in sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        given = [_constant(item) for item in node.args]
        told = {word.arg: word.value for word in node.keywords}
        if name == "ArgumentParser":
            about = _constant(told.get("description"))
        elif name in ("add_argument", "option", "argument") and given and given[0]:
            flag = next((text for text in given if text.startswith("--")), given[0])
            valued = not (_constant(told.get("action")).startswith("store_") or "is_flag" in told or "version" in flag)
            if not flag.startswith("-"):
                words.append(flag.upper() if _constant(told.get("nargs")) not in ("?", "*") else f"[{flag.upper()}]")
            else:
                shown = f"{flag} {flag.lstrip('-').upper().replace('-', '_')}" if valued else flag
                words.append(shown if _is_true(told.get("required")) else f"[{shown}]")
    if not words and not about:
        return ""
    return " ".join(words) + (f" — {about.strip()}" if about.strip() else "")


def _is_true(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True
