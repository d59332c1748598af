"""skills: read the front matter of a SKILL.md and check it against the specification (agentskills.io/specification).

Text in, data and problems out: no files are touched here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

MOST_HEAD = 32 << 10
MOST_NAME, MOST_DESCRIPTION, MOST_COMPATIBILITY = 64, 1024, 500
KNOWN = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Problem:
    """`fatal`: the skill cannot be used. `error`: it breaks a rule of the specification but can be used. `warning`:
    it is allowed but odd."""

    level: str
    text: str

    def as_dict(self) -> dict[str, str]:
        return {"level": self.level, "text": self.text}


@dataclass
class Head:
    """What the front matter says. Missing fields are empty."""

    name: str = ""
    description: str = ""
    license: str = ""
    compatibility: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    allowed_tools: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def fatal(self, text: str) -> None:
        self.problems.append(Problem("fatal", text))

    def error(self, text: str) -> None:
        self.problems.append(Problem("error", text))

    def warn(self, text: str) -> None:
        self.problems.append(Problem("warning", text))

    @property
    def valid(self) -> bool:
        return all(problem.level == "warning" for problem in self.problems)

    @property
    def fatalities(self) -> list[str]:
        return [problem.text for problem in self.problems if problem.level == "fatal"]


class _Loader(yaml.SafeLoader):
    """Safe types only, and no aliases: nested aliases let a few lines expand to gigabytes. A duplicate key is an error:
    readers disagree on which one holds."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            mark = self.peek_event().start_mark
            raise yaml.constructor.ConstructorError(None, None, "aliases (*name) are not allowed here", mark)
        return super().compose_node(parent, index)

    def construct_scalar(self, node: Any) -> Any:
        value = super().construct_scalar(node)
        try:
            value.encode()
        except UnicodeEncodeError:  # "\\ud800": no file, terminal or log can hold it
            problem = "half of a character (a surrogate) stands alone"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from None
        return value

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is there twice", key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_head(text: str, folder: str = "") -> Head:
    """The head of a SKILL.md's `text`; `folder` is the name of the directory that holds it, if it has one."""
    head = Head()
    block = _block(text, head)
    if block is None:
        return head
    fields = _fields(block, head)
    if fields is not None:
        try:
            _take(fields, head, folder)
        except ValueError:  # Python prints no number of more than a few thousand digits
            head.fatal("the front matter cannot be read: a number in it is too long")
    return head


def _block(text: str, head: Head) -> str | None:
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != "---":
        head.fatal("SKILL.md must begin with front matter: a line `---`, then `name:` and `description:`, then `---`")
        return None
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() in ("---", "..."):
            block = "\n".join(lines[1:number])
            if len(block) > MOST_HEAD:
                head.fatal(f"the front matter is longer than {MOST_HEAD >> 10} KiB")
                return None
            return block
    head.fatal("the front matter has no end: put a line `---` after its last field")
    return None


def _fields(block: str, head: Head) -> dict[Any, Any] | None:
    try:
        found = yaml.load(block, _Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or str(error)
        # Line numbers count from the top of the file: the `---` before the block is line 1.
        head.fatal(
            f"the front matter is not YAML: {f'line {mark.line + 2}: ' if mark else ''}{_plain(what)}{_hint(what)}"
        )
        return None
    except (RecursionError, ValueError, AttributeError) as error:  # nested too deep, or an invalid date
        head.fatal(f"the front matter cannot be read: {_plain(str(error)) or 'it is nested too deep'}")
        return None
    if not isinstance(found, dict):
        head.fatal("the front matter must be fields, each `name: value` on a line of its own")
        return None
    return found


def _hint(what: str) -> str:
    return "; a value that holds `: ` needs quotes around it" if "mapping values" in what else ""


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def _take(fields: dict[Any, Any], head: Head, folder: str) -> None:
    head.name = _text(fields, "name", head)
    head.description = _text(fields, "description", head)
    head.license = _text(fields, "license", head)
    head.compatibility = _text(fields, "compatibility", head)
    _check_name(head, folder)
    if not head.description.strip():
        head.fatal("`description` is missing: say what the skill does and when to use it")
    elif len(head.description) > MOST_DESCRIPTION:
        head.error(f"`description` has {len(head.description)} characters; at most {MOST_DESCRIPTION} are allowed")
    if len(head.compatibility) > MOST_COMPATIBILITY:
        head.error(
            f"`compatibility` has {len(head.compatibility)} characters; at most {MOST_COMPATIBILITY} are allowed"
        )
    metadata = fields.get("metadata")
    if isinstance(metadata, dict):
        head.metadata = {str(key): str(value) for key, value in metadata.items()}
    elif metadata is not None:
        head.error("`metadata` must hold fields of its own, each `key: value`")
    tools = fields.get("allowed-tools")
    if isinstance(tools, str):
        head.allowed_tools = _words(tools)
    elif isinstance(tools, list) and all(isinstance(tool, str) for tool in tools):
        head.allowed_tools = list(tools)
        head.warn("`allowed-tools` is a list; the specification wants one text with spaces between the tools")
    elif tools is not None:
        head.error("`allowed-tools` must be one text with spaces between the tools")
    for key in fields:
        if key not in KNOWN:
            head.warn(f"`{_plain(str(key))}` is no field of the specification; own fields belong under `metadata`")


def _words(text: str) -> list[str]:
    """Split at spaces and commas, except within parentheses: `Bash(git add:*) Read` are two."""
    return [word for word in re.findall(r"[^\s,(]+(?:\([^)]*\))?", text) if word]


def _text(fields: dict[Any, Any], name: str, head: Head) -> str:
    value = fields.get(name)
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):  # `name: 123` and `license: 2.0` mean what they look like
        return str(value)
    head.fatal(f"`{name}` must be a text")
    return ""


def _check_name(head: Head, folder: str) -> None:
    name = head.name
    if not name:
        head.fatal("`name` is missing: lowercase letters, digits and hyphens, as the folder is called")
    elif len(name) > MOST_NAME:
        head.error(f"`name` has {len(name)} characters; at most {MOST_NAME} are allowed")
    elif not NAME.fullmatch(name):
        head.error(
            f"`name` is {_plain(name)!r}: only lowercase letters, digits and single hyphens between them are allowed"
        )
    elif folder and folder != name:
        head.error(
            f"`name` is {name!r}, but the folder is called {_plain(folder)!r}; the specification wants them equal"
        )
