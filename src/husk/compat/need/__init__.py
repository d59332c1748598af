"""compat/need: which of the calls a program makes it really needs, and what a runtime should implement next.

`try_without` runs a program without one call; `needs` does so for each call it makes; `needs_file` keeps the answers;
`growth` makes a plan for a runtime from the needs of many programs.
"""
