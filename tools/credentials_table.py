"""Write the table of docs/design/012-credentials.md from 012-credentials.toml, which stands beside it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent.parent / "docs" / "design" / "012-credentials.md"
BEGIN, END = "<!-- table -->\n", "<!-- end of table -->\n"


def data() -> dict[str, Any]:
    return tomllib.loads(PAGE.with_suffix(".toml").read_text())


def written() -> str:
    """The page with its table as the data has it."""
    lines = [
        "| the guest asks husk to | run by an ordinary user | run as root | the kernel looks at | held by |",
        "|---|---|---|---|---|",
        *(f"| {r['asked']} | {r['user']} | {r['root']} | {r['looked_at']} | {r['held']} |" for r in data()["row"]),
    ]
    before, rest = PAGE.read_text().split(BEGIN)
    return before + BEGIN + "\n".join(lines) + "\n" + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(written())
