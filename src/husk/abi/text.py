"""abi: names from guests and from the host, as text. A name on Linux is any bytes but NUL and slash, so it may hold
ends of lines, and escape sequences that a terminal obeys.
"""

from __future__ import annotations

MOST = 200  # characters of one name in a sentence; its ends tell more than its middle


def decoded(name: bytes) -> str:
    """For a machine: UTF-8 stays as it is."""
    return name.decode("utf-8", "backslashreplace")


def harmless(text: str) -> str:
    """For a person to read: nothing in it can end a line or control a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def shown(name: bytes) -> str:
    """A name for a person to read."""
    return harmless(decoded(name))


def shortened(text: str) -> str:
    return text if len(text) <= MOST else f"{text[: MOST // 2]} … {text[-MOST // 2 :]}"
