"""skills: the programs Python files start, the hosts they go to and the variables they read, over all files of a skill.

A host counts as used if its address reaches a call that goes out (`name_flow`), through names, f-strings, parameters,
defaults and other files of the skill. Everything else is a mention, with the reason.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from husk.skills.scan.languages import Script
from husk.skills.scan.outgoing_calls import (
    BARE,
    KEYWORDS,
    METHODS,
    NAMED,
    OUTGOING,
    PRINTING,
    RECEIVER,
    root_of,
)
from husk.skills.scan.python_commands import UNKNOWN, Call, Commands
from husk.skills.scan.python_file import FileFacts, argument, comments, read_file
from husk.skills.scan.python_scopes import dotted, names_in, texts_in
from husk.skills.syntax.known_uses import mention, program_hosts
from husk.skills.syntax.name_flow import NameFlow
from husk.skills.syntax.scan_findings import KNOWN, MENTIONED, USED, Finding, hosts_in, is_host
from husk.skills.syntax.shell_commands import ShellText, Use, read_words
from husk.skills.syntax.syntax_parser import SyntaxParser, Unparsed

CARRIED = ("headers", "json", "data", "params")  # arguments of a request that are no address


@dataclass
class PythonUses:
    """`add` each file, then `finish`."""

    parser: SyntaxParser
    facts: FileFacts = field(default_factory=lambda: FileFacts(NameFlow(), Commands()))
    scripts: dict[str, Script] = field(default_factory=dict)

    def add(self, script: Script, tree: ast.Module, text: str) -> None:
        self.scripts[script.path] = script
        read_file(self.facts, script, tree)
        for line, words in comments(text):
            for host in hosts_in(words):
                script.hosts_found.append(Finding(host, MENTIONED, script.path, line, mention(host) or "in a comment"))

    def finish(self) -> None:
        self._link_parameters()
        facts = self.facts
        facts.commands.find_runners([call for call, _ in facts.calls])
        for call, script in facts.calls:
            self._command(call, script)
            self._sink(call, script)
        for key in facts.loaded:
            if NAMED.fullmatch(key.rpartition("/")[2].lstrip(".")):
                facts.flow.sink(f"the constant {key.lstrip('.')}", [key], [])
        self._hosts()

    def _link_parameters(self) -> None:
        """A parameter is what the function is called with, by place or by name."""
        facts = self.facts
        for name, declared in facts.commands.functions.items():
            for scope, given in declared:
                for number, parameter in enumerate(given):
                    handed = [argument(str(number), name), argument(parameter, name)]
                    facts.flow.define(f"{scope}/{parameter}", handed, [])
                    values = facts.commands.values.setdefault(f"{scope}/{parameter}", [])
                    for key in handed:
                        values.extend(facts.commands.values.get(key, [])[:8])

    def _hosts(self) -> None:
        reached = self.facts.flow.reached()
        for text, against in self.facts.texts.items():
            words, path, line = text
            for host in hosts_in(words):
                why, used = mention(host), reached.get(text)
                if used and (not why or not used.startswith("the constant")):
                    found = Finding(host, USED, path, line, used)
                else:
                    found = Finding(host, MENTIONED, path, line, why or against or "a text")
                self.scripts[path].hosts_found.append(found)
        for (words, path, line), used in self.facts.flow.reached(BARE).items():
            if is_host(words):
                self.scripts[path].hosts_found.append(Finding(words.lower(), USED, path, line, used))

    # -- calls -------------------------------------------------------------------------------------------------
    def _sink(self, call: Call, script: Script) -> None:
        why = self._goes_out(call)
        addresses = not call.name.endswith("add_argument") and not PRINTING.fullmatch(call.name)
        for word in call.node.keywords:
            given = word.arg or ""
            if given not in CARRIED and (why or (given in KEYWORDS and addresses)):
                self._reach(why or f"{given}=", word.value, call, script)
        if why:
            for item in call.node.args:
                self._reach(why, item, call, script)

    def _reach(self, why: str, node: ast.AST, call: Call, script: Script) -> None:
        self.facts.flow.sink(why, names_in(node, call.scope), texts_in(node, script.path))

    def _goes_out(self, call: Call) -> str:
        """The package or method by which a call goes out; empty: it does not."""
        if root := root_of(call.name):
            return root
        last = call.name.rpartition(".")[2]
        if last in OUTGOING and last not in self.facts.commands.functions:
            return last
        if isinstance(call.node.func, ast.Attribute):
            held = names_in(call.node.func.value, call.scope)
            if any(name in self.facts.clients for name in held):
                return f"a client's {last}"
            receiver = dotted(call.node.func.value)
            if last in METHODS and RECEIVER.search(receiver.rpartition(".")[2].replace("_", " ")):
                return f"{receiver}.{last}"
        return ""

    def _command(self, call: Call, script: Script) -> None:
        how = self.facts.commands.how(call)
        if how is None:
            return
        use, line = Use(), call.node.lineno
        for words in self.facts.commands.of(call, how):
            try:
                if how[1] == "shell" or (len(words) == 1 and " " in words[0].strip()):
                    ShellText(self.parser, words[0] if words else "", use, lines=line - 1).read()
                elif words:
                    read_words(self.parser, words, use, line)
            except Unparsed as error:
                script.problems.append(f"{script.path}:{line}: the command is not read: {error}")
        for at, name, _ in use.programs:
            script.programs_found.append(Finding(name, USED, script.path, at, call.name))
        for at, host, level, why in use.hosts:
            script.hosts_found.append(Finding(host, level, script.path, at, why))
        for at, words in use.words:
            if words[0] == UNKNOWN:  # most likely an interpreter whose path is found at run time
                for host in program_hosts(["python3", *words[1:]]):
                    script.hosts_found.append(Finding(host, KNOWN, script.path, at, "pip goes there"))
        if any(words[0] in ("curl", "wget", "git") for _, words in use.words):
            for item in call.node.args:
                self._reach("an argument of a program", item, call, script)
