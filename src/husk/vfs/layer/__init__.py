"""Copy-on-write: what a guest changed, laid over trees that stay as they are.

Upper files, whiteouts, copy-up, hard links, and the list of changes.
"""
