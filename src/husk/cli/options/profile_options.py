"""cli: the rows of `husk init` and `husk trust`."""

from __future__ import annotations

from husk.cli.options import JSON, Argument, Command, Option

INIT = Command(
    "init",
    "write a husk.toml for the project at hand",
    "Write a husk.toml with commented profiles for the project in DIR, and trust it.",
    options=(
        Option("--print", "", "print it, and write nothing", attribute="only_print"),
        Option("--schema", "", "print the JSON Schema of husk.toml, for editors"),
        Option("--force", "", "replace a husk.toml that is there"),
        JSON,
    ),
    arguments=(Argument("DIR", "the project (default: the working directory)", count="?", attribute="directory"),),
)
TRUST = Command(
    "trust",
    "let husk obey the husk.toml of a project",
    "Show what the profiles of a husk.toml give, and obey them from now on, until the file changes.",
    options=(
        Option("--list", "", "list the files that are trusted", attribute="show_list"),
        Option("--revoke", "", "do not trust it any more"),
        Option("--yes", "", "do not ask"),
        JSON,
    ),
    arguments=(
        Argument("FILE", "the file, or its directory (default: the nearest one, as `husk run` finds it)", count="?"),
    ),
    end="With --json nothing is asked: give --yes.",
)
