"""What the scanners of scripts share: a parser in a process of its own, commands of a shell, findings, tables of names.

Not here: the languages and files of a skill (`scan`).
"""
