"""cli: read a file of profiles. A profile is a table of options of `husk run` by their long names, so there is one
vocabulary; what an option means is run_policy's business.

Every mistake is a UsageError with the file and the line.
"""

from __future__ import annotations

import os
import re
import stat as st

from husk.cli.options.parse_words import close_match
from husk.cli.options.run_options import BOX
from husk.cli.profiles.trust import place_of
from husk.sandbox.errors import UsageError
from husk.sandbox.toml_reader import Table, read_toml

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.cli.options import Option

FORMAT = 1
# By key. A terminal is asked for where there is one, not in a file.
KEYS = {
    option.names[-1][2:]: option
    for option in BOX
    if option.names[-1].startswith("--") and option.attribute != "profile"
}
TABLES = ("env", "limit")  # may also be written as tables: env = { NAME = "value" }
PATHS = ("env-file",)  # relative to the file
SECRET_FILE = re.compile(r"(\{(?:base64:)*file:)([^}]*)")  # in `inject`
LARGEST = 1 << 20


class Setting:
    """One option as a file gives it. `value` is empty for a flag."""

    __slots__ = ("key", "line", "option", "value")

    def __init__(self, key: str, option: Option, value: str, line: int) -> None:
        self.key, self.option, self.value, self.line = key, option, value, line

    def __str__(self) -> str:
        return f"{self.key} = {self.value}" if self.option.metavar else self.key


class ProfileFile:
    """`profiles` by name; `own` is the rest of the file, which only the user's has."""

    __slots__ = ("_lines", "content", "directory", "own", "path", "profiles")

    def __init__(self, path: str, content: bytes | None = None) -> None:
        self.path = place_of(path)
        self.directory = os.path.dirname(self.path)
        self.content = read_content(path) if content is None else content
        self._lines = self.content.decode("utf-8", "replace").splitlines()
        self.own = read_toml(self.path, content=self.content)
        if self.own.value("format", int, 0) != FORMAT:
            raise self.wrong("", "format", f"`format = {FORMAT}` must stand at its top.")
        self.profiles = {name: self._profile(self.own.table("profile"), name) for name in self.own.table("profile")}

    def _profile(self, profiles: Table, name: str) -> list[Setting]:
        table = profiles.table(name)
        section = f"profile.{name}"
        found = []
        for key in table:
            option = KEYS.get(key)
            if option is None:
                near = close_match(key, list(KEYS))
                raise self.wrong(section, key, f"there is no {key}{near} `husk run --help` lists the options.")
            line = self.line_of(section, key)
            found += [Setting(key, option, value, line) for value in self._values(table, section, key, option)]
        return found

    def _values(self, table: Table, section: str, key: str, option: Option) -> list[str]:
        value = table.raw(key)
        if not option.metavar:
            if not isinstance(value, bool):
                raise self.wrong(section, key, f"{key} must be true or false.")
            return [""] if value else []
        if key in TABLES and isinstance(value, dict):
            value = [f"{name}={text}" for name, text in value.items()]
        words = value if option.many and isinstance(value, list) else [value]
        if not all(isinstance(word, str | int | float) and not isinstance(word, bool) for word in words):
            kind = "a list of texts" if option.many else "a text"
            raise self.wrong(section, key, f"{key} must be {kind}.")
        if key == "mount":
            return [self._mount(str(word)) for word in words]
        if key in PATHS:
            return [self._beside(str(word)) for word in words]
        if key == "inject":
            return [SECRET_FILE.sub(lambda found: found[1] + self._beside(found[2]), str(word)) for word in words]
        return [str(word) for word in words]

    def _beside(self, path: str) -> str:
        return os.path.join(self.directory, os.path.expanduser(path))

    def _mount(self, text: str) -> str:
        """A source is relative to the file, wherever husk is started."""
        source, colon, rest = text.partition(":")
        if text.endswith(":image"):
            return text
        return os.path.normpath(os.path.join(self.directory, os.path.expanduser(source))) + colon + rest

    # -- places --------------------------------------------------------------------------------------------------------
    def wrong(self, section: str, key: str, why: str) -> UsageError:
        return self.wrong_at(self.line_of(section, key), why)

    def wrong_at(self, line: int, why: str) -> UsageError:
        return UsageError(f"{self.path}:{line}: {why}" if line else f"{self.path}: {why}")

    def line_of(self, section: str, key: str) -> int:
        """Where a key of a section stands; 0 where that cannot be seen, as in a table within a line."""
        at = ""
        for number, line in enumerate(self._lines, 1):
            if head := re.match(r"\s*\[+\s*([^\]]+?)\s*\]+\s*(?:#.*)?$", line):
                at = head[1].replace('"', "").replace("'", "").replace(" ", "")
            elif found := re.match(r"\s*[\"']?([\w.-]+)[\"']?\s*=", line):
                name = f"{at}.{found[1]}" if at else found[1]
                if name == (f"{section}.{key}" if section else key):
                    return number
        return 0


def read_content(path: str) -> bytes:
    """Read once: what is trusted is what is obeyed."""
    try:
        with open(path, "rb", opener=_open_without_waiting) as file:
            if not st.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageError(f"{path}: not a regular file; remove it, or give --profile none.")
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; make it readable, or give --profile none.") from None
    if len(content) > LARGEST:
        raise UsageError(f"{path}: larger than {LARGEST >> 20} MiB; no file of profiles is.")
    return content


def _open_without_waiting(path: str, flags: int) -> int:
    """A FIFO that another user put there does not hold up husk."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
