"""compat: what a program needs from Linux, what a runtime offers, and what becomes of the one in the other.

Nothing here is imported by a plain `husk run`.
"""
