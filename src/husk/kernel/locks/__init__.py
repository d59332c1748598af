"""Locks on files that a box shares with the host: flock on stand-ins, and records of fcntl.

Not here: the system calls themselves (`syscalls/locking`).
"""
