"""The box's file system: path walking, mounts, permissions, and the trees that hold files.

Not here: decoding system calls (`kernel`), and which trees a box has (`sandbox`).
"""
