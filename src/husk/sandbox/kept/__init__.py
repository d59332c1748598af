"""Kept boxes and snapshots: their records, layers and locks, and what people do with them.

Not here: how a layer is laid over a tree (`vfs/layer`).
"""
