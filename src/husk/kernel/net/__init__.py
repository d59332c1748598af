"""The network of a box: addresses, ports, name resolution, rules, netlink and message headers.

Not here: the system calls themselves (`syscalls/sockets`, `syscalls/sendmsg`).
"""
