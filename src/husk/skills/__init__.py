"""skills: read agent skills (folders with a SKILL.md), describe them, install what they need, and run them in a box.

May know the sandbox and the store. Only `compare_cases` runs a skill's code outside a box, and only when asked to.
"""
