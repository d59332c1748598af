"""skills: what JavaScript and TypeScript files use, from their syntax trees. Nothing is run."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from husk.skills.open_skill import Skill
from husk.skills.scan.distributions import NODE_BUILTIN
from husk.skills.scan.languages import Script
from husk.skills.syntax.known_uses import mention
from husk.skills.syntax.name_flow import NameFlow, Text
from husk.skills.syntax.scan_findings import MENTIONED, USED, Finding, hosts_in
from husk.skills.syntax.shell_commands import ShellText, Use, read_words
from husk.skills.syntax.syntax_parser import CLOSE, OPEN, SyntaxParser, Unparsed

OUTGOING = re.compile(
    r"(?:(?:window|globalThis|global|self|this)\.)?(?:fetch|axios|got|ky|superagent|request|needle|WebSocket|EventSource|Request|URL)"
    r"|(?:https?|axios|got|ky|superagent|undici|needle|http2|net|tls|Bun|nodeFetch)\.\w+"
    r"|.*\b(?:page|browser|context|frame|client|api|session|http|instance|driver)\.(?:goto|get|post|put|patch|delete|head|request|connect|navigate|open)"
    r"|.*\.(?:goto|openStream)|\w*[fF]etch\w*"
)
KEYS = re.compile(r"(?:base)?_?url|uri|endpoint|host(?:name)?|server|apiBase|baseURL", re.I)
NAMED = re.compile(r"(?:.*_)?(?:URL|URLS|URI|ENDPOINT|BASE|HOST|API)")
PRINTING = re.compile(
    r"(?:console|log|logger|chalk|process\.std\w+|spinner|ora)\b.*|.*\.(?:description|option|example|epilog|usage)"
)
SHELLED = frozenset(("exec", "execSync", "execAsync", "execaCommand", "execaCommandSync", "$", "shell"))
SPAWNED = frozenset(("spawn", "spawnSync", "execFile", "execFileSync", "execa", "execaSync", "fork", "Command"))
STARTING = frozenset(("child_process", "node:child_process", "execa", "zx", "bun", "shelljs", "cross-spawn"))
UNKNOWN = f"{OPEN}{CLOSE}"
EMPTY: dict[str, Any] = {}


@dataclass
class JavaScriptUses:
    """All JavaScript files of a skill: `add` each, then `finish`."""

    parser: SyntaxParser
    flow: NameFlow = field(default_factory=NameFlow)
    texts: dict[Text, str] = field(default_factory=dict)
    scripts: dict[str, Script] = field(default_factory=dict)
    constants: set[str] = field(default_factory=set)

    def add(self, skill: Skill, script: Script) -> None:
        self.scripts[script.path] = script
        language = "typescript" if script.path.endswith((".ts", ".mts", ".cts")) else "javascript"
        text = skill.text(script.path)
        try:
            facts = self.parser.parse(language, text)
        except Unparsed as error:
            script.problems.append(f"{script.path}: not read: {error}")
            return
        _imports(skill, script, [name for _, name, _ in facts["imports"]])
        for line, words in facts["comments"]:
            for number, one in enumerate(words.splitlines()):
                for host in hosts_in(one):
                    found = Finding(host, MENTIONED, script.path, line + number, mention(host) or "in a comment")
                    script.hosts_found.append(found)
        for line, name, default in facts["env"]:
            if re.fullmatch(r"[A-Z][A-Z0-9_]+", name) and name not in ("PATH", "HOME", "USER", "PWD", "NODE_ENV"):
                script.env_found.append(
                    Finding(name, USED, script.path, line, "has a default" if default else "needed")
                )
        for line, text_, context in facts["strings"]:
            told = "printed" if PRINTING.fullmatch(context) else "a header" if "user-agent" in context.lower() else ""
            self.texts.setdefault((text_, script.path, line), told)
        for line, names, value in facts["assigns"]:
            for name in names:
                self.flow.define(name, value.get("names", []), _texts(value, script.path, line))
                if NAMED.fullmatch(name):
                    self.constants.add(name)
                if KEYS.fullmatch(name) and not NAMED.fullmatch(name) and value.get("text"):
                    self.flow.sink(f"{name}:", value.get("names", []), _texts(value, script.path, line))
        parameters = dict(facts["functions"])
        starting = any(name in STARTING for _, name, _ in facts["imports"])
        runners = _own_runners(facts, parameters) if starting else {}
        used: set[str] = set()
        for line, name, values, _ in facts["calls"]:
            last = name.rpartition(".")[2]
            for number, value in enumerate(values):
                if last in parameters and number < len(parameters[last]):
                    self.flow.define(parameters[last][number], value.get("names", []), _texts(value, script.path, line))
            if OUTGOING.fullmatch(name):
                for value in values[:2]:
                    self.flow.sink(name, value.get("names", []), _texts(value, script.path, line))
            if not PRINTING.fullmatch(name):
                used.update(word for value in values for word in value.get("names", []))
            how = _how(name, starting, runners)
            if how:
                self._command(script, facts, line, name, how, values)
        used.update(word for _, _, value in facts["assigns"] for word in value.get("names", []))
        for name in self.constants & used:
            self.flow.sink(f"the constant {name}", [name], [])
        for found in re.findall(r"\bwriteFile(?:Sync)?\s*\(\s*['\"]([^'\"]+)['\"]", text):
            script.writes.add(found)

    def _command(self, script: Script, facts: Any, line: int, name: str, how: str, values: list[Any]) -> None:
        use = Use()
        first = values[0] if values else EMPTY
        try:
            if how == "shell":
                for text in _possible(first, facts):
                    ShellText(self.parser, text, use, lines=line - 1).read()
            else:
                items = first.get("items")
                given = (values[1] if len(values) > 1 else EMPTY).get("items", [])
                for text in _possible(items[0], facts) if items else _possible(first, facts):
                    rest = [item.get("text", UNKNOWN) for item in (items[1:] if items else given)]
                    read_words(self.parser, [text, *rest], use, line)
        except Unparsed as error:
            script.problems.append(f"{script.path}:{line}: the command is not read: {error}")
        script.programs_found += [Finding(word, USED, script.path, at, name) for at, word, _ in use.programs]
        script.hosts_found += [Finding(host, level, script.path, at, why) for at, host, level, why in use.hosts]

    def finish(self) -> None:
        reached = self.flow.reached()
        by_place: dict[tuple[str, int, str], str] = {}
        for (text, path, line), why in reached.items():
            for host in hosts_in(text):
                by_place[path, line, host] = why
        for (text, path, line), told in self.texts.items():
            for host in hosts_in(text):
                why = mention(host)
                used = by_place.get((path, line, host))
                if used and (not why or not used.startswith("the constant")):
                    self.scripts[path].hosts_found.append(Finding(host, USED, path, line, used))
                else:
                    self.scripts[path].hosts_found.append(Finding(host, MENTIONED, path, line, why or told or "a text"))


def _how(name: str, starting: bool, runners: dict[str, str]) -> str:
    root, _, last = name.rpartition(".")
    if name in runners:
        return runners[name]
    if root in ("Bun", "Deno") and last in ("spawn", "spawnSync", "$", "Command"):
        return "shell" if last == "$" else "words"
    if not starting or root not in ("", "child_process", "cp", "childProcess", "shell", "sh", "proc"):
        return ""
    return "shell" if last in SHELLED else "words" if last in SPAWNED and last != "fork" else ""


def _own_runners(facts: Any, parameters: dict[str, list[str]]) -> dict[str, str]:
    """The file's own functions that hand their first parameter to a call that starts it, and promisified ones."""
    found: dict[str, str] = {}
    for _, names, value in facts["assigns"]:
        if "promisify" in value.get("names", []):
            inner = set(value["names"])
            found |= dict.fromkeys(names, "shell" if inner & SHELLED else "words" if inner & SPAWNED else "")
    for _ in range(3):
        for _, name, values, owner in facts["calls"]:
            how = _how(name, True, found)
            given = values[0].get("names", []) if values else []
            if how and owner and owner not in found and given and given[0] in parameters.get(owner, [])[:1]:
                found[owner] = how
    return {name: how for name, how in found.items() if how}


def _possible(value: Any, facts: Any) -> list[str]:
    """The texts that a value may be: itself, or what its name is given."""
    if "text" in value:
        return [value["text"]]
    if len(value.get("names", [])) != 1:
        return []
    name = value["names"][0]
    found = []
    for _, names, given in facts["assigns"]:
        if name in names:
            found += (
                [given["text"]]
                if "text" in given
                else [item["text"] for item in given.get("items", []) if "text" in item]
            )
    return found[:4]


def _texts(value: Any, path: str, line: int) -> list[Text]:
    found = [(value["text"], path, line)] if value.get("text") else []
    for item in value.get("items", []):
        found += _texts(item, path, line)
    return found


def _imports(skill: Skill, script: Script, names: list[str]) -> None:
    here = PurePosixPath(script.path).parent
    for name in names:
        if name.startswith("."):
            normal = PurePosixPath(*_normal((here / name).parts))
            bare = re.sub(r"\.(?:m|c)?js$", "", str(normal))
            for end in ("", ".js", ".mjs", ".cjs", ".ts", "/index.js", "/index.ts"):
                for stem in (str(normal), bare):
                    if f"{stem}{end}" in skill.files:
                        script.local.add(f"{stem}{end}")
        elif re.fullmatch(r"(?:@[\w.-]+/)?[\w.-]+(?:/.*)?", name) and not name.startswith(
            ("node:", "bun:", "npm:", "jsr:", "/")
        ):
            parts = name.split("/")
            top = "/".join(parts[:2]) if name.startswith("@") else parts[0]
            if top not in NODE_BUILTIN and top != "bun":
                script.modules.setdefault(top, False)


def _normal(parts: tuple[str, ...]) -> list[str]:
    found: list[str] = []
    for part in parts:
        if part == ".." and found:
            found.pop()
        elif part not in (".", ".."):
            found.append(part)
    return found
