"""skills: agent skills (folders with a SKILL.md) read, described, given what they need, and run in a box.

May know the sandbox and the store. Nothing here runs a skill's code outside a box, except `cases` when told to compare.
"""
