"""sandbox: read TOML files written by people, with messages that name the file, the key and what is expected there.

This module does not know what a file means: the caller asks for each key by its kind, and says which keys there are.
"""

from __future__ import annotations

import os

from husk.sandbox.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    Complaint = Callable[[str], Exception]

KINDS = {
    str: "a text",
    int: "a whole number",
    bool: "true or false",
    list: "a list of texts",
    dict: "a table of texts",
}
LONGEST_SHOWN = 40


class Table:
    """One table of a file. `place` is its name in the file, empty for the whole file."""

    __slots__ = ("_complaint", "_data", "_file", "place")

    def __init__(self, data: dict[str, Any], file: str, place: str = "", complaint: Complaint = UsageError) -> None:
        self._data, self._file, self.place, self._complaint = data, file, place, complaint

    def __contains__(self, key: str) -> bool:
        return key in self._data

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def name_of(self, key: str) -> str:
        return f"{self.place}.{key}" if self.place else key

    def wrong(self, why: str) -> Exception:
        """An exception for the caller to raise: something else is wrong with the file."""
        return self._complaint(f"{self._file}: {why}")

    # -- what may be there -----------------------------------------------------------------------------------------
    def version(self, wanted: int, advice: str = "") -> None:
        """The version of the file's format, which the file must give."""
        if self._data.get("version") != wanted or isinstance(self._data["version"], bool):
            raise self.wrong(f"`version = {wanted}` must stand at its top{f'; {advice}' if advice else ''}.")

    def only(self, known: Iterable[str]) -> None:
        """An unknown key is a mistake, and often a typing error."""
        names = list(known)
        for key in self._data:
            if key not in names:
                table = isinstance(self._data[key], dict) and not self.place
                what = f"no section [{key}]" if table else f"no {self.name_of(key)}"
                raise self.wrong(f"there is {what}; {_suggestion(key, names)}there are {', '.join(names)}.")

    # -- by kind ---------------------------------------------------------------------------------------------------
    def raw(self, key: str) -> Any:
        """As it stands in the file."""
        return self._data[key]

    def value(self, key: str, kind: type, default: Any) -> Any:
        """The value of `key`: a text, number, true or false, list of texts or table of texts; else `default`."""
        if key not in self._data:
            return default
        value = self._data[key]
        # A bool is an int to Python, but not to the author of a file.
        fits = isinstance(value, kind) and (kind is not int or not isinstance(value, bool))
        items = value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else [value]
        if kind in (list, dict, str):
            fits = fits and all(isinstance(item, str) and "\0" not in item for item in items)
        if not fits:
            raise self.wrong(f"{self.name_of(key)} must be {KINDS[kind]}, not {_shown(value)}.")
        return value

    def text(self, key: str) -> str:
        found: str = self.value(key, str, "")
        return found

    def words(self, key: str) -> list[str]:
        found: list[str] = self.value(key, list, [])
        return found

    def texts(self, key: str) -> dict[str, str]:
        found: dict[str, str] = self.value(key, dict, {})
        return found

    def flag(self, key: str, *, default: bool = False) -> bool:
        return bool(self.value(key, bool, default))

    def count(self, key: str, default: int) -> int:
        found: int = self.value(key, int, default)
        if found < 1:
            raise self.wrong(f"{self.name_of(key)} must be 1 or more, not {found}.")
        return found

    def amounts(self, key: str) -> dict[str, str]:
        """A table of limits: texts such as "512M", or plain numbers."""
        table, found = self.table(key), {}
        for name in table:
            value = table._data[name]
            if isinstance(value, bool) or not isinstance(value, str | int):
                key = table.name_of(name)
                raise self.wrong(f'{key} must be a text such as "512M", or "none", not {_shown(value)}.')
            found[name] = str(value)
        return found

    def table(self, key: str) -> Table:
        """The section `key`, empty if there is none."""
        value = self._data.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong(f"{self.name_of(key)} must be a section: [{self.name_of(key)}], not {_shown(value)}.")
        return Table(value, self._file, self.name_of(key), self._complaint)

    def tables(self, key: str) -> list[Table]:
        """Sections of the same name: [[key]]."""
        value = self._data.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise self.wrong(f"{self.name_of(key)} must be sections: [[{self.name_of(key)}]], not {_shown(value)}.")
        return [Table(one, self._file, self.name_of(key), self._complaint) for one in value]


def read_toml(
    path: str | os.PathLike[str], complaint: Complaint = UsageError, advice: str = "", content: bytes | None = None
) -> Table:
    """The whole file as a table. `complaint` makes an exception from one sentence; `advice` ends the sentences that say
    that the file cannot be read at all. `content`: what the caller has read of it already."""
    import tomllib

    name, end = os.fspath(path), f"; {advice}" if advice else ""
    try:
        if content is None:
            with open(name, "rb") as file:
                content = file.read()
        data = tomllib.loads(content.decode("utf-8"))
    except OSError as error:
        raise complaint(f"{name}: {error.strerror}{end}.") from None
    except RecursionError:
        raise complaint(f"{name}: not TOML: it is nested too deeply{end}.") from None
    except ValueError as error:  # no TOML, no UTF-8, or a number with too many digits
        raise complaint(f"{name}: not TOML: {error}{end}.") from None
    return Table(data, name, "", complaint)


def _suggestion(key: str, known: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(key, known, 1, 0.7)
    return f"do you mean {near[0]}? " if near else ""


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
