"""/proc: what a guest may see of its own processes and of the system.

Read from the host's /proc, with other processes and host paths left out.
"""
