"""review: what somebody who approves a skill has to know: its passport, and what a new version wants in addition.

It stands above `skills`, which reads and runs, and `compat`, which knows runtimes.
"""
