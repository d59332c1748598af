"""api: husk for Python programs. What is public is re-exported by `husk` itself; docs/api.md shows how to use it."""
