"""Serves DIR on a free port, which it writes to FIFO once it listens."""

import functools
import http.server
import sys

folder, fifo = sys.argv[1:3]
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
with open(fifo, "w") as ready:
    print(server.server_port, file=ready)
server.serve_forever()
