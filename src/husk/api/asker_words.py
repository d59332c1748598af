"""api: options in the words of whoever asks: the command line, Python, the configuration of an MCP server, a profile.

The layers below speak of options of `husk run` by their long names. An error carries its option (`HuskError.option`),
and a refusal what would allow it; here both get their words. Not here: what the options mean.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from husk.sandbox.errors import HuskError
    from husk.sandbox.policy import Mount

Asker = Literal["cli", "python", "mcp", "profile"]
# Option -> keyword of Python, where it stands in the configuration of an MCP server, and whether it takes a list.
_OPTIONS: dict[str, tuple[str, str, bool]] = {
    "mount": ("mounts", "box.mounts", True),
    "hide": ("hide", "box.hide", True),
    "deny": ("deny", "box.deny", True),
    "protect": ("protect", "box.protect", True),
    "allow": ("allow", "box.allow", True),
    "allow-net": ("net", "network.allow", True),
    "deny-net": ("deny_net", "network.deny", True),
    "allow-http": ("allow_http", "network.http", True),
    "inject": ("inject", "network.inject", True),
    "allow-socket": ("allow_sockets", "", True),
    "device": ("devices", "", True),
    "publish": ("publish", "network.publish", True),
    "weaken": ("weaken", "box.weaken", True),
    "limit": ("limits", "limits", False),
    "workdir": ("cwd", "box.workdir", False),
    "net": ("net", "network.mode", False),
    "image": ("image", "box.image", False),
    "store": ("store", "box.store", False),
    "keep": ("keep", "", False),
    "profile": ("profile", "", False),
    "env": ("env", "box.env", False),
    "timeout": ("timeout", "limits.time", False),
    "no-namespaces": ("namespaces=False", "box.namespaces", False),
    "no-default-rules": ("default_rules=False", "box.default_rules", False),
}
_MODES = "mount it with :rw to change the host, or :cow to change a copy"  # kernel.events says so of a read-only mount
_SEVERAL_WORDS = {"no --allow-net rule": "no rule of net", "with --mount": "with mounts"}
_OPTION = re.compile(r"--([a-z][a-z-]*[a-z])(?: ('[^']+'|[^\s,;]+))?")


def assigned(option: str, values: Sequence[str], asker: Asker) -> str:
    """An option with its values, or by its name alone. One that an asker does not have is said as on the command
    line."""
    keyword, place, several = _OPTIONS.get(option, ("", "", False))
    if asker == "python" and keyword:
        return _in_python(keyword, values, several)
    if asker == "mcp" and place:
        return _in_toml(place, values, several)
    if asker == "profile":
        return _in_toml(option, values, several)
    return " ".join(f"--{option} {value}" for value in values) or f"--{option}"


def _in_python(keyword: str, values: Sequence[str], several: bool) -> str:
    if not values:
        return keyword
    if keyword == "limits":
        pairs = (value.partition("=") for value in values)
        said = ", ".join(f"{name!r}: {repr(amount) if amount else '...'}" for name, _, amount in pairs)
        return f"limits={{{said}}}"
    return f"{keyword}={list(values)!r}" if several else f"{keyword}={values[0]!r}"


def _in_toml(key: str, values: Sequence[str], several: bool) -> str:
    if not values:
        return key
    if key in ("limits", "limit"):
        name, _, amount = values[0].partition("=")
        key, values = f"{key}.{name}", [amount or "..."]
    return f"{key} = {json.dumps(list(values) if several else values[0], ensure_ascii=False)}"


def reworded(sentence: str, asker: Asker) -> str:
    """The same sentence with the options it names in the asker's words."""
    if asker == "cli":
        return sentence
    if asker == "python":
        for old, new in _SEVERAL_WORDS.items():
            sentence = sentence.replace(old, new)
    return _OPTION.sub(lambda found: _one_option(found, asker), sentence)


def _one_option(found: re.Match[str], asker: Asker) -> str:
    option, word = found[1], found[2] or ""
    if option not in _OPTIONS:
        return found[0]
    value = word.rstrip(".:")
    # The next word is a value only where it looks like one: "--allow-net takes" and "no --keep rule" are sentences.
    if option in ("weaken", "allow") or any(mark in value for mark in ":/=*.") or value.isupper():
        return assigned(option, [value.strip("'")], asker) + word[len(value) :]
    return assigned(option, [], asker) + (f" {word}" if word else "")


def sentence_of(error: HuskError, asker: Asker) -> str:
    """What went wrong, in the asker's words."""
    why = reworded(error.sentence, asker)
    if not error.option:
        return why
    return f"{assigned(error.option, [] if error.value is None else [error.value], asker)}: {why}"


@dataclass(frozen=True)
class Remedy:
    """What would allow something that husk refused: `option` of `husk run`, by its long name, with a `value`. `advice`
    comes before it. `leave_out`: the option was given, and has to be left out. Without an option `advice` is all."""

    option: str = ""
    value: str = ""
    leave_out: bool = False
    advice: str = ""

    @classmethod
    def read(cls, allow: str, what: str = "", mounts: Iterable[Mount] = ()) -> Remedy | None:
        """From what the kernel says of a refusal of `what`. None: nothing would allow it."""
        if not allow:
            return None
        if allow == _MODES:
            above = [one for one in mounts if f"{what}/".startswith(one.target.rstrip("/") + "/")]
            nearest = max(above, key=lambda one: len(one.target), default=None)
            if nearest is not None and nearest.mode == "ro":
                return cls("mount", f"{nearest.source}:{nearest.target}:cow", advice=allow)
            return cls(advice=allow)
        words = allow.removeprefix("leave out ")
        if not words.startswith("--") or " " not in words:
            return cls(advice=allow)
        option, _, value = words[2:].partition(" ")
        return cls(option, _unquoted(value), leave_out=words != allow)

    def said(self, asker: Asker = "python", *, others: Sequence[str] = ()) -> str:
        """The same in the words of whoever asks. `others`: further values of the same option."""
        if asker == "cli" and self.option:
            said = assigned(self.option, [_quoted(value) for value in (self.value, *others)], asker)
        else:
            said = assigned(self.option, [self.value, *others], asker) if self.option else ""
        if self.advice:
            return reworded(self.advice, asker) + (f": {said}" if said else "")
        return f"leave out {said}" if self.leave_out else said


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] == "'":
        return value[1:-1].replace("'\\''", "'")
    return value


def _quoted(value: str) -> str:
    from husk.sandbox.rules.path_rule import quoted

    return quoted(value)
