"""Emulated netlink sockets: each costs husk a descriptor and a thread, so their number is bounded."""

from __future__ import annotations

import errno
import os
import time

import pytest

from husk.kernel.loopback import netlink_sockets as routes


def test_netlink_sockets_without_end() -> None:
    """A guest made twenty thousand, and husk had as many threads and no descriptor left."""
    made = [routes.emulated_socket(0) for _ in range(routes.MOST)]
    try:
        with pytest.raises(OSError) as refused:
            routes.emulated_socket(0)
        assert refused.value.errno == errno.ENOBUFS
    finally:
        for fd in made:
            os.close(fd)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:  # the threads see the end of their sockets, and then there is room again
        try:
            os.close(routes.emulated_socket(0))
            return
        except OSError:
            time.sleep(0.01)
    pytest.fail("closed sockets still count")
