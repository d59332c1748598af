"""Options of `husk run` that stand in a file: in a project's husk.toml and in the user's own."""
