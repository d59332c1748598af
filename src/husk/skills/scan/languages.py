"""skills: find the scripts of a skill, their language, and the command that starts them in a box."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from husk.skills.open_skill import Skill
from husk.skills.syntax.scan_findings import PROPOSED, Finding

# extension: language
EXTENSIONS = {
    ".py": "python",
    ".sh": "sh",
    ".bash": "bash",
    ".js": "node",
    ".mjs": "node",
    ".cjs": "node",
    ".ts": "typescript",
    ".pl": "perl",
    ".rb": "ruby",
    ".lua": "lua",
    ".php": "php",
    ".awk": "awk",
    ".r": "r",
}
# language: (command, its Debian package)
INTERPRETERS = {
    "python": (["python3"], "python3"),
    "sh": (["sh"], "dash"),
    "bash": (["bash"], "bash"),
    "node": (["node"], "nodejs"),
    "perl": (["perl"], "perl"),
    "ruby": (["ruby"], "ruby"),
    "lua": (["lua"], "lua5.4"),
    "php": (["php"], "php-cli"),
    "awk": (["awk", "-f"], "mawk"),
    "r": (["Rscript"], "r-base-core"),
    "typescript": (["tsx"], ""),
}
NAMES = {
    "python": r"python[\d.]*|pypy3?",
    "sh": "sh|dash|ash",
    "bash": "bash",
    "node": "node|nodejs|bun",
    "perl": "perl",
}
NAMES |= {
    "ruby": "ruby",
    "lua": r"lua[\d.]*",
    "php": "php",
    "awk": "[gmn]?awk",
    "r": "Rscript",
    "typescript": "tsx|deno",
}
# Folders whose code is imported or read, not started.
NOT_STARTED = ("references", "assets", "tests", "test", "examples", "node_modules")
TEST = re.compile(r"test_.*\.py|.*_test\.py|conftest\.py|.*\.(?:test|spec)\.[cm]?[jt]sx?")
HEAD = 1 << 12


@dataclass
class Script:
    """One file of code. `modules` and the rest are filled in by the scanners."""

    path: str  # relative to the skill
    language: str
    interpreter: list[str]  # what the `#!` line says, or empty
    usage: str = ""
    modules: dict[str, bool] = field(default_factory=dict)  # imported from outside: is it optional
    programs_found: list[Finding] = field(default_factory=list)
    hosts_found: list[Finding] = field(default_factory=list)
    env_found: list[Finding] = field(default_factory=list)
    writes: set[str] = field(default_factory=set)
    local: set[str] = field(default_factory=set)  # files of the skill that it imports or calls
    requirements: list[str] = field(default_factory=list)  # declared in the file itself (PEP 723)
    problems: list[str] = field(default_factory=list)

    @property
    def programs(self) -> set[str]:
        """What it uses for sure, or by something known; mentions are left out. The same for `hosts`."""
        return {item.name for item in self.programs_found if item.level in PROPOSED}

    @property
    def hosts(self) -> set[str]:
        return {item.name for item in self.hosts_found if item.level in PROPOSED}

    @property
    def starts(self) -> bool:
        """An __init__.py is imported, never started."""
        return PurePosixPath(self.path).name != "__init__.py"

    def command(self, where: str) -> list[str]:
        """How it is started when the skill is mounted at `where`."""
        name = f"{where}/{self.path}"
        if self.language == "elf":
            return [name]
        if self.interpreter:
            return [*self.interpreter, name]
        return [*INTERPRETERS[self.language][0], name]


def find_scripts(skill: Skill) -> list[Script]:
    found = []
    for relative in skill.files:
        path = PurePosixPath(relative)
        if path.parts[0] in NOT_STARTED or "tests" in path.parts or TEST.fullmatch(path.name):
            continue
        script = _look(skill, relative)
        if script is not None and ".so" not in path.suffixes:  # a shared library is loaded, never started
            found.append(script)
    return found


def _look(skill: Skill, relative: str) -> Script | None:
    try:
        with open(skill.root / relative, "rb") as file:
            head = file.read(HEAD)
            executable = os.fstat(file.fileno()).st_mode & 0o111
    except OSError:
        return None
    if head[:4] == b"\x7fELF":
        return Script(relative, "elf", []) if executable else None
    words = _shebang(head)
    language = _language_of(words) if words else ""
    by_name = EXTENSIONS.get(PurePosixPath(relative).suffix.lower(), "")
    if by_name:
        # `#!/usr/bin/env -S uv run` and the like name a helper that the box may not have; the extension is as reliable.
        return Script(relative, language or by_name, words if language else [])
    if words:
        return Script(relative, language or os.path.basename(words[0]), words)
    if executable or relative.startswith("scripts/"):
        guessed = _guess(head)
        return Script(relative, guessed, []) if guessed else None
    return None


def _shebang(head: bytes) -> list[str]:
    """The words of a `#!` line, with a program that is searched on PATH: absolute paths differ between machines."""
    if head[:2] != b"#!":
        return []
    line = head[2:].split(b"\n", 1)[0].decode("utf-8", "replace").strip()
    try:
        words = shlex.split(line)
    except ValueError:
        return []
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if word != "-S" and "=" not in word]
        if words[:1] == ["-S"]:
            words = words[1:]
    if not words:
        return []
    return [os.path.basename(words[0]), *words[1:]]


def _language_of(words: list[str]) -> str:
    for language, pattern in NAMES.items():
        if re.fullmatch(pattern, words[0]):
            return language
    return ""


def _guess(head: bytes) -> str:
    """Guess the language from the text, where it is unmistakable."""
    text = head.decode("utf-8", "replace")
    if "\0" in text:
        return ""
    if re.search(r"^(import \w+|from [\w.]+ import |def \w+\(.*\):)", text, re.M):
        return "python"
    if re.search(r"\brequire\(['\"]|^(const|let) \w+ ?=|^import .* from ['\"]", text, re.M):
        return "node"
    if re.search(r"^use (strict|warnings);", text, re.M):
        return "perl"
    if re.search(r"^(set -[eux]|if \[|for \w+ in .*; do|echo )", text, re.M):
        return "sh"
    return ""
