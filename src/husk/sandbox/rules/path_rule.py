"""sandbox: one rule for names below mounts, as a person writes it: a verb and a pattern. Every mistake is one sentence.

Here: what a pattern means, and at which point of it a mount's root stands. Not here: which rules a box has
(`default_rules`, the policy), and where they are held (`mount_rules`, native/host/name_rules.c).
"""

from __future__ import annotations

import os

from husk.native._core import name_matches
from husk.native.real_paths import real_path
from husk.sandbox.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Parts = tuple[bytes, ...]

VERBS = ("allow", "protect", "deny", "hide")  # the weakest first; native/host/name_rules.h has the same order
MOST_PARTS, NAME_MAX = 28, 255
WILD = frozenset("*?[\\")
WILD_BYTES = b"*?[\\"
DEEP = b"**"
NEED_NO_QUOTES = str.maketrans("", "", "._-/+,:@%")


class PathRule:
    """`hide`, `deny`, `protect` or `allow`, and a pattern.

    `NAME` is a name anywhere below a mount, `DIR/NAME` and `./NAME` lie below a mount's root, `**/DIR/NAME` anywhere,
    `/DIR/NAME` and `~/NAME` on the host. `*`, `?` and `[…]` stand for what they stand for in a shell, `**` for any
    number of directories. Case makes no difference.

    `own`: what the guest itself made, in a directory that it made, is excepted. `files`: so is every directory.
    `default`: husk brought it along.
    """

    __slots__ = ("_named", "_said", "anchor", "default", "files", "own", "parts", "pattern", "verb", "why")

    def __init__(
        self,
        verb: str,
        pattern: str,
        *,
        own: bool = False,
        files: bool = False,
        default: bool = False,
        why: str = "",
    ) -> None:
        self.verb, self.pattern = verb, pattern
        self.own, self.files, self.default, self.why = own, files, default, why
        self.anchor, self.parts = _parse(verb, pattern)
        self._said: tuple[str, str] | None = None
        self._named: tuple[bytes, ...] | None = None

    @property
    def named(self) -> tuple[bytes, ...]:
        """Names below the root of a mount that it means there, if it begins there."""
        if self._named is None:
            self._named = tuple(named_by(self.parts, 1))
        return self._named

    @property
    def said(self) -> tuple[str, str]:
        """Reason and remedy. Every mount of a box that begins wants both."""
        if self._said is None:
            self._said = self.reason, self.remedy
        return self._said

    def __str__(self) -> str:
        return f"--{self.verb} {quoted(self.pattern)}"

    @property
    def name(self) -> str:
        return f"the {'default ' if self.default else ''}rule {self}"

    @property
    def reason(self) -> str:
        return f"{self.name} {WHAT_IT_DOES[self.verb]}"

    @property
    def remedy(self) -> str:
        """What lifts it: a default is lifted, one's own is left out."""
        return f"--allow {quoted(self.pattern)}" if self.default else f"leave out {self}"

    def forms(self, places: list[Parts]) -> Iterator[tuple[str, Parts]]:
        """Where the pattern begins ("mount" or "host"), and its parts; `~` begins at each of `places`, the homes."""
        if self.anchor != "home":
            yield self.anchor, self.parts
            return
        for home in places:
            yield "host", (*home, *self.parts)


WHAT_IT_DOES = {
    "hide": "hides it",
    "deny": "denies it",
    "protect": "keeps it as it is on the host",
    "allow": "allows it",
}


def state_at(parts: Parts, path: list[bytes]) -> tuple[int, bool]:
    """The state of a rule (native/host/name_rules.c) behind the components of `path`; and whether it matched one."""
    if path and parts[0] != DEEP and not name_matches(parts[0], path[0]):
        return 0, False  # most rules for the host
    state, matched = _with_empty(parts, 1), False
    for name in path:
        next_state = 0
        for number, part in enumerate(parts):
            if not state >> number & 1:
                continue
            if part == DEEP:
                next_state |= 1 << number | (2 << number if number + 1 == len(parts) else 0)
            elif name_matches(part, name):
                next_state |= 2 << number
        matched |= bool(next_state >> len(parts))
        state = _with_empty(parts, next_state & ~(1 << len(parts)))
    return state, matched


def _with_empty(parts: Parts, state: int) -> int:
    for number in range(len(parts) - 1):
        if state >> number & 1 and parts[number] == DEEP:
            state |= 2 << number
    return state


def named_by(parts: Parts, state: int) -> Iterator[bytes]:
    """Names that these parts mean in this state, where they mean just one."""
    for number, part in enumerate(parts):
        begins = state >> number & 1 or (number == 1 and parts[0] == DEEP)
        if begins and part != DEEP and is_plain(parts[number:]):
            yield b"/".join(parts[number:])


def is_plain(parts: Parts) -> bool:
    """Has none of them a wildcard? ** has."""
    text = b"/".join(parts)
    return text.translate(None, WILD_BYTES) == text


def components(path: str) -> list[bytes]:
    return [part for part in os.fsencode(path).split(b"/") if part]


def homes() -> list[Parts]:
    """Directories that are homes: the caller's, root's, and every one below /home."""
    own = real_path(os.path.expanduser("~"))
    found = {escaped(components(own)), (b"root",), (b"home", b"*")}
    return sorted(found - {()})


def escaped(names: list[bytes]) -> Parts:
    """Parts that match just these names."""
    return tuple(
        b"".join(b"\\" + bytes([byte]) if chr(byte) in WILD else bytes([byte]) for byte in name) for name in names
    )


def quoted(pattern: str) -> str:
    """For a shell, where it needs quotes."""
    rest = pattern.translate(NEED_NO_QUOTES)
    return pattern if not rest or rest.isalnum() else "'" + pattern.replace("'", "'\\''") + "'"


# -- reading --------------------------------------------------------------------------------------------------------
def _parse(verb: str, pattern: str) -> tuple[str, Parts]:
    if not pattern.strip("/"):
        raise UsageError(
            "a pattern names something below a mount; leave out the mount to hide all of it.",
            option=verb,
            value=pattern,
        )
    if "\0" in pattern or "\n" in pattern:
        raise UsageError("a pattern holds neither NUL bytes nor line ends.", option=verb, value=repr(pattern))
    if pattern.startswith("!"):
        raise UsageError(
            f"an exception has an option of its own; write --allow {pattern[1:]} instead.", option=verb, value=pattern
        )
    anchor, rest = "any", pattern
    if pattern.startswith("/"):
        anchor, rest = "host", _real(pattern)
    elif pattern.startswith("~/"):
        anchor, rest = "home", pattern[2:]
    elif pattern.startswith("~"):
        raise UsageError("write the path of that home, or ~/ for any home.", option=verb, value=pattern)
    elif "/" in pattern.rstrip("/"):
        anchor = "mount"
    encoded = os.fsencode(rest)
    if len(encoded) > NAME_MAX or ".." in rest or "[" in rest or "\\" in rest:
        for word in rest.split("/"):
            _check(verb, pattern, word)
    parts: list[bytes] = []
    for part in encoded.split(b"/"):
        if part not in (b"", b".") and (part != DEEP or not parts or parts[-1] != DEEP):
            parts.append(part)
    if not parts or parts == [DEEP]:
        raise UsageError(
            "a pattern names something below a mount; leave out the mount to hide all of it.",
            option=verb,
            value=pattern,
        )
    if anchor == "any":
        parts.insert(0, DEEP)
    if len(parts) > MOST_PARTS:
        raise UsageError(f"a pattern has {MOST_PARTS} parts at most.", option=verb, value=pattern)
    return "mount" if anchor == "any" else anchor, tuple(parts)


def _check(verb: str, pattern: str, word: str) -> None:
    if word == "..":
        raise UsageError(
            "a pattern goes down only; write the directory's name instead of '..'.", option=verb, value=pattern
        )
    if len(os.fsencode(word)) > NAME_MAX:
        raise UsageError(f"no name is longer than {NAME_MAX} bytes.", option=verb, value=pattern)
    at = 0
    while at < len(word):
        if word[at] == "\\":
            if at + 1 == len(word):
                raise UsageError(
                    "a backslash stands before the letter it is for; write two for one.", option=verb, value=pattern
                )
            at += 1
        elif word[at] == "[":
            close = word.find("]", at + 3 if word[at + 1 : at + 2] in ("!", "^") else at + 2)
            if close < 0:
                raise UsageError("the bracket [ is not closed; write \\[ for the letter.", option=verb, value=pattern)
            if "\\" in word[at:close]:
                raise UsageError(
                    "within brackets a backslash has no meaning; leave it out.", option=verb, value=pattern
                )
            at = close
        at += 1


def _real(pattern: str) -> str:
    """The path on the host, with the links above its first wildcard followed, as those of a mount's source are."""
    words = pattern.split("/")
    plain = 0
    while plain < len(words) - 1 and not any(letter in WILD for letter in words[plain]):
        plain += 1
    above = "/".join(words[:plain]) or "/"
    real = os.path.realpath(above) if ".." not in words[:plain] else above
    return "/".join(["", os.fsdecode(b"/".join(escaped(components(real)))), *words[plain:]])
