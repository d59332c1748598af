"""Emulated netlink sockets: each costs husk a descriptor and a thread, so their number is bounded."""

from __future__ import annotations

import errno
import os
import time

import pytest

from husk.kernel.loopback.netlink_sockets import ADDRESS, AF_NETLINK, MOST, NetlinkSockets


def test_netlink_sockets_without_end() -> None:
    """A guest made twenty thousand, and husk had as many threads and no descriptor left."""
    sockets = NetlinkSockets()
    made = [sockets.make(0) for _ in range(MOST)]
    try:
        with pytest.raises(OSError) as refused:
            sockets.make(0)
        assert refused.value.errno == errno.ENOBUFS
    finally:
        for fd in made:
            os.close(fd)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:  # the threads see the end of their sockets, and then there is room again
        try:
            os.close(sockets.make(0))
            return
        except OSError:
            time.sleep(0.01)
    pytest.fail("closed sockets still count")


def test_a_port_is_of_one_box() -> None:
    """A husk that runs several boxes had one table: a box could tell what another had bound."""
    boxes = [NetlinkSockets(), NetlinkSockets()]
    fds = [box.make(0) for box in boxes for _ in range(2)]
    address = ADDRESS.pack(AF_NETLINK, 0, 4711, 0)
    try:
        for number, box in enumerate(boxes):
            assert box.find(fds[2 - 2 * number]) is None
            first, second = (box.find(fd) for fd in fds[2 * number : 2 * number + 2])
            assert first is not None and second is not None
            first.bind(address, 1)
            with pytest.raises(OSError) as refused:
                second.bind(address, 1)
            assert refused.value.errno == errno.EADDRINUSE
    finally:
        for fd in fds:
            os.close(fd)
