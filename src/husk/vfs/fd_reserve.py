"""vfs: husk's own descriptors, of which no guest may take the last.

What a guest makes husk hold for as long as it likes (a call that waits, a terminal's name) costs husk a descriptor.
One process may serve many boxes; when its table is full, calls of all of them fail. So the last quarter is kept for
calls that end soon.
"""

from __future__ import annotations


def is_scarce(fd: int) -> bool:
    """Was `fd` the best the host could give? It gives the lowest number that is free, so that tells how many are."""
    import resource

    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return most != resource.RLIM_INFINITY and fd >= most - most // 4
