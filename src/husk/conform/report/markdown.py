"""conform/report: Markdown: text from strangers made harmless, tables, templates, and the mark of a written document.

Names of cases, reasons and output come from suites: none may become a link, a tag or a new row of a table.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from husk.abi.text import harmless
from husk.sandbox.errors import HuskError

_MARK = re.compile(r"<!-- Written by `husk conform report`; do not edit\. ([0-9a-f]{64}) -->\n")
MOST_TEXT = 300  # characters of a stranger's text in one place


class Markup(str):
    """Markdown that this folder wrote itself; everything else that a template prints is escaped."""

    __slots__ = ()


def escaped(text: object) -> Markup:
    """Text as it is, on one line: nothing in it means anything in Markdown or HTML."""
    line = harmless(" ".join(str(text).split()))
    if len(line) > MOST_TEXT:
        line = f"{line[:MOST_TEXT]}…"
    line = line.replace("&", "&amp;").replace("<", "&lt;")
    line = line.replace("://", "&#58;//").replace("www.", "www&#46;")  # or a bare address would become a link
    line = re.sub(r"([\\`*\[\]|~]|(?<!\w)_|_(?!\w))", r"\\\1", line)
    line = re.sub(r"^(\d+)([.)] )", r"\1\\\2", line)
    return Markup(re.sub(r"^([#>+-])(?!\w)", r"\\\1", line))


def code(text: object) -> Markup:
    """A code span, which may stand in a table: inside one only the backtick and the bar mean something."""
    line = harmless(" ".join(str(text).split()))[:MOST_TEXT].replace("|", "\\|")
    longest = max((len(ticks) for ticks in re.findall("`+", line)), default=0)
    fence = "`" * (longest + 1)
    room = " " if longest else ""
    return Markup(f"{fence}{room}{line}{room}{fence}") if line else Markup("")


def listed(parts: Iterable[str], most: int = 0, joint: str = ", ") -> Markup:
    """Escaped or marked-up parts in one line; beyond `most`, how many more there are."""
    every = list(parts)
    shown = [_safe(one) for one in (every[:most] if most else every)]
    more = f"{joint}{len(every) - most} more" if most and len(every) > most else ""
    return Markup(joint.join(shown) + more)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """A column whose name ends in `#` is one of numbers."""
    names = [name.rstrip("#").strip() for name in head]
    lines = [f"| {' | '.join(names)} |", f"|{'|'.join('---:' if name.endswith('#') else '---' for name in head)}|"]
    lines += [f"| {' | '.join(_safe(value) for value in row)} |" for row in rows]
    return Markup("\n".join(lines))


def _safe(value: object) -> str:
    return value if isinstance(value, Markup) else escaped(value)


def fill(template: str, values: dict[str, Any]) -> str:
    """A template of this folder, filled in and marked. HuskError: jinja2 is not installed."""
    try:
        import jinja2
    except ModuleNotFoundError:
        raise HuskError("reports need jinja2; install huskbox[conform].") from None
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("husk.conform.report", "templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # `finalize` escapes for Markdown
        finalize=_safe,
    )
    text = environment.get_template(template).render(values)
    return marked(re.sub(r"\n{3,}", "\n\n", text).strip() + "\n")


def marked(text: str) -> str:
    """With the tool's mark below the title: it holds a digest of all the rest, so an edit by hand shows."""
    title, _, rest = text.partition("\n")
    return f"{title}\n\n<!-- Written by `husk conform report`; do not edit. {_digest(title, rest)} -->\n{rest}"


def is_as_written(text: str) -> bool:
    """Does the document carry the mark, and is it what the tool wrote?"""
    title, _, rest = text.partition("\n\n")
    found = _MARK.match(rest)
    return found is not None and found[1] == _digest(title, rest[found.end() :])


def _digest(title: str, rest: str) -> str:
    return hashlib.sha256(f"{title}\n{rest}".encode()).hexdigest()
