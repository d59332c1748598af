"""skills: what scripts in shell, JavaScript, Perl and Ruby use, read from their text. Nothing is run.

Text is not a syntax tree: this finds plain names and misses what is built at run time. The result is a proposal for a
person; `husk skill learn` records what a run really used.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from husk.skills.open_skill import Skill
from husk.skills.scan.distributions import NODE_BUILTIN
from husk.skills.scan.languages import Script

HOST = re.compile(r"\b(?:https?|wss?|ftp)://([A-Za-z0-9.-]+\.[A-Za-z]{2,}(?::\d+)?|localhost(?::\d+)?)")
PROGRAM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_KEYWORDS = (
    "if then else elif fi for while until do done case esac in function select time coproc . : [ [[ ]] ! { } alias bg "
    "bind break builtin caller cd command compgen complete continue declare dirs disown echo enable eval exec exit "
    "export false fc fg getopts hash help history jobs kill let local logout mapfile popd printf pushd pwd read "
    "readarray readonly return set shift shopt source suspend test times trap true type typeset ulimit umask unalias "
    "unset wait sudo env nohup nice xargs"
)
KEYWORDS = frozenset(_KEYWORDS.split())
# Words that stand before a command and are not the command.
_BEFORE = "sudo env nohup nice time exec command xargs if then else elif while until do ! {"
TRANSPARENT = frozenset(_BEFORE.split())
STARTERS = frozenset(("nohup", "nice", "xargs"))  # those of them that are programs
QUOTED = re.compile(r"\\.|'[^']*'|\"(?:[^\"\\$]|\\.|\$\((?:[^()\"]|\"[^\"]*\")*\)|\$(?!\())*\"", re.S)
MOST = 1 << 20


def scan_text(skill: Skill, script: Script) -> None:
    text = skill.text(script.path, MOST)
    script.hosts.update(HOST.findall(text))
    if script.language in ("sh", "bash"):
        _shell(text, script)
    elif script.language in ("node", "typescript"):
        _javascript(skill, text, script)
    elif script.language in ("perl", "ruby"):
        for found in re.findall(
            r"(?:system|exec|spawn|capture2e?|capture3|popen)\s*\(?\s*['\"]([^'\"]+)['\"]|`([^`]+)`", text
        ):
            script.programs.update(shell_programs(found[0] or found[1]))
        script.writes.update(re.findall(r"(?:open|File\.write|File\.open)\s*\(?[^,\n]*?['\"](/[^'\"]+)['\"]", text))


def shell_programs(text: str) -> set[str]:
    """The programs of a piece of shell: the first word of each simple command, as far as the text tells."""
    found = set()
    text = re.sub(r"\\\n", " ", text)
    # The argument of `trap` is a command although it is quoted; and a script that looks for a program runs it.
    for single, double in re.findall(r"(?m)^\s*trap\s+(?:'([^'\n]*)'|\"([^\"\n]*)\")", text):
        found |= shell_programs(single or double)
    found.update(re.findall(r"\b(?:command -v|which|type -P) +([a-z][\w.+-]*)", text))
    functions = set(re.findall(r"(?m)^\s*(?:function\s+)?([A-Za-z_][\w-]*)\s*\(\)", text))
    text = QUOTED.sub(_quoted, text)
    for piece in re.split(r"[\n;|&]+|\$\(|`|\(", text):
        words = piece.strip().split()
        while words and (words[0] in TRANSPARENT or re.fullmatch(r"[A-Za-z_]\w*\+?=.*", words[0])):
            if (before := words.pop(0)) in STARTERS:
                found.add(before)
        if words and words[0] not in functions:
            found |= programs_of_words(words)
    return found


def _quoted(found: re.Match[str]) -> str:
    """Quoted text is data, or a program for awk; only command substitutions in double quotes are commands."""
    text = found[0]
    if text[0] == '"':
        return '""\n' + "\n".join(re.findall(r"\$\(([^()]*)\)", text)) + "\n" if "$(" in text else '""'
    return "''"


def programs_of_words(words: list[str]) -> set[str]:
    if not words or not words[0]:
        return set()
    name = words[0].rsplit("/", 1)[-1] if words[0].startswith(("/usr/", "/bin/")) else words[0]
    return {name} if PROGRAM.fullmatch(name) and name not in KEYWORDS and not name.isdigit() else set()


def _shell(text: str, script: Script) -> None:
    lines, ends = [], ""
    for line in text.splitlines():
        if ends:
            ends = "" if line.strip() == ends else ends
            continue
        bare = re.sub(r"(^|\s)#.*$", "", line)
        lines.append(bare)
        if marker := re.search(r"<<-?\s*['\"]?([A-Za-z_]\w*)['\"]?", bare):
            ends = marker[1]
    code = "\n".join(lines)
    # `pattern) command` of a case: the pattern is no command.
    script.programs |= shell_programs(re.sub(r"(?m)^\s*[^()\s]+\)", "", code))
    bare = re.sub(r"'[^']*'", "''", code)
    script.writes.update(
        name
        for name in re.findall(r"(?<![<&\d-])>{1,2}\s*\"?([\w./$~{}-]+)", bare)
        if not name.startswith(("/dev/", "&"))
    )
    for name in re.findall(r"(?:^|\s)([\w./$\"{}-]+\.(?:sh|py|js|pl|rb))\b", code):
        candidate = f"{PurePosixPath(script.path).parent}/{PurePosixPath(name).name}"
        if candidate != script.path:
            script.local.add(candidate)
    if usage := re.search(r"(?im)usage:\s*([^\"'\n]+)", text):
        script.usage = usage[1].strip()


def _javascript(skill: Skill, text: str, script: Script) -> None:
    here = PurePosixPath(script.path).parent
    names = re.findall(r"\brequire\s*\(\s*['\"]([^'\"]+)['\"]\s*\)", text)
    names += re.findall(r"(?m)^\s*(?:import|export)\b[^'\";]*?['\"]([^'\"]+)['\"]", text)
    names += re.findall(r"\bimport\s*\(\s*['\"]([^'\"]+)['\"]\s*\)", text)
    for name in names:
        if name.startswith("."):
            base = str(here / name)
            normal = PurePosixPath(*[part for part in PurePosixPath(base).parts if part != "."])
            for end in ("", ".js", ".mjs", ".cjs", "/index.js"):
                if f"{normal}{end}" in skill.files:
                    script.local.add(f"{normal}{end}")
        elif not name.startswith(("node:", "/")):
            parts = name.split("/")
            top = "/".join(parts[:2]) if name.startswith("@") else parts[0]
            if top not in NODE_BUILTIN:
                script.modules.setdefault(top, False)
    for found in re.findall(r"\b(?:exec|execSync)\s*\(\s*['\"`]([^'\"`]+)", text):
        script.programs |= shell_programs(found)
    for found in re.findall(r"\b(?:spawn|spawnSync|execFile|execFileSync)\s*\(\s*['\"]([^'\"]+)['\"]", text):
        script.programs |= programs_of_words([found])
    script.writes.update(re.findall(r"\bwriteFile(?:Sync)?\s*\(\s*['\"]([^'\"]+)['\"]", text))
