"""Limits: what can be limited, what a box uses, and how limits are enforced.

Not here: limits that the host kernel keeps for one process, which husk-init sets.
"""
