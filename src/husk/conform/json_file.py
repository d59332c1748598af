"""conform: the JSON files of this folder: each one document with a `format`, written whole, read with bounds.

What is in a document is the business of its own module.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from husk.compat.bounded_file import read_bounded
from husk.sandbox.errors import UsageError

T = TypeVar("T")


def write_json(document: dict[str, Any], path: Path, *, sort_keys: bool = False) -> None:
    """Whole or not at all."""
    beside = path.with_name(f".{path.name}.new")
    text = json.dumps(document, ensure_ascii=False, indent=1, sort_keys=sort_keys) + "\n"
    beside.write_bytes(text.encode("utf-8", "backslashreplace"))  # a lone surrogate becomes its JSON escape
    beside.replace(path)


def read_json(path: Path, name: str, number: int, most: int, writer: str, make: Callable[[dict[str, Any]], T]) -> T:
    """What `make` makes of the document. `name` is what such a file is called, `number` its format, `writer` the
    command that writes one. UsageError: it cannot be read, or it is none."""
    content = read_bounded(path, most, f"`{writer}` writes one.", ".")
    try:
        document = json.loads(content)
        if document["format"] != number:
            raise UsageError(f"{path}: a file of another husk (format {document['format']!r}).")
        return make(document)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(f"{path}: not a {name} of husk ({type(error).__name__}: {error}).") from None
