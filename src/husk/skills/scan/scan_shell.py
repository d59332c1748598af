"""skills: what a shell script uses, from its syntax tree: programs, hosts, variables, files. Nothing is run."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from husk.skills.open_skill import Skill
from husk.skills.scan.languages import Script
from husk.skills.syntax.scan_findings import USED, Finding
from husk.skills.syntax.shell_commands import ShellText, Use
from husk.skills.syntax.syntax_parser import CLOSE, OPEN, SyntaxParser, Unparsed

ENV = re.compile(r"[A-Z][A-Z0-9_]{2,}")
# Set by the shell or by every login: no one has to give them.
_USUAL = (
    "PATH HOME USER LOGNAME PWD OLDPWD SHELL TERM LANG TMPDIR TEMP TMP HOSTNAME HOSTTYPE OSTYPE MACHTYPE UID EUID GID "
    "IFS OPTARG OPTIND OPTERR RANDOM SECONDS LINENO PPID COLUMNS LINES REPLY FUNCNAME PIPESTATUS EPOCHSECONDS "
    "DISPLAY MAPFILE SHLVL DIRSTACK GROUPS PS1 PS4 COMP_WORDS NO_COLOR EDITOR VISUAL PAGER DEBUG VERBOSE"
)
USUAL = frozenset(_USUAL.split())
READING = ("read", "mapfile", "readarray", "getopts", "printf", "unset")


@dataclass
class Shared:
    """What the shell scripts of a skill define for each other: one may source another."""

    variables: set[str] = field(default_factory=set)
    functions: set[str] = field(default_factory=set)

    def settle(self, script: Script) -> None:
        """When all are read: what another script defines is no variable from outside, and no program."""
        script.env_found = [item for item in script.env_found if item.name not in self.variables]
        script.programs_found = [item for item in script.programs_found if item.name not in self.functions]


def scan_shell(skill: Skill, script: Script, parser: SyntaxParser, shared: Shared) -> None:
    text = skill.text(script.path)
    use = Use()
    try:
        shell = ShellText(parser, text, use)
        shell.read()
    except Unparsed as error:
        script.problems.append(f"{script.path}: not read: {error}")
        return
    facts = shell.facts
    script.problems += [f"{script.path}: {problem}" for problem in use.problems]
    script.programs_found += [Finding(name, USED, script.path, line, why) for line, name, why in use.programs]
    script.hosts_found += [Finding(host, level, script.path, line, why) for line, host, level, why in use.hosts]
    own = {name for _, name, _ in [*facts["assigns"], *facts["loops"]]}
    own |= {word for _, words in use.words if words[0] in READING for word in words[1:] if ENV.fullmatch(word)}
    shared.variables |= own
    shared.functions |= shell.functions
    for line, name, sign in facts["variables"]:
        if ENV.fullmatch(name) and name not in USUAL and not name.startswith(("BASH", "LC_", "XDG_")):
            why = "has a default" if sign.strip(":") in ("-", "=", "+") else "needed"
            script.env_found.append(Finding(name, USED, script.path, line, why))
    for line, target in facts["redirects"]:
        shown = target.replace(OPEN, "${").replace(CLOSE, "}")
        if re.fullmatch(r"[\w./$~{}-]+", shown) and not shown.startswith("/dev/") and "${}" not in shown and line:
            script.writes.add(shown)
    for _, words in use.words:
        for word in words:
            if re.search(r"\.(?:sh|bash|py|m?js|pl|rb)$", word):
                candidate = f"{PurePosixPath(script.path).parent}/{PurePosixPath(word).name}"
                if candidate != script.path and candidate in skill.files:
                    script.local.add(candidate)
    if usage := re.search(r"(?im)usage:\s*([^\"'\n]+)", text):
        script.usage = usage[1].strip()
