"""vfs: a reserve of husk's own descriptors.

A guest can make husk hold a descriptor for as long as it likes (a call that waits, a terminal's name). One husk process
may serve many boxes; when its table is full, calls of all of them fail. So the last quarter of the table is reserved
for calls that end soon.
"""

from __future__ import annotations


def is_in_reserve(fd: int) -> bool:
    """Does `fd` belong to the reserve? The host gives the lowest free number, so it tells how many are in use."""
    import resource

    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return most != resource.RLIM_INFINITY and fd >= most - most // 4
