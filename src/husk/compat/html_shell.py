"""compat: what every HTML page of husk begins with: its head, its palette, and how texts from strangers are escaped.

A page is one file and loads nothing. Its Content-Security-Policy names the one style sheet and the one script by their
hashes, so that a text that got past the escaping still could not run. Hence no page may use `style=` attributes.

Pages of many parts are templates of jinja2, an optional package: `template_environment`. Their style sheet begins with
`base_style`, letters, headings and links; a page adds its own.

Not here: what a page says.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape
from pathlib import Path
from typing import Any

from husk.abi.text import harmless
from husk.sandbox.errors import HuskError

# By day and by night. Every colour of text has a contrast of 4.5 and more on --paper and on --soft.
PALETTE = """
:root { color-scheme: light dark; --paper: #ffffff; --soft: #f4f5f3; --line: #d9ddd9; --ink: #1a2025; --dim: #56616a;
  --accent: #1f5f8b; --good: #1b6a49; --warn: #855400; --bad: #b3261e; --unknown: #5b6771; }
@media (prefers-color-scheme: dark) { :root { --paper: #13171a; --soft: #1b2024; --line: #343c42; --ink: #e6e9eb;
  --dim: #9fabb4; --accent: #82bbe8; --good: #5fc797; --warn: #e0b060; --bad: #ff8f85; --unknown: #a3aeb7; } }
@media print { :root { color-scheme: light; --paper: #ffffff; --soft: #f4f5f3; --line: #c4c9c4; --ink: #000000;
  --dim: #444c53; --accent: #1f5f8b; --good: #1b6a49; --warn: #855400; --bad: #b3261e; --unknown: #5b6771; } }
* { box-sizing: border-box; }
"""


def escaped(text: str) -> str:
    """For a place in the text, or between quotation marks."""
    return escape(harmless(text), quote=True)


def page_head(title: str, style: str, script: str = "") -> str:
    """From the first line to the end of the head. `title` is text; `style` and `script` are ours, and what the page
    itself must then hold as its one script, byte for byte."""
    sources = [f"style-src {_hash(style)}", *([f"script-src {_hash(script)}"] if script else [])]
    policy = "; ".join(["default-src 'none'", *sources, "base-uri 'none'", "form-action 'none'"])
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{escaped(title)}</title>\n<style>{style}</style></head>"
    )


def base_style() -> str:
    return PALETTE + Path(__file__).with_name("page_base.css").read_text()


def template_environment(folder: Path, what: str, extra: str) -> Any:
    """Templates of a folder, for pages that hold texts from strangers. `what` needs jinja2, which `extra` installs."""
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError:
        raise HuskError(f"{what} needs jinja2: pip install 'huskbox[{extra}]'.") from None
    return Environment(
        loader=FileSystemLoader(folder), autoescape=True, undefined=StrictUndefined, finalize=_shown,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip


def _shown(value: object) -> object:
    """Escaping keeps a text from being markup; this keeps it from controlling how its neighbours are shown."""
    return harmless(value) if type(value) is str else value


def markup(text: str) -> Any:
    """A text of ours that is markup already."""
    from markupsafe import Markup

    return Markup(text)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
