"""The network of a box: addresses, ports, name resolution, rules, netlink and message headers.

Not here: the system calls themselves (`syscalls/sockets`, `syscalls/sendmsg`).
"""

# /etc/resolv.conf names this address in a box without a network. It is unassigned (TEST-NET-1): programs learn at once
# that there is no resolver, and husk sees that a name was to be looked up.
NO_RESOLVER = "192.0.2.53"
