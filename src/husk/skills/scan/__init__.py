"""What a skill's scripts use, read from their text: packages, programs, hosts, files. Nothing is run.

Not here: opening a skill, running one, and the manifest that is made of the findings (`permission_file`).
"""
