"""The tree a box starts with: the host's own programs, or an image of the store.

Not here: changes of the guest to it (`layer`).
"""
