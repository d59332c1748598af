"""Starting programs: interpreters, ELF headers, allowed programs, the resident region.

Not here: the system calls themselves (`syscalls/execve`).
"""
