"""api: the Python API of husk. `husk` itself re-exports what is public; docs/api.md shows how to use it."""
