"""What a box sees of lo where husk makes its network sockets: interfaces, routes, netlink, groups, control messages."""
