"""Segments of shared memory: a process that gets the descriptor of one cannot change its size."""

from __future__ import annotations

import os

import pytest

from husk.kernel.ipc.segments import Segment


@pytest.mark.parametrize("size", [0, 4096, 1 << 20])
def test_the_size_is_sealed(size: int) -> None:
    segment = Segment(1, 2, 8192, 0o600, 3, (0, 0))
    fd = os.open(f"/proc/self/fd/{segment.fd}", os.O_RDWR)
    try:
        with pytest.raises(PermissionError):
            os.ftruncate(fd, size)
        assert os.pwrite(fd, b"x", 8191) == 1 and os.fstat(fd).st_size == 8192
    finally:
        os.close(fd)
        os.close(segment.fd)
