"""images: read a Dockerfile into instructions: comments, continued lines, here-documents, flags, words and variables.

Only the syntax. What an instruction does is dockerfile_build's.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from husk.store.store_errors import StoreUsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Lookup = Callable[[str], str | None]

LARGEST = 1 << 20
KNOWN = ("ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "LABEL", "RUN", "SHELL", "USER", "WORKDIR")
# What husk does not do, and what to write instead.
REFUSED = {
    "ADD": "use COPY; unpack archives and fetch files in a RUN",
    "HEALTHCHECK": "a box has no health check; leave it out",
    "MAINTAINER": "use LABEL",
    "ONBUILD": "write the instruction in the Dockerfile that builds upon this one",
    "STOPSIGNAL": "a box is stopped by SIGTERM; leave it out",
    "VOLUME": "name a mount when the box starts (--mount); leave it out",
}
_DIRECTIVE = re.compile(r"#\s*(\w+)\s*=\s*(.*?)\s*$")
_HEREDOC = re.compile(r"<<(-?)\s*(['\"]?)([A-Za-z_][A-Za-z0-9_]*)\2")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Instruction:
    """One instruction. `name` is in capitals, `flags` are its `--name=value` words, `heredoc` the body of one."""

    __slots__ = ("flags", "heredoc", "line", "name", "path", "rest")

    def __init__(self, name: str, rest: str, line: int, path: str) -> None:
        self.name, self.rest, self.line, self.path = name, rest, line, path
        self.flags: dict[str, str] = {}
        self.heredoc: str | None = None

    def wrong(self, why: str) -> StoreUsageError:
        return StoreUsageError(f"{self.path}, line {self.line}: {why}")

    def __str__(self) -> str:
        flags = "".join(f" --{name}={value}" for name, value in self.flags.items())
        return f"{self.name}{flags} {self.rest}"

    def exec_form(self) -> list[str] | None:
        """The words of the JSON form; None: it is the shell form."""
        if not self.rest.startswith("["):
            return None
        try:
            found = json.loads(self.rest)
        except ValueError:
            return None  # as docker takes it: a command that begins with a bracket
        if not isinstance(found, list) or not all(isinstance(word, str) and "\0" not in word for word in found):
            return None
        return found


class Dockerfile:
    """The instructions of a file, and the character that continues lines and escapes dollars."""

    def __init__(self, path: str) -> None:
        self.path, self.escape = path, "\\"
        try:
            with open(path, "rb") as file:
                data = file.read(LARGEST + 1)
            text = data.decode("utf-8-sig")
        except FileNotFoundError:
            raise StoreUsageError(f"there is no {path}; name the Dockerfile with -f.") from None
        except OSError as error:
            raise StoreUsageError(f"{path} cannot be read: {error.strerror}.") from None
        except UnicodeDecodeError:
            raise StoreUsageError(f"{path} is not UTF-8, so it is no Dockerfile.") from None
        if len(data) > LARGEST or "\0" in text:
            raise StoreUsageError(f"{path} is no Dockerfile: it is too large, or has a NUL in it.")
        self.lines = text.splitlines()
        self._directives()
        self.instructions = list(self._read())

    def _directives(self) -> None:
        """`# escape=` and its like stand before everything else. `syntax` names an image that would read the file in
        our place: husk reads it itself."""
        for number, line in enumerate(self.lines, 1):
            found = _DIRECTIVE.match(line.strip())
            if not found or found[1].lower() not in ("escape", "syntax", "check"):
                return
            if found[1].lower() == "escape":
                if found[2] not in ("\\", "`"):
                    raise StoreUsageError(f"{self.path}, line {number}: escape is \\ or `, not {found[2]!r}.")
                self.escape = found[2]

    def _read(self) -> Iterator[Instruction]:
        at = 0
        continued = re.compile(rf"{re.escape(self.escape)}[ \t]*$")
        while at < len(self.lines):
            start, text = at, ""
            while at < len(self.lines):
                line = self.lines[at]
                at += 1
                if line.lstrip().startswith("#") or (text and not line.strip()):
                    continue  # comments and empty lines may stand between continued lines
                more = continued.search(line)
                text += line[: more.start()] if more else line
                if not more:
                    break
            if not text.strip():
                continue
            # The line that is reported is that of the instruction's name, not of a comment above it.
            while self.lines[start].lstrip().startswith("#") or not self.lines[start].strip():
                start += 1
            made = self._instruction(text.strip(), start + 1)
            if made.name in ("RUN", "COPY") and made.exec_form() is None:
                at = self._heredocs(made, at)
            yield made

    def _instruction(self, text: str, line: int) -> Instruction:
        name, _, rest = text.partition(" ") if " " in text else text.partition("\t")
        word, _, more = name.partition("\t")
        made = Instruction(word.upper(), f"{more} {rest}".strip() if more else rest.strip(), line, self.path)
        if made.name in REFUSED:
            raise made.wrong(f"{made.name} is not supported; {REFUSED[made.name]}.")
        if made.name not in KNOWN:
            raise made.wrong(f"there is no instruction {word[:40]!r}; there are {', '.join(KNOWN)}.")
        while made.name in ("RUN", "COPY", "FROM") and made.rest.startswith("--"):
            flag, _, made.rest = made.rest.partition(" ")
            key, _, value = flag[2:].partition("=")
            made.flags[key], made.rest = value, made.rest.lstrip()
        if not made.rest:
            raise made.wrong(f"{made.name} says nothing; write what it is about.")
        return made

    def _heredocs(self, made: Instruction, at: int) -> int:
        """Take the bodies of here-documents, for a shell to read. One that is the whole command is a script."""
        found = _HEREDOC.findall(made.rest)
        if not found:
            return at
        if made.name == "COPY":
            raise made.wrong("COPY of a here-document is not supported; put the text into a file of the context.")
        bodies = []
        for dash, _, word in found:
            body: list[str] = []
            while True:
                if at >= len(self.lines):
                    raise made.wrong(f"the here-document never ends: there is no line {word!r}.")
                line = self.lines[at].lstrip("\t") if dash else self.lines[at]
                at += 1
                if line == word:
                    break
                body.append(line)
            bodies.append(("\n".join(body), word))
        if _HEREDOC.fullmatch(made.rest):
            made.heredoc = bodies[0][0]
        else:
            made.heredoc = "\n".join([made.rest, *(f"{body}\n{word}" if body else word for body, word in bodies), ""])
        return at


class Words:
    """Split text as docker does: quotes, escapes and variables."""

    def __init__(self, said: Instruction, escape: str, lookup: Lookup) -> None:
        self.said, self.escape, self.lookup = said, escape, lookup

    def one(self, text: str) -> str:
        """The text as a single word: blanks stay."""
        return self._words(text, split=False)[0]

    def split(self, text: str) -> list[str]:
        return self._words(text, split=True)

    def pairs(self, text: str) -> list[tuple[str, str]]:
        """`K=V K="V W"`, or `K V` in the old form."""
        first = re.match(r"\S+", text)
        if first and "=" not in first[0]:
            name, _, value = text.partition(" ")
            if not value.strip():
                raise self.said.wrong(f"{self.said.name} {name} has no value; write {name}=VALUE.")
            return [(self.one(name), self.one(value.strip()))]
        found = []
        for word in self.split(text):
            name, equals, value = word.partition("=")
            if not name or not equals:
                raise self.said.wrong(f"{self.said.name}: {word[:60]!r} is no NAME=VALUE.")
            found.append((name, value))
        return found

    def _words(self, text: str, *, split: bool) -> list[str]:
        words: list[str] = []
        now, begun, quote, at = "", False, "", 0
        while at < len(text):
            char = text[at]
            if quote != "'" and char == self.escape and at + 1 < len(text):
                following = text[at + 1]
                # Between double quotes, a backslash stays unless it escapes something.
                keep = quote == '"' and following not in ('"', "$", self.escape)
                now += (char if keep else "") + following
                begun, at = True, at + 2
            elif quote != "'" and char == "$":
                value, at = self._variable(text, at + 1)
                now, begun = now + value, begun or bool(value)
            elif char in "'\"" and quote in ("", char):
                quote, begun, at = ("" if quote else char), True, at + 1
            elif split and not quote and char in " \t":
                if begun:
                    words.append(now)
                now, begun, at = "", False, at + 1
            else:
                now, begun, at = now + char, True, at + 1
        if quote:
            raise self.said.wrong(f"a quote {quote} is never closed.")
        if begun or not split:
            words.append(now)
        return words

    def _variable(self, text: str, at: int) -> tuple[str, int]:
        """(value, where to go on) of what follows a dollar."""
        if text[at : at + 1] != "{":
            name = _NAME.match(text, at)
            if not name:
                return "$", at
            return self.lookup(name[0]) or "", name.end()
        end, depth = at + 1, 1
        while end < len(text) and depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        name = _NAME.match(text, at + 1)
        if depth or not name:
            raise self.said.wrong(f"{text[at - 1 : at + 40]!r} is no variable; write ${{NAME}}.")
        rest = text[name.end() : end - 1]
        value = self.lookup(name[0])
        if not rest:
            return value or "", end
        kind, word = (rest[:2], rest[2:]) if rest[:2] in (":-", ":+", ":?") else (rest[:1], rest[1:])
        there = bool(value) if kind.startswith(":") else value is not None
        if kind[-1:] == "-":
            return (value or "") if there else self.one(word), end
        if kind[-1:] == "+":
            return self.one(word) if there else "", end
        if kind[-1:] == "?":
            if not there:
                raise self.said.wrong(f"{name[0]} is not set: {self.one(word) or 'it is needed'}.")
            return value or "", end
        raise self.said.wrong(f"${{{name[0]}{rest[:20]}}} is not supported; there are :- :+ and :? in variables.")
