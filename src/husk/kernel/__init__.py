"""The dispatcher, the view of a guest task, events and hooks.

Not here: what a path means (`vfs`), and how a box is built (`sandbox`).
"""
