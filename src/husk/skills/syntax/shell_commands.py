"""skills: the programs that commands of a shell start, and the hosts they go to, from parsed text. Nothing is run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from husk.skills.syntax.known_uses import BARE_HOSTS, TAKING_HOSTS, mention, program_hosts
from husk.skills.syntax.scan_findings import KNOWN, MENTIONED, USED, hosts_in, is_host
from husk.skills.syntax.syntax_parser import CLOSE, OPEN, Facts, SyntaxParser, Unparsed

PROGRAM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}")
VARIABLE = re.compile(f"{OPEN}([^{CLOSE}]*){CLOSE}")
MOST_VALUES, DEEPEST = 4, 4
_BUILTINS = (
    ". : [ alias bg bind break builtin caller cd command compgen complete compopt continue declare dirs disown echo "
    "enable eval exec exit export false fc fg getopts hash help history jobs kill let local logout mapfile popd printf "
    "pushd pwd read readarray readonly return set shift shopt source suspend test times trap true type typeset ulimit "
    "umask unalias unset wait time coproc if then else elif fi for while until do done case esac in function select"
)
BUILTINS = frozenset(_BUILTINS.split())
UNLISTED = frozenset(("sudo", "doas", "env"))  # a box has no other user to become, and `env` needs no entry
SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "ash"))
PRINTING = re.compile(
    r"echo|printf|cat|tee|log\w*|info|warn\w*|err|error|errors?_?msg|die|fail\w*|usage|say|print\w*|note|msg|message|"
    r"success|abort|notice|debug|help|banner|head(?:ing|er)|title|step|grep|e?grep|rg|sed|awk|jq|tr|cut|xmllint|test|\[|"
    r"open|xdg-open|export|read|expr|bc|wc|sort|diff|_?\w*(?:echo|log|print|warn|error|info|usage)"
)
# A program that starts another: its options that take a value, and how many operands stand before the command.
WRAPPERS: dict[str, tuple[str, int]] = {
    "sudo": ("-u -g -h -p -C -T -U -r -t", 0),
    "doas": ("-u -C", 0),
    "env": ("-u -C --unset --chdir", 0),
    "timeout": ("-s -k --signal --kill-after", 1),
    "gtimeout": ("-s -k --signal --kill-after", 1),
    "nice": ("-n --adjustment", 0),
    "ionice": ("-c -n -p", 0),
    "nohup": ("", 0),
    "setsid": ("", 0),
    "stdbuf": ("-i -o -e", 0),
    "unbuffer": ("", 0),
    "chronic": ("", 0),
    "caffeinate": ("-t -w", 0),
    "taskset": ("", 1),
    "flock": ("-w -E --timeout", 1),
    "xargs": ("-I -n -P -d -L -a -E -s --max-args --max-procs --delimiter --arg-file", 0),
    "watch": ("-n --interval", 0),
    "strace": ("-o -e -p -s -f", 0),
    "time": ("-f -o", 0),
    "xvfb-run": ("-s -n -e -f -w --server-args --server-num", 0),
    "dbus-run-session": ("--config-file", 0),
    "parallel": ("-j --jobs", 0),
    "command": ("", 0),
    "builtin": ("", 0),
    "exec": ("-a", 0),
    "!": ("", 0),
}
ASKING = {("command", "-v"), ("command", "-V"), ("type", "-P"), ("type", "-p"), ("type", "-t")}


@dataclass
class Use:
    """What a piece of shell uses: (line, name, why) for programs and (line, host, level, why) for hosts."""

    programs: list[tuple[int, str, str]] = field(default_factory=list)
    hosts: list[tuple[int, str, str, str]] = field(default_factory=list)
    words: list[tuple[int, list[str]]] = field(default_factory=list)  # every command that was seen
    problems: list[str] = field(default_factory=list)


class ShellText:
    """One text of shell. `lines` is what its first line has before it in its file."""

    def __init__(self, parser: SyntaxParser, text: str, use: Use, *, lines: int = 0, depth: int = 0) -> None:
        self.parser, self.use, self.lines, self.depth = parser, use, lines, depth
        self.facts: Facts = parser.parse("shell", text)
        self.functions = set(self.facts["functions"])
        self.values: dict[str, list[str]] = {}
        for _, name, words in [*self.facts["assigns"], *self.facts["loops"], *self.facts["defaults"]]:
            self.values.setdefault(name, []).extend(words)
        self.arrays: dict[str, list[str]] = {name: words for _, name, words in self.facts["arrays"]}
        # A function that goes out takes its arguments with it.
        self.outgoing = {
            owner for _, owner, words in self.facts["commands"] if owner and self._name(words[0]) in TAKING_HOSTS
        }
        self.reached = set[str]()  # variables in arguments of commands that do not print

    def read(self) -> None:
        for line, _, words in self.facts["commands"]:
            self._command(line + self.lines, words)
        for line, number, text in self.facts["heredocs"]:
            owner = self.facts["commands"][number][2] if 0 <= number < len(self.facts["commands"]) else [""]
            if self._name(owner[0]) in SHELLS and len(owner) < 3:
                self._inner(text, line - 1 + self.lines)
            else:
                self._mentions(text, line + self.lines, "in a text")
        for line, text in self.facts["comments"]:
            self._mentions(text, line + self.lines, "in a comment")
        for line, name, words in self.facts["assigns"]:
            for host in (host for word in words for host in hosts_in(word)):
                if why := mention(host):
                    self._host(line + self.lines, host, MENTIONED, why)
                elif name in self.reached:
                    self._host(line + self.lines, host, USED, f"the variable {name}")
                else:
                    self._host(line + self.lines, host, MENTIONED, f"the variable {name}, which nothing seems to use")

    def _command(self, line: int, words: list[str], *, tries: int = DEEPEST) -> None:
        """One simple command: itself, and what it starts in its turn."""
        if not words or tries == 0:
            return
        first = words[0]
        if match := VARIABLE.fullmatch(first):
            if array := self.arrays.get(match[1]):  # `"${words[@]}"` holds the beginning of the command
                self._command(line, [*array, *words[1:]], tries=tries - 1)
                return
            for value in self.values.get(match[1], [])[:MOST_VALUES]:
                if value and value != first and (OPEN not in value or VARIABLE.fullmatch(value)):
                    self._command(line, [*value.split(), *words[1:]], tries=tries - 1)
            return
        name = self._name(first)
        self.use.words.append((line, [name, *words[1:]]))
        if name in ("eval", "trap") or (name in SHELLS and _text_of(words)):
            text = (
                words[1]
                if name == "trap" and len(words) > 2
                else _text_of(words)
                if name in SHELLS
                else " ".join(words[1:])
            )
            if name in SHELLS:
                self._program(line, name, "")
            if text not in ("-", "") and not text.startswith(OPEN):
                self._inner(text, line - 1)
            return
        if (name, *words[1:2]) in ASKING or name == "which" or (name == "hash" and name not in self.functions):
            for word in words[1:]:
                for value in self._expand(word):
                    if not value.startswith("-"):
                        self._program(line, self._name(value), "looked for")
            if name == "which":
                self._program(line, name, "")
            return
        if name in self.functions:
            self._hosts_of(line, name, words)
            return
        if name in WRAPPERS:
            if name not in UNLISTED:
                self._program(line, name, "")
            self._command(line, _behind(name, words), tries=tries - 1)
            return
        if name == "find":
            for number, word in enumerate(words):
                if word in ("-exec", "-execdir", "-ok", "-okdir"):
                    self._command(line, words[number + 1 :], tries=tries - 1)
        self._program(line, name, "")
        self._hosts_of(line, name, words)

    def _hosts_of(self, line: int, name: str, words: list[str]) -> None:
        prints = bool(PRINTING.fullmatch(name)) and name not in self.outgoing
        for word in words[1:]:
            if not prints:
                self._reach(word)
            for text in self._expand(word):
                found = hosts_in(text)
                if name in BARE_HOSTS and not found:
                    bare = re.split(r"[:/]", text.rpartition("@")[2])[0]
                    found = [bare] if is_host(bare) and not text.startswith("-") else []
                elif name == "git" and (match := re.match(r"\w+@([\w.-]+):", text)):
                    found = [match[1]]
                for host in found:
                    if prints:
                        self._host(line, host, MENTIONED, mention(host) or f"an argument of {name}")
                    elif name in TAKING_HOSTS or name in self.outgoing or not mention(host):
                        self._host(line, host, USED, f"an argument of {name}")
                    else:
                        self._host(line, host, MENTIONED, mention(host))
        for host in program_hosts([name, *words[1:]]):
            self._host(line, host, KNOWN, f"{name} goes there")

    def _reach(self, word: str, depth: int = 0) -> None:
        """Note the variables of a word that goes to a program, and those they are made of."""
        for name in VARIABLE.findall(word):
            if name and name not in self.reached and depth < 20:
                self.reached.add(name)
                for value in self.values.get(name, [])[:MOST_VALUES]:
                    self._reach(value, depth + 1)

    def _expand(self, word: str) -> Iterator[str]:
        """The word, and with variables of one known value filled in."""
        whole = VARIABLE.sub(lambda match: self._constant(match[1], match[0]), word) if OPEN in word else word
        if len(match := VARIABLE.findall(word)) == 1 and VARIABLE.fullmatch(word):
            yield from [value for value in self.values.get(match[0], [])[:MOST_VALUES] if OPEN not in value]
        else:
            yield whole[:4096]

    def _constant(self, name: str, otherwise: str) -> str:
        values = [value for value in self.values.get(name, []) if value and OPEN not in value]
        return values[0] if len(values) == 1 and len(values[0]) < 1000 else otherwise

    def _inner(self, text: str, lines: int) -> None:
        if self.depth < DEEPEST:
            try:
                inner = ShellText(self.parser, text, self.use, lines=lines, depth=self.depth + 1)
                inner.functions |= self.functions
                inner.read()
            except Unparsed as error:
                self.use.problems.append(f"line {lines + 1}: {error}")

    def _program(self, line: int, name: str, why: str) -> None:
        if PROGRAM.fullmatch(name) and name not in BUILTINS and name not in self.functions and not name.isdigit():
            self.use.programs.append((line, name, why))

    def _host(self, line: int, host: str, level: str, why: str) -> None:
        self.use.hosts.append((line, host, level, why))

    def _mentions(self, text: str, line: int, why: str) -> None:
        for number, one in enumerate(text.splitlines()):
            for host in hosts_in(one):
                self._host(line + number, host, MENTIONED, mention(host) or why)

    def _name(self, word: str) -> str:
        return word.rsplit("/", 1)[-1] if word.startswith(("/usr/", "/bin/", "/opt/homebrew/")) else word


def read_words(parser: SyntaxParser, words: list[str], use: Use, line: int) -> None:
    """A command that another language starts, given as words: the same reading without a shell."""
    text = ShellText(parser, "", use)
    text._command(line, words)


def shell_programs(text: str, parser: SyntaxParser | None = None) -> set[str]:
    """The programs that a piece of shell starts; none if it cannot be parsed."""
    if parser is None:
        with SyntaxParser() as own:
            return shell_programs(text, own)
    use = Use()
    try:
        ShellText(parser, text, use).read()
    except Unparsed:
        return set()
    return {name for _, name, _ in use.programs}


def _text_of(words: list[str]) -> str:
    """The command text of `sh -c TEXT`."""
    for number, word in enumerate(words[1:], 1):
        if word.startswith("-") and not word.startswith("--") and "c" in word[1:]:
            return words[number + 1] if number + 1 < len(words) else ""
        if not word.startswith("-"):
            break
    return ""


def _behind(name: str, words: list[str]) -> list[str]:
    """The command behind a wrapper's own options and operands."""
    taking, operands = WRAPPERS[name]
    rest = words[1:]
    while rest:
        word = rest[0]
        if word == "--":
            rest = rest[1:]
            break
        if word.startswith("-") and len(word) > 1:
            rest = rest[2:] if word in taking.split() else rest[1:]
        elif name in UNLISTED and re.match(r"[A-Za-z_]\w*=", word):
            rest = rest[1:]
        elif operands:
            operands, rest = operands - 1, rest[1:]
        else:
            break
    return rest
