"""The standard streams of a box: pipes, terminals, sockets, and keeping descriptors 0 to 2 open."""
