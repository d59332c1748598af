"""skills: what scripts in Perl, Ruby and other languages use, and what documents mention, read line by line.

Text is not a syntax tree: this finds plain names and misses what is built at run time. `husk skill learn` records what
a run really used.
"""

from __future__ import annotations

import re

from husk.skills.open_skill import Skill
from husk.skills.scan.languages import Script
from husk.skills.syntax.known_uses import mention
from husk.skills.syntax.scan_findings import MENTIONED, USED, Finding, hosts_in
from husk.skills.syntax.shell_commands import ShellText, Use
from husk.skills.syntax.syntax_parser import SyntaxParser, Unparsed

COMMAND = re.compile(
    r"(?:\bsystem|\bexec|\bspawn|capture2e?|capture3|popen|%x|\bqx)\s*[\(\{]?\s*['\"]([^'\"]+)['\"]|`([^`\n]+)`"
)
GOES_OUT = re.compile(
    r"\b(?:get|post|put|request|mirror|open|fetch|connect|new|URI|curl_init|file_get_contents|download)\w*\b"
)
SHELL_FENCE = re.compile(r"\s*```(?:bash|sh|shell|console|zsh|shell-session)\b")
COMMENT = re.compile(r"^\s*(?:#|//|--|;|\*)")
WRITES = re.compile(r"(?:open|File\.write|File\.open)\s*\(?[^,\n]*?['\"](/[^'\"]+)['\"]")
ENV = re.compile(
    r"ENV\{['\"]?(\w+)['\"]?\}|ENV(?:\.fetch)?[\[\(]['\"](\w+)['\"]|getenv\(['\"](\w+)['\"]|ENV\['(\w+)'\]"
)


def scan_text(skill: Skill, script: Script, parser: SyntaxParser) -> None:
    text = skill.text(script.path)
    shell = script.language in ("perl", "ruby", "php", "lua")
    for number, line in enumerate(text.splitlines(), 1):
        for host in hosts_in(line):
            comment, goes = COMMENT.match(line), GOES_OUT.search(line)
            why = mention(host) or ("in a comment" if comment else "" if goes else "a text")
            found = Finding(host, MENTIONED if why else USED, script.path, number, why or (goes[0] if goes else ""))
            script.hosts_found.append(found)
        if shell and not COMMENT.match(line):
            for match in COMMAND.findall(line):
                _command(script, parser, match[0] or match[1], number)
        for names in ENV.findall(line):
            if (name := next(filter(None, names), "")).isupper() and name not in ("PATH", "HOME", "USER"):
                script.env_found.append(Finding(name, USED, script.path, number, "needed"))
    script.writes.update(WRITES.findall(text))


def _command(script: Script, parser: SyntaxParser, text: str, line: int) -> None:
    use = Use()
    try:
        ShellText(parser, text, use, lines=line - 1).read()
    except Unparsed as error:
        script.problems.append(f"{script.path}:{line}: the command is not read: {error}")
    script.programs_found += [Finding(name, USED, script.path, at, "starts it") for at, name, _ in use.programs]
    script.hosts_found += [Finding(host, level, script.path, at, why) for at, host, level, why in use.hosts]


def document_mentions(skill: Skill, path: str) -> list[Finding]:
    """The hosts that a document names."""
    found = []
    for number, line in enumerate(skill.text(path).splitlines(), 1):
        for host in hosts_in(line):
            found.append(Finding(host, MENTIONED, path, number, mention(host) or "in the instructions"))
    return found


def document_programs(skill: Skill, path: str, parser: SyntaxParser) -> list[Finding]:
    """The programs in the shell blocks of a document: what an agent that follows it would type."""
    found, use, block, start = list[Finding](), Use(), list[str](), 0
    for number, line in enumerate(skill.text(path).splitlines(), 1):
        if not start:
            start = number if SHELL_FENCE.match(line) else 0
        elif line.lstrip().startswith("```"):
            try:
                ShellText(parser, "\n".join(block), use, lines=start).read()
            except Unparsed:
                pass  # an example need not be a whole command
            block, start = [], 0
        else:
            block.append(re.sub(r"^\s*[$>#] ", "", line))
    for at, name, _ in use.programs:
        found.append(Finding(name, MENTIONED, path, at, "in the instructions"))
    return found
