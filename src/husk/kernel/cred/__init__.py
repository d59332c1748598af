"""What husk keeps of a process beyond the host's own: attributes that children inherit, and key rings.

Not here: the system calls themselves (`syscalls/keys`, `syscalls/processes`).
"""
