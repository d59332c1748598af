"""conform/history: runs over time in one SQLite file, and what changed between two of them."""
