"""api: does a server answer behind a published port? husk accepts every caller there, and hangs up at once where no
server listens in the box; a server keeps the connection open, at least for a moment."""

from __future__ import annotations

import socket

MOMENT = 0.3  # seconds


def answers(host: str) -> bool:
    """`host` is an address and a port, as 127.0.0.1:8000."""
    address, _, port = host.rpartition(":")
    try:
        with socket.create_connection((address.strip("[]"), int(port)), MOMENT) as one:
            try:
                return bool(one.recv(1))
            except TimeoutError:
                return True
    except OSError:
        return False
