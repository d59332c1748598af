"""System V and POSIX IPC where the box has no ipc namespace: shared segments, semaphores and queues.

Not here: the system calls themselves (`syscalls/shm`, `syscalls/ipc`).
"""
